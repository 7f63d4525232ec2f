//! Starting one container: its image, what its spec refers to, its process, its post-start hook.
//!
//! Corresponds to startContainer of pkg/kubelet/kuberuntime.

use crate::container::image_pull::{self, Pull, PullTime, RESYNC_PERIOD};
use crate::container::restart::back_off;
use crate::handlers::hook;
use crate::images;
use crate::progress::{Progress, RunAttempt};
use crate::state::{last_exit, waiting, waiting_reason};
use crate::view::ContainerView;
use proto::kinds::api::core::v1::{ContainerState, ContainerStateRunning, ContainerStatus};
use proto::kinds::jiff::Timestamp;
use proto::kinds::metav1::Time;
use std::time::Duration;

/// The reason of a container that cannot be created from its spec.
pub const CONFIG_ERROR: &str = "CreateContainerConfigError";

/// Pulls a missing image and starts the container, once the time for both has passed.
pub fn start_when_due(
    view: &ContainerView<'_>,
    status: &mut ContainerStatus,
    may_start_at: Timestamp,
    now: Timestamp,
    progress: &mut Progress,
) {
    let exit = last_exit(status);
    let run = status.restart_count + i32::from(exit.is_some());
    let may_start_at = match exit {
        Some(exit) => {
            let finished_at = exit.finished_at.as_ref().map_or(now, |t| t.0);
            let crashes = status.restart_count - progress.notes.of(&view.spec.name).crashes_from;
            may_start_at.max(finished_at + back_off(exit, crashes))
        }
        None => may_start_at,
    };
    if now < may_start_at {
        return progress.wake_by(may_start_at);
    }
    if let Some((created, at)) = progress.notes.of(&view.spec.name).created
        && created == run
    {
        return run_post_start(view, status, run, at, now, progress);
    }
    let takes = match image_pull::pull_of(view, &progress.pulled) {
        Pull::Present => Duration::ZERO,
        Pull::Takes(time) => time,
        Pull::Never => return image_pull::never_pulled(view, status, run, now, progress),
        Pull::BadName(error) => return image_pull::bad_name(view, status, run, (&error, may_start_at), now, progress),
        Pull::Fails(error) => return image_pull::fail(view, status, run, may_start_at, &error, now, progress),
    };
    let began = image_pull::attempt_began(status, may_start_at, now);
    let pull_time = image_pull::plan(view, began, takes);
    if !pull_time.is_zero() {
        progress.normal(view, run, "Pulling", format!("Pulling image {:?}", view.image()));
    }
    let due = began + pull_time.with_waiting + view.start_latency;
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
    pull_time: PullTime,
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

/// Creates and starts the container's process. Its status says so after the post-start hook.
fn start(
    view: &ContainerView<'_>,
    status: &mut ContainerStatus,
    run: i32,
    pull_time: PullTime,
    now: Timestamp,
    progress: &mut Progress,
) {
    progress.normal(view, run, "Pulled", image_pull::pulled_message(view, pull_time));
    if !pull_time.is_zero() {
        progress.pulled.push(view.image().to_owned());
    }
    progress.normal(view, run, "Created", "Container created".to_owned());
    progress.normal(view, run, "Started", "Container started".to_owned());
    run_post_start(view, status, run, now, now, progress);
}

/// Waits for the post-start hook of a process that was created at `created_at`, and then shows it as running.
fn run_post_start(
    view: &ContainerView<'_>,
    status: &mut ContainerStatus,
    run: i32,
    created_at: Timestamp,
    now: Timestamp,
    progress: &mut Progress,
) {
    if let Some(hook) = hook::post_start(&view.spec, view.pod).filter(|hook| !hook.takes.is_zero()) {
        progress.notes.of(&view.spec.name).created = Some((run, created_at));
        if hook.takes == Duration::MAX {
            return;
        }
        if now < created_at + hook.takes {
            return progress.wake_by(created_at + hook.takes);
        }
    }
    let resources = view.spec.resources.clone().unwrap_or_default();
    status.restart_count = run;
    status.container_id = Some(container_id(view.pod_uid, &view.spec.name, run));
    status.image = images::canonical(view.image());
    status.image_id = images::id(view.image());
    status.allocated_resources = resources.requests.clone();
    status.resources = Some(resources);
    status.user = Some(view.user());
    status.state = Some(ContainerState {
        running: Some(ContainerStateRunning { started_at: Some(Time(created_at)) }),
        ..Default::default()
    });
}

/// Returns the identifier of a run. A runtime draws it at random; here it follows from the pod's uid, which is random
/// already, so that a step that is taken twice gives the same identifier.
fn container_id(pod_uid: &str, name: &str, run: i32) -> String {
    format!("containerd://{}", images::fingerprint(&["container", pod_uid, name, &run.to_string()]))
}
