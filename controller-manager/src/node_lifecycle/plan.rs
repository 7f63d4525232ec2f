//! One look at all nodes: whose status turns to Unknown, whose pods stop serving, and who is tainted.
//!
//! Corresponds to monitorNodeHealth in pkg/controller/nodelifecycle/node_lifecycle_controller.go.

use super::health::{READY, condition, ready_status, silent_conditions};
use super::taints;
use super::zones::{self, Limits, ZoneState};
use crate::options::Settings;
use crate::{actions, clock, pod};
use client::{Action, Patch, Plan};
use jiff::Timestamp;
use proto::Kind;
use proto::kinds::api::core::v1::{Node, Pod};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A node as it was found.
#[derive(Debug)]
pub struct Look {
    pub node: Arc<Node>,
    pub is_silent: bool,
    pub pods: Vec<Arc<Pod>>,
}

/// Each node's actions are a plan of its own: what fails for one does not hold up the others.
pub fn plan(looks: &[Look], settings: &Settings, limits: &mut Limits, now: Timestamp) -> Vec<Plan> {
    let zones = zone_states(looks, settings);
    let is_lost = zones::are_all_lost(&zones);
    let mut plans = Vec::new();
    for look in looks {
        let node = &*look.node;
        let mut plan = plan_status(look, now);
        let is_updated = !plan.is_empty();
        let wanted = if is_lost { None } else { taints::no_execute_key(&silenced(look)) };
        let is_new = wanted.is_some() && !taints::of(node).iter().any(is_driving_out);
        // A zone that only excluded nodes are in has no state.
        let (state, size) = zones.get(&zones::zone_of(node)).copied().unwrap_or((ZoneState::Normal, 0));
        // A taint that replaces another drives nobody out who was not already.
        if !is_new || limits.take(&zones::zone_of(node), zones::rate(state, size, settings), now) {
            // The status was just written, and with it the version that taints are written against: the next look does it.
            if let Some(taints) = taints::no_execute(node, wanted, now).filter(|_| !is_updated) {
                plan.push(taints::write(node, &taints));
            }
        }
        plans.push(plan);
    }
    plans.retain(|plan| !plan.is_empty());
    plans
}

fn is_driving_out(taint: &proto::kinds::api::core::v1::Taint) -> bool {
    taint.effect == "NoExecute" && (taint.key == taints::NOT_READY || taint.key == taints::UNREACHABLE)
}

/// The node as its status will be once its silence is written.
fn silenced(look: &Look) -> Node {
    let mut node = (*look.node).clone();
    if look.is_silent
        && let Some(conditions) = silent_conditions(&node, Timestamp::UNIX_EPOCH)
    {
        node.status.get_or_insert_default().conditions = Some(conditions);
    }
    node
}

/// State and size of every zone.
pub fn zone_states(looks: &[Look], settings: &Settings) -> BTreeMap<String, (ZoneState, usize)> {
    let mut counts: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for look in looks.iter().filter(|look| !zones::is_excluded(&look.node)) {
        let (ready, not_ready) = counts.entry(zones::zone_of(&look.node)).or_default();
        if ready_status(&look.node) == "True" && !look.is_silent { *ready += 1 } else { *not_ready += 1 }
    }
    let state = |(ready, not_ready): (usize, usize)| {
        (zones::state(ready, not_ready, settings.unhealthy_zone_threshold), ready + not_ready)
    };
    counts.into_iter().map(|(zone, counts)| (zone, state(counts))).collect()
}

/// A node that falls silent becomes Unknown, and its pods are no longer served to.
fn plan_status(look: &Look, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    let node = &*look.node;
    let status = look.is_silent.then(|| silent_conditions(node, now)).flatten();
    if let Some(conditions) = status {
        let mut updated = node.clone();
        updated.status.get_or_insert_default().conditions = Some(conditions);
        plan.push(Action::update_status(&updated));
        if ready_status(node) == "True" {
            let message = format!("Node {} status is now: NodeNotReady", node.name());
            plan.push(actions::normal(node, "NodeNotReady", message));
        }
    }
    // Also when the status was written before, and this part was not: an interrupted look is taken up again.
    let is_unknown = condition(node, READY).is_some_and(|ready| ready.status == "Unknown");
    if look.is_silent && (is_unknown || !plan.is_empty()) {
        for pod in look.pods.iter().filter(|pod| pod::is_ready(pod)) {
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
    use crate::fixture;

    fn look(name: &str, ready: &str, is_silent: bool, taint: Option<&str>) -> Look {
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
        Look { node: Arc::new(node), is_silent, pods: Vec::new() }
    }

    fn planned(looks: &[Look], limits: &mut Limits, second: i64) -> Vec<String> {
        let plans = plan(looks, &Settings::default(), limits, fixture::at(second));
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
    fn a_node_that_falls_silent_is_unknown_then_tainted_then_well_again() {
        let mut limits = Limits::default();
        let healthy = || look("b", "True", false, None);
        assert_eq!(planned(&[look("a", "True", false, None), healthy()], &mut limits, 0), [] as [String; 0]);
        let said = "update nodes/status a; event Normal NodeNotReady Node a: Node a status is now: NodeNotReady";
        assert_eq!(planned(&[look("a", "True", true, None), healthy()], &mut limits, 60), [said]);
        let tainted = "merge patch nodes a unreachable";
        assert_eq!(planned(&[look("a", "Unknown", true, None), healthy()], &mut limits, 90), [tainted]);
        let done = [look("a", "Unknown", true, Some(taints::UNREACHABLE)), healthy()];
        assert_eq!(planned(&done, &mut limits, 95), [] as [String; 0]);
        let back = [look("a", "True", false, Some(taints::UNREACHABLE)), healthy()];
        assert_eq!(planned(&back, &mut limits, 99), ["merge patch nodes a"]);
    }

    #[test]
    fn nodes_are_given_up_one_by_one() {
        let mut limits = Limits::default();
        let mut looks: Vec<Look> = (0..8).map(|i| look(&format!("ok-{i}"), "True", false, None)).collect();
        looks.push(look("x", "Unknown", true, None));
        looks.push(look("y", "Unknown", true, None));
        assert_eq!(planned(&looks, &mut limits, 0), ["merge patch nodes x unreachable"]);
        assert_eq!(planned(&looks, &mut limits, 5), [] as [String; 0]);
    }

    #[test]
    fn when_every_node_is_silent_nobody_is_driven_out() {
        let mut limits = Limits::default();
        let looks = [look("a", "Unknown", true, Some(taints::UNREACHABLE)), look("b", "Unknown", true, None)];
        assert_eq!(planned(&looks, &mut limits, 0), ["merge patch nodes a"], "and whoever was, no longer is");
    }

    #[test]
    fn pods_of_a_silent_node_stop_serving() {
        let mut limits = Limits::default();
        let mut silent = look("a", "True", true, None);
        let mut ready = fixture::pod("web");
        fixture::set_ready(&mut ready, fixture::at(0));
        silent.pods = vec![Arc::new(ready), Arc::new(fixture::pod("starting"))];
        let got = planned(&[silent, look("b", "True", false, None)], &mut limits, 60);
        assert!(
            got[0].ends_with(
                "strategic patch pods/status default/web; event Warning NodeNotReady Pod default/web: Node is not ready"
            ),
            "{got:?}"
        );
    }
}
