//! Syncs one pod: observes it, lets `lifecycle::step` decide, and writes the result.
//!
//! Corresponds to pkg/kubelet.syncPod and to status.Manager.syncPod.

use crate::config::Latency;
use crate::fleet::row::NodeRow;
use crate::node;
use crate::pod::conditions;
use crate::pod::lifecycle::{self, PodStep, PodView};
use crate::pod::memory::PodMemory;
use crate::pod::patch::status_patch;
use client::{DeleteOptions, Error, EventType, Patch, PatchOptions, Regarding};
use component_base::env::Env;
use proto::Kind;
use proto::kinds::api::core::v1::{Node, Pod, PodStatus};
use proto::kinds::jiff::Timestamp;
use serde_json::Value;
use std::time::Duration;

/// Takes the step that is due; returns the time until the next one.
pub async fn sync(
    row: &NodeRow,
    node: &Node,
    pod: &Pod,
    memory: &PodMemory,
    latency: &Latency,
    env: &Env,
) -> Result<Option<Duration>, Error> {
    let (status, caught_up) = memory.status_of(pod);
    let now = env.wall();
    let step = decide(row, node, pod, &status, latency, now);
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

fn decide(row: &NodeRow, node: &Node, pod: &Pod, status: &PodStatus, latency: &Latency, now: Timestamp) -> PodStep {
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
    lifecycle::step(&PodView { pod, status, node_ips: &node_ips, sandbox, has_image: &has_image, latency }, now)
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
