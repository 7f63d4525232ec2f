//! `FinishTimeFairness` orders the queue so that every user finishes about as early as in an equal part of the cluster of
//! one's own. From Themis ("Fair and Efficient GPU Cluster Scheduling", NSDI 2020), whose measure Gavel (OSDI 2020) keeps.
//!
//! ```text
//! d  = largest share of the cluster that the pod requests of one resource
//! ρ  = (finish − arrival) / (D · max(1, n · d))        for n users and a pod that runs for D
//! latest start with ρ ≤ 1 = arrival + D · (max(1, n · d) − 1)
//! ```
//!
//! The pod whose latest fair start comes first is the first of the queue. A pod that fits into an equal part has to start when
//! it arrives, so such pods are in the order of arrival; a pod that wants more than its part may wait for it.
//!
//! Themis holds auctions and Gavel solves a linear program, again and again, and both preempt. This is their measure as a plain
//! order: it chooses no nodes and preempts nobody. It reads the duration of a pod from `orrery.dev/run-for`; a pod without it
//! counts as one that ends at once. Priorities do not count.

use crate::quantity;
use component_base::duration::parse_duration;
use scheduling_framework::pod_info::PodInfo;
use scheduling_framework::{Plugin, QueueSort, QueuedPodInfo};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

pub const NAME: &str = "FinishTimeFairness";

/// Annotation with the time that a pod's containers run.
const RUN_FOR: &str = "orrery.dev/run-for";

/// Arguments of the plugin.
#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FairnessArgs {
    /// Number of users who share the cluster.
    users: u32,
    /// What all nodes have. Only these resources are compared.
    capacity: BTreeMap<String, Value>,
}

impl Default for FairnessArgs {
    fn default() -> Self {
        Self { users: 1, capacity: BTreeMap::new() }
    }
}

pub struct FinishTimeFairness {
    users: u32,
    /// CPU in thousandths, others in units.
    capacity: BTreeMap<String, i64>,
}

impl FinishTimeFairness {
    pub fn new(args: FairnessArgs) -> Result<Self, String> {
        if args.users == 0 {
            return Err("args.users: must be greater than zero".to_owned());
        }
        let amount = |(name, value): (String, Value)| {
            let quantity = quantity(&value).map_err(|error| format!("args.capacity.{name}: {error}"))?;
            match if name == "cpu" { quantity.milli_value() } else { quantity.value() } {
                amount if amount > 0 => Ok((name, amount)),
                _ => Err(format!("args.capacity.{name}: must be greater than zero")),
            }
        };
        let capacity = args.capacity.into_iter().map(amount).collect::<Result<_, String>>()?;
        Ok(Self { users: args.users, capacity })
    }

    /// Returns max(1, n · d).
    fn parts(&self, pod: &PodInfo) -> f64 {
        let shares = self.capacity.iter().map(|(name, amount)| pod.requests.get(name) as f64 / *amount as f64);
        (f64::from(self.users) * shares.fold(0.0, f64::max)).max(1.0)
    }

    /// Returns the latest fair start in milliseconds since 1970.
    fn latest_start_ms(&self, pod: &PodInfo) -> i64 {
        let metadata = &pod.pod.metadata;
        let arrival_ms = metadata.creation_timestamp.as_ref().map_or(0, |time| time.0.as_millisecond());
        let run_for = metadata.annotations.as_ref().and_then(|all| all.get(RUN_FOR));
        let duration_ms =
            run_for.and_then(|text| parse_duration(text).ok()).map_or(0.0, |span| span.as_secs_f64() * 1e3);
        arrival_ms.saturating_add((duration_ms * (self.parts(pod) - 1.0)).round() as i64)
    }
}

impl Plugin for FinishTimeFairness {
    fn name(&self) -> &'static str {
        NAME
    }
}

impl QueueSort for FinishTimeFairness {
    fn less(&self, a: &QueuedPodInfo, b: &QueuedPodInfo) -> Result<bool, String> {
        Ok(self.latest_start_ms(&a.pod_info) < self.latest_start_ms(&b.pod_info))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scheduling_framework::fixture::{info, pod};
    use serde_json::json;

    /// Four users share 32 CPUs, so that 8 are an equal part. Times are minutes after the first arrival.
    ///
    /// | arrival | CPUs | runs | max(1, n · d) | latest start |
    /// |---|---|---|---|---|
    /// | 0 | 4 | 10 | 1 | 0 |
    /// | 0 | 16 | 10 | 4 · 16/32 = 2 | 0 + 10 · 1 = 10 |
    /// | 0 | 32 | 2 | 4 | 0 + 2 · 3 = 6 |
    /// | 5 | 8 | 60 | 1 | 5 |
    /// | 8 | 1 | unknown | 1 | 8 |
    #[test]
    fn latest_fair_starts_worked_by_hand() {
        let args = FairnessArgs { users: 4, capacity: BTreeMap::from([("cpu".to_owned(), json!(32))]) };
        let plugin = FinishTimeFairness::new(args).unwrap();
        let latest_start = |arrival: u32, cpu: &str, run_for: Option<&str>| {
            let mut pod = pod("a", cpu, json!({}));
            pod["metadata"]["creationTimestamp"] = json!(format!("1970-01-01T00:{arrival:02}:00Z"));
            pod["metadata"]["annotations"] = json!({RUN_FOR: run_for});
            if run_for.is_none() {
                pod["metadata"]["annotations"] = json!({});
            }
            plugin.latest_start_ms(&info(pod)) / 60_000
        };
        let starts = [
            latest_start(0, "4", Some("10m")),
            latest_start(0, "16", Some("10m")),
            latest_start(0, "32", Some("2m")),
            latest_start(5, "8", Some("1h")),
            latest_start(8, "1", None),
        ];
        assert_eq!(starts, [0, 10, 6, 5, 8]);
    }
}
