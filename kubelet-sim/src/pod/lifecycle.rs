//! The pod life cycle as one pure function: `step` takes what is known of a pod and the present time, and
//! returns its next status, what to tell about it, and when to look again.
//!
//! Corresponds to pkg/kubelet: podWorkers, syncPod, syncTerminatingPod and generateAPIPodStatus. Everything that
//! the next step depends on is in the status, so an agent that starts again goes on where the last one was.
//!
//! ```text
//! bound ─ admit ─▶ Pending ─ sandbox, init containers one by one ─▶ app containers ─▶ Running ─▶ Ready
//!                                                                     │  ▲
//!                                                               exit  ▼  │ back-off
//!                                                          Succeeded │ Failed │ CrashLoopBackOff
//! deletionTimestamp ─▶ SIGTERM, stop time (at most the grace period) ─▶ final status ─▶ delete at the API server
//! ```

use crate::config::Latency;
use crate::pod::conditions::{self, is_terminal};
use crate::pod::container::{self, ContainerView, PodEvent, Progress, is_sidecar};
use crate::pod::script::{Role, Script};
use proto::Kind;
use proto::kinds::api::core::v1::{Container, ContainerStatus, HostIP, Pod, PodIP, PodSpec, PodStatus};
use proto::kinds::jiff::Timestamp;
use proto::kinds::metav1::Time;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

/// The exit code of a process that SIGKILL ended.
const EXIT_KILLED: i32 = 137;

/// What is known of a pod and of the machine it runs on.
pub struct PodView<'a> {
    pub pod: &'a Pod,
    /// The last status that is known: the API server's, or a later one that has just been written.
    pub status: &'a PodStatus,
    pub node_ip: IpAddr,
    /// The address that the sandbox gets. `None`: the node has none to give, so there is no sandbox.
    pub pod_ip: Option<IpAddr>,
    pub has_image: &'a dyn Fn(&str) -> bool,
    pub latency: &'a Latency,
}

/// What follows.
#[derive(Debug)]
pub struct Step {
    pub status: PodStatus,
    pub events: Vec<PodEvent>,
    pub pulled: Vec<String>,
    /// When something is due next, if nothing happens before.
    pub wake_at: Option<Timestamp>,
    /// The pod is being deleted and nothing of it runs any more: it can go.
    pub ended: bool,
}

pub fn step(view: &PodView<'_>, now: Timestamp) -> Step {
    let mut status = view.status.clone();
    let mut progress = Progress::default();
    let deleting = view.pod.is_deleting();
    let mut ended = false;
    if is_terminal(&status) || (deleting && status.start_time.is_none()) {
        ended = deleting;
    } else {
        let machine = PodMachine::new(view);
        machine.admit(&mut status, now);
        if deleting {
            ended = machine.terminate(&mut status, now, &mut progress);
        } else {
            machine.run(&mut status, now, &mut progress);
        }
        status.phase = Some(machine.phase(&status, ended).to_owned());
        status.observed_generation = view.pod.metadata.generation.or(status.observed_generation);
        conditions::refresh(view.pod, &mut status, now);
    }
    if is_terminal(&status) {
        progress.wake_at = None;
    }
    Step { status, events: progress.events, pulled: progress.pulled, wake_at: progress.wake_at, ended }
}

/// A pod's spec, split into what its containers do.
struct PodMachine<'a> {
    view: &'a PodView<'a>,
    spec: &'a PodSpec,
    init: Vec<ContainerView<'a>>,
    apps: Vec<ContainerView<'a>>,
}

impl<'a> PodMachine<'a> {
    fn new(view: &'a PodView<'a>) -> Self {
        static NO_SPEC: std::sync::LazyLock<PodSpec> = std::sync::LazyLock::new(PodSpec::default);
        static NO_ANNOTATIONS: BTreeMap<String, String> = BTreeMap::new();
        let spec = view.pod.spec.as_ref().unwrap_or(&NO_SPEC);
        let annotations = view.pod.metadata.annotations.as_ref().unwrap_or(&NO_ANNOTATIONS);
        let restart_policy = spec.restart_policy.as_deref().unwrap_or("Always");
        let container = |container: &'a Container, role: Role| ContainerView {
            spec: container,
            role,
            restart_policy,
            script: Script::of(container, role, restart_policy, annotations, view.latency),
            image_present: (view.has_image)(container.image.as_deref().unwrap_or_default()),
            pod_uid: view.pod.uid(),
            pod_title: format!("{}_{}({})", view.pod.name(), view.pod.namespace(), view.pod.uid()),
            start_latency: view.latency.container_start,
        };
        let init = spec.init_containers.iter().flatten();
        Self {
            view,
            spec,
            init: init.map(|c| container(c, if is_sidecar(c) { Role::Sidecar } else { Role::Init })).collect(),
            apps: spec.containers.iter().map(|c| container(c, Role::App)).collect(),
        }
    }

    /// The node takes the pod: start time, addresses, a status for each container.
    fn admit(&self, status: &mut PodStatus, now: Timestamp) {
        status.start_time.get_or_insert(Time(now));
        let host_ip = self.view.node_ip.to_string();
        if status.host_ip.is_none() {
            status.host_ip = Some(host_ip.clone());
            status.host_ips = Some(vec![HostIP { ip: host_ip.clone() }]);
        }
        let own = if self.host_network() { Some(host_ip) } else { self.view.pod_ip.map(|ip| ip.to_string()) };
        if let (None, Some(ip)) = (&status.pod_ip, own) {
            status.pod_ip = Some(ip.clone());
            status.pod_ips = Some(vec![PodIP { ip }]);
        }
        let reason = if self.init.is_empty() { "ContainerCreating" } else { "PodInitializing" };
        complete(&mut status.init_container_statuses, &self.init, reason);
        complete(&mut status.container_statuses, &self.apps, reason);
    }

    fn host_network(&self) -> bool {
        self.spec.host_network.unwrap_or(false)
    }

    fn run(&self, status: &mut PodStatus, now: Timestamp, progress: &mut Progress) {
        if status.pod_ip.is_none() {
            return; // no sandbox without an address; the node's next change brings us back
        }
        let start_time = status.start_time.as_ref().map_or(now, |t| t.0);
        if self.past_deadline(start_time, now, progress) {
            return self.fail_at_deadline(status, now, progress);
        }
        let mut init = status.init_container_statuses.take().unwrap_or_default();
        let mut apps = status.container_statuses.take().unwrap_or_default();

        let done = self.apps.iter().zip(&apps).all(|(view, status)| container::is_finished(view, status));
        let mut turn = Some(start_time + self.view.latency.sandbox);
        for (view, status) in self.init.iter().zip(&mut init) {
            if !(done && view.role == Role::Sidecar) {
                container::advance(view, status, turn, now, progress);
            }
            turn = turn.and_then(|turn| turn_after_init(view, status, turn));
        }
        for (view, status) in self.apps.iter().zip(&mut apps) {
            container::advance(view, status, turn, now, progress);
            turn = turn.and_then(|turn| turn_after_app(status, turn));
        }
        // Sidecars serve the app containers; when those have ended for good, they go too.
        let done = self.apps.iter().zip(&apps).all(|(view, status)| container::is_finished(view, status));
        if done || self.init_failed(&init) {
            for (view, status) in self.init.iter().zip(&mut init) {
                container::stop(view, status, now, 0);
            }
        }
        status.init_container_statuses = (!init.is_empty()).then_some(init);
        status.container_statuses = Some(apps);
    }

    fn past_deadline(&self, start_time: Timestamp, now: Timestamp, progress: &mut Progress) -> bool {
        let Some(deadline_s) = self.spec.active_deadline_seconds else { return false };
        let at = start_time + Duration::from_secs(u64::try_from(deadline_s).unwrap_or(0));
        if now < at {
            progress.wake_by(at);
        }
        now >= at
    }

    fn fail_at_deadline(&self, status: &mut PodStatus, now: Timestamp, progress: &mut Progress) {
        for (view, status) in self.with_statuses(status) {
            container::stop(view, status, now, EXIT_KILLED);
        }
        let message = "Pod was active on the node longer than the specified deadline";
        status.reason = Some("DeadlineExceeded".to_owned());
        status.message = Some(message.to_owned());
        progress.events.push(PodEvent {
            warning: false,
            reason: "DeadlineExceeded",
            message: message.to_owned(),
            field_path: String::new(),
            once: "DeadlineExceeded".to_owned(),
        });
    }

    /// Stops what runs; true once nothing does. Sidecars are told to stop when the app containers are gone.
    fn terminate(&self, status: &mut PodStatus, now: Timestamp, progress: &mut Progress) -> bool {
        let metadata = &self.view.pod.metadata;
        let grace =
            Duration::from_secs(u64::try_from(metadata.deletion_grace_period_seconds.unwrap_or(0)).unwrap_or(0));
        let deadline = metadata.deletion_timestamp.as_ref().map_or(now, |t| t.0);
        let asked_at = deadline - grace;
        let mut apps_gone_at = asked_at;
        let (mut sidecars, mut others): (Vec<_>, Vec<_>) =
            self.with_statuses(status).into_iter().partition(|(view, _)| view.role == Role::Sidecar);
        for (view, status) in &mut others {
            apps_gone_at = apps_gone_at.max(stop_gracefully(view, status, asked_at, deadline, now, progress));
        }
        let apps_gone = others.iter().all(|(_, status)| container::running(status).is_none());
        for (view, status) in &mut sidecars {
            if apps_gone {
                stop_gracefully(view, status, apps_gone_at, deadline, now, progress);
            }
        }
        apps_gone && sidecars.iter().all(|(_, status)| container::running(status).is_none())
    }

    /// kubelet's getPhase.
    fn phase(&self, status: &PodStatus, ended: bool) -> &'static str {
        let none = Vec::new();
        let init = status.init_container_statuses.as_ref().unwrap_or(&none);
        let apps = status.container_statuses.as_ref().unwrap_or(&none);
        if status.reason.as_deref() == Some("DeadlineExceeded") || self.init_failed(init) {
            return "Failed";
        }
        let exit = |status: &ContainerStatus| {
            let state = if container::is_waiting(status) { &status.last_state } else { &status.state };
            state.as_ref().and_then(|s| s.terminated.as_ref()).map(|t| t.exit_code)
        };
        let initialized =
            self.init.iter().zip(init).all(|(view, status)| turn_after_init(view, status, NEVER).is_some());
        let started = apps.iter().all(|status| !container::is_waiting(status) || status.last_state.is_some());
        if !started || (!initialized && apps.iter().all(container::is_waiting)) {
            return "Pending";
        }
        if apps.iter().any(|status| container::running(status).is_some()) {
            return "Running";
        }
        let finished = self.apps.iter().zip(apps).all(|(view, status)| container::is_finished(view, status));
        match finished || ended {
            false => "Running",
            true if apps.iter().all(|status| exit(status) == Some(0)) => "Succeeded",
            true => "Failed",
        }
    }

    /// An init container has failed and is not tried again.
    fn init_failed(&self, init: &[ContainerStatus]) -> bool {
        self.init.iter().zip(init).any(|(view, status)| {
            view.role == Role::Init
                && container::is_finished(view, status)
                && container::terminated(status).is_some_and(|exit| exit.exit_code != 0)
        })
    }

    fn with_statuses<'s>(&'s self, status: &'s mut PodStatus) -> Vec<(&'s ContainerView<'a>, &'s mut ContainerStatus)> {
        let init = self.init.iter().zip(status.init_container_statuses.iter_mut().flatten());
        let apps = self.apps.iter().zip(status.container_statuses.iter_mut().flatten());
        init.chain(apps).collect()
    }
}

/// Where a moment is asked for but only its being there matters.
const NEVER: Timestamp = Timestamp::MAX;

/// One status per container, in the order of the spec; those that are there stay as they are.
fn complete(statuses: &mut Option<Vec<ContainerStatus>>, views: &[ContainerView<'_>], reason: &str) {
    let mut known = statuses.take().unwrap_or_default();
    let status_of = |view: &ContainerView<'_>| match known.iter().position(|s| s.name == view.spec.name) {
        Some(at) => known.swap_remove(at),
        None => ContainerStatus {
            name: view.spec.name.clone(),
            image: view.spec.image.clone().unwrap_or_default(),
            state: Some(container::waiting(reason, None)),
            started: Some(false),
            ..Default::default()
        },
    };
    let all: Vec<_> = views.iter().map(status_of).collect();
    *statuses = (!all.is_empty()).then_some(all);
}

/// When the container after this init container may start: when this one has done its work, or as a sidecar has started.
fn turn_after_init(view: &ContainerView<'_>, status: &ContainerStatus, turn: Timestamp) -> Option<Timestamp> {
    if view.role == Role::Sidecar {
        let restarting = status.last_state.is_some() || container::terminated(status).is_some();
        return match container::running(status) {
            Some(started_at) if status.started == Some(true) => Some(turn.max(started_at + view.script.started_after)),
            // A sidecar that crashes later holds nobody up.
            _ if restarting => Some(turn),
            _ => None,
        };
    }
    let exit = container::terminated(status).filter(|exit| exit.exit_code == 0)?;
    Some(exit.finished_at.as_ref().map_or(turn, |t| t.0.max(turn)))
}

/// App containers start one after another; one that cannot start holds nobody up.
fn turn_after_app(status: &ContainerStatus, turn: Timestamp) -> Option<Timestamp> {
    let reason = status.state.as_ref().and_then(|s| s.waiting.as_ref()).and_then(|w| w.reason.as_deref());
    match container::running(status) {
        Some(started_at) => Some(turn.max(started_at)),
        None if matches!(reason, Some("ContainerCreating" | "PodInitializing")) && status.last_state.is_none() => None,
        None => Some(turn),
    }
}

/// SIGTERM at `asked_at`, SIGKILL at `deadline`; returns when the process is gone.
fn stop_gracefully(
    view: &ContainerView<'_>,
    status: &mut ContainerStatus,
    asked_at: Timestamp,
    deadline: Timestamp,
    now: Timestamp,
    progress: &mut Progress,
) -> Timestamp {
    if container::running(status).is_none() {
        return container::terminated(status).and_then(|t| t.finished_at.as_ref()).map_or(asked_at, |t| t.0);
    }
    container::tell_killing(view, status, progress);
    let by_itself = asked_at + view.script.stop_time;
    let (at, exit_code) = if by_itself <= deadline { (by_itself, 0) } else { (deadline, EXIT_KILLED) };
    if now >= at {
        container::stop(view, status, at, exit_code);
    } else {
        progress.wake_by(at);
    }
    at
}

#[cfg(test)]
mod tests;
