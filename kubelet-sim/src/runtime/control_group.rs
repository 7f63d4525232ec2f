//! The files of a container's control group, below `/sys/fs/cgroup`.
//!
//! Pure. Corresponds to generateLinuxContainerResources of pkg/kubelet/kuberuntime, and to what runc makes of shares for
//! version 2 of control groups.

use component_helpers::scheduling::requests::Resources;
use proto::kinds::api::core::v1::ResourceRequirements;

pub const ROOT: &str = "/sys/fs/cgroup";
/// Microseconds in which a quota may be used, and the smallest quota.
const PERIOD_US: i64 = 100_000;
const MIN_QUOTA_US: i64 = 1_000;
/// Bounds of CPU shares.
const MIN_SHARES: i64 = 2;
const MAX_SHARES: i64 = 262_144;
/// Memory is counted in pages.
const PAGE_BYTES: i64 = 4_096;

/// Returns the files, by their names, of a container with these resources.
pub fn files(resources: &ResourceRequirements) -> Vec<(&'static str, String)> {
    let limits = Resources::of(resources.limits.as_ref());
    let requests = Resources::of(resources.requests.as_ref());
    let has_request = resources.requests.as_ref().is_some_and(|requests| requests.contains_key("cpu"));
    // A limit without a request stands for both.
    let requested = if has_request { requests.milli_cpu } else { limits.milli_cpu };
    let shares = (requested * 1_024 / 1_000).clamp(MIN_SHARES, MAX_SHARES);
    let quota = match limits.milli_cpu {
        0 => "max".to_owned(),
        milli => (milli * PERIOD_US / 1_000).max(MIN_QUOTA_US).to_string(),
    };
    let memory = match limits.memory {
        0 => "max".to_owned(),
        bytes => (bytes / PAGE_BYTES * PAGE_BYTES).to_string(),
    };
    let swap = if limits.memory == 0 { "max" } else { "0" };
    let line = |text: &str| format!("{text}\n");
    vec![
        ("cgroup.controllers", line("cpuset cpu io memory hugetlb pids rdma misc")),
        ("cgroup.type", line("domain")),
        ("cpu.max", format!("{quota} {PERIOD_US}\n")),
        ("cpu.weight", format!("{}\n", weight(shares))),
        ("cpuset.cpus", line("")),
        ("memory.high", line("max")),
        ("memory.low", line("0")),
        ("memory.max", line(&memory)),
        ("memory.min", line("0")),
        ("memory.swap.max", line(swap)),
        ("pids.max", line("max")),
    ]
}

/// Returns the weight for CPU shares: both scales agree at their ends and at the usual 1,024 shares.
fn weight(shares: i64) -> i64 {
    let log = (shares as f64).log2();
    let exponent = (log * log + 125.0 * log) / 612.0 - 7.0 / 34.0;
    (10_f64.powf(exponent).ceil() as i64).clamp(1, 10_000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn resources_are_numbers_of_the_control_group() {
        let shown = |resources: Value| {
            let files = files(&serde_json::from_value(resources).unwrap());
            let value = |name: &str| files.iter().find(|(known, _)| *known == name).unwrap().1.trim().to_owned();
            ["cpu.max", "cpu.weight", "memory.max"].map(value).join(", ")
        };
        for (resources, expected) in [
            (json!({}), "max 100000, 1, max"),
            (json!({"requests": {"cpu": "1"}}), "max 100000, 100, max"),
            (json!({"limits": {"cpu": "250m", "memory": "64Mi"}}), "25000 100000, 35, 67108864"),
            (
                json!({"limits": {"cpu": "2", "memory": "1000000"}, "requests": {"cpu": "500m"}}),
                "200000 100000, 59, 999424",
            ),
            (json!({"limits": {"cpu": "1m"}}), "1000 100000, 1, max"),
        ] {
            assert_eq!(shown(resources.clone()), expected, "{resources}");
        }
        assert_eq!((weight(2), weight(1_024), weight(MAX_SHARES)), (1, 100, 10_000));
    }
}
