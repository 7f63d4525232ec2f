//! The life of one container: waiting, running, terminated, waiting again.
//!
//! Corresponds to pkg/kubelet/kuberuntime: startContainer and computePodActions. Pure: it turns a status and
//! the present time into the next status.

use crate::images;
use crate::pod::exit::{Exit, condemned_exit, story_exit};
use crate::pod::health;
use crate::pod::image_pull::{self, Pull, RESYNC_PERIOD};
use crate::pod::progress::{Progress, RunAttempt};
use crate::pod::restart::{back_off, restarts};
use crate::pod::state::{is_waiting, last_exit, running, terminated, waiting, waiting_reason};
use crate::pod::story::ContainerKind;
use crate::pod::view::ContainerView;
use component_base::duration::format_duration;
use proto::kinds::api::core::v1::{ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStatus};
use proto::kinds::jiff::Timestamp;
use proto::kinds::metav1::Time;
use std::time::Duration;

/// The reason of a container that cannot be created from its spec.
pub const CONFIG_ERROR: &str = "CreateContainerConfigError";

/// Makes the transitions that are due at `now`. `turn` is the time from which the container may start; `None` while
/// other containers have to start first.
pub fn advance(
    view: &ContainerView<'_>,
    status: &mut ContainerStatus,
    turn: Option<Timestamp>,
    now: Timestamp,
    progress: &mut Progress,
) {
    keep_running(view, status, now, progress);
    if let Some(terminated) = terminated(status).cloned() {
        after_exit(view, status, terminated, now, progress);
    }
    if let (true, Some(turn)) = (is_waiting(status), turn) {
        start_when_due(view, status, turn, now, progress);
    }
}

/// Records that the process has exited: because it was stopped, or because its story ends.
pub fn stop(view: &ContainerView<'_>, status: &mut ContainerStatus, exit: Exit) {
    let Some(started_at) = running(status) else { return };
    let terminated = ContainerStateTerminated {
        container_id: status.container_id.clone(),
        exit_code: exit.code,
        reason: Some(exit.reason.to_owned()),
        started_at: Some(Time(started_at)),
        finished_at: Some(Time(exit.at.max(started_at))),
        ..Default::default()
    };
    status.state = Some(ContainerState { terminated: Some(terminated), ..Default::default() });
    status.started = status.started.map(|_| false);
    // An init container that has done its work counts as ready.
    status.ready = view.kind == ContainerKind::Init && exit.code == 0;
}

/// Ends a container whose story ends, or that its probes condemn; otherwise shows what the probes have found.
fn keep_running(view: &ContainerView<'_>, status: &mut ContainerStatus, now: Timestamp, progress: &mut Progress) {
    let by_itself = story_exit(view, status);
    let probed_at = by_itself.map_or(now, |exit| exit.at.min(now));
    let Some(health) = health::observe(view, status, None, probed_at, progress) else { return };
    let exit = match &health.kill {
        Some(kill) => {
            progress.normal(view, status.restart_count, "Killing", kill.message.clone());
            Some(condemned_exit(kill.ending, view, status))
        }
        None => by_itself,
    };
    if let Some(exit) = exit {
        if now >= exit.at {
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
    if !restarts(view, exit.exit_code) {
        return;
    }
    let delay = back_off(&exit, status.restart_count);
    let finished_at = exit.finished_at.as_ref().map_or(now, |t| t.0);
    let exited = status.clone();
    status.last_state = Some(ContainerState { terminated: Some(exit), ..Default::default() });
    if delay.is_zero() {
        // It is restarted at once. Until it runs, its status shows the exit.
        status.state = Some(waiting("", None));
        start_when_due(view, status, finished_at, now, progress);
        if waiting_reason(status) == Some("") {
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
        progress.warning(view, status.restart_count, "BackOff", message);
    }
}

/// Pulls a missing image and starts the container, once the time for both has passed.
fn start_when_due(
    view: &ContainerView<'_>,
    status: &mut ContainerStatus,
    turn: Timestamp,
    now: Timestamp,
    progress: &mut Progress,
) {
    let exit = last_exit(status);
    let run = status.restart_count + i32::from(exit.is_some());
    let turn = match exit {
        Some(exit) => {
            let finished_at = exit.finished_at.as_ref().map_or(now, |t| t.0);
            turn.max(finished_at + back_off(exit, status.restart_count))
        }
        None => turn,
    };
    if now < turn {
        return progress.wake_by(turn);
    }
    let pull_time = match image_pull::pull_of(view, &progress.pulled) {
        Pull::Present => Duration::ZERO,
        Pull::Takes(time) => time,
        Pull::Never => return image_pull::never_pulled(view, status, run, now, progress),
        Pull::Fails(error) => return image_pull::fail(view, status, run, turn, &error, now, progress),
    };
    let began = image_pull::attempt_began(status, turn, now);
    if !pull_time.is_zero() {
        progress.normal(view, run, "Pulling", format!("Pulling image {:?}", view.image()));
    }
    let due = began + pull_time + view.start_latency;
    if now < due {
        return progress.wake_by(due);
    }
    match &view.config {
        Ok(()) => start(view, status, run, pull_time, now, progress),
        Err(error) => report_config_error(view, status, run, pull_time, (error, due), now, progress),
    }
}

/// Reports that the container cannot be created, because its spec refers to what does not exist. The agent tries again
/// each time it syncs the pod.
fn report_config_error(
    view: &ContainerView<'_>,
    status: &mut ContainerStatus,
    run: i32,
    pull_time: Duration,
    (error, first): (&str, Timestamp),
    now: Timestamp,
    progress: &mut Progress,
) {
    let syncs = u32::try_from(now.duration_since(first).as_secs() / RESYNC_PERIOD.as_secs() as i64).unwrap_or(0);
    let run_attempt = RunAttempt { run, attempt: syncs };
    if syncs > 0 || waiting_reason(status) != Some(CONFIG_ERROR) {
        progress.normal(view, run_attempt, "Pulled", image_pull::pulled_message(view, pull_time));
    }
    if !pull_time.is_zero() {
        progress.pulled.push(view.image().to_owned());
    }
    progress.warning(view, run_attempt, "Failed", format!("Error: {error}"));
    status.state = Some(waiting(CONFIG_ERROR, Some(error.to_owned())));
    progress.wake_by(first + RESYNC_PERIOD * (syncs + 1));
}

fn start(
    view: &ContainerView<'_>,
    status: &mut ContainerStatus,
    run: i32,
    pull_time: Duration,
    now: Timestamp,
    progress: &mut Progress,
) {
    progress.normal(view, run, "Pulled", image_pull::pulled_message(view, pull_time));
    if !pull_time.is_zero() {
        progress.pulled.push(view.image().to_owned());
    }
    progress.normal(view, run, "Created", "Container created".to_owned());
    progress.normal(view, run, "Started", "Container started".to_owned());
    let resources = view.spec.resources.clone().unwrap_or_default();
    status.restart_count = run;
    status.container_id = Some(container_id(view.pod_uid, &view.spec.name, run));
    status.image = images::canonical(view.image());
    status.image_id = images::id(view.image());
    status.allocated_resources = resources.requests.clone();
    status.resources = Some(resources);
    status.user = Some(view.user());
    status.state = Some(ContainerState {
        running: Some(ContainerStateRunning { started_at: Some(Time(now)) }),
        ..Default::default()
    });
    keep_running(view, status, now, progress);
}

/// Returns the identifier of a run. A runtime draws it at random; here it follows from the pod's uid, which is random
/// already, so that a step that is taken twice gives the same identifier.
fn container_id(pod_uid: &str, name: &str, run: i32) -> String {
    format!("containerd://{}", images::fingerprint(&["container", pod_uid, name, &run.to_string()]))
}
