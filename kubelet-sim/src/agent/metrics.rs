//! Serves the usage of a node and its pods on `/metrics/resource` and `/stats/summary`, and the counts of probes on
//! `/metrics/probes`.
//!
//! Corresponds to pkg/kubelet/metrics/collectors/resource_metrics.go and to pkg/kubelet/server/stats.

use crate::fleet::Fleet;
use component_base::metrics::{Labels, Metrics};
use pod_life::story::usage::{ContainerUsage, containers};
use proto::Kind;
use proto::kinds::api::core::v1::Pod;
use proto::kinds::jiff::Timestamp;
use serde_json::{Value, json};
use std::sync::Arc;

/// What the node's own daemons use, beside its pods.
const SYSTEM_CORES: f64 = 0.05;
const SYSTEM_BYTES: f64 = 256.0 * 1024.0 * 1024.0;

/// The usage of one pod at one time.
pub struct PodUsage {
    pub pod: Arc<Pod>,
    pub containers: Vec<ContainerUsage>,
}

impl PodUsage {
    fn sum(&self, of: fn(&ContainerUsage) -> f64) -> f64 {
        self.containers.iter().map(of).sum()
    }
}

/// The usage of a node and of all its pods at one time.
pub struct NodeUsage {
    pub node: String,
    pub now: Timestamp,
    /// When the node was created; its daemons have used CPU since then.
    pub started_at: Timestamp,
    pub pods: Vec<PodUsage>,
}

impl NodeUsage {
    /// Returns the usage at present; `None` when the node is not of this fleet.
    pub fn of(fleet: &Fleet, node: &str) -> Option<Self> {
        if !fleet.is_reachable(node) {
            return None;
        }
        let now = fleet.env().wall();
        let usage = |pod: Arc<Pod>| {
            let (_, status) = fleet.find(node, pod.namespace(), pod.name())?;
            let served = |container: &str, started_at| fleet.served(pod.uid(), container, started_at);
            let containers = containers(&pod, &status, &served, now);
            (!containers.is_empty()).then_some(PodUsage { pod, containers })
        };
        let pods = fleet.pods_of(node)?.into_iter().filter_map(usage).collect();
        let started_at = fleet.created_at(node).unwrap_or(now);
        Some(Self { node: node.to_owned(), now, started_at, pods })
    }

    pub fn cpu_seconds(&self) -> f64 {
        let uptime_s = self.now.duration_since(self.started_at).as_secs_f64();
        SYSTEM_CORES * uptime_s + self.pods.iter().map(|pod| pod.sum(|usage| usage.cpu_seconds)).sum::<f64>()
    }

    pub fn cpu_cores(&self) -> f64 {
        SYSTEM_CORES + self.pods.iter().map(|pod| pod.sum(|usage| usage.cpu_cores)).sum::<f64>()
    }

    pub fn memory_bytes(&self) -> f64 {
        SYSTEM_BYTES + self.pods.iter().map(|pod| pod.sum(|usage| usage.memory_bytes)).sum::<f64>()
    }

    /// Returns the page `/metrics/resource`.
    pub fn metrics(&self) -> String {
        let metrics = Metrics::default();
        let cpu = |name, help| metrics.float_counters(name, help);
        let gauge = |name, help| metrics.float_gauges(name, help);
        let container_cpu = cpu(
            "container_cpu_usage_seconds_total",
            "[STABLE] Cumulative cpu time consumed by the container in core-seconds",
        );
        let container_memory =
            gauge("container_memory_working_set_bytes", "[STABLE] Current working set of the container in bytes");
        let started =
            gauge("container_start_time_seconds", "[STABLE] Start time of the container since unix epoch in seconds");
        let node_cpu =
            cpu("node_cpu_usage_seconds_total", "[STABLE] Cumulative cpu time consumed by the node in core-seconds");
        let node_memory = gauge("node_memory_working_set_bytes", "[STABLE] Current working set of the node in bytes");
        let pod_cpu =
            cpu("pod_cpu_usage_seconds_total", "[STABLE] Cumulative cpu time consumed by the pod in core-seconds");
        let pod_memory = gauge("pod_memory_working_set_bytes", "[STABLE] Current working set of the pod in bytes");
        let errors = gauge(
            "resource_scrape_error",
            "[STABLE] 1 if there was an error while getting container metrics, 0 otherwise",
        );
        let nothing = Labels::new();
        errors.get_or_create(&nothing).set(0.0);
        node_cpu.get_or_create(&nothing).inc_by(self.cpu_seconds());
        node_memory.get_or_create(&nothing).set(self.memory_bytes());
        for usage in &self.pods {
            let of_pod: Labels =
                vec![("namespace", usage.pod.namespace().to_owned()), ("pod", usage.pod.name().to_owned())];
            pod_cpu.get_or_create(&of_pod).inc_by(usage.sum(|usage| usage.cpu_seconds));
            pod_memory.get_or_create(&of_pod).set(usage.sum(|usage| usage.memory_bytes));
            for container in &usage.containers {
                let name = [("container", container.name.clone())];
                let labels: Labels = name.into_iter().chain(of_pod.iter().cloned()).collect();
                container_cpu.get_or_create(&labels).inc_by(container.cpu_seconds);
                container_memory.get_or_create(&labels).set(container.memory_bytes);
                started.get_or_create(&labels).set(container.started_at.as_millisecond() as f64 / 1000.0);
            }
        }
        metrics.encode()
    }

    /// Returns the page `/stats/summary`.
    pub fn summary(&self) -> Value {
        let now = shown(self.now);
        let stats = |cores: f64, seconds: f64, bytes: f64| {
            json!({
                "cpu": {
                    "time": now, "usageNanoCores": (cores * 1e9) as u64, "usageCoreNanoSeconds": (seconds * 1e9) as u64,
                },
                "memory": {"time": now, "usageBytes": bytes as u64, "workingSetBytes": bytes as u64},
            })
        };
        let with = |mut stats: Value, more: Value| {
            if let (Some(stats), Some(more)) = (stats.as_object_mut(), more.as_object()) {
                stats.extend(more.clone());
            }
            stats
        };
        let pod = |usage: &PodUsage| {
            let containers = usage.containers.iter().map(|c| {
                let started = json!({"name": c.name, "startTime": shown(c.started_at)});
                with(stats(c.cpu_cores, c.cpu_seconds, c.memory_bytes), started)
            });
            let reference = json!({
                "name": usage.pod.name(), "namespace": usage.pod.namespace(), "uid": usage.pod.uid(),
            });
            let started = usage.containers.iter().map(|c| c.started_at).min().unwrap_or(self.now);
            let of_pod = json!({
                "podRef": reference, "startTime": shown(started), "containers": containers.collect::<Vec<_>>(),
            });
            let sum = |of| usage.sum(of);
            with(stats(sum(|u| u.cpu_cores), sum(|u| u.cpu_seconds), sum(|u| u.memory_bytes)), of_pod)
        };
        let node = with(
            stats(self.cpu_cores(), self.cpu_seconds(), self.memory_bytes()),
            json!({"nodeName": self.node, "startTime": shown(self.started_at)}),
        );
        json!({"node": node, "pods": self.pods.iter().map(pod).collect::<Vec<_>>()})
    }
}

/// Returns the page `/metrics/probes`; `None` when the node is not of this fleet.
///
/// Deviation: the counts are those of each container's present run, while a kubelet's outlast a restart.
pub fn probes(fleet: &Fleet, node: &str) -> Option<String> {
    let metrics = Metrics::default();
    let help = "[BETA] Cumulative number of a liveness, readiness or startup probe for a container by result.";
    let total = metrics.counters("prober_probe_total", help);
    for (pod, probes) in fleet.probes_of(node)? {
        for ((container, kind), counts) in probes {
            for (result, count) in [("successful", counts.successes), ("failed", counts.failures)] {
                let labels: Labels = vec![
                    ("container", container.clone()),
                    ("namespace", pod.namespace().to_owned()),
                    ("pod", pod.name().to_owned()),
                    ("pod_uid", pod.uid().to_owned()),
                    ("probe_type", kind.to_owned()),
                    ("result", result.to_owned()),
                ];
                if count > 0 {
                    total.get_or_create(&labels).inc_by(count);
                }
            }
        }
    }
    Some(metrics.encode())
}

/// Formats a time as Kubernetes' objects show it, to the second.
fn shown(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
