//! Syncs one pod: observes it, lets `lifecycle::step` decide, and writes the result.
//!
//! Corresponds to pkg/kubelet.syncPod and to status.Manager.syncPod.

use crate::config::Latency;
use crate::fleet::objects::ObjectCache;
use crate::fleet::row::NodeRow;
use crate::node;
use crate::pod::conditions;
use crate::pod::container::start::CONFIG_ERROR;
use crate::pod::lifecycle::{self, PodStep, PodView};
use crate::pod::memory::PodMemory;
use crate::pod::needs::references::{Objects, references};
use crate::pod::notes::{Mounts, Notes};
use crate::pod::patch::status_patch;
use crate::pod::progress::ProbeCounts;
use crate::pod::resize;
use crate::pod::state;
use client::{DeleteOptions, Error, EventType, Patch, PatchOptions, Regarding};
use component_base::env::Env;
use proto::Kind;
use proto::kinds::api::core::v1::{ContainerStatus, Node, Pod, PodStatus};
use proto::kinds::jiff::Timestamp;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

/// What a sync uses of the fleet.
pub struct Shared<'a> {
    pub memory: &'a PodMemory,
    pub objects: &'a ObjectCache,
    pub latency: &'a Latency,
    pub env: &'a Env,
}

/// Takes the step that is due; returns the time until the next one.
pub async fn sync(row: &NodeRow, node: &Node, pod: &Pod, shared: &Shared<'_>) -> Result<Option<Duration>, Error> {
    let Shared { memory, env, .. } = *shared;
    let (status, caught_up) = memory.status_of(pod);
    let objects = match may_start(pod, &status) {
        true => {
            let needed = pod.spec.as_ref().map(references).unwrap_or_default();
            let since = read_since(pod, &status, memory, env.wall());
            shared.objects.read(&row.client, env, pod.namespace(), needed, since).await
        }
        false => Objects::default(),
    };
    let now = env.wall();
    let step = decide(row, node, pod, &status, &objects, shared, now);
    memory.set_notes(pod, step.notes.clone());
    for image in &step.pulled {
        row.add_image(image);
    }
    write_status(row, pod, &status, &step, memory).await?;
    record_events(row, pod, &step, memory);
    if conditions::is_terminal(&step.status) {
        row.release(pod.uid()); // the sandbox is removed, and its address is free
    }
    if step.ended {
        delete(row, pod).await?;
    } else if step.wake_at.is_none() && caught_up {
        memory.forget(&pod.key()); // nothing is due: the stored status says enough
    }
    Ok(step.wake_at.map(|at| Duration::try_from(at.duration_since(now)).unwrap_or(Duration::ZERO)))
}

/// True when a container of the pod may start at its next step, so that what it refers to is needed.
fn may_start(pod: &Pod, status: &PodStatus) -> bool {
    let lists = [&status.init_container_statuses, &status.container_statuses, &status.ephemeral_container_statuses];
    let known = lists.iter().map(|list| list.as_ref().map_or(0, Vec::len)).sum::<usize>();
    let spec = pod.spec.as_ref();
    let ephemeral = spec.and_then(|spec| spec.ephemeral_containers.as_ref()).map_or(0, Vec::len);
    let init = spec.and_then(|spec| spec.init_containers.as_ref()).map_or(0, Vec::len);
    let all = spec.map_or(0, |spec| spec.containers.len()) + init + ephemeral;
    let runs = |status: &ContainerStatus| state::running(status).is_some();
    let some_wait = known < all || !lists.into_iter().flatten().flatten().all(runs);
    some_wait && !pod.is_deleting() && !conditions::is_terminal(status)
}

/// Returns the time since which the objects must have been read that a pod refers to: its creation, or the present if
/// one of them holds it back.
fn read_since(pod: &Pod, status: &PodStatus, memory: &PodMemory, now: Timestamp) -> Timestamp {
    let lists = [&status.init_container_statuses, &status.container_statuses, &status.ephemeral_container_statuses];
    let mut statuses = lists.into_iter().flatten().flatten();
    let is_held_back = memory.notes_of(pod).mounts == Mounts::Failing
        || statuses.any(|status| state::waiting_reason(status) == Some(CONFIG_ERROR));
    let created = pod.metadata.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |created| created.0);
    if is_held_back { now } else { created }
}

fn decide(
    row: &NodeRow,
    node: &Node,
    pod: &Pod,
    status: &PodStatus,
    objects: &Objects,
    shared: &Shared<'_>,
    now: Timestamp,
) -> PodStep {
    let is_new = status.start_time.is_none() && !pod.is_deleting() && !conditions::is_terminal(status);
    if let (true, Err(rejection)) = (is_new, row.admit(pod, node)) {
        return lifecycle::reject(pod, status, &rejection, now);
    }
    let sandbox = row.sandbox(pod, status);
    let has_image = |image: &str| row.has_image(image);
    let mut node_ips = node::internal_ips(node);
    if node_ips.is_empty() {
        node_ips.push(row.machine.address.into());
    }
    let (notes, latency) = (shared.memory.notes_of(pod), shared.latency);
    let resize = resize::is_undecided(pod, status).then(|| row.resize(pod));
    let node_ips = &node_ips;
    lifecycle::step(
        &PodView { pod, status, node_ips, sandbox, has_image: &has_image, objects, notes, resize, latency },
        now,
    )
}

/// Returns the probes that a pod has had, by taking its next step and writing nothing of it.
pub fn observe_probes(
    row: &NodeRow,
    pod: &Pod,
    status: &PodStatus,
    latency: &Latency,
    now: Timestamp,
) -> BTreeMap<(String, &'static str), ProbeCounts> {
    if status.start_time.is_none() {
        return BTreeMap::new();
    }
    let sandbox = row.known_sandbox(pod, status);
    let (objects, notes) = (&Objects::default(), Notes::default());
    let view =
        PodView { pod, status, node_ips: &[], sandbox, has_image: &|_| false, objects, notes, resize: None, latency };
    lifecycle::step(&view, now).probes
}

async fn write_status(
    row: &NodeRow,
    pod: &Pod,
    known: &PodStatus,
    step: &PodStep,
    memory: &PodMemory,
) -> Result<(), Error> {
    let json = |status: &PodStatus| serde_json::to_value(status).unwrap_or(Value::Null);
    let Some(patch) = status_patch(pod.uid(), &json(known), &json(&step.status)) else { return Ok(()) };
    let pods = row.client.api::<Pod>(pod.namespace());
    match pods.patch_status(pod.name(), &Patch::Strategic(patch), &PatchOptions::default()).await {
        Ok(written) => memory.wrote(&written, step.status.clone()),
        // The pod was deleted, or replaced by one of the same name: the cache will show it.
        Err(error) if error.is_not_found() || error.is_conflict() => memory.forget(&pod.key()),
        Err(error) => return Err(error),
    }
    Ok(())
}

fn record_events(row: &NodeRow, pod: &Pod, step: &PodStep, memory: &PodMemory) {
    for event in memory.unrecorded(pod, step.events.clone()) {
        let kind = if event.warning { EventType::Warning } else { EventType::Normal };
        let regarding = Regarding { field_path: event.field_path, ..Regarding::of(pod) };
        row.recorder.event(&regarding, kind, event.reason, &event.message);
    }
}

/// Deletes the pod without grace. A pod with finalizers stays until their owners have removed them.
async fn delete(row: &NodeRow, pod: &Pod) -> Result<(), Error> {
    let finalizers = pod.metadata.finalizers.as_ref().is_some_and(|f| !f.is_empty());
    if finalizers && pod.metadata.deletion_grace_period_seconds == Some(0) {
        return Ok(());
    }
    let options = DeleteOptions { grace_period_s: Some(0), ..DeleteOptions::with_uid(pod.uid()) };
    match row.client.api::<Pod>(pod.namespace()).delete(pod.name(), &options).await {
        Err(error) if error.is_not_found() || error.is_conflict() => Ok(()),
        other => other,
    }
}
