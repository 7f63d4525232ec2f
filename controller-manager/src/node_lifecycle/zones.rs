//! The states of zones, which limit how fast nodes are tainted for eviction. If most nodes of a zone do not report, the
//! cause is more likely the network than the nodes.
//!
//! Corresponds to ComputeZoneState and handleDisruption in pkg/controller/nodelifecycle.

use controller_base::clock;
use controller_base::options::Settings;
use jiff::{SignedDuration, Timestamp};
use proto::kinds::api::core::v1::Node;
use proto::meta::node_labels::{EXCLUDE_DISRUPTION, REGION, ZONE};
use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneState {
    Normal,
    /// More than two nodes, and the threshold's fraction of all, do not report.
    PartialDisruption,
    /// No node reports.
    FullDisruption,
}

/// The nodes of a zone that report, and those that do not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZoneCounts {
    pub ready: usize,
    pub not_ready: usize,
}

/// Returns the region and zone of a node from its well-known labels; empty without them.
pub fn zone_of(node: &Node) -> String {
    let label =
        |key: &str| node.metadata.labels.as_ref().and_then(|labels| labels.get(key)).cloned().unwrap_or_default();
    let (region, zone) = (label(REGION), label(ZONE));
    if region.is_empty() && zone.is_empty() { String::new() } else { format!("{region}/{zone}") }
}

pub fn state(ready: usize, not_ready: usize, threshold: f32) -> ZoneState {
    let fraction = not_ready as f32 / (ready + not_ready).max(1) as f32;
    if ready == 0 && not_ready > 0 {
        ZoneState::FullDisruption
    } else if not_ready > 2 && fraction >= threshold {
        ZoneState::PartialDisruption
    } else {
        ZoneState::Normal
    }
}

/// Returns true if no zone has a node that reports. The cause is then more likely this controller's connection.
pub fn are_all_fully_disrupted(zones: &BTreeMap<String, (ZoneState, usize)>) -> bool {
    !zones.is_empty() && zones.values().all(|(state, _)| *state == ZoneState::FullDisruption)
}

/// Returns true if an administrator has excluded the node from the states of zones.
pub fn is_excluded(node: &Node) -> bool {
    node.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(EXCLUDE_DISRUPTION))
}

/// Returns the limit on nodes per second that are tainted for eviction.
pub fn rate(state: ZoneState, size: usize, settings: &Settings) -> f32 {
    match state {
        ZoneState::Normal | ZoneState::FullDisruption => settings.node_eviction_rate,
        ZoneState::PartialDisruption if size > settings.large_cluster_size_threshold => {
            settings.secondary_node_eviction_rate
        }
        ZoneState::PartialDisruption => 0.0,
    }
}

/// The time at which the next node of each zone may be tainted for eviction.
#[derive(Debug, Default)]
pub struct Limits {
    next: BTreeMap<String, Timestamp>,
}

impl Limits {
    /// Returns true if a node of the zone may be tainted now, and then counts it.
    pub fn take(&mut self, zone: &str, rate: f32, now: Timestamp) -> bool {
        if rate <= 0.0 || self.next.get(zone).is_some_and(|next| *next > now) {
            return false;
        }
        let pause = SignedDuration::try_from_secs_f32(1.0 / rate).unwrap_or(SignedDuration::MAX);
        self.next.insert(zone.to_owned(), clock::after(now, pause.as_secs().max(0)));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use controller_base::fixture;

    #[test]
    fn zones_are_as_healthy_as_their_nodes() {
        let cases = [
            // ready, not ready => state
            (0, 0, ZoneState::Normal),
            (3, 0, ZoneState::Normal),
            (1, 2, ZoneState::Normal),
            (3, 3, ZoneState::Normal),
            (2, 3, ZoneState::PartialDisruption),
            (45, 55, ZoneState::PartialDisruption),
            (46, 54, ZoneState::Normal),
            (0, 1, ZoneState::FullDisruption),
            (0, 9, ZoneState::FullDisruption),
        ];
        for (ready, not_ready, expected) in cases {
            assert_eq!(state(ready, not_ready, 0.55), expected, "{ready} ready, {not_ready} not");
        }
    }

    #[test]
    fn disrupted_zones_are_slower() {
        let settings = Settings::default();
        assert_eq!(rate(ZoneState::Normal, 5, &settings), 0.1);
        assert_eq!(rate(ZoneState::PartialDisruption, 50, &settings), 0.0);
        assert_eq!(rate(ZoneState::PartialDisruption, 51, &settings), 0.01);
        assert_eq!(rate(ZoneState::FullDisruption, 5, &settings), 0.1);
    }

    #[test]
    fn one_node_every_ten_seconds() {
        let mut limits = Limits::default();
        let takes = [0, 5, 9, 10, 15, 20].map(|second| limits.take("a", 0.1, fixture::at(second)));
        assert_eq!(takes, [true, false, false, true, false, true]);
        assert!(limits.take("b", 0.1, fixture::at(21)), "zones do not wait for each other");
        assert!(!limits.take("c", 0.0, fixture::at(21)));
    }
}
