//! `RangeMetrics`: the ranges of a set that nodes have, and how long the search for a free one is.
//!
//! Corresponds to pkg/controller/nodeipam/ipam/cidrset/metrics.go.

use super::cidr_set::CidrSet;
use component_base::env::Env;
use component_base::metrics::{Counters, FloatGauges, Gauges, Histograms, Labels, exponential};

const TRIES: &[f64] = &exponential::<5>(1.0, 5.0);

pub struct RangeMetrics {
    allocations: Counters,
    releases: Counters,
    most: Gauges,
    usage: FloatGauges,
    tries: Histograms,
}

impl RangeMetrics {
    pub fn new(env: &Env) -> Self {
        let metrics = env.metrics();
        Self {
            allocations: metrics.counters(
                "node_ipam_controller_cidrset_cidrs_allocations_total",
                "Counter measuring total number of CIDR allocations.",
            ),
            releases: metrics.counters(
                "node_ipam_controller_cidrset_cidrs_releases_total",
                "Counter measuring total number of CIDR releases.",
            ),
            // Spelt as in Kubernetes.
            most: metrics
                .gauges("node_ipam_controller_cirdset_max_cidrs", "Maximum number of CIDRs that can be allocated."),
            usage: metrics.float_gauges(
                "node_ipam_controller_cidrset_usage_cidrs",
                "Gauge measuring percentage of allocated CIDRs.",
            ),
            tries: metrics.histograms(
                "node_ipam_controller_cidrset_allocation_tries_per_request",
                "Number of endpoints added on each Service sync",
                TRIES,
            ),
        }
    }

    /// Counts what has happened to a set since it had `before` ranges in use. `tries` are the ranges that a search found in
    /// use.
    pub fn count(&self, set: &CidrSet, before: usize, tries: Option<u32>) {
        let labels: Labels = vec![("clusterCIDR", set.cluster_cidr().to_string())];
        let (now, most) = (set.in_use(), set.count());
        self.allocations.get_or_create(&labels).inc_by(now.saturating_sub(before) as u64);
        self.releases.get_or_create(&labels).inc_by(before.saturating_sub(now) as u64);
        self.most.get_or_create(&labels).set(most.into());
        self.usage.get_or_create(&labels).set(now as f64 / f64::from(most));
        if let Some(tries) = tries {
            self.tries.get_or_create(&labels).observe(tries.into());
        }
    }
}
