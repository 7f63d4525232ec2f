//! Pods from `kubectl get pods -o yaml`: they arrive when they were created, and run as long as they ran there, or as their
//! annotation `orrery.dev/run-for` says.

use crate::amounts::{Amounts, GPU, GPU_COUNT, GPU_INDEX, GPU_MILLI, GPU_MODEL};
use crate::files::Files;
use crate::listing;
use crate::problem::Problem;
use crate::study::PodFile;
use crate::units::{micros, span};
use crate::workload::pod::{GANG, RUN_FOR, USER};
use crate::workload::{Arrival, PodFacts};
use component_helpers::scheduling::requests::pod_requests;
use proto::kinds::api::core::v1::{EmptyDirVolumeSource, EnvVarSource, Pod, PodSpec, PodStatus, Volume};
use proto::kinds::metav1::Time;
use proto::meta::quantity::Quantity;
use std::time::Duration;

/// What `kubectl apply` has written.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

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
        let duration = said(&pod).or_else(|| pod.status.as_ref().and_then(ran_for));
        let at = micros((created_us - first_us) as f64);
        arrivals.push(Arrival { at, pod: anew(pod).0, duration, facts });
    }
    if problems.is_empty() { Ok(arrivals) } else { Err(problems) }
}

fn microseconds(time: &Time) -> i64 {
    time.0.as_microsecond()
}

/// Returns how long a pod's annotation says that it runs.
fn said(pod: &Pod) -> Option<Duration> {
    let text = pod.metadata.annotations.as_ref()?.get(RUN_FOR)?;
    span(text).ok()
}

/// Writes how long a pod ran into its annotation. It ends then, and no container starts again.
pub(crate) fn keep_duration(pod: &mut Pod, us: i64) {
    let text = format!("{}ms", u64::try_from(us).unwrap_or_default().div_ceil(1000));
    pod.metadata.annotations.get_or_insert_default().insert(RUN_FOR.to_owned(), text);
    if let Some(spec) = &mut pod.spec {
        spec.restart_policy = Some("Never".to_owned());
    }
}

/// Returns when the last container of a pod that has ended did so.
pub(crate) fn finished(status: &PodStatus) -> Option<Time> {
    if !matches!(status.phase.as_deref(), Some("Succeeded" | "Failed")) {
        return None;
    }
    let states = status.container_statuses.iter().flatten().filter_map(|container| container.state.as_ref());
    states.filter_map(|state| state.terminated.as_ref()?.finished_at.clone()).max()
}

/// Returns how long the containers of a pod ran that has ended.
fn ran_for(status: &PodStatus) -> Option<Duration> {
    let last_us = microseconds(&finished(status)?);
    let start_us = microseconds(status.start_time.as_ref()?);
    Some(micros((last_us - start_us) as f64))
}

fn facts(pod: &Pod, place: &str, problems: &mut Vec<Problem>) -> PodFacts {
    let spec = pod.spec.clone().unwrap_or_default();
    for (field, containers) in
        [("containers", Some(&spec.containers)), ("initContainers", spec.init_containers.as_ref())]
    {
        let resources =
            containers.into_iter().flatten().filter_map(|container| container.resources.as_ref()?.requests.as_ref());
        for (resource, text) in resources.flatten() {
            if let Err(error) = Quantity::parse(&text.0) {
                problems.push(Problem::new(format!("{place}.spec.{field}: {resource}"), error.to_string()));
            }
        }
    }
    // As the scheduler counts them: with init containers, overhead, and what is said for the pod as a whole.
    let requests: Amounts =
        pod_requests(&spec).requested().map(|(resource, amount)| (resource.to_owned(), amount)).collect();
    let annotation = |name: &str| pod.metadata.annotations.as_ref()?.get(name)?.parse::<u32>().ok();
    let whole = requests.get(GPU).and_then(|count| u32::try_from(*count).ok()).unwrap_or_default();
    let label = |name: &str| pod.metadata.labels.as_ref().and_then(|labels| labels.get(name)).cloned();
    let accepted = pod.metadata.annotations.as_ref().and_then(|all| all.get(GPU_MODEL)).map_or("", String::as_str);
    let gpu_count = annotation(GPU_COUNT).unwrap_or(whole);
    PodFacts {
        requests,
        gpu_count,
        gpu_milli: if gpu_count > 0 { annotation(GPU_MILLI).unwrap_or(1000) } else { 0 },
        gpu_models: accepted.split('|').filter(|model| !model.is_empty()).map(str::to_owned).collect(),
        user: label(USER).unwrap_or_else(|| pod.metadata.namespace.clone().unwrap_or_default()),
        gang: label(GANG),
        priority: spec.priority.unwrap_or_default(),
    }
}

/// What a pod has lost that may matter to where it is placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stripped {
    Nothing,
    /// Volumes of claims.
    Claims,
}

/// Returns the pod as a user would create it again: without what a cluster has written into it, and without references to
/// objects that a study does not have.
pub(crate) fn anew(mut pod: Pod) -> (Pod, Stripped) {
    let metadata = std::mem::take(&mut pod.metadata);
    pod.metadata.name = metadata.name;
    pod.metadata.namespace = metadata.namespace;
    pod.metadata.labels = metadata.labels;
    pod.metadata.annotations = metadata.annotations;
    if let Some(annotations) = &mut pod.metadata.annotations {
        annotations.remove(LAST_APPLIED);
        // These places are those of a former node.
        annotations.remove(GPU_INDEX);
    }
    pod.status = None;
    let stripped = pod.spec.as_mut().map_or(Stripped::Nothing, strip);
    (pod, stripped)
}

fn strip(spec: &mut PodSpec) -> Stripped {
    spec.node_name = None;
    // Every policy of a study schedules under the default name.
    spec.scheduler_name = None;
    spec.service_account = None;
    spec.service_account_name = None;
    spec.image_pull_secrets = None;
    // The volume of the service account's token is mounted anew.
    let is_token = |name: &str| name.starts_with("kube-api-access-");
    spec.volumes.iter_mut().for_each(|volumes| volumes.retain(|volume| !is_token(&volume.name)));
    let mut stripped = Stripped::Nothing;
    for volume in spec.volumes.iter_mut().flatten() {
        if volume.persistent_volume_claim.is_some() || volume.ephemeral.is_some() {
            stripped = Stripped::Claims;
        }
        if volume.empty_dir.is_none() && volume.host_path.is_none() && volume.downward_api.is_none() {
            let name = std::mem::take(&mut volume.name);
            *volume = Volume { name, empty_dir: Some(EmptyDirVolumeSource::default()), ..Volume::default() };
        }
    }
    for container in spec.containers.iter_mut().chain(spec.init_containers.iter_mut().flatten()) {
        container.volume_mounts.iter_mut().for_each(|mounts| mounts.retain(|mount| !is_token(&mount.name)));
        container.env_from = None;
        let is_known = |source: &EnvVarSource| source.config_map_key_ref.is_none() && source.secret_key_ref.is_none();
        container.env.iter_mut().for_each(|env| env.retain(|one| one.value_from.as_ref().is_none_or(is_known)));
    }
    stripped
}
