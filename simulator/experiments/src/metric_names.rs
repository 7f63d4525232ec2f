//! The metrics that there are.

/// Which values are better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Higher,
    Lower,
    /// A fact that is neither good nor bad.
    Neither,
}

use Direction::{Higher, Lower, Neither};

/// Name, unit and direction of each metric. Parts of a whole have the unit `%`, but their values lie between 0 and 1.
pub const NAMES: &[(&str, &str, Direction)] = &[
    ("allocation.cpu", "%", Higher),
    ("allocation.gpu", "%", Higher),
    ("allocation.memory", "%", Higher),
    ("allocation-peak.cpu", "%", Higher),
    ("allocation-peak.gpu", "%", Higher),
    ("allocation-peak.memory", "%", Higher),
    ("utilisation.cpu", "%", Higher),
    ("utilisation.gpu", "%", Higher),
    ("utilisation.memory", "%", Higher),
    ("fragmentation.gpu", "%", Lower),
    ("power.mean-w", "W", Lower),
    ("energy.kwh", "kWh", Lower),
    ("price", "", Lower),
    ("pending.mean", "s", Lower),
    ("pending.p50", "s", Lower),
    ("pending.p95", "s", Lower),
    ("pending.p99", "s", Lower),
    ("jct.mean", "s", Lower),
    ("jct.p50", "s", Lower),
    ("jct.p95", "s", Lower),
    ("jct.p99", "s", Lower),
    ("slowdown.mean", "", Lower),
    ("slowdown.p50", "", Lower),
    ("slowdown.p95", "", Lower),
    ("slowdown.p99", "", Lower),
    ("bounded-slowdown.mean", "", Lower),
    ("bounded-slowdown.p50", "", Lower),
    ("bounded-slowdown.p95", "", Lower),
    ("bounded-slowdown.p99", "", Lower),
    ("makespan", "s", Lower),
    ("gang-wait.mean", "s", Lower),
    ("gang-wait.p50", "s", Lower),
    ("gang-wait.p95", "s", Lower),
    ("gang-wait.p99", "s", Lower),
    ("gang-hold.mean", "s", Lower),
    ("gang-hold.p50", "s", Lower),
    ("gang-hold.p95", "s", Lower),
    ("gang-hold.p99", "s", Lower),
    ("jain", "", Higher),
    ("finish-time-fairness.max", "", Lower),
    ("finish-time-fairness.mean", "", Lower),
    ("finish-time-fairness.p50", "", Lower),
    ("finish-time-fairness.p95", "", Lower),
    ("finish-time-fairness.p99", "", Lower),
    ("pods", "", Neither),
    ("pods-finished", "", Higher),
    ("pods-failed", "", Lower),
    ("pods-never-scheduled", "", Lower),
    ("attempts-failed", "", Lower),
    ("preemptions", "", Lower),
    ("evictions", "", Lower),
    ("churn", "", Lower),
];
