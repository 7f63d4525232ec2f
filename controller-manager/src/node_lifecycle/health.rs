//! `NodeHealth`, the time of a node's last heartbeat, and the conditions of a node whose heartbeat is overdue.
//!
//! Corresponds to tryUpdateNodeHealth in pkg/controller/nodelifecycle/node_lifecycle_controller.go.

use controller_base::clock;
use jiff::Timestamp;
use proto::kinds::api::coordination::v1::Lease;
use proto::kinds::api::core::v1::{Node, NodeCondition};
use proto::kinds::metav1::{MicroTime, Time};
use std::time::Duration;

pub const READY: &str = "Ready";
const NEVER_UPDATED: &str = "NodeStatusNeverUpdated";
/// Conditions that the node's kubelet reports.
const KUBELET_CONDITIONS: [&str; 4] = [READY, "MemoryPressure", "DiskPressure", "PIDPressure"];

pub fn condition<'a>(node: &'a Node, type_: &str) -> Option<&'a NodeCondition> {
    node.status.as_ref()?.conditions.as_ref()?.iter().find(|condition| condition.type_ == type_)
}

/// Returns the status of the Ready condition: `True`, `False` or `Unknown`. Without a condition it is `Unknown`.
pub fn ready_status(node: &Node) -> &str {
    condition(node, READY).map_or("Unknown", |ready| ready.status.as_str())
}

/// The last heartbeat of a node. Its time is by this process's clock: clocks of different machines are never compared.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeHealth {
    pub at: Timestamp,
    /// The heartbeat and the transition of its Ready condition, if it has one.
    ready: Option<(Option<Time>, Option<Time>)>,
    lease_renewed: Option<MicroTime>,
}

impl NodeHealth {
    /// Compares the node and its Lease with the previous check. A new report or renewal is a heartbeat.
    ///
    /// Deviation: a renewal counts whatever its time. In Kubernetes it has to be later than the one before, so a node whose
    /// clock is set back counts as silent until the clock has caught up.
    pub fn update(before: Option<&NodeHealth>, node: &Node, lease: Option<&Lease>, now: Timestamp) -> Self {
        // A condition that this controller wrote is not a report.
        let ready = condition(node, READY).filter(|ready| ready.reason.as_deref() != Some(NEVER_UPDATED));
        let ready = ready.map(|ready| (ready.last_heartbeat_time.clone(), ready.last_transition_time.clone()));
        let lease_renewed = lease.and_then(|lease| lease.spec.as_ref()?.renew_time.clone());
        let Some(before) = before else {
            // The grace period of a node that never reported begins at its creation.
            let created = node.metadata.creation_timestamp.as_ref().map_or(now, |created| created.0);
            let at = if ready.is_none() && lease_renewed.is_none() { created } else { now };
            return Self { at, ready, lease_renewed };
        };
        let heartbeat = |ready: &Option<(Option<Time>, Option<Time>)>| ready.clone().map(|(heartbeat, _)| heartbeat);
        let has_reported = ready.is_some() && heartbeat(&ready) != heartbeat(&before.ready);
        let has_renewed = lease_renewed.is_some() && lease_renewed != before.lease_renewed;
        Self {
            at: if has_reported || has_renewed { now } else { before.at },
            ready,
            lease_renewed: lease_renewed.or_else(|| before.lease_renewed.clone()),
        }
    }

    /// Returns true if the last heartbeat is longer ago than the grace period. A node that never reported has
    /// `startup_grace`.
    pub fn is_overdue(&self, grace: Duration, startup_grace: Duration, now: Timestamp) -> bool {
        let grace = if self.ready.is_none() { startup_grace } else { grace };
        clock::since(self.at, now) > grace
    }

    /// Begins the grace period again.
    pub fn refresh(&mut self, now: Timestamp) {
        self.at = now;
    }
}

/// Returns the conditions of a node whose heartbeat is overdue; `None` if the node has them already.
pub fn unknown_conditions(node: &Node, now: Timestamp) -> Option<Vec<NodeCondition>> {
    let before = node.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
    let mut after = before.clone();
    for type_ in KUBELET_CONDITIONS {
        match after.iter_mut().find(|condition| condition.type_ == type_) {
            None => after.push(NodeCondition {
                type_: type_.to_owned(),
                status: "Unknown".to_owned(),
                reason: Some(NEVER_UPDATED.to_owned()),
                message: Some("Kubelet never posted node status.".to_owned()),
                last_heartbeat_time: node.metadata.creation_timestamp.clone(),
                last_transition_time: Some(clock::stamp(now)),
            }),
            Some(condition) if condition.status != "Unknown" => {
                condition.status = "Unknown".to_owned();
                condition.reason = Some("NodeStatusUnknown".to_owned());
                condition.message = Some("Kubelet stopped posting node status.".to_owned());
                condition.last_transition_time = Some(clock::stamp(now));
            }
            Some(_) => {}
        }
    }
    (after != before).then_some(after)
}

#[cfg(test)]
mod tests {
    use super::*;
    use controller_base::fixture;
    use proto::kinds::api::coordination::v1::LeaseSpec;

    fn reporting(second: i64) -> Node {
        let mut node = fixture::node("node-1");
        fixture::set_node_condition(&mut node, READY, "True", second);
        node
    }

    fn lease(second: i64) -> Lease {
        let spec = LeaseSpec { renew_time: Some(MicroTime(fixture::at(second))), ..LeaseSpec::default() };
        Lease { metadata: fixture::meta("node-1"), spec: Some(spec) }
    }

    const GRACE: Duration = Duration::from_secs(50);
    const STARTUP: Duration = Duration::from_secs(60);

    #[test]
    fn lease_and_status_are_heartbeats() {
        let first = NodeHealth::update(None, &reporting(1), Some(&lease(1)), fixture::at(100));
        assert_eq!(first.at, fixture::at(100), "the first look counts by our own clock");
        let cases = [
            ("nothing new", reporting(1), lease(1), 100),
            ("a heartbeat", reporting(2), lease(1), 140),
            ("a renewed lease", reporting(1), lease(9), 140),
            ("a lease that was renewed by a clock that was set back", reporting(1), lease(0), 140),
        ];
        for (what, node, lease, expected) in cases {
            let health = NodeHealth::update(Some(&first), &node, Some(&lease), fixture::at(140));
            assert_eq!(health.at, fixture::at(expected), "{what}");
        }
        assert!(!first.is_overdue(GRACE, STARTUP, fixture::at(150)));
        assert!(first.is_overdue(GRACE, STARTUP, fixture::at(151)));
    }

    #[test]
    fn a_node_that_never_reported_counts_from_its_creation() {
        let mut node = fixture::node("node-1");
        node.metadata.creation_timestamp = Some(fixture::time(40));
        let health = NodeHealth::update(None, &node, None, fixture::at(100));
        assert!(!health.is_overdue(GRACE, STARTUP, fixture::at(100)));
        assert!(health.is_overdue(GRACE, STARTUP, fixture::at(101)));
    }

    #[test]
    fn an_overdue_node_is_unknown() {
        let now = fixture::at(9);
        let mut node = reporting(1);
        let conditions = unknown_conditions(&node, now).unwrap();
        let shown: Vec<String> = conditions
            .iter()
            .map(|condition| format!("{} {} {}", condition.type_, condition.status, condition.reason.as_ref().unwrap()))
            .collect();
        let never = NEVER_UPDATED;
        let expected = [
            "Ready Unknown NodeStatusUnknown".to_owned(),
            format!("MemoryPressure Unknown {never}"),
            format!("DiskPressure Unknown {never}"),
            format!("PIDPressure Unknown {never}"),
        ];
        assert_eq!(shown, expected);
        node.status.as_mut().unwrap().conditions = Some(conditions);
        assert_eq!(unknown_conditions(&node, fixture::at(20)), None, "written once");
        assert_eq!(ready_status(&node), "Unknown");
    }
}
