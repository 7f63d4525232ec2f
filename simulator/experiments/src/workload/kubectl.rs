//! Pods from `kubectl get pods -o yaml`: they arrive when they were created, and run as long as they ran there.

use crate::amounts::{Amounts, GPU, GPU_COUNT, GPU_MILLI, amount};
use crate::files::Files;
use crate::listing;
use crate::problem::Problem;
use crate::study::PodFile;
use crate::units::micros;
use crate::workload::pod::{GANG, USER};
use crate::workload::{Arrival, PodFacts};
use proto::kinds::api::core::v1::{Pod, PodStatus};
use proto::kinds::metav1::Time;
use proto::meta::quantity::Quantity;
use std::time::Duration;

pub fn arrivals(file: &PodFile, files: &dyn Files, place: &str) -> Result<Vec<Arrival>, Vec<Problem>> {
    let pods: Vec<Pod> = listing::read(&file.file, files, &format!("{place}.file"))?;
    let created = |pod: &Pod| pod.metadata.creation_timestamp.as_ref().map(microseconds);
    let first_us = pods.iter().filter_map(created).min().unwrap_or_default();
    let (mut arrivals, mut problems) = (Vec::new(), Vec::new());
    for (index, pod) in pods.into_iter().enumerate() {
        let place = format!("{}: items[{index}]", file.file);
        let Some(created_us) = created(&pod) else {
            problems.push(Problem::new(format!("{place}.metadata.creationTimestamp"), "Required value"));
            continue;
        };
        let facts = facts(&pod, &place, &mut problems);
        let duration = pod.status.as_ref().and_then(ran_for);
        let at = micros((created_us - first_us) as f64);
        arrivals.push(Arrival { at, pod: anew(pod), duration, facts });
    }
    if problems.is_empty() { Ok(arrivals) } else { Err(problems) }
}

fn microseconds(time: &Time) -> i64 {
    time.0.as_microsecond()
}

/// Returns how long the containers of a pod ran that has ended.
fn ran_for(status: &PodStatus) -> Option<Duration> {
    if !matches!(status.phase.as_deref(), Some("Succeeded" | "Failed")) {
        return None;
    }
    let ended = status
        .container_statuses
        .iter()
        .flatten()
        .filter_map(|container| container.state.as_ref()?.terminated.as_ref());
    let last_us = ended.filter_map(|state| state.finished_at.as_ref()).map(microseconds).max()?;
    let start_us = microseconds(status.start_time.as_ref()?);
    Some(micros((last_us - start_us) as f64))
}

fn facts(pod: &Pod, place: &str, problems: &mut Vec<Problem>) -> PodFacts {
    let mut requests = Amounts::new();
    let spec = pod.spec.clone().unwrap_or_default();
    for container in &spec.containers {
        let requested = container.resources.iter().filter_map(|resources| resources.requests.as_ref()).flatten();
        for (resource, text) in requested {
            match Quantity::parse(&text.0) {
                Ok(quantity) => *requests.entry(resource.clone()).or_default() += amount(resource, &quantity),
                Err(error) => {
                    problems.push(Problem::new(format!("{place}.spec.containers: {resource}"), error.to_string()))
                }
            }
        }
    }
    let annotation = |name: &str| pod.metadata.annotations.as_ref()?.get(name)?.parse::<u32>().ok();
    let whole = requests.get(GPU).and_then(|count| u32::try_from(*count).ok()).unwrap_or_default();
    let label = |name: &str| pod.metadata.labels.as_ref().and_then(|labels| labels.get(name)).cloned();
    let gpu_count = annotation(GPU_COUNT).unwrap_or(whole);
    PodFacts {
        requests,
        gpu_count,
        gpu_milli: if gpu_count > 0 { annotation(GPU_MILLI).unwrap_or(1000) } else { 0 },
        user: label(USER).unwrap_or_else(|| pod.metadata.namespace.clone().unwrap_or_default()),
        gang: label(GANG),
        priority: spec.priority.unwrap_or_default(),
    }
}

/// Returns the pod as a user would create it again: without what a cluster has written into it.
fn anew(mut pod: Pod) -> Pod {
    let metadata = std::mem::take(&mut pod.metadata);
    pod.metadata.name = metadata.name;
    pod.metadata.namespace = metadata.namespace;
    pod.metadata.labels = metadata.labels;
    pod.metadata.annotations = metadata.annotations;
    pod.status = None;
    if let Some(spec) = &mut pod.spec {
        spec.node_name = None;
        spec.service_account = None;
        spec.service_account_name = None;
        // The volume of the service account's token is mounted anew.
        let is_token = |name: &str| name.starts_with("kube-api-access-");
        spec.volumes.iter_mut().for_each(|volumes| volumes.retain(|volume| !is_token(&volume.name)));
        for container in spec.containers.iter_mut().chain(spec.init_containers.iter_mut().flatten()) {
            container.volume_mounts.iter_mut().for_each(|mounts| mounts.retain(|mount| !is_token(&mount.name)));
        }
    }
    pod
}
