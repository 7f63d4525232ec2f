//! Stops a pod's containers together: because the pod is deleted, its deadline has passed, or its work is done.
//!
//! Corresponds to killContainersWithSyncResult of pkg/kubelet/kuberuntime. All containers are stopped at
//! once, except sidecars: they are stopped after all others have ended, one by one, the last one first.

use crate::pod::container::{self, script_end};
use crate::pod::progress::Progress;
use crate::pod::script::ContainerKind;
use crate::pod::state;
use crate::pod::view::ContainerView;
use proto::kinds::api::core::v1::ContainerStatus;
use proto::kinds::jiff::Timestamp;
use std::time::Duration;

/// The exit code of a process that SIGKILL ended.
const EXIT_KILLED: i32 = 137;
/// The least time between SIGTERM and SIGKILL, however little of the grace period is left.
const SHORTEST_GRACE: Duration = Duration::from_secs(2);

/// The time at which a pod is asked to stop, and its grace period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ending {
    pub asked_at: Timestamp,
    pub grace: Duration,
}

/// Stops the containers whose time has come. Returns true once nothing runs any more.
pub fn stop_containers(
    ending: Ending,
    mut containers: Vec<(&ContainerView<'_>, &mut ContainerStatus)>,
    now: Timestamp,
    progress: &mut Progress,
) -> bool {
    let sidecars = containers.extract_if(.., |(view, _)| view.kind == ContainerKind::Sidecar).collect::<Vec<_>>();
    let mut turn = ending.asked_at;
    for (view, status) in &mut containers {
        turn = turn.max(stop_when_due(ending, ending.asked_at, view, status, now, progress));
    }
    for (view, status) in sidecars.into_iter().rev() {
        if turn > now {
            return false;
        }
        turn = stop_when_due(ending, turn, view, status, now, progress);
    }
    turn <= now
}

/// Stops a container that may be asked to stop from `turn` on. Returns when it has ended or will end.
fn stop_when_due(
    ending: Ending,
    turn: Timestamp,
    view: &ContainerView<'_>,
    status: &mut ContainerStatus,
    now: Timestamp,
    progress: &mut Progress,
) -> Timestamp {
    if state::running(status).is_none() {
        let exit = state::terminated(status).and_then(|exit| exit.finished_at.as_ref());
        return exit.map_or(turn, |finished_at| finished_at.0.max(turn));
    }
    progress.normal(view, status.restart_count, "Killing", format!("Stopping container {}", view.spec.name));
    let (at, exit_code) = exit_of(ending, turn, view, status);
    if now >= at {
        container::stop(view, status, at, exit_code);
    } else {
        progress.wake_by(at);
    }
    at
}

/// Returns when a container ends, and its exit code. The pre-stop hook begins when the pod is asked to stop and uses up
/// grace. SIGTERM comes after the hook and not before `turn`; SIGKILL comes when the grace is over. The process may end
/// by itself before that.
fn exit_of(ending: Ending, turn: Timestamp, view: &ContainerView<'_>, status: &ContainerStatus) -> (Timestamp, i32) {
    let deadline = ending.asked_at + ending.grace;
    let hook_done = (ending.asked_at + view.script.pre_stop).min(deadline);
    let terminated_at = turn.max(hook_done);
    let killed_at = deadline.max(terminated_at + SHORTEST_GRACE);
    let obeys_at = terminated_at + view.script.stop_time;
    let stopped = if obeys_at <= killed_at { (obeys_at, 0) } else { (killed_at, EXIT_KILLED) };
    match script_end(view, status) {
        Some(by_itself) if by_itself.0 < stopped.0 => by_itself,
        _ => stopped,
    }
}
