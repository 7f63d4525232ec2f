//! One measurement: what was done, how fast, how late, and what it cost the servers.

use super::placements::Checked;
use super::process::Usage;
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// Milliseconds below which half of all operations, 99 of a hundred, and all of them stayed.
#[derive(Clone, Debug, Serialize)]
pub struct Latency {
    pub p50_ms: f64,
    pub p99_ms: f64,
    pub max_ms: f64,
}

#[derive(Clone, Debug, Serialize)]
pub struct Measurement {
    pub scenario: &'static str,
    /// What was done, with the numbers that matter.
    pub what: String,
    pub engine: &'static str,
    pub operations: u64,
    pub seconds: f64,
    pub per_s: f64,
    pub latency: Option<Latency>,
    /// Of attempts of the scheduler that have found no node and have evicted pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preempting: Option<Latency>,
    /// CPU of all servers together, store included.
    pub server_cpu_ms_per_operation: f64,
    /// Seconds of CPU that each server used meanwhile, by its name.
    pub cpu_s: BTreeMap<String, f64>,
    /// Memory that each server holds at the end, by its name.
    pub rss_mib: BTreeMap<String, f64>,
    /// The most that each has held since it was started.
    pub peak_mib: BTreeMap<String, f64>,
    /// Whatever went wrong: failed operations; lost, repeated or disordered events; forbidden placements.
    pub errors: u64,
    /// Placements that the reference evaluator has judged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checked: Option<Checked>,
    /// Requests that the API server sent to its store meanwhile, whatever for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub store_requests: Option<u64>,
    /// Requests that the API server has answered meanwhile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<u64>,
    /// Writes for each operation, refused ones too, by verb and resource.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub writes_per_operation: BTreeMap<String, f64>,
    /// Microseconds of an operation that pass in each admission plugin.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub admission_us: BTreeMap<String, f64>,
}

impl Measurement {
    /// `before` and `after` are what the servers had used at the beginning and at the end.
    pub fn new(
        scenario: &'static str,
        what: String,
        engine: &'static str,
        operations: u64,
        took: Duration,
        (before, after): (&Usage, &Usage),
    ) -> Self {
        let cpu_s: BTreeMap<String, f64> = after
            .iter()
            .map(|(name, now)| (name.clone(), round(now.cpu_s - before.get(name).map_or(0.0, |then| then.cpu_s))))
            .collect();
        let whole: f64 = cpu_s.values().sum();
        Self {
            scenario,
            what,
            engine,
            operations,
            seconds: round(took.as_secs_f64()),
            per_s: round(operations as f64 / took.as_secs_f64()),
            latency: None,
            preempting: None,
            server_cpu_ms_per_operation: round(whole * 1000.0 / operations.max(1) as f64),
            cpu_s,
            rss_mib: after.iter().map(|(name, now)| (name.clone(), round(now.rss_mib))).collect(),
            peak_mib: after.iter().map(|(name, now)| (name.clone(), round(now.peak_mib))).collect(),
            errors: 0,
            checked: None,
            store_requests: None,
            requests: None,
            writes_per_operation: BTreeMap::new(),
            admission_us: BTreeMap::new(),
        }
    }

    pub fn latencies(self, latencies: Vec<Duration>) -> Self {
        Self { latency: latency(latencies), ..self }
    }

    pub fn errors(self, errors: u64) -> Self {
        Self { errors, ..self }
    }

    pub fn store_requests(self, requests: f64) -> Self {
        Self { store_requests: Some(requests.max(0.0) as u64), ..self }
    }

    pub fn requests(self, requests: f64) -> Self {
        Self { requests: Some(requests.max(0.0) as u64), ..self }
    }

    /// `writes` are those of all operations together, by verb and resource.
    pub fn writes(self, writes: &BTreeMap<String, f64>) -> Self {
        let of_one = |count: f64| round(count / self.operations.max(1) as f64);
        let writes_per_operation = writes.iter().map(|(kind, count)| (kind.clone(), of_one(*count))).collect();
        Self { writes_per_operation, ..self }
    }

    /// `seconds` are those of all operations together, by plugin.
    pub fn admission(self, seconds: &BTreeMap<String, f64>) -> Self {
        let of_one = |seconds: f64| round(seconds * 1e6 / self.operations.max(1) as f64);
        let admission_us = seconds.iter().map(|(plugin, seconds)| (plugin.clone(), of_one(*seconds))).collect();
        Self { admission_us, ..self }
    }
}

fn latency(mut latencies: Vec<Duration>) -> Option<Latency> {
    latencies.sort_unstable();
    let last = latencies.len().checked_sub(1)?;
    let at = |percent: usize| round(latencies[last * percent / 100].as_secs_f64() * 1000.0);
    Some(Latency { p50_ms: at(50), p99_ms: at(99), max_ms: at(100) })
}

/// To four decimals: more is noise.
fn round(value: f64) -> f64 {
    (value * 10_000.0).round() / 10_000.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::process::Used;

    #[test]
    fn cost_is_the_difference_of_all_servers() {
        let used = |cpu_s, rss_mib| Used { cpu_s, rss_mib, peak_mib: rss_mib };
        let before = Usage::from([("apiserver".to_owned(), used(1.0, 10.0))]);
        let after = Usage::from([("apiserver".to_owned(), used(1.5, 20.0)), ("scheduler".to_owned(), used(0.5, 30.0))]);
        let took = Duration::from_secs(2);
        let latencies = (1..=100).map(Duration::from_millis).collect();
        let measured = Measurement::new("objects", "create".into(), "memory", 1000, took, (&before, &after));
        assert_eq!(measured.server_cpu_ms_per_operation, 1.0);
        assert_eq!(measured.per_s, 500.0);
        let latency = measured.latencies(latencies).latency.unwrap();
        assert_eq!((latency.p50_ms, latency.p99_ms, latency.max_ms), (50.0, 99.0, 100.0));
    }
}
