//! The status of StorageVersions: the version on which all API servers agree.
//!
//! Corresponds to SetCommonEncodingVersion of k8s.io/apiserver/pkg/storageversion and of pkg/controller/storageversiongc.

use serde_json::{Value, json};

pub const GROUP: &str = "internal.apiserver.k8s.io";
pub const RESOURCE: &str = "storageversions";
/// Namespace of the leases that API servers hold as long as they run.
pub const IDENTITY_NAMESPACE: &str = "kube-system";
/// Label of these leases, with its value.
pub const IDENTITY_LABEL: (&str, &str) = ("apiserver.kubernetes.io/identity", "kube-apiserver");
const AGREED: &str = "AllEncodingVersionsEqual";

/// Writes the version that all servers store, if they agree, and the condition that says whether they do. `now` is the time
/// as API objects have it.
pub fn set_common_version(storage_version: &mut Value, now: &str) {
    let generation = storage_version["metadata"]["generation"].clone();
    let status = &mut storage_version["status"];
    let records = status["storageVersions"].as_array().cloned().unwrap_or_default();
    let first = records.first().map_or(Value::Null, |record| record["encodingVersion"].clone());
    let is_agreed = !records.is_empty() && records.iter().all(|record| record["encodingVersion"] == first);
    let (state, reason, message) = if is_agreed {
        ("True", "CommonEncodingVersionSet", "Common encoding version set")
    } else {
        ("False", "CommonEncodingVersionUnset", "Common encoding version unset")
    };
    if is_agreed {
        status["commonEncodingVersion"] = first;
    } else if let Some(fields) = status.as_object_mut() {
        fields.remove("commonEncodingVersion");
    }
    let mut conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    let before = conditions.iter().find(|other| other["type"] == AGREED && other["status"] == state);
    let since = before.map_or_else(|| json!(now), |before| before["lastTransitionTime"].clone());
    conditions.retain(|other| other["type"] != AGREED);
    let mut condition = json!({
        "type": AGREED, "status": state, "reason": reason, "message": message, "lastTransitionTime": since,
    });
    if !generation.is_null() {
        condition["observedGeneration"] = generation;
    }
    conditions.push(condition);
    status["conditions"] = json!(conditions);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_common_version_is_there_while_all_servers_agree() {
        let mut version = json!({"metadata": {"name": "apps.deployments"}, "status": {}});
        let mut told = |versions: &[&str], now: &str| {
            let records: Vec<Value> = versions.iter().map(|version| json!({"encodingVersion": version})).collect();
            version["status"]["storageVersions"] = json!(records);
            set_common_version(&mut version, now);
            let status = &version["status"];
            let condition = &status["conditions"][0];
            assert_eq!(status["conditions"].as_array().map(Vec::len), Some(1));
            format!("{} {} {}", status["commonEncodingVersion"], condition["status"], condition["lastTransitionTime"])
        };
        assert_eq!(told(&["v1"], "a"), "\"v1\" \"True\" \"a\"");
        assert_eq!(told(&["v1", "v1"], "b"), "\"v1\" \"True\" \"a\"");
        assert_eq!(told(&["v1", "v2"], "c"), "null \"False\" \"c\"");
        assert_eq!(told(&[], "d"), "null \"False\" \"c\"");
    }
}
