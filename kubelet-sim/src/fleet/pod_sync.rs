//! Syncs one pod: observes it, lets `lifecycle::step` decide, and writes the result.
//!
//! Corresponds to pkg/kubelet.syncPod and to status.Manager.syncPod.

use crate::config::Latency;
use crate::fleet::kubelet::SimulatedKubelet;
use crate::fleet::{pod_volumes, runtime_class};
use crate::node;
use crate::objects::ObjectCache;
use crate::runtime::container::NodeContext;
use crate::runtime::hooks::{self, Moment};
use crate::runtime::live;
use client::{DeleteOptions, Error, EventSpec, EventType, Patch, PatchOptions, Regarding};
use component_base::env::Env;
use pod_life::admission::Verdict;
use pod_life::conditions;
use pod_life::container::restart::is_restarted;
use pod_life::container::start::CONFIG_ERROR;
use pod_life::image_pulls::{PlannedPull, PullRequest};
use pod_life::lifecycle::{self, PodStep, PodView, Sandbox};
use pod_life::live::Live;
use pod_life::memory::PodMemory;
use pod_life::needs::device_claims::DeviceClaims;
use pod_life::needs::references::{Objects, references};
use pod_life::notes::{Mounts, Notes};
use pod_life::patch::status_patch;
use pod_life::progress::{PodEvent, ProbeCounts};
use pod_life::resize;
use pod_life::state;
use pod_life::story::ContainerKind;
use proto::Kind;
use proto::kinds::api::core::v1::{ContainerStatus, Node, Pod, PodSpec, PodStatus};
use proto::kinds::jiff::Timestamp;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// What a sync uses of the fleet.
pub struct Shared<'a> {
    pub memory: &'a PodMemory,
    pub objects: &'a ObjectCache,
    /// What the node has for the processes of its containers.
    pub context: NodeContext<'a>,
    pub latency: &'a Latency,
    pub env: &'a Env,
    /// Ends a pod of the node, given by namespace and name, so that a critical one has room.
    pub preempt: &'a (dyn Fn(&str) + Sync),
}

/// How often a critical pod looks whether others have made room.
pub const PREEMPTION_POLL: Duration = Duration::from_secs(1);

/// A pod whose status could not be written, or which could not be deleted. Its containers go on all the same.
pub struct Unreported {
    pub error: Error,
    /// The time until the next step.
    pub next: Option<Duration>,
}

/// Takes the step that is due and writes it; returns the time until the next one.
pub async fn sync(
    kubelet: &SimulatedKubelet,
    node: &Node,
    pod: &Arc<Pod>,
    shared: &Shared<'_>,
) -> Result<Option<Duration>, Unreported> {
    let Shared { memory, env, .. } = *shared;
    let (status, _) = memory.status_of(pod);
    let Some(step) = take_step(kubelet, node, pod, &status, shared).await else { return Ok(Some(PREEMPTION_POLL)) };
    let unreported = |error| Unreported { error, next: until_next(&step, kubelet.power.wall(env)) };
    let written = write_status(kubelet, pod, &step, memory).await;
    let stopping = match &written {
        Err(_) if !kubelet.power.link().is_cut() => {
            let new = memory.unrecorded(pod, step.events.clone());
            let stopping = stopped_by(&new);
            memory.hold_events(pod, new, env.wall());
            stopping
        }
        _ => record_events(kubelet, pod, &step, memory),
    };
    run_hooks(&shared.context, pod, (&status, &step.status), &stopping).await;
    // The address of a removed sandbox is free once others can see that it is.
    written.map_err(unreported)?;
    if conditions::is_terminal(&step.status) {
        kubelet.release(pod.uid());
    }
    if step.ended {
        delete(kubelet, pod).await.map_err(unreported)?;
    } else if step.wake_at.is_none() && memory.status_of(pod).1 && !memory.is_being_terminated(pod) {
        // Nothing is due, and the cache has what was written: the stored status says enough.
        memory.forget(&pod.key());
    }
    Ok(until_next(&step, kubelet.power.wall(env)))
}

/// Returns the time until a pod's next step is due.
pub fn until_next(step: &PodStep, now: Timestamp) -> Option<Duration> {
    step.wake_at.map(|at| Duration::try_from(at.duration_since(now)).unwrap_or(Duration::ZERO))
}

/// Observes a pod and takes the step that is due; `None` while it waits until other pods have made room.
pub async fn take_step(
    kubelet: &SimulatedKubelet,
    node: &Node,
    pod: &Arc<Pod>,
    status: &PodStatus,
    shared: &Shared<'_>,
) -> Option<PodStep> {
    let Shared { memory, env, .. } = *shared;
    let objects = match may_start(pod, status) {
        true => read_objects(kubelet, node, pod, status, shared).await,
        false => Objects::default(),
    };
    pod_volumes::remember(kubelet, node, pod, status).await;
    let runtime_error = runtime_class::error(kubelet, pod, status).await;
    let live = live::observe(&shared.context, pod, status).await;
    let now = kubelet.power.wall(env);
    let is_new = status.start_time.is_none() && !pod.is_deleting() && !conditions::is_terminal(status);
    let verdict = if is_new { kubelet.admit(pod, node) } else { Verdict::Admitted };
    let step = match verdict {
        Verdict::Admitted => {
            let known = Known { status, objects: &objects, live: &live, runtime_error };
            decide(kubelet, node, pod, known, shared, now)
        }
        Verdict::Rejected(rejection) => lifecycle::reject(pod, status, &rejection, now),
        Verdict::WaitsFor(others) => {
            others.iter().for_each(|key| (shared.preempt)(key));
            return None;
        }
    };
    memory.set_notes(pod, step.notes.clone());
    for image in &step.pulled {
        kubelet.add_image(image, now);
    }
    Some(step)
}

/// Reads what a pod refers to.
async fn read_objects(
    kubelet: &SimulatedKubelet,
    node: &Node,
    pod: &Pod,
    status: &PodStatus,
    shared: &Shared<'_>,
) -> Objects {
    let needed = pod.spec.as_ref().map(references).unwrap_or_default();
    let since = read_since(pod, status, shared.memory, shared.env.wall());
    let mut objects = shared.objects.read(&kubelet.client, shared.env, pod.namespace(), needed, since).await;
    if conditions::has_sandbox(status) {
        return objects;
    }
    objects.claims = pod_volumes::read(kubelet, node, pod).await;
    objects.device_claims = DeviceClaims {
        read: ObjectCache::read_device_claims(&kubelet.client, pod, status).await,
        drivers: kubelet.machine.drivers().map(str::to_owned).collect(),
    };
    for (claim, read) in &objects.claims {
        if let Some(volume) = &read.volume {
            shared.context.runtime.record_claim(pod.namespace(), claim, volume);
        }
    }
    objects
}

/// True when a container of the pod may start at its next step, so that what it refers to is needed.
fn may_start(pod: &Pod, status: &PodStatus) -> bool {
    let Some(spec) = &pod.spec else { return false };
    let specified = spec.containers.len()
        + spec.init_containers.as_ref().map_or(0, Vec::len)
        + spec.ephemeral_containers.as_ref().map_or(0, Vec::len);
    let lists = [&status.init_container_statuses, &status.container_statuses, &status.ephemeral_container_statuses];
    let known: Vec<&ContainerStatus> = lists.into_iter().flatten().flatten().collect();
    let rests = |status: &&ContainerStatus| state::running(status).is_some() || has_done(spec, status);
    let some_wait = known.len() < specified || !known.iter().all(rests);
    some_wait && !pod.is_deleting() && !conditions::is_terminal(status)
}

/// True when a container has ended for good.
fn has_done(spec: &PodSpec, status: &ContainerStatus) -> bool {
    let Some(exit) = state::terminated(status) else { return false };
    let init = spec.init_containers.iter().flatten().map(|container| match container.restart_policy.as_deref() {
        Some("Always") => (ContainerKind::Sidecar, container),
        _ => (ContainerKind::Init, container),
    });
    let apps = spec.containers.iter().map(|container| (ContainerKind::App, container));
    let found = init.chain(apps).find(|(_, container)| container.name == status.name);
    let of_pod = spec.restart_policy.as_deref();
    // All others are ephemeral.
    found.is_none_or(|(kind, container)| !is_restarted(kind, container, of_pod, exit.exit_code))
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

/// What a step depends on besides the pod, its node and the time.
struct Known<'a> {
    status: &'a PodStatus,
    objects: &'a Objects,
    live: &'a BTreeMap<String, Live>,
    /// Why no container runtime makes the sandbox.
    runtime_error: Option<String>,
}

fn decide(
    kubelet: &SimulatedKubelet,
    node: &Node,
    pod: &Pod,
    known: Known<'_>,
    shared: &Shared<'_>,
    now: Timestamp,
) -> PodStep {
    let Known { status, objects, live, runtime_error } = known;
    let sandbox = match runtime_error {
        Some(message) if !pod.is_deleting() => Sandbox::Impossible { reason: "FailedCreatePodSandBox", message },
        _ => kubelet.sandbox(pod, status),
    };
    let has_image = |image: &str| kubelet.has_image(image);
    let plan_pull = |request: &PullRequest<'_>| kubelet.plan_pull(request, now);
    let mut node_ips = node::internal_ips(node);
    if node_ips.is_empty() {
        node_ips.push(kubelet.machine.address.into());
    }
    let (notes, latency) = (shared.memory.notes_of(pod), shared.latency);
    let resize = resize::is_undecided(pod, status).then(|| kubelet.resize(pod));
    let node_ips = &node_ips;
    lifecycle::step(
        &PodView {
            pod,
            status,
            node_ips,
            sandbox,
            has_image: &has_image,
            plan_pull: &plan_pull,
            objects,
            notes,
            live,
            resize,
            latency,
        },
        now,
    )
}

/// Returns the probes that a pod has had, by taking its next step and writing nothing of it.
pub fn observe_probes(
    kubelet: &SimulatedKubelet,
    pod: &Pod,
    status: &PodStatus,
    latency: &Latency,
    now: Timestamp,
) -> BTreeMap<(String, &'static str), ProbeCounts> {
    if status.start_time.is_none() {
        return BTreeMap::new();
    }
    let sandbox = kubelet.known_sandbox(pod, status);
    let (objects, notes, live) = (&Objects::default(), Notes::default(), &BTreeMap::new());
    let view = PodView {
        pod,
        status,
        node_ips: &[],
        sandbox,
        has_image: &|_| false,
        plan_pull: &PlannedPull::at_once,
        objects,
        notes,
        live,
        resize: None,
        latency,
    };
    lifecycle::step(&view, now).probes
}

/// Writes what the API server does not have of a step's status, or remembers the status when that fails.
async fn write_status(kubelet: &SimulatedKubelet, pod: &Pod, step: &PodStep, memory: &PodMemory) -> Result<(), Error> {
    let json = |status: &PodStatus| serde_json::to_value(status).unwrap_or(Value::Null);
    let (stored, _) = memory.stored_of(pod);
    let Some(patch) = status_patch(pod.uid(), &json(&stored), &json(&step.status)) else {
        memory.drop_unwritten(pod);
        return Ok(());
    };
    let pods = kubelet.client.api::<Pod>(pod.namespace());
    match pods.patch_status(pod.name(), &Patch::Strategic(patch), &PatchOptions::default()).await {
        Ok(written) => memory.wrote(&written, step.status.clone()),
        // The pod was deleted, or replaced by one of the same name: the cache will show it.
        Err(error) if error.is_not_found() || error.is_conflict() => memory.forget(&pod.key()),
        Err(error) => {
            memory.keep_unwritten(pod, step.status.clone());
            return Err(error);
        }
    }
    Ok(())
}

/// Records the events of a step that were not recorded before. Returns the names of the containers that it begins to
/// stop.
pub fn record_events(kubelet: &SimulatedKubelet, pod: &Pod, step: &PodStep, memory: &PodMemory) -> Vec<String> {
    let spec = |event: PodEvent| {
        let kind = if event.warning { EventType::Warning } else { EventType::Normal };
        let regarding = Regarding { field_path: event.field_path, ..Regarding::of(pod) };
        EventSpec::new(&regarding, kind, event.reason, event.message)
    };
    for (event, at) in memory.take_held(pod) {
        kubelet.recorder.record_at(spec(event), at);
    }
    let new = memory.unrecorded(pod, step.events.clone());
    let stopping = stopped_by(&new);
    new.into_iter().for_each(|event| kubelet.recorder.record(spec(event)));
    stopping
}

/// Returns the names of the containers that `Killing` events are about.
fn stopped_by(events: &[PodEvent]) -> Vec<String> {
    let container = |event: &PodEvent| {
        let (_, name) = event.field_path.split_once('{').filter(|_| event.reason == "Killing")?;
        Some(name.trim_end_matches('}').to_owned())
    };
    events.iter().filter_map(container).collect()
}

/// Runs the hooks of the containers that a step has started or begins to stop.
pub async fn run_hooks(
    node: &NodeContext<'_>,
    pod: &Arc<Pod>,
    (before, after): (&PodStatus, &PodStatus),
    stopping: &[String],
) {
    let Some(spec) = &pod.spec else { return };
    let all = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    let with_hooks: Vec<&str> = all.filter(|c| c.lifecycle.is_some()).map(|c| c.name.as_str()).collect();
    for name in with_hooks {
        let run = |status: &PodStatus| {
            let lists = [&status.init_container_statuses, &status.container_statuses];
            let found = lists.into_iter().flatten().flatten().find(|status| status.name == name)?;
            state::running(found).map(|_| found.restart_count)
        };
        if run(after).is_some() && run(after) != run(before) {
            hooks::run(node, pod, after, name, Moment::PostStart).await;
        }
        if stopping.iter().any(|stopped| stopped == name) {
            hooks::run(node, pod, before, name, Moment::PreStop).await;
        }
    }
}

/// Deletes the pod without grace. A pod with finalizers stays until their owners have removed them.
async fn delete(kubelet: &SimulatedKubelet, pod: &Pod) -> Result<(), Error> {
    let finalizers = pod.metadata.finalizers.as_ref().is_some_and(|f| !f.is_empty());
    if finalizers && pod.metadata.deletion_grace_period_seconds == Some(0) {
        return Ok(());
    }
    let options = DeleteOptions { grace_period_s: Some(0), ..DeleteOptions::with_uid(pod.uid()) };
    match kubelet.client.api::<Pod>(pod.namespace()).delete(pod.name(), &options).await {
        Err(error) if error.is_not_found() || error.is_conflict() => Ok(()),
        other => other,
    }
}
