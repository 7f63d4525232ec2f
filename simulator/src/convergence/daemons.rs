//! Finds DaemonSets that have not converged: a node lacks its pod, or has one that it should not have.

use super::{Objects, counts_of, items, number, text};
use serde_json::Value;

/// Checks that every node with the labels of the node selector has one pod of the newest revision, and no other node any.
/// No node has taints then.
pub fn check(set: &Value, objects: &Objects, reasons: &mut Vec<String>) {
    let selector = set.pointer("/spec/template/spec/nodeSelector").and_then(Value::as_object);
    let fits =
        |node: &&Value| selector.into_iter().flatten().all(|(key, value)| node["metadata"]["labels"][key] == *value);
    let nodes = objects.below("/registry/minions/").filter(fits);
    let wanted: Vec<&str> = nodes.map(|node| text(node, "/metadata/name")).collect();
    let mut on: Vec<&str> = objects.pods_of(set).map(|pod| text(pod, "/spec/nodeName")).collect();
    on.sort_unstable();
    if on != wanted {
        reasons.push(format!("has pods on {on:?}, and fits {wanted:?}"));
    }
    let count = i64::try_from(wanted.len()).unwrap_or(i64::MAX);
    let scheduled = ["desiredNumberScheduled", "currentNumberScheduled", "updatedNumberScheduled"];
    counts_of(set, count, &scheduled, reasons);
    counts_of(set, count, &["numberReady", "numberAvailable"], reasons);
    if number(set, "/status/numberMisscheduled") + number(set, "/status/numberUnavailable") != 0 {
        reasons.push("counts pods that are misplaced or unavailable".to_owned());
    }
    let is_owned = |revision: &&Value| {
        items(revision, "/metadata/ownerReferences").iter().any(|owner| owner["uid"] == set["metadata"]["uid"])
    };
    let revisions = objects.below("/registry/controllerrevisions/").filter(is_owned);
    let newest = revisions.max_by_key(|revision| number(revision, "/revision")).unwrap_or(&Value::Null);
    let hash = |object: &Value| object["metadata"]["labels"]["controller-revision-hash"].clone();
    if newest["data"]["spec"]["template"]["spec"] != set["spec"]["template"]["spec"] {
        reasons.push("has no revision of its template".to_owned());
    }
    if objects.pods_of(set).any(|pod| hash(pod) != hash(newest)) {
        reasons.push(format!("has pods of other revisions than {}", hash(newest)));
    }
}
