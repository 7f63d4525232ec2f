//! The taints that correspond to a node's conditions.
//!
//! Corresponds to doNoScheduleTaintingPass and processTaintBaseEviction in
//! pkg/controller/nodelifecycle/node_lifecycle_controller.go.

use super::health::{condition, ready_status};
use client::{Action, Patch};
use controller_base::clock;
use jiff::Timestamp;
use proto::Kind;
use proto::kinds::api::core::v1::{Node, Taint};
use proto::meta::node_taints::{
    DISK_PRESSURE, MEMORY_PRESSURE, NETWORK_UNAVAILABLE, NOT_READY, PID_PRESSURE, UNREACHABLE, UNSCHEDULABLE,
};
use serde_json::json;

/// A condition's type and status, and the NoSchedule taint that corresponds to it.
const BY_CONDITION: [(&str, &str, &str); 6] = [
    ("Ready", "False", NOT_READY),
    ("Ready", "Unknown", UNREACHABLE),
    ("MemoryPressure", "True", MEMORY_PRESSURE),
    ("DiskPressure", "True", DISK_PRESSURE),
    ("NetworkUnavailable", "True", NETWORK_UNAVAILABLE),
    ("PIDPressure", "True", PID_PRESSURE),
];

pub fn of(node: &Node) -> &[Taint] {
    node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default()
}

pub fn has(node: &Node, key: &str, effect: &str) -> bool {
    of(node).iter().any(|taint| taint.key == key && taint.effect == effect)
}

fn taint(key: &str, effect: &str, now: Timestamp) -> Taint {
    Taint { key: key.to_owned(), effect: effect.to_owned(), value: None, time_added: Some(clock::stamp(now)) }
}

/// Returns the node's taints with the NoSchedule taints that its conditions require; `None` if nothing changes.
pub fn no_schedule(node: &Node, now: Timestamp) -> Option<Vec<Taint>> {
    let mut wanted: Vec<&str> = BY_CONDITION
        .iter()
        .filter(|(type_, status, _)| condition(node, type_).is_some_and(|condition| condition.status == *status))
        .map(|(_, _, key)| *key)
        .collect();
    if node.spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or(false) {
        wanted.push(UNSCHEDULABLE);
    }
    let is_ours = |key: &str| key == UNSCHEDULABLE || BY_CONDITION.iter().any(|(_, _, own)| *own == key);
    replaced(node, "NoSchedule", is_ours, &wanted, now)
}

/// Returns the key of the NoExecute taint that the node's Ready condition requires, if any.
pub fn no_execute_key(node: &Node) -> Option<&'static str> {
    condition(node, "Ready")?;
    match ready_status(node) {
        "True" => None,
        "False" => Some(NOT_READY),
        _ => Some(UNREACHABLE),
    }
}

/// Returns the node's taints with the wanted NoExecute taint; `None` if nothing changes.
pub fn no_execute(node: &Node, wanted: Option<&str>, now: Timestamp) -> Option<Vec<Taint>> {
    let wanted: Vec<&str> = wanted.into_iter().collect();
    replaced(node, "NoExecute", |key| key == NOT_READY || key == UNREACHABLE, &wanted, now)
}

/// Present taints keep their place and time. Taints that this controller does not manage stay.
fn replaced(
    node: &Node,
    effect: &str,
    is_ours: impl Fn(&str) -> bool,
    wanted: &[&str],
    now: Timestamp,
) -> Option<Vec<Taint>> {
    let before = of(node);
    let stays = |own: &&Taint| own.effect != effect || !is_ours(&own.key) || wanted.contains(&own.key.as_str());
    let mut after: Vec<Taint> = before.iter().filter(stays).cloned().collect();
    for key in wanted {
        if !after.iter().any(|own| own.key == *key && own.effect == effect) {
            after.push(taint(key, effect, now));
        }
    }
    (after != before).then_some(after)
}

/// Plans to replace a node's taints. The patch fails if the node has changed, because it has a resource version.
pub fn write(node: &Node, taints: &[Taint]) -> Action {
    let taints = if taints.is_empty() { json!(null) } else { json!(taints) };
    let patch = json!({"metadata": {"resourceVersion": node.resource_version()}, "spec": {"taints": taints}});
    Action::patch::<Node>("", node.name(), Patch::Merge(patch))
}

#[cfg(test)]
mod tests {
    use super::*;
    use controller_base::fixture;

    fn shown(taints: Option<Vec<Taint>>) -> Option<String> {
        let short = |taint: Taint| format!("{}:{}", taint.key.trim_start_matches("node.kubernetes.io/"), taint.effect);
        taints.map(|taints| taints.into_iter().map(short).collect::<Vec<_>>().join(" "))
    }

    fn node(conditions: &[(&str, &str)], taints: &[(&str, &str)]) -> Node {
        let mut node = fixture::node("node-1");
        for (type_, status) in conditions {
            fixture::set_node_condition(&mut node, type_, status, 0);
        }
        let taints = taints.iter().map(|(key, effect)| taint(key, effect, fixture::at(1))).collect();
        node.spec.get_or_insert_default().taints = Some(taints);
        node
    }

    #[test]
    fn conditions_keep_new_pods_away() {
        let cases = [
            (vec![("Ready", "True")], vec![], None),
            (vec![("Ready", "False")], vec![], Some("not-ready:NoSchedule")),
            (vec![("Ready", "Unknown")], vec![(NOT_READY, "NoSchedule")], Some("unreachable:NoSchedule")),
            (vec![("Ready", "True")], vec![(NOT_READY, "NoSchedule")], Some("")),
            (vec![("Ready", "True"), ("DiskPressure", "True")], vec![], Some("disk-pressure:NoSchedule")),
            (vec![("Ready", "True"), ("MemoryPressure", "False")], vec![], None),
            (vec![("Ready", "True"), ("MemoryPressure", "Unknown")], vec![], None),
            (vec![("Ready", "True")], vec![("gpu", "NoSchedule"), (NOT_READY, "NoExecute")], None),
            (
                vec![("Ready", "False"), ("PIDPressure", "True")],
                vec![("gpu", "NoSchedule")],
                Some("gpu:NoSchedule not-ready:NoSchedule pid-pressure:NoSchedule"),
            ),
        ];
        for (conditions, taints, expected) in cases {
            let got = shown(no_schedule(&node(&conditions, &taints), fixture::at(5)));
            assert_eq!(got.as_deref(), expected, "{conditions:?} {taints:?}");
        }
        let mut cordoned = node(&[("Ready", "True")], &[]);
        cordoned.spec.as_mut().unwrap().unschedulable = Some(true);
        assert_eq!(shown(no_schedule(&cordoned, fixture::at(5))).as_deref(), Some("unschedulable:NoSchedule"));
    }

    #[test]
    fn readiness_evicts_pods() {
        let cases = [
            ("True", vec![], None),
            ("False", vec![], Some("not-ready:NoExecute")),
            ("Unknown", vec![], Some("unreachable:NoExecute")),
            ("Unknown", vec![(NOT_READY, "NoExecute")], Some("unreachable:NoExecute")),
            ("Unknown", vec![(UNREACHABLE, "NoExecute")], None),
            ("True", vec![(UNREACHABLE, "NoExecute"), (UNREACHABLE, "NoSchedule")], Some("unreachable:NoSchedule")),
        ];
        for (ready, taints, expected) in cases {
            let node = node(&[("Ready", ready)], &taints);
            let got = shown(no_execute(&node, no_execute_key(&node), fixture::at(5)));
            assert_eq!(got.as_deref(), expected, "{ready} {taints:?}");
        }
        assert_eq!(no_execute_key(&node(&[], &[])), None, "a node that never reported holds no pods to drive out");
    }
}
