//! The effective configuration as `/configz` shows it: with the names of the fields of kube-scheduler's internal types.
//!
//! Corresponds to pkg/scheduler/apis/config/types.go, which k8s.io/component-base/configz prints.

use super::Configuration;
use component_base::duration::format_duration;
use component_base::options::{ClientOptions, LeaderElectionOptions};
use serde_json::{Map, Value, json};

/// Fields whose value has a type of the API, so that the names below are those of the API.
const API_TYPES: [&str; 2] = ["addedAffinity", "defaultConstraints"];

/// Returns the content of `/configz`.
pub fn configz(configuration: &Configuration, election: &LeaderElectionOptions, client: &ClientOptions) -> Value {
    let mut shown = internal(&json!(configuration));
    let kubeconfig = client.kubeconfig.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
    shown["ClientConnection"] = json!({
        "Kubeconfig": kubeconfig,
        "AcceptContentTypes": "",
        "ContentType": "application/json",
        "QPS": client.kube_api_qps.unwrap_or(0.0),
        "Burst": client.kube_api_burst.unwrap_or(0),
    });
    shown["LeaderElection"] = json!({
        "LeaderElect": election.leader_elect,
        "LeaseDuration": format_duration(election.leader_elect_lease_duration),
        "RenewDeadline": format_duration(election.leader_elect_renew_deadline),
        "RetryPeriod": format_duration(election.leader_elect_retry_period),
        "ResourceLock": "leases",
        "ResourceName": election.leader_elect_resource_name.as_deref().unwrap_or("kube-scheduler"),
        "ResourceNamespace": election.leader_elect_resource_namespace,
    });
    json!({"componentconfig": shown})
}

/// Renames the fields of an object and of everything below it.
fn internal(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let renamed = fields.iter().map(|(name, value)| {
                let is_api = API_TYPES.contains(&name.as_str());
                (internal_name(name), if is_api { value.clone() } else { internal(value) })
            });
            Value::Object(renamed.collect::<Map<_, _>>())
        }
        Value::Array(items) => items.iter().map(internal).collect(),
        other => other.clone(),
    }
}

/// Returns the Go name of a field: `schedulerName` is `SchedulerName`, and `httpTimeout` is `HTTPTimeout`.
fn internal_name(name: &str) -> String {
    let initials = ["url", "http", "tls", "ca"]
        .into_iter()
        .find(|short| name.strip_prefix(short).is_some_and(|rest| rest.starts_with(char::is_uppercase)));
    let upper = initials.map_or(1, str::len).min(name.len());
    name[..upper].to_uppercase() + &name[upper..]
}

#[cfg(test)]
mod tests {
    use super::*;
    use component_base::options::defaults;

    #[test]
    fn it_has_the_names_of_the_originals_types() {
        let shown = configz(&Configuration::default(), &defaults(), &ClientOptions::default());
        let config = &shown["componentconfig"];
        assert_eq!(config["LeaderElection"]["LeaseDuration"], "15s");
        let profile = &config["Profiles"][0];
        assert_eq!(profile["SchedulerName"], "default-scheduler");
        assert_eq!(profile["Plugins"]["MultiPoint"]["Enabled"][4], json!({"Name": "TaintToleration", "Weight": 3}));
        let args = |name: &str| {
            let all = profile["PluginConfig"].as_array().unwrap();
            all.iter().find(|config| config["Name"] == name).map(|config| config["Args"].clone())
        };
        let strategy = json!({"Type": "LeastAllocated", "RequestedToCapacityRatio": null,
            "Resources": [{"Name": "cpu", "Weight": 1}, {"Name": "memory", "Weight": 1}]});
        let fit = json!({"IgnoredResources": [], "IgnoredResourceGroups": [], "ScoringStrategy": strategy});
        assert_eq!(args("NodeResourcesFit"), Some(fit));
        let preemption = json!({"MinCandidateNodesPercentage": 10, "MinCandidateNodesAbsolute": 100});
        assert_eq!(args("DefaultPreemption"), Some(preemption));
        assert_eq!(args("NodeName"), None);
        for (name, expected) in [("urlPrefix", "URLPrefix"), ("caFile", "CAFile"), ("capacity", "Capacity")] {
            assert_eq!(internal_name(name), expected);
        }
    }
}
