//! `NodeMetrics`: the nodes of each zone, how many of them report and were evicted, and how long checks take.
//!
//! Corresponds to pkg/controller/nodelifecycle/metrics.go.

use super::zones::ZoneCounts;
use component_base::env::Env;
use component_base::metrics::{Counters, Gauges, Histograms, Labels, exponential};
use std::collections::BTreeMap;
use std::time::Duration;

/// From 1 millisecond to 16 seconds.
const NODE_SECONDS: &[f64] = &exponential::<8>(0.001, 4.0);
/// From 10 milliseconds to 3 minutes.
const ALL_NODES_SECONDS: &[f64] = &exponential::<8>(0.01, 4.0);

pub struct NodeMetrics {
    sizes: Gauges,
    healths: Gauges,
    unhealthy: Gauges,
    evictions: Counters,
    node_durations: Histograms,
    durations: Histograms,
}

impl NodeMetrics {
    pub fn new(env: &Env) -> Self {
        let family = |name, help: &str| env.metrics().gauges(name, help);
        Self {
            sizes: family("node_collector_zone_size", "Gauge measuring number of registered Nodes per zones."),
            healths: family("node_collector_zone_health", "Gauge measuring percentage of healthy nodes per zone."),
            unhealthy: family(
                "node_collector_unhealthy_nodes_in_zone",
                "Gauge measuring number of not Ready Nodes per zones.",
            ),
            evictions: env.metrics().counters(
                "node_collector_evictions_total",
                "Number of Node evictions that happened since current instance of NodeController started.",
            ),
            node_durations: env.metrics().histograms(
                "node_collector_update_node_health_duration_seconds",
                "Duration in seconds for NodeController to update the health of a single node.",
                NODE_SECONDS,
            ),
            durations: env.metrics().histograms(
                "node_collector_update_all_nodes_health_duration_seconds",
                "Duration in seconds for NodeController to update the health of all nodes.",
                ALL_NODES_SECONDS,
            ),
        }
    }

    /// Shows these zones, and none of an earlier check. The evictions of a new zone begin at 0.
    pub fn set(&self, zones: &BTreeMap<String, ZoneCounts>) {
        let families = [&self.sizes, &self.healths, &self.unhealthy];
        families.iter().for_each(|family| family.clear());
        for (zone, counts) in zones {
            let all = counts.ready + counts.not_ready;
            let health = 100 * counts.ready / all.max(1);
            for (family, value) in families.iter().zip([all, health, counts.not_ready]) {
                family.get_or_create(&labels(zone)).set(value as i64);
            }
            drop(self.evictions.get_or_create(&labels(zone)));
        }
    }

    /// Counts a node that was tainted so that its pods leave.
    pub fn count_eviction(&self, zone: &str) {
        self.evictions.get_or_create(&labels(zone)).inc();
    }

    /// Counts how long the check of one node took. What is written about it counts for all nodes together.
    pub fn count_check(&self, duration: Duration) {
        self.node_durations.get_or_create(&Labels::new()).observe(duration.as_secs_f64());
    }

    pub fn count_round(&self, duration: Duration) {
        self.durations.get_or_create(&Labels::new()).observe(duration.as_secs_f64());
    }
}

fn labels(zone: &str) -> Labels {
    vec![("zone", zone.to_owned())]
}
