//! Plans one check of all nodes: which become Unknown, whose pods become not ready, and which are tainted.
//!
//! Corresponds to monitorNodeHealth in pkg/controller/nodelifecycle/node_lifecycle_controller.go.

use super::health::{READY, condition, ready_status, unknown_conditions};
use super::taints;
use super::zones::{self, Limits, ZoneCounts, ZoneState};
use client::{Action, Patch, Plan};
use controller_base::options::Settings;
use controller_base::{actions, clock, pod};
use jiff::Timestamp;
use proto::Kind;
use proto::kinds::api::core::v1::{Node, Pod, Taint};
use proto::meta::node_taints;
use serde_json::json;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A node at one check.
#[derive(Debug)]
pub struct NodeCheck {
    pub node: Arc<Node>,
    /// True if the node's heartbeat is overdue.
    pub is_overdue: bool,
    /// The node's pods; empty unless the heartbeat is overdue.
    pub pods: Vec<Arc<Pod>>,
}

/// Returns a plan for each node, so that a failure about one node does not delay the others.
pub fn plan(checks: &[NodeCheck], settings: &Settings, limits: &mut Limits, now: Timestamp) -> Vec<Plan> {
    let zones = zone_states(checks, settings);
    let is_fully_disrupted = zones::are_all_fully_disrupted(&zones);
    let mut plans = Vec::new();
    for check in checks {
        let node = &*check.node;
        let mut plan = plan_status(check, now);
        let is_updated = !plan.is_empty();
        let wanted = if is_fully_disrupted { None } else { taints::no_execute_key(&with_unknown_conditions(check)) };
        let is_new = wanted.is_some() && !taints::of(node).iter().any(is_evicting);
        // A zone of excluded nodes alone has no state.
        let (state, size) = zones.get(&zones::zone_of(node)).copied().unwrap_or((ZoneState::Normal, 0));
        // A taint that replaces another evicts no more pods: the limit does not count it.
        if !is_new || limits.take(&zones::zone_of(node), zones::rate(state, size, settings), now) {
            // The status update changes the resource version that the taint patch needs: the next check writes the
            // taints.
            if let Some(taints) = taints::no_execute(node, wanted, now).filter(|_| !is_updated) {
                plan.push(taints::write(node, &taints));
            }
        }
        plans.push(plan);
    }
    plans.retain(|plan| !plan.is_empty());
    plans
}

/// Returns the zone of the node that the plan taints so that its pods leave.
pub fn evicted_zone(checks: &[NodeCheck], plan: &Plan) -> Option<String> {
    let written = plan.actions.iter().find_map(|action| match action {
        Action::Patch { gvr, name, patch: Patch::Merge(patch), .. } if *gvr == Node::gvr() => Some((name, patch)),
        _ => None,
    });
    let (name, patch) = written?;
    let taints: Vec<Taint> = serde_json::from_value(patch["spec"]["taints"].clone()).ok()?;
    let node = &checks.iter().find(|check| check.node.name() == *name)?.node;
    let is_new = taints.iter().any(is_evicting) && !taints::of(node).iter().any(is_evicting);
    is_new.then(|| zones::zone_of(node))
}

fn is_evicting(taint: &Taint) -> bool {
    taint.effect == "NoExecute" && (taint.key == node_taints::NOT_READY || taint.key == node_taints::UNREACHABLE)
}

/// Returns the node with the conditions that it will have if its heartbeat is overdue.
fn with_unknown_conditions(check: &NodeCheck) -> Cow<'_, Node> {
    let mut node = Cow::Borrowed(&*check.node);
    // Most nodes report, and copies of thousands at every check would be most of its cost.
    if check.is_overdue
        && let Some(conditions) = unknown_conditions(&node, Timestamp::UNIX_EPOCH)
    {
        node.to_mut().status.get_or_insert_default().conditions = Some(conditions);
    }
    node
}

/// Returns the state and size of every zone.
pub fn zone_states(checks: &[NodeCheck], settings: &Settings) -> BTreeMap<String, (ZoneState, usize)> {
    let state = |ZoneCounts { ready, not_ready }: ZoneCounts| {
        (zones::state(ready, not_ready, settings.unhealthy_zone_threshold), ready + not_ready)
    };
    zone_counts(checks).into_iter().map(|(zone, counts)| (zone, state(counts))).collect()
}

/// Counts the nodes of every zone.
pub fn zone_counts(checks: &[NodeCheck]) -> BTreeMap<String, ZoneCounts> {
    let mut zones: BTreeMap<String, ZoneCounts> = BTreeMap::new();
    for check in checks.iter().filter(|check| !zones::is_excluded(&check.node)) {
        let counts = zones.entry(zones::zone_of(&check.node)).or_default();
        if ready_status(&check.node) == "True" && !check.is_overdue {
            counts.ready += 1;
        } else {
            counts.not_ready += 1;
        }
    }
    zones
}

/// Marks a node whose heartbeat is overdue as Unknown, and its pods as not ready.
fn plan_status(check: &NodeCheck, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    let node = &*check.node;
    let status = check.is_overdue.then(|| unknown_conditions(node, now)).flatten();
    if let Some(conditions) = status {
        let mut updated = node.clone();
        updated.status.get_or_insert_default().conditions = Some(conditions);
        plan.push(Action::update_status(&updated));
        if ready_status(node) == "True" {
            let message = format!("Node {} status is now: NodeNotReady", node.name());
            plan.push(actions::normal(node, "NodeNotReady", message));
        }
    }
    // The status may be written and the pods not, if an earlier check was interrupted.
    let is_unknown = condition(node, READY).is_some_and(|ready| ready.status == "Unknown");
    if check.is_overdue && (is_unknown || !plan.is_empty()) {
        for pod in check.pods.iter().filter(|pod| pod::is_ready(pod)) {
            plan.push(not_ready(pod, now));
            plan.push(actions::warning(&**pod, "NodeNotReady", "Node is not ready"));
        }
    }
    plan
}

fn not_ready(pod: &Pod, now: Timestamp) -> Action {
    let condition = json!({"type": "Ready", "status": "False", "lastTransitionTime": clock::stamp(now)});
    let patch = json!({"metadata": {"uid": pod.uid()}, "status": {"conditions": [condition]}});
    Action::patch_status::<Pod>(pod.namespace(), pod.name(), Patch::Strategic(patch))
}

#[cfg(test)]
mod tests {
    use super::*;
    use controller_base::fixture;

    fn check(name: &str, ready: &str, is_overdue: bool, taint: Option<&str>) -> NodeCheck {
        let mut node = fixture::node(name);
        fixture::set_node_condition(&mut node, READY, ready, 0);
        for type_ in ["MemoryPressure", "DiskPressure", "PIDPressure"] {
            let status = if ready == "Unknown" { "Unknown" } else { "False" };
            fixture::set_node_condition(&mut node, type_, status, 0);
        }
        if let Some(key) = taint {
            let mut tainted = node.clone();
            tainted.spec.get_or_insert_default().taints = taints::no_execute(&node, Some(key), fixture::at(0));
            node = tainted;
        }
        NodeCheck { node: Arc::new(node), is_overdue, pods: Vec::new() }
    }

    fn planned(checks: &[NodeCheck], limits: &mut Limits, second: i64) -> Vec<String> {
        let plans = plan(checks, &Settings::default(), limits, fixture::at(second));
        let verbs = |plan: Plan| {
            let short = |action: &Action| {
                let text = action.to_string();
                let what = text.split(" {").next().unwrap().to_owned();
                let keys = ["not-ready", "unreachable"];
                let taint = keys.iter().find(|key| text.contains(&format!("node.kubernetes.io/{key}")));
                taint.map_or(what.clone(), |taint| format!("{what} {taint}"))
            };
            plan.actions.iter().map(short).collect::<Vec<_>>().join("; ")
        };
        plans.into_iter().map(verbs).collect()
    }

    #[test]
    fn an_overdue_node_is_unknown_then_tainted_then_ready_again() {
        let mut limits = Limits::default();
        let healthy = || check("b", "True", false, None);
        assert_eq!(planned(&[check("a", "True", false, None), healthy()], &mut limits, 0), [] as [String; 0]);
        let expected = "update nodes/status a; event Normal NodeNotReady Node a: Node a status is now: NodeNotReady";
        assert_eq!(planned(&[check("a", "True", true, None), healthy()], &mut limits, 60), [expected]);
        let tainted = "merge patch nodes a unreachable";
        assert_eq!(planned(&[check("a", "Unknown", true, None), healthy()], &mut limits, 90), [tainted]);
        let evicted = |check: NodeCheck, second: i64| {
            let (checks, mut limits) = ([check, healthy()], Limits::default());
            let plans = plan(&checks, &Settings::default(), &mut limits, fixture::at(second));
            plans.iter().filter_map(|plan| evicted_zone(&checks, plan)).count()
        };
        assert_eq!(evicted(check("a", "True", true, None), 60), 0);
        assert_eq!(evicted(check("a", "Unknown", true, None), 90), 1);
        assert_eq!(
            evicted(check("a", "Unknown", true, Some(node_taints::NOT_READY)), 90),
            0,
            "one taint replaces another"
        );
        let done = [check("a", "Unknown", true, Some(node_taints::UNREACHABLE)), healthy()];
        assert_eq!(planned(&done, &mut limits, 95), [] as [String; 0]);
        let back = [check("a", "True", false, Some(node_taints::UNREACHABLE)), healthy()];
        assert_eq!(planned(&back, &mut limits, 99), ["merge patch nodes a"]);
    }

    #[test]
    fn nodes_are_tainted_one_by_one() {
        let mut limits = Limits::default();
        let mut checks: Vec<NodeCheck> = (0..8).map(|i| check(&format!("ok-{i}"), "True", false, None)).collect();
        checks.push(check("x", "Unknown", true, None));
        checks.push(check("y", "Unknown", true, None));
        assert_eq!(planned(&checks, &mut limits, 0), ["merge patch nodes x unreachable"]);
        assert_eq!(planned(&checks, &mut limits, 5), [] as [String; 0]);
    }

    #[test]
    fn no_pod_is_evicted_while_no_node_reports() {
        let mut limits = Limits::default();
        let checks = [check("a", "Unknown", true, Some(node_taints::UNREACHABLE)), check("b", "Unknown", true, None)];
        assert_eq!(planned(&checks, &mut limits, 0), ["merge patch nodes a"], "and earlier taints are removed");
    }

    #[test]
    fn pods_of_an_overdue_node_become_not_ready() {
        let mut limits = Limits::default();
        let mut overdue = check("a", "True", true, None);
        let mut ready = fixture::pod("web");
        fixture::set_ready(&mut ready, fixture::at(0));
        overdue.pods = vec![Arc::new(ready), Arc::new(fixture::pod("starting"))];
        let got = planned(&[overdue, check("b", "True", false, None)], &mut limits, 60);
        assert!(
            got[0].ends_with(
                "strategic patch pods/status default/web; event Warning NodeNotReady Pod default/web: Node is not ready"
            ),
            "{got:?}"
        );
    }
}
