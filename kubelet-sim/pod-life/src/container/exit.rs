//! Decides when and how a running container's process ends: by itself, or after it was asked to stop.
//!
//! Corresponds to killContainer of pkg/kubelet/kuberuntime.

use crate::handlers::hook::pre_stop;
use crate::progress::Progress;
use crate::state::running;
use crate::story::usage;
use crate::view::ContainerView;
use proto::kinds::api::core::v1::ContainerStatus;
use proto::kinds::jiff::Timestamp;
use proto::meta::quantity::Quantity;
use std::time::Duration;

/// The exit code of a crash.
const EXIT_CRASHED: i32 = 1;
/// The exit code of a process that SIGKILL ended.
const EXIT_KILLED: i32 = 137;
/// The exit code of a process that SIGTERM ended.
const EXIT_TERMINATED: i32 = 143;
/// The least time between SIGTERM and SIGKILL, however little of the grace period is left.
const SHORTEST_GRACE: Duration = Duration::from_secs(2);

/// The time at which a pod or a container is asked to stop, and its grace period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ending {
    pub asked_at: Timestamp,
    pub grace: Duration,
}

/// The end of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    pub at: Timestamp,
    pub code: i32,
    pub reason: &'static str,
}

impl Exit {
    /// The end of a process that is killed without notice.
    pub fn killed(at: Timestamp) -> Self {
        Self::with_code(at, EXIT_KILLED)
    }

    fn with_code(at: Timestamp, code: i32) -> Self {
        Self { at, code, reason: if code == 0 { "Completed" } else { "Error" } }
    }
}

/// Returns when and how the story ends the process; `None` when it runs until it is stopped.
pub fn story_exit(view: &ContainerView<'_>, status: &ContainerStatus) -> Option<Exit> {
    let (started_at, story) = (running(status)?, &view.story);
    let completed = match view.live.filter(|live| live.run == status.restart_count) {
        // Nobody has looked at this run yet.
        None if view.live.is_some() => None,
        Some(live) => live.ended.map(|(at, code)| Exit::with_code(at.max(started_at), code)),
        None => story.run_for.map(|after| Exit::with_code(started_at + after, story.exit_code(status.restart_count))),
    };
    let crashed = story.crash_after.map(|after| Exit::with_code(started_at + after, EXIT_CRASHED));
    let out_of_memory = [story.oom_after, limit_exceeded_after(view, status)].into_iter().flatten().min();
    let starved = out_of_memory.map(|after| Exit { at: started_at + after, code: EXIT_KILLED, reason: "OOMKilled" });
    [starved, crashed, completed].into_iter().flatten().min_by_key(|exit| exit.at)
}

/// Returns the time from the start until the container uses more memory than its limit, as its story says.
fn limit_exceeded_after(view: &ContainerView<'_>, status: &ContainerStatus) -> Option<Duration> {
    let memory = view.story.memory.as_ref()?;
    let resources = status.resources.as_ref().or(view.spec.resources.as_ref())?;
    let limit = Quantity::parse(&resources.limits.as_ref()?.get("memory")?.0).ok()?;
    memory.first_above(limit.as_f64(), &usage::seed(view.pod_uid, &view.spec.name))
}

/// Returns when a container ends that is asked to stop. The pre-stop hook begins at once and uses up grace. SIGTERM
/// comes after the hook and not before `may_stop_at`; SIGKILL comes when the grace is over. The process may end by
/// itself before that.
pub fn stopped_exit(
    ending: Ending,
    may_stop_at: Timestamp,
    view: &ContainerView<'_>,
    status: &ContainerStatus,
) -> Exit {
    let deadline = ending.asked_at + ending.grace;
    let hook = pre_stop(&view.spec, view.pod).map_or(Duration::ZERO, |hook| hook.takes);
    let hook_done = ending.asked_at + hook.min(ending.grace);
    let terminated_at = may_stop_at.max(hook_done);
    let killed_at = deadline.max(terminated_at + SHORTEST_GRACE);
    let obeys_at = terminated_at + view.story.stop_time;
    let stopped = match obeys_at <= killed_at {
        true => Exit::with_code(obeys_at, 0),
        false => Exit::with_code(killed_at, EXIT_KILLED),
    };
    match story_exit(view, status) {
        Some(by_itself) if by_itself.at < stopped.at => by_itself,
        _ => stopped,
    }
}

/// Returns when a container ends that is killed while its pod goes on. Its process is not one that stops cleanly: SIGTERM
/// ends it, so that it is restarted under the policy `OnFailure` too.
pub fn killed_exit(ending: Ending, view: &ContainerView<'_>, status: &ContainerStatus) -> Exit {
    let exit = stopped_exit(ending, ending.asked_at, view, status);
    match story_exit(view, status) {
        Some(by_itself) if by_itself == exit => exit,
        _ if exit.code == 0 => Exit::with_code(exit.at, EXIT_TERMINATED),
        _ => exit,
    }
}

/// Records that the pre-stop hook has failed, once it has. Without a grace period it does not run.
pub fn record_pre_stop(
    ending: Ending,
    view: &ContainerView<'_>,
    status: &ContainerStatus,
    now: Timestamp,
    progress: &mut Progress,
) {
    let hook = pre_stop(&view.spec, view.pod).filter(|hook| !hook.succeeds && hook.takes <= ending.grace);
    let Some(hook) = hook.filter(|_| !ending.grace.is_zero()) else { return };
    let fails_at = ending.asked_at + hook.takes;
    match now < fails_at {
        true => progress.wake_by(fails_at),
        // Its message could tell a secret.
        false => progress.warning(view, status.restart_count, "FailedPreStopHook", "PreStopHook failed".to_owned()),
    }
}
