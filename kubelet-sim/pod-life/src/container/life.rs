//! The life of one container: waiting, running, terminated, waiting again.
//!
//! Corresponds to computePodActions of pkg/kubelet/kuberuntime. Pure: it turns a status and
//! the present time into the next status.

use crate::container::exit::{Exit, killed_exit, record_pre_stop, story_exit};
use crate::container::kill::kill;
use crate::container::restart::{back_off, ran_long, restarts, restarts_all};
use crate::container::start::start_when_due;
use crate::handlers::health;
use crate::progress::Progress;
use crate::state::{is_waiting, running, terminated, waiting, waiting_reason};
use crate::story::ContainerKind;
use crate::view::ContainerView;
use component_base::duration::format_duration;
use proto::kinds::api::core::v1::{ContainerState, ContainerStateTerminated, ContainerStatus};
use proto::kinds::jiff::Timestamp;
use proto::kinds::metav1::Time;
use std::time::Duration;

/// The shortest time between two looks at a process.
const SHORTEST_LOOK: Duration = Duration::from_millis(100);

/// Makes the transitions that are due at `now`. `may_start_at` is the time from which the container may start; it is
/// `None` while other containers have to start first.
pub fn advance(
    view: &ContainerView<'_>,
    status: &mut ContainerStatus,
    may_start_at: Option<Timestamp>,
    now: Timestamp,
    progress: &mut Progress,
) {
    loop {
        keep_running(view, status, now, progress);
        let was_running = running(status).is_some();
        if let Some(terminated) = terminated(status).cloned() {
            after_exit(view, status, terminated, now, progress);
        }
        if let (true, Some(may_start_at)) = (is_waiting(status), may_start_at) {
            start_when_due(view, status, may_start_at, now, progress);
        }
        if was_running || running(status).is_none() {
            return;
        }
        // It has just been started. Its process may have ended already, while the post-start hook ran.
    }
}

/// Records that the process has exited: because it was stopped, or because its story ends.
pub fn stop(view: &ContainerView<'_>, status: &mut ContainerStatus, exit: Exit) {
    let Some(started_at) = running(status) else { return };
    let terminated = ContainerStateTerminated {
        container_id: status.container_id.clone(),
        exit_code: exit.code,
        reason: Some(exit.reason.to_owned()),
        message: view.termination_message(exit.code),
        started_at: Some(Time(started_at)),
        finished_at: Some(Time(exit.at.max(started_at))),
        ..Default::default()
    };
    status.state = Some(ContainerState { terminated: Some(terminated), ..Default::default() });
    status.started = status.started.map(|_| false);
    // An init container that has done its work counts as ready.
    status.ready = view.kind == ContainerKind::Init && exit.code == 0;
}

/// Ends a container whose story ends, or that is killed; otherwise shows what the probes have found.
fn keep_running(view: &ContainerView<'_>, status: &mut ContainerStatus, now: Timestamp, progress: &mut Progress) {
    match view.live {
        Some(live) if live.run != status.restart_count => progress.wake_by(now + SHORTEST_LOOK),
        Some(live) => live.next.into_iter().for_each(|next| progress.wake_by(next.max(now + SHORTEST_LOOK))),
        None => {}
    }
    if let Some(started_at) = running(status).filter(|started_at| now < *started_at) {
        // The clock has gone back. Until it has caught up, what the probes have found stays.
        return progress.wake_by(started_at);
    }
    let (by_itself, wake_at) = (story_exit(view, status), progress.wake_at);
    let observed_at = by_itself.map_or(now, |exit| exit.at.min(now));
    let Some(health) = health::observe(view, status, None, observed_at, progress) else { return };
    let exit = match kill(view, status, &health, None, observed_at, progress) {
        Some(kill) => {
            record_pre_stop(kill.ending, view, status, now, progress);
            Some(killed_exit(kill.ending, view, status))
        }
        None => by_itself,
    };
    if let Some(exit) = exit {
        if now >= exit.at {
            progress.wake_at = wake_at; // Its probes are not due any more.
            return stop(view, status, exit);
        }
        progress.wake_by(exit.at);
    }
    if view.kind == ContainerKind::Ephemeral {
        return; // has no probes
    }
    status.started = Some(health.started_at.is_some());
    status.ready = health.is_ready;
}

fn after_exit(
    view: &ContainerView<'_>,
    status: &mut ContainerStatus,
    exit: ContainerStateTerminated,
    now: Timestamp,
    progress: &mut Progress,
) {
    let notes = progress.notes.of(&view.spec.name);
    let is_replaced = notes.replaced.is_some_and(|(run, _)| run == status.restart_count);
    if !is_replaced && (!restarts(view, exit.exit_code) || restarts_all(view, exit.exit_code)) {
        return;
    }
    // The back-off begins anew for another image, and after a long run.
    if is_replaced || ran_long(&exit) {
        notes.crashes_from = status.restart_count;
    }
    let delay = back_off(&exit, status.restart_count - notes.crashes_from);
    let finished_at = exit.finished_at.as_ref().map_or(now, |t| t.0);
    let exited = status.clone();
    status.last_state = Some(ContainerState { terminated: Some(exit), ..Default::default() });
    if delay.is_zero() {
        // It is restarted at once. Until it runs, its status shows the exit.
        status.state = Some(waiting("", None));
        start_when_due(view, status, finished_at, now, progress);
        match waiting_reason(status) {
            // A replaced container is not over, whatever the policy says of its exit.
            Some("") if is_replaced => status.state = Some(waiting("ContainerCreating", None)),
            Some("") => *status = exited,
            _ => {}
        }
        return;
    }
    let (name, pod) = (&view.spec.name, &view.pod_title);
    let message = format!("back-off {} restarting failed container={name} pod={pod}", format_duration(delay));
    status.state = Some(waiting("CrashLoopBackOff", Some(message)));
    status.ready = false;
    if now < finished_at + delay {
        let message = format!("Back-off restarting failed container {name} in pod {pod}");
        progress.warning(view, status.restart_count, "BackOff", message);
    }
}
