//! Computes the CPU and memory that each container of a pod uses.
//!
//! Corresponds to pkg/kubelet/stats, whose numbers come from the container runtime. Here they follow from the story of
//! each container, and without one from what it requests.
//!
//! Deviation: nothing is measured. The CPU time of a container counts from its present start, and one that neither
//! requests anything nor has a story uses 1m of CPU and 8Mi of memory.

use crate::state::running;
use crate::story::Words;
use crate::story::curve::Curve;
use proto::Kind;
use proto::kinds::api::core::v1::{Container, ContainerStatus, Pod, PodStatus};
use proto::kinds::jiff::Timestamp;
use proto::meta::quantity::Quantity;
use std::collections::BTreeMap;
use std::time::Duration;

/// What a container uses that requests nothing.
const LEAST_CORES: f64 = 0.001;
const LEAST_BYTES: f64 = 8.0 * 1024.0 * 1024.0;

/// The usage of one running container at one time.
#[derive(Clone, Debug, PartialEq)]
pub struct ContainerUsage {
    pub name: String,
    pub started_at: Timestamp,
    pub cpu_cores: f64,
    /// Seconds of one core since the start.
    pub cpu_seconds: f64,
    pub memory_bytes: f64,
    /// Bytes of the node's disk.
    pub disk_bytes: f64,
    pub processes: f64,
}

/// What a container has served since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Requests {
    pub total: f64,
    pub per_second: f64,
}

/// Returns what a container has served that began at this time, given by its name.
pub type Served<'a> = &'a dyn Fn(&str, Timestamp) -> Requests;

/// Returns what tells the random walks of one container from those of others.
pub fn seed(pod_uid: &str, container: &str) -> String {
    format!("{pod_uid}/{container}")
}

/// Returns the usage of each running container of a pod, in the order of the spec.
pub fn containers(pod: &Pod, status: &PodStatus, served: Served<'_>, now: Timestamp) -> Vec<ContainerUsage> {
    let Some(spec) = &pod.spec else { return Vec::new() };
    let statuses = || status.container_statuses.iter().chain(&status.init_container_statuses).flatten();
    let all = spec.containers.iter().map(|container| (container, true));
    let all = all.chain(spec.init_containers.iter().flatten().map(|container| (container, false)));
    all.filter_map(|(container, is_app)| {
        let status = statuses().find(|status| status.name == container.name)?;
        container_usage(pod, (container, is_app), status, served, now)
    })
    .collect()
}

fn container_usage(
    pod: &Pod,
    (container, is_app): (&Container, bool),
    status: &ContainerStatus,
    served: Served<'_>,
    now: Timestamp,
) -> Option<ContainerUsage> {
    let started_at = running(status)?;
    let after = Duration::try_from(now.duration_since(started_at)).unwrap_or(Duration::ZERO);
    static NO_ANNOTATIONS: BTreeMap<String, String> = BTreeMap::new();
    let annotations = pod.metadata.annotations.as_ref().unwrap_or(&NO_ANNOTATIONS);
    let words = Words { annotations, container: &container.name, is_app };
    let requested = |name: &str| {
        let requests = container.resources.as_ref().and_then(|resources| resources.requests.as_ref());
        let quantity = requests.and_then(|requests| requests.get(name))?;
        Quantity::parse(&quantity.0).ok().map(|quantity| quantity.as_f64()).filter(|amount| *amount > 0.0)
    };
    let curve = |name: &str, least: f64| {
        let told = words.get(name).and_then(|text| Curve::parse(text).ok());
        told.unwrap_or_else(|| Curve::constant(requested(name).unwrap_or(least)))
    };
    let (cpu, memory) = (curve("cpu", LEAST_CORES), curve("memory", LEAST_BYTES));
    let (disk, processes) = (curve("disk", 0.0), curve("processes", 1.0));
    let seed = seed(pod.uid(), &container.name);
    let per_request = words.get("cpu-per-request").and_then(|text| Quantity::parse(text).ok()).map(|cpu| cpu.as_f64());
    let of_requests = per_request.map(|cpu_s| (cpu_s, served(&container.name, started_at)));
    let load = |of: fn(&Requests) -> f64| of_requests.map_or(0.0, |(cpu_s, requests)| cpu_s * of(&requests));
    Some(ContainerUsage {
        name: container.name.clone(),
        started_at,
        cpu_cores: cpu.at(after, &seed) + load(|requests| requests.per_second),
        cpu_seconds: cpu.sum(after, &seed) + load(|requests| requests.total),
        memory_bytes: memory.at(after, &seed),
        disk_bytes: disk.at(after, &seed),
        processes: processes.at(after, &seed),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn usage_follows_from_the_story_and_else_from_the_request() {
        let pod = Pod::decode_value(json!({
            "metadata": {"uid": "u1", "annotations": {
                "orrery.dev/cpu": "ramp 0..2/10s", "memory.orrery.dev/log": "1Gi", "orrery.dev/memory": "nonsense",
            }},
            "spec": {"containers": [
                {"name": "web", "resources": {"requests": {"memory": "64Mi", "cpu": "1"}}},
                {"name": "log"},
                {"name": "late"},
            ], "initContainers": [{"name": "proxy", "restartPolicy": "Always", "resources": {"requests": {"cpu": "50m"}}}]},
        }))
        .unwrap();
        let running = |name: &str| {
            json!({"name": name, "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
            "ready": true, "restartCount": 0, "image": "", "imageID": ""})
        };
        let status: PodStatus = serde_json::from_value(json!({
            "containerStatuses": [running("web"), running("log")], "initContainerStatuses": [running("proxy")],
        }))
        .unwrap();
        let nothing = |_: &str, _| Requests::default();
        let found = containers(&pod, &status, &nothing, "2026-01-01T00:00:05Z".parse().unwrap());
        let found: Vec<_> =
            found.iter().map(|u| (u.name.as_str(), u.cpu_cores, u.cpu_seconds, u.memory_bytes)).collect();
        let mi = 1024.0 * 1024.0;
        let expected =
            [("web", 1.0, 2.5, 64.0 * mi), ("log", 1.0, 2.5, 1024.0 * mi), ("proxy", 0.05, 0.25, LEAST_BYTES)];
        assert_eq!(found, expected);
    }

    #[test]
    fn requests_cost_what_the_story_says() {
        let pod = Pod::decode_value(json!({
            "metadata": {"annotations": {"orrery.dev/cpu-per-request": "20m", "orrery.dev/cpu": "100m"}},
            "spec": {"containers": [{"name": "web"}]},
        }))
        .unwrap();
        let running = json!({"running": {"startedAt": "2026-01-01T00:00:00Z"}});
        let status: PodStatus = serde_json::from_value(json!({"containerStatuses": [{
            "name": "web", "state": running, "ready": true, "restartCount": 0, "image": "", "imageID": "",
        }]}))
        .unwrap();
        let served = |_: &str, _| Requests { total: 300.0, per_second: 10.0 };
        let found = containers(&pod, &status, &served, "2026-01-01T00:00:50Z".parse().unwrap());
        let milli = |amount: f64| (amount * 1000.0).round();
        assert_eq!((milli(found[0].cpu_cores), milli(found[0].cpu_seconds)), (300.0, 11_000.0));
    }
}
