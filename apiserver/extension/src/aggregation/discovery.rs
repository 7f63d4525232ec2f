//! Discovery of the groups and versions of other servers, merged with this server's.
//!
//! Pure. Corresponds to handler_apis.go and handler_discovery.go of k8s.io/kube-aggregator/pkg/apiserver.

use super::table::{RemoteVersion, Table};
use proto::gvk::compare_versions;
use proto::resources::catalogue::GroupVersions;
use proto::resources::groups::priority;
use serde_json::{Map, Value, json};

/// Returns all groups in the order of their priorities, including those whose server does not answer.
pub fn groups(local: &[GroupVersions], table: &Table) -> Vec<GroupVersions> {
    let mut groups = local.to_vec();
    for (group, version) in table.keys() {
        let known = match groups.iter().position(|known| known.group == *group) {
            Some(known) => known,
            None => {
                groups.push(GroupVersions { group: group.clone(), versions: Vec::new() });
                groups.len() - 1
            }
        };
        if !groups[known].versions.contains(version) {
            groups[known].versions.push(version.clone());
        }
    }
    if table.is_empty() {
        return groups;
    }
    for GroupVersions { group, versions } in &mut groups {
        let rank = |version: &String| match table.get(&(group.clone(), version.clone())) {
            Some(remote) => remote.version_priority,
            None => i64::from(priority(group, version).version),
        };
        versions.sort_by(|a, b| rank(b).cmp(&rank(a)).then_with(|| compare_versions(a, b)));
    }
    groups.sort_by(|a, b| rank(b, table).cmp(&rank(a, table)).then_with(|| a.group.cmp(&b.group)));
    groups
}

/// Returns the highest priority that any version of a group has.
fn rank(group: &GroupVersions, table: &Table) -> i64 {
    let of = |version: &String| match table.get(&(group.group.clone(), version.clone())) {
        Some(remote) => remote.group_priority,
        None => i64::from(priority(&group.group, version).group),
    };
    group.versions.iter().map(of).max().unwrap_or(0)
}

/// Returns a version's entry in the aggregated discovery document. It is stale when its server does not answer.
pub fn version(remote: &RemoteVersion) -> Value {
    let mut entry = json!({"version": remote.version});
    if let Some(list) = &remote.documents.resources {
        entry["resources"] = json!(resources(list));
    }
    let is_current = remote.is_available && remote.documents.resources.is_some();
    entry["freshness"] = json!(if is_current { "Current" } else { "Stale" });
    entry
}

/// Converts an APIResourceList to the aggregated form, which nests `deployments/scale` below `deployments`.
fn resources(list: &Value) -> Vec<Value> {
    let mut all: Vec<Value> = Vec::new();
    for entry in list["resources"].as_array().into_iter().flatten() {
        let name = entry["name"].as_str().unwrap_or_default();
        let kind = json!({
            "group": entry["group"].as_str().unwrap_or_default(),
            "version": entry["version"].as_str().unwrap_or_default(),
            "kind": entry["kind"].as_str().unwrap_or_default(),
        });
        let scope = if entry["namespaced"] == true { "Namespaced" } else { "Cluster" };
        let Some((parent, part)) = name.split_once('/') else {
            let mut resource = Map::new();
            resource.insert("resource".into(), json!(name));
            resource.insert("responseKind".into(), kind);
            resource.insert("scope".into(), json!(scope));
            resource.insert("singularResource".into(), json!(entry["singularName"].as_str().unwrap_or_default()));
            for key in ["verbs", "shortNames", "categories"] {
                resource.extend(entry.get(key).filter(|list| list.is_array()).map(|list| (key.into(), list.clone())));
            }
            all.push(Value::Object(resource));
            continue;
        };
        let known = match all.iter().position(|resource| resource["resource"] == parent) {
            Some(known) => known,
            None => {
                all.push(json!({"resource": parent, "scope": scope, "singularResource": "", "verbs": []}));
                all.len() - 1
            }
        };
        let part = json!({"subresource": part, "responseKind": kind, "verbs": entry["verbs"]});
        match all[known]["subresources"].as_array_mut() {
            Some(parts) => parts.push(part),
            None => all[known]["subresources"] = json!([part]),
        }
    }
    all
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::aggregation::table::RemoteDocuments;
    use remote::clients::Trust;
    use remote::reference::ServiceReference;
    use std::sync::Arc;

    pub(in crate::aggregation) fn remote(group: &str, version: &str, priorities: (i64, i64)) -> RemoteVersion {
        RemoteVersion {
            name: format!("{version}.{group}"),
            group: group.into(),
            version: version.into(),
            group_priority: priorities.0,
            version_priority: priorities.1,
            service: ServiceReference::read(&json!({"namespace": "n", "name": "s"})).unwrap(),
            trust: Trust::default(),
            is_available: true,
            documents: RemoteDocuments::default(),
        }
    }

    fn table(all: Vec<RemoteVersion>) -> Table {
        all.into_iter().map(|remote| ((remote.group.clone(), remote.version.clone()), Arc::new(remote))).collect()
    }

    #[test]
    fn groups_stand_by_the_priorities_of_their_api_services() {
        let local = |group: &str, versions: &[&str]| GroupVersions {
            group: group.into(),
            versions: versions.iter().map(|version| (*version).to_owned()).collect(),
        };
        let known = [local("apps", &["v1"]), local("batch", &["v1"]), local("shop.example", &["v1"])];
        let others = table(vec![
            remote("early.example", "v1", (17_600, 10)),
            remote("late.example", "v1beta1", (10, 20)),
            remote("late.example", "v1", (10, 10)),
            remote("shop.example", "v2", (10, 100)),
        ]);
        let shown: Vec<String> = groups(&known, &others)
            .iter()
            .map(|group| format!("{}/{}", group.group, group.versions.join(",")))
            .collect();
        assert_eq!(shown, ["apps/v1", "early.example/v1", "batch/v1", "shop.example/v2,v1", "late.example/v1beta1,v1"]);
        assert_eq!(groups(&known, &Table::new()), known);
    }

    #[test]
    fn a_list_becomes_a_tree_and_grows_stale() {
        let mut other = remote("late.example", "v1", (10, 10));
        assert_eq!(version(&other), json!({"version": "v1", "freshness": "Stale"}));
        let list = json!({"kind": "APIResourceList", "resources": [
            {"name": "books", "singularName": "book", "namespaced": true, "kind": "Book", "verbs": ["get"],
             "shortNames": ["bk"], "storageVersionHash": "x"},
            {"name": "books/scale", "namespaced": true, "group": "autoscaling", "version": "v1", "kind": "Scale",
             "verbs": ["get", "update"]},
        ]});
        other.documents.resources = Some(Arc::new(list));
        let expected = json!([{
            "resource": "books", "responseKind": {"group": "", "version": "", "kind": "Book"}, "scope": "Namespaced",
            "singularResource": "book", "verbs": ["get"], "shortNames": ["bk"],
            "subresources": [{
                "subresource": "scale", "responseKind": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
                "verbs": ["get", "update"],
            }],
        }]);
        assert_eq!(version(&other), json!({"version": "v1", "freshness": "Current", "resources": expected}));
        other.is_available = false;
        assert_eq!(version(&other)["freshness"], "Stale");
    }
}
