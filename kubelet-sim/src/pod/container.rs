//! One container's life: waiting, running, terminated, waiting again.
//!
//! Corresponds to pkg/kubelet/kuberuntime: startContainer, killContainer and doBackOff. Pure: from a status and
//! the present time to the next status.

use crate::images;
use crate::pod::script::{Role, Script};
use component_base::duration::format_duration;
use proto::kinds::api::core::v1::{
    Container, ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting, ContainerStatus,
};
use proto::kinds::jiff::Timestamp;
use proto::kinds::metav1::Time;
use std::time::Duration;

/// kubelet's MaxCrashLoopBackOff.
const BACK_OFF_MAX: Duration = Duration::from_secs(300);
/// kubelet's initial crash-loop back-off, doubled by every further crash.
const BACK_OFF_INITIAL: Duration = Duration::from_secs(10);
/// A run this long clears the back-off: twice the maximum, as in client-go's flowcontrol.Backoff.
const BACK_OFF_RESET: Duration = Duration::from_secs(600);

/// An init container that goes on running beside the containers.
pub fn is_sidecar(init_container: &Container) -> bool {
    init_container.restart_policy.as_deref() == Some("Always")
}

/// What a step tells about a pod. `once` names the occurrence, so that a step that is taken again tells it once.
#[derive(Clone, Debug, PartialEq)]
pub struct PodEvent {
    pub warning: bool,
    pub reason: &'static str,
    pub message: String,
    /// `spec.containers{web}`; empty for the pod as a whole.
    pub field_path: String,
    pub once: String,
}

/// What `advance` needs to know of a container besides its status.
#[derive(Debug)]
pub struct ContainerView<'a> {
    pub spec: &'a Container,
    pub role: Role,
    /// The pod's.
    pub restart_policy: &'a str,
    pub script: Script,
    pub image_present: bool,
    pub pod_uid: &'a str,
    /// `web-1_default(uid)`, as kubelet's messages name a pod.
    pub pod_title: String,
    /// From creating a container to its process running.
    pub start_latency: Duration,
}

/// What several containers' steps add up to.
#[derive(Debug, Default)]
pub struct Progress {
    pub events: Vec<PodEvent>,
    pub wake_at: Option<Timestamp>,
    /// Images that have been pulled onto the node.
    pub pulled: Vec<String>,
}

impl Progress {
    pub fn wake_by(&mut self, at: Timestamp) {
        self.wake_at = Some(self.wake_at.map_or(at, |other| other.min(at)));
    }

    fn tell(&mut self, view: &ContainerView<'_>, run: i32, warning: bool, reason: &'static str, message: String) {
        let list = if view.role == Role::App { "containers" } else { "initContainers" };
        let field_path = format!("spec.{list}{{{}}}", view.spec.name);
        let once = format!("{reason}/{field_path}/{run}/{message}");
        self.events.push(PodEvent { warning, reason, message, field_path, once });
    }
}

/// Takes the transitions that are due at `now`. `turn` is the moment from which the container may start;
/// `None` while others have to go first.
pub fn advance(
    view: &ContainerView<'_>,
    status: &mut ContainerStatus,
    turn: Option<Timestamp>,
    now: Timestamp,
    progress: &mut Progress,
) {
    if let Some(running) = running(status) {
        keep_running(view, status, running, now, progress);
    }
    if let Some(terminated) = terminated(status).cloned() {
        after_exit(view, status, terminated, now, progress);
    }
    if let (true, Some(turn)) = (is_waiting(status), turn) {
        start_when_due(view, status, turn, now, progress);
    }
}

/// The process has exited by itself: because it was told to or because its script ends.
pub fn stop(view: &ContainerView<'_>, status: &mut ContainerStatus, at: Timestamp, exit_code: i32) {
    let Some(started_at) = running(status) else { return };
    status.state = Some(ContainerState {
        terminated: Some(ContainerStateTerminated {
            container_id: status.container_id.clone(),
            exit_code,
            reason: Some(if exit_code == 0 { "Completed" } else { "Error" }.to_owned()),
            started_at: Some(Time(started_at)),
            finished_at: Some(Time(at.max(started_at))),
            ..Default::default()
        }),
        ..Default::default()
    });
    status.started = Some(false);
    // An init container that has done its work counts as ready.
    status.ready = view.role == Role::Init && exit_code == 0;
}

/// Tells that the container is being stopped.
pub fn tell_killing(view: &ContainerView<'_>, status: &ContainerStatus, progress: &mut Progress) {
    let message = format!("Stopping container {}", view.spec.name);
    progress.tell(view, status.restart_count, false, "Killing", message);
}

fn keep_running(
    view: &ContainerView<'_>,
    status: &mut ContainerStatus,
    started_at: Timestamp,
    now: Timestamp,
    progress: &mut Progress,
) {
    if let Some(run_for) = view.script.run_for {
        let exit_at = started_at + run_for;
        if now >= exit_at {
            return stop(view, status, exit_at, view.script.exit_code(status.restart_count));
        }
        progress.wake_by(exit_at);
    }
    let mut reached = |after: Option<Duration>| {
        let Some(at) = after.map(|after| started_at + after) else { return false };
        if now < at {
            progress.wake_by(at);
        }
        now >= at
    };
    status.started = Some(reached(Some(view.script.started_after)));
    // Init containers have no readiness of their own while they run.
    status.ready = view.role != Role::Init && reached(view.script.ready_after);
}

fn after_exit(
    view: &ContainerView<'_>,
    status: &mut ContainerStatus,
    exit: ContainerStateTerminated,
    now: Timestamp,
    progress: &mut Progress,
) {
    if !restarts(view, exit.exit_code) {
        return;
    }
    let delay = back_off(&exit, status.restart_count);
    let finished_at = exit.finished_at.as_ref().map_or(now, |t| t.0);
    let exited = status.clone();
    status.last_state = Some(ContainerState { terminated: Some(exit), ..Default::default() });
    if delay.is_zero() {
        // Started again at once; until it runs, the exit is what there is to see.
        status.state = Some(waiting("", None));
        start_when_due(view, status, finished_at, now, progress);
        if status.state.as_ref().and_then(|s| s.waiting.as_ref()).is_some_and(|w| w.reason.as_deref() == Some("")) {
            *status = exited;
        }
        return;
    }
    let (name, pod) = (&view.spec.name, &view.pod_title);
    let message = format!("back-off {} restarting failed container={name} pod={pod}", format_duration(delay));
    status.state = Some(waiting("CrashLoopBackOff", Some(message)));
    status.ready = false;
    if now < finished_at + delay {
        let message = format!("Back-off restarting failed container {name} in pod {pod}");
        progress.tell(view, status.restart_count, true, "BackOff", message);
    }
}

/// Pulls what is missing and starts the container, once the time for both has passed.
fn start_when_due(
    view: &ContainerView<'_>,
    status: &mut ContainerStatus,
    turn: Timestamp,
    now: Timestamp,
    progress: &mut Progress,
) {
    let image = view.spec.image.as_deref().unwrap_or_default();
    let last_exit = status.last_state.as_ref().and_then(|s| s.terminated.as_ref());
    let run = status.restart_count + i32::from(last_exit.is_some());
    let turn = match last_exit {
        Some(exit) => {
            let finished_at = exit.finished_at.as_ref().map_or(now, |t| t.0);
            turn.max(finished_at + back_off(exit, status.restart_count))
        }
        None => turn,
    };
    if now < turn {
        return progress.wake_by(turn);
    }
    let pull = pull_of(view);
    if let Pull::Impossible { reason, error } = &pull {
        let message = format!("Back-off pulling image {image:?}: ErrImagePull: {error}");
        let (state, message) = match *reason {
            "ErrImageNeverPull" => (*reason, error.clone()),
            _ => ("ImagePullBackOff", message),
        };
        if *reason == "ErrImageNeverPull" {
            progress.tell(view, run, true, "ErrImageNeverPull", error.clone());
        } else {
            progress.tell(view, run, false, "Pulling", format!("Pulling image {image:?}"));
            progress.tell(view, run, true, "Failed", format!("Failed to pull image {image:?}: {error}"));
            progress.tell(view, run, false, "BackOff", format!("Back-off pulling image {image:?}"));
        }
        progress.tell(view, run, true, "Failed", format!("Error: {state}"));
        status.state = Some(waiting(state, Some(message)));
        return;
    }
    let pull_time = if let Pull::Takes(time) = pull { time } else { Duration::ZERO };
    if !pull_time.is_zero() {
        progress.tell(view, run, false, "Pulling", format!("Pulling image {image:?}"));
    }
    let due = turn + pull_time + view.start_latency;
    if now < due {
        return progress.wake_by(due);
    }
    start(view, status, run, pull_time, now, progress);
}

fn start(
    view: &ContainerView<'_>,
    status: &mut ContainerStatus,
    run: i32,
    pull_time: Duration,
    now: Timestamp,
    progress: &mut Progress,
) {
    let image = view.spec.image.as_deref().unwrap_or_default();
    let pulled = if pull_time.is_zero() {
        format!("Container image {image:?} already present on machine and can be accessed by the pod")
    } else {
        progress.pulled.push(image.to_owned());
        let (took, size) = (format_duration(pull_time), images::size_bytes(image));
        format!("Successfully pulled image {image:?} in {took} ({took} including waiting). Image size: {size} bytes.")
    };
    progress.tell(view, run, false, "Pulled", pulled);
    progress.tell(view, run, false, "Created", "Container created".to_owned());
    progress.tell(view, run, false, "Started", "Container started".to_owned());
    status.restart_count = run;
    status.container_id = Some(container_id(view.pod_uid, &view.spec.name, run));
    status.image = images::canonical(image);
    status.image_id = images::id(image);
    status.state = Some(ContainerState {
        running: Some(ContainerStateRunning { started_at: Some(Time(now)) }),
        ..Default::default()
    });
    keep_running(view, status, now, now, progress);
}

/// Runtimes draw identifiers at random; ours follow from the pod's uid, which already is random, so that the
/// same container has the same identifier however often the step that starts it is taken.
fn container_id(pod_uid: &str, name: &str, run: i32) -> String {
    format!("containerd://{}", images::fingerprint(&["container", pod_uid, name, &run.to_string()]))
}

enum Pull {
    Takes(Duration),
    Present,
    Impossible { reason: &'static str, error: String },
}

fn pull_of(view: &ContainerView<'_>) -> Pull {
    let image = view.spec.image.as_deref().unwrap_or_default();
    let policy = view.spec.image_pull_policy.as_deref().unwrap_or("IfNotPresent");
    match (policy, view.image_present, &view.script.pull_error) {
        ("Never", false, _) => Pull::Impossible {
            reason: "ErrImageNeverPull",
            error: format!("Container image {image:?} is not present with pull policy of Never"),
        },
        ("Never" | "IfNotPresent", true, _) => Pull::Present,
        (_, _, Some(error)) => Pull::Impossible { reason: "ErrImagePull", error: error.clone() },
        // The layers are there; what is left is to ask the registry whether they are still the right ones.
        (_, true, None) => Pull::Takes(view.script.pull_time / 10),
        (_, false, None) => Pull::Takes(view.script.pull_time),
    }
}

/// Whether the container is started again after it has exited with this code.
fn restarts(view: &ContainerView<'_>, exit_code: i32) -> bool {
    let rules = view.spec.restart_policy_rules.iter().flatten();
    let ruled =
        rules.filter(|rule| rule.action == "Restart").filter_map(|rule| rule.exit_codes.as_ref()).any(|codes| {
            let listed = codes.values.iter().flatten().any(|code| *code == exit_code);
            if codes.operator == "NotIn" { !listed } else { listed }
        });
    if ruled {
        return true;
    }
    let policy = view.spec.restart_policy.as_deref().unwrap_or(view.restart_policy);
    match (view.role, policy) {
        (Role::Sidecar, _) => true,
        (_, "Never") => false,
        (Role::App, "Always") => true,
        _ => exit_code != 0,
    }
}

/// Whether this container, having exited, stays so.
pub fn is_finished(view: &ContainerView<'_>, status: &ContainerStatus) -> bool {
    terminated(status).is_some_and(|exit| !restarts(view, exit.exit_code))
}

/// The first restart is immediate, those after it wait 10 s, 20 s, … up to five minutes.
///
/// Deviation: kubelet keeps the count of crashes in memory, and a run of ten minutes clears it; ours follows from
/// `restartCount`, so after such a run the next crash waits as long as the one before would have.
fn back_off(exit: &ContainerStateTerminated, restart_count: i32) -> Duration {
    let ran_s = match (&exit.started_at, &exit.finished_at) {
        (Some(from), Some(to)) => to.0.as_second() - from.0.as_second(),
        _ => 0,
    };
    if restart_count <= 0 || ran_s >= BACK_OFF_RESET.as_secs() as i64 {
        return Duration::ZERO;
    }
    let doublings = u32::try_from(restart_count - 1).unwrap_or(0).min(5);
    (BACK_OFF_INITIAL * 2_u32.pow(doublings)).min(BACK_OFF_MAX)
}

pub fn waiting(reason: &str, message: Option<String>) -> ContainerState {
    let waiting = ContainerStateWaiting { reason: Some(reason.to_owned()), message };
    ContainerState { waiting: Some(waiting), ..Default::default() }
}

/// When it started, if it is running.
pub fn running(status: &ContainerStatus) -> Option<Timestamp> {
    let started_at = status.state.as_ref()?.running.as_ref()?.started_at.as_ref();
    Some(started_at.map_or(Timestamp::UNIX_EPOCH, |t| t.0))
}

pub fn terminated(status: &ContainerStatus) -> Option<&ContainerStateTerminated> {
    status.state.as_ref()?.terminated.as_ref()
}

pub fn is_waiting(status: &ContainerStatus) -> bool {
    running(status).is_none() && terminated(status).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crash_loops_wait_longer_each_time() {
        let exit = |ran_s: i64| ContainerStateTerminated {
            started_at: Some(Time(Timestamp::UNIX_EPOCH)),
            finished_at: Some(Time(Timestamp::from_second(ran_s).unwrap())),
            ..Default::default()
        };
        let delays = [0, 1, 2, 3, 4, 5, 6, 50].map(|restarts| back_off(&exit(1), restarts).as_secs());
        assert_eq!(delays, [0, 10, 20, 40, 80, 160, 300, 300]);
        assert_eq!(back_off(&exit(600), 6), Duration::ZERO);
    }
}
