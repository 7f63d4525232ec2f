//! How a pod's containers end together: because the pod is deleted, its time is up, or its work is done.
//!
//! Corresponds to killContainersWithSyncResult of pkg/kubelet/kuberuntime. Containers are told at once; sidecars wait
//! until all others are gone, and then go one by one, the last first.

use crate::pod::container::{self, script_end};
use crate::pod::progress::Progress;
use crate::pod::script::Role;
use crate::pod::state;
use crate::pod::view::ContainerView;
use proto::kinds::api::core::v1::ContainerStatus;
use proto::kinds::jiff::Timestamp;
use std::time::Duration;

/// The exit code of a process that SIGKILL ended.
const EXIT_KILLED: i32 = 137;
/// However little grace is left, this much a container gets between SIGTERM and SIGKILL.
const SHORTEST_GRACE: Duration = Duration::from_secs(2);

/// When everybody is told to stop, and how long that may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ending {
    pub asked_at: Timestamp,
    pub grace: Duration,
}

/// Takes the steps that are due; true once nothing runs any more.
pub fn wind_down(
    ending: Ending,
    mut containers: Vec<(&ContainerView<'_>, &mut ContainerStatus)>,
    now: Timestamp,
    progress: &mut Progress,
) -> bool {
    let sidecars = containers.extract_if(.., |(view, _)| view.role == Role::Sidecar).collect::<Vec<_>>();
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

/// Stops the container whose turn to be told is at `turn`; answers when it is gone.
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
    let (at, exit_code) = exit(ending, turn, view, status);
    if now >= at {
        container::stop(view, status, at, exit_code);
    } else {
        progress.wake_by(at);
    }
    at
}

/// The pre-stop hook begins when everybody is told and uses up grace; SIGTERM comes after it and at the container's
/// turn, SIGKILL when the grace is over. A process may also end by itself meanwhile.
fn exit(ending: Ending, turn: Timestamp, view: &ContainerView<'_>, status: &ContainerStatus) -> (Timestamp, i32) {
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
