//! `ZoneMetrics`: the nodes of each zone, and how many of them report.
//!
//! Corresponds to pkg/controller/nodelifecycle/metrics.go.

use super::zones::ZoneCounts;
use component_base::env::Env;
use component_base::metrics::Gauges;
use std::collections::BTreeMap;

pub struct ZoneMetrics {
    sizes: Gauges,
    healths: Gauges,
    unhealthy: Gauges,
}

impl ZoneMetrics {
    pub fn new(env: &Env) -> Self {
        let family = |name, help: &str| env.metrics().gauges(name, help);
        Self {
            sizes: family("node_collector_zone_size", "Gauge measuring number of registered Nodes per zones."),
            healths: family("node_collector_zone_health", "Gauge measuring percentage of healthy nodes per zone."),
            unhealthy: family(
                "node_collector_unhealthy_nodes_in_zone",
                "Gauge measuring number of not Ready Nodes per zones.",
            ),
        }
    }

    /// Shows these zones, and none of an earlier check.
    pub fn set(&self, zones: &BTreeMap<String, ZoneCounts>) {
        let families = [&self.sizes, &self.healths, &self.unhealthy];
        families.iter().for_each(|family| family.clear());
        for (zone, counts) in zones {
            let all = counts.ready + counts.not_ready;
            let health = 100 * counts.ready / all.max(1);
            for (family, value) in families.iter().zip([all, health, counts.not_ready]) {
                family.get_or_create(&vec![("zone", zone.clone())]).set(value as i64);
            }
        }
    }
}
