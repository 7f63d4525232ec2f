//! Columns of nodes: readiness, roles, addresses and software.
//!
//! Corresponds to printNode in pkg/printers/internalversion/printers.go.

use super::read::{items, str_at};
use super::{Column, age, name, string, text};
use serde_json::{Value, json};
use std::collections::BTreeSet;

pub fn columns() -> Vec<Column> {
    vec![
        name(),
        string("Status", "Whether the node is ready, and whether pods may be scheduled to it.", |node, _| {
            json!(status(node))
        }),
        string("Roles", "The roles that the node's labels give it.", |node, _| json!(roles(node))),
        age(),
        text("Version", "The version of the node's agent.", "/status/nodeInfo/kubeletVersion"),
        string("Internal-IP", "The node's address in the cluster.", |node, _| address(node, "InternalIP")).wide(),
        string("External-IP", "The node's address outside.", |node, _| address(node, "ExternalIP")).wide(),
        text("OS-Image", "The operating system.", "/status/nodeInfo/osImage").or("<unknown>").wide(),
        string("Kernel-Version", "The kernel, and the machine it is for.", |node, _| json!(kernel(node))).wide(),
        text("Container-Runtime", "What runs the containers.", "/status/nodeInfo/containerRuntimeVersion")
            .or("<unknown>")
            .wide(),
    ]
}

fn status(node: &Value) -> String {
    let ready = items(node, "/status/conditions").iter().rfind(|c| c["type"] == "Ready");
    let ready = match ready.map(|condition| str_at(condition, "/status")) {
        None => "Unknown",
        Some("True") => "Ready",
        Some(_) => "NotReady",
    };
    let unschedulable = node.pointer("/spec/unschedulable") == Some(&Value::Bool(true));
    format!("{ready}{}", if unschedulable { ",SchedulingDisabled" } else { "" })
}

fn roles(node: &Value) -> String {
    let labels = node.pointer("/metadata/labels").and_then(Value::as_object).into_iter().flatten();
    let role = |(key, value): (&String, &Value)| match key.strip_prefix("node-role.kubernetes.io/") {
        Some(role) => Some(role.to_owned()),
        None if key == "kubernetes.io/role" => value.as_str().map(str::to_owned),
        None => None,
    };
    let roles: BTreeSet<String> = labels.filter_map(role).filter(|role| !role.is_empty()).collect();
    if roles.is_empty() { "<none>".to_owned() } else { roles.into_iter().collect::<Vec<_>>().join(",") }
}

fn address(node: &Value, kind: &str) -> Value {
    let found = items(node, "/status/addresses").iter().find(|a| a["type"] == kind);
    json!(found.map_or("<none>", |address| str_at(address, "/address")))
}

fn kernel(node: &Value) -> String {
    match (str_at(node, "/status/nodeInfo/kernelVersion"), str_at(node, "/status/nodeInfo/architecture")) {
        ("", _) => "<unknown>".to_owned(),
        (kernel, "") => kernel.to_owned(),
        (kernel, architecture) => format!("{kernel} ({architecture})"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::cells;
    use super::*;

    #[test]
    fn nodes_as_they_come_and_as_they_are() {
        let bare = json!({"metadata": {"name": "n0", "creationTimestamp": "1970-01-01T00:00:00Z"}});
        assert_eq!(
            cells(&columns(), &bare, 60),
            "n0 | Unknown | <none> | 60s |  | <none> | <none> | <unknown> | <unknown> | <unknown>"
        );
        let node = json!({
            "metadata": {"name": "n1", "creationTimestamp": "1970-01-01T00:00:00Z", "labels": {
                "node-role.kubernetes.io/worker": "", "node-role.kubernetes.io/": "", "kubernetes.io/role": "edge"}},
            "spec": {"unschedulable": true},
            "status": {
                "addresses": [{"type": "InternalIP", "address": "192.0.2.77"}],
                "nodeInfo": {"kubeletVersion": "v1.36.0", "osImage": "Example OS", "kernelVersion": "6.1",
                    "containerRuntimeVersion": "containerd://2.0", "architecture": "amd64"},
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        });
        assert_eq!(
            cells(&columns(), &node, 60),
            "n1 | Ready,SchedulingDisabled | edge,worker | 60s | v1.36.0 | 192.0.2.77 | <none> | Example OS | 6.1 (amd64) | containerd://2.0"
        );
        let unready = json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}});
        assert_eq!(status(&unready), "NotReady");
    }
}
