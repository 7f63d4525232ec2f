//! In-place resize: new resources for containers that go on running.
//!
//! Corresponds to pkg/kubelet/allocation, and to computePodResizeAction of pkg/kubelet/kuberuntime. The node decides
//! whether the new requests fit; containers whose resize policy asks for it are restarted, all others keep their process.
//! Pod-level resources are resized in the same way, without restarts.

use crate::admission::ResizeRefusal;
use crate::conditions;
use crate::container::restart::is_finished;
use crate::progress::{PodEvent, Progress};
use crate::state::running;
use crate::story::ContainerKind;
use crate::view::ContainerView;
use proto::kinds::api::core::v1::{Container, ContainerStatus, Pod, PodCondition, PodStatus, ResourceRequirements};
use proto::kinds::jiff::Timestamp;
use proto::kinds::metav1::Time;
use serde::Serialize;
use std::time::Duration;

pub const PENDING: &str = "PodResizePending";
pub const IN_PROGRESS: &str = "PodResizeInProgress";

/// Time from the decision until the new resources are in force: the kubelet's period of relisting containers.
const ACTUATION: Duration = Duration::from_secs(1);
/// How often the kubelet tries a deferred resize again, if no pod goes before.
const RETRY_PERIOD: Duration = Duration::from_secs(180);

/// True when a running container, or the pod as a whole, has other resources than the spec asks for, and the node has not
/// decided yet.
pub fn is_undecided(pod: &Pod, status: &PodStatus) -> bool {
    let spec = pod.spec.as_ref();
    let containers = spec.iter().flat_map(|spec| spec.containers.iter().chain(spec.init_containers.iter().flatten()));
    let statuses = || status.container_statuses.iter().chain(&status.init_container_statuses).flatten();
    let mut differing = containers.filter(|container| {
        let known = statuses().find(|status| status.name == container.name);
        known.is_some_and(|status| running(status).is_some() && differs(&container.resources, &status.resources))
    });
    (differing.next().is_some() || pod_differs(pod, status)) && !is_decided(pod, status)
}

/// True when the node has accepted the resources of the present generation.
fn is_decided(pod: &Pod, status: &PodStatus) -> bool {
    let known = conditions::find(status, IN_PROGRESS);
    known.is_some_and(|condition| condition.observed_generation == pod.metadata.generation)
}

/// True when the pod-level resources in force are others than those of the spec.
fn pod_differs(pod: &Pod, status: &PodStatus) -> bool {
    let wanted = pod.spec.as_ref().and_then(|spec| spec.resources.clone());
    status.resources.is_some() && wanted.is_some() && differs(&wanted, &status.resources)
}

fn differs(wanted: &Option<ResourceRequirements>, actual: &Option<ResourceRequirements>) -> bool {
    let empty = ResourceRequirements::default();
    let (wanted, actual) = (wanted.as_ref().unwrap_or(&empty), actual.as_ref().unwrap_or(&empty));
    wanted.requests != actual.requests || wanted.limits != actual.limits
}

/// Begins a resize, or takes its next step. `verdict` is the node's decision, if one was needed.
pub fn advance(
    pod: &Pod,
    verdict: Option<&Result<(), ResizeRefusal>>,
    status: &mut PodStatus,
    views: &[&[ContainerView<'_>]; 2],
    now: Timestamp,
    progress: &mut Progress,
) {
    let generation = pod.metadata.generation;
    let of_pod = pod.spec.as_ref().and_then(|spec| spec.resources.as_ref());
    if let (Some(wanted), None) = (of_pod, &status.resources) {
        status.allocated_resources.clone_from(&wanted.requests);
        status.resources = Some(wanted.clone());
    }
    match verdict {
        Some(Err(refusal)) => return defer(pod, refusal, status, now, progress),
        Some(Ok(())) => {
            conditions::remove(status, PENDING);
            conditions::remove(status, IN_PROGRESS);
            insert(status, IN_PROGRESS, None, generation, now);
            progress.events.push(event(pod, false, "ResizeStarted", "started", ""));
        }
        None => {}
    }
    let Some(began) = conditions::find(status, IN_PROGRESS)
        .map(|condition| condition.last_transition_time.as_ref().map_or(now, |at| at.0))
    else {
        return conditions::remove(status, PENDING);
    };
    if pod_differs(pod, status) {
        status.allocated_resources = of_pod.and_then(|wanted| wanted.requests.clone());
        let due = began + ACTUATION;
        match now < due {
            true => progress.wake_by(due),
            false => status.resources = of_pod.cloned(),
        }
    }
    let lists = [&mut status.init_container_statuses, &mut status.container_statuses];
    for (views, statuses) in views.iter().zip(lists) {
        for (view, status) in views.iter().zip(statuses.iter_mut().flatten()) {
            resize_container(view, status, began, now, progress);
        }
    }
}

/// Ends a resize once every container has what it asks for, or runs no more.
pub fn finish(pod: &Pod, status: &mut PodStatus, views: &[&[ContainerView<'_>]; 2], progress: &mut Progress) {
    if conditions::find(status, IN_PROGRESS).is_none() {
        return;
    }
    let lists = [&status.init_container_statuses, &status.container_statuses];
    let waiting = views.iter().zip(lists).flat_map(|(views, statuses)| views.iter().zip(statuses.iter().flatten()));
    let is_waiting = |(view, status): (&ContainerView<'_>, &ContainerStatus)| {
        let has_run = status.resources.is_some() && !is_finished(view, status);
        is_resizable(view) && has_run && differs(&view.spec.resources, &status.resources)
    };
    let is_done = !{ waiting }.any(is_waiting) && !pod_differs(pod, status);
    if is_done {
        conditions::remove(status, IN_PROGRESS);
        progress.events.push(event(pod, false, "ResizeCompleted", "completed", ""));
    }
}

fn is_resizable(view: &ContainerView<'_>) -> bool {
    matches!(view.kind, ContainerKind::App | ContainerKind::Sidecar)
}

/// Reports that the node does not give the pod what it asks for: now, or ever.
fn defer(pod: &Pod, refusal: &ResizeRefusal, status: &mut PodStatus, now: Timestamp, progress: &mut Progress) {
    let (reason, message, event_reason) = match refusal {
        ResizeRefusal::Infeasible(message) => ("Infeasible", message, "ResizeInfeasible"),
        ResizeRefusal::Deferred(message) => ("Deferred", message, "ResizeDeferred"),
    };
    progress.events.push(event(pod, true, event_reason, reason, message));
    let since = conditions::find(status, PENDING).and_then(|known| known.last_transition_time.as_ref().map(|at| at.0));
    conditions::remove(status, PENDING);
    insert(status, PENDING, Some((reason, message)), pod.metadata.generation, since.unwrap_or(now));
    if reason == "Deferred" {
        progress.wake_by(now + RETRY_PERIOD);
    }
}

/// Gives one running container its new resources, or marks it for a restart.
fn resize_container(
    view: &ContainerView<'_>,
    status: &mut ContainerStatus,
    began: Timestamp,
    now: Timestamp,
    progress: &mut Progress,
) {
    if !is_resizable(view) || running(status).is_none() || !differs(&view.spec.resources, &status.resources) {
        return;
    }
    let wanted = view.spec.resources.clone().unwrap_or_default();
    status.allocated_resources = wanted.requests.clone();
    if requires_restart(view, status.resources.as_ref(), &wanted) {
        progress.notes.of(&view.spec.name).resize_restarts = Some(status.restart_count);
        return;
    }
    let due = began + ACTUATION;
    match now < due {
        true => progress.wake_by(due),
        false => status.resources = Some(wanted),
    }
}

/// True when a resource changes whose resize policy is `RestartContainer`. A memory request is not enforced on the node,
/// so that only its limit counts.
fn requires_restart(
    view: &ContainerView<'_>,
    actual: Option<&ResourceRequirements>,
    wanted: &ResourceRequirements,
) -> bool {
    let empty = ResourceRequirements::default();
    let actual = actual.unwrap_or(&empty);
    let limit = |of: &ResourceRequirements, name: &str| of.limits.as_ref().and_then(|list| list.get(name)).cloned();
    let request = |of: &ResourceRequirements, name: &str| of.requests.as_ref().and_then(|list| list.get(name)).cloned();
    let changes = |name: &str| match name {
        "cpu" => limit(actual, name) != limit(wanted, name) || request(actual, name) != request(wanted, name),
        "memory" => limit(actual, name) != limit(wanted, name),
        _ => false,
    };
    let policies = view.spec.resize_policy.iter().flatten();
    { policies }.any(|policy| policy.restart_policy == "RestartContainer" && changes(&policy.resource_name))
}

fn insert(status: &mut PodStatus, type_: &str, why: Option<(&str, &String)>, generation: Option<i64>, now: Timestamp) {
    status.conditions.get_or_insert_default().push(PodCondition {
        type_: type_.to_owned(),
        status: "True".to_owned(),
        reason: why.map(|(reason, _)| reason.to_owned()),
        message: why.map(|(_, message)| message.clone()),
        last_probe_time: None,
        last_transition_time: Some(Time(now)),
        observed_generation: generation,
    });
}

/// The resources of all containers, as the message of an event lists them.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Summary<'a> {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    init_containers: Vec<ContainerSummary<'a>>,
    containers: Vec<ContainerSummary<'a>>,
    generation: i64,
    #[serde(skip_serializing_if = "str::is_empty")]
    error: &'a str,
}

#[derive(Serialize)]
struct ContainerSummary<'a> {
    name: &'a str,
    resources: ResourceRequirements,
}

/// Returns the event about a resize.
fn event(pod: &Pod, warning: bool, reason: &str, what: &str, error: &str) -> PodEvent {
    let spec = pod.spec.as_ref();
    let summary = Summary {
        init_containers: spec.and_then(|spec| spec.init_containers.as_deref()).map(summaries).unwrap_or_default(),
        containers: spec.map(|spec| summaries(&spec.containers)).unwrap_or_default(),
        generation: pod.metadata.generation.unwrap_or(0),
        error,
    };
    let summary = serde_json::to_string(&summary).unwrap_or_default();
    PodEvent::of_pod(warning, reason, format!("Pod resize {what}: {summary}"))
}

fn summaries(containers: &[Container]) -> Vec<ContainerSummary<'_>> {
    let resources = |container: &Container| container.resources.clone().unwrap_or_default();
    containers
        .iter()
        .map(|container| ContainerSummary { name: &container.name, resources: resources(container) })
        .collect()
}
