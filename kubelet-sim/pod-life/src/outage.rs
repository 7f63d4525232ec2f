//! What a pod lost while its machine was without power, and how it goes on.
//!
//! Corresponds to what pkg/kubelet finds after a reboot: containers whose process is gone, and a sandbox that must be
//! made anew. containerd shows such containers as exited with code 255 for an unknown reason.

use crate::container::restart::restarts;
use crate::notes::{Notes, Outage};
use crate::progress::{PodEvent, Progress};
use crate::state::{self, running, terminated, waiting};
use crate::story::ContainerKind;
use crate::view::ContainerView;
use proto::kinds::api::core::v1::{ContainerState, ContainerStateTerminated, ContainerStatus, PodStatus};
use proto::kinds::jiff::Timestamp;
use proto::kinds::metav1::Time;

/// The exit code of a container whose end nobody has seen.
const EXIT_UNKNOWN: i32 = 255;

/// Ends what ran when the power went, and lets the pod begin anew if its policy restarts anything. Doing it again changes
/// nothing.
pub fn recover(
    outage: Outage,
    init: &[ContainerView<'_>],
    apps: &[ContainerView<'_>],
    status: &mut PodStatus,
    progress: &mut Progress,
) {
    let views = || init.iter().chain(apps);
    let lists = [&mut status.init_container_statuses, &mut status.container_statuses];
    let mut has_lost = false;
    for container in
        lists.into_iter().flatten().flatten().chain(status.ephemeral_container_statuses.iter_mut().flatten())
    {
        has_lost |= lose(container, outage.off_at);
    }
    let of = |status: &ContainerStatus| views().find(|view| view.spec.name == status.name);
    let is_lost = |status: &ContainerStatus| {
        terminated(status).is_some_and(|exit| exit.exit_code == EXIT_UNKNOWN && ended_by(exit, outage.off_at))
    };
    let restarts_now =
        |status: &ContainerStatus| is_lost(status) && of(status).is_some_and(|view| restarts(view, EXIT_UNKNOWN));
    let all = status.init_container_statuses.iter().chain(&status.container_statuses).flatten();
    if !has_lost || !all.clone().any(restarts_now) {
        return;
    }
    let message = "Pod sandbox changed, it will be killed and re-created.";
    let event = PodEvent::of_pod(false, "SandboxChanged", message);
    progress.events.push(PodEvent { occurrence: format!("{}/{}", event.occurrence, outage.off_at), ..event });
    status.pod_ip = None;
    status.pod_ips = None;
    let reason = if init.is_empty() { "ContainerCreating" } else { "PodInitializing" };
    for container in status.init_container_statuses.iter_mut().flatten() {
        // A new sandbox is initialized again.
        if terminated(container).is_some_and(|exit| ended_by(exit, outage.off_at)) {
            begin_anew(container, reason, &mut progress.notes);
        }
    }
    for container in status.container_statuses.iter_mut().flatten() {
        let is_app = |view: &&ContainerView<'_>| view.kind == ContainerKind::App && view.spec.name == container.name;
        if is_lost(container) && apps.iter().find(is_app).is_some_and(|view| restarts(view, EXIT_UNKNOWN)) {
            begin_anew(container, reason, &mut progress.notes);
        }
    }
}

fn ended_by(exit: &ContainerStateTerminated, off_at: Timestamp) -> bool {
    exit.finished_at.as_ref().is_some_and(|finished_at| finished_at.0 <= off_at)
}

/// Ends a container that ran when the power went. Returns whether it did.
fn lose(status: &mut ContainerStatus, off_at: Timestamp) -> bool {
    let Some(started_at) = running(status).filter(|started_at| *started_at <= off_at) else { return false };
    let terminated = ContainerStateTerminated {
        container_id: status.container_id.clone(),
        exit_code: EXIT_UNKNOWN,
        reason: Some("Unknown".to_owned()),
        started_at: Some(Time(started_at)),
        finished_at: Some(Time(off_at)),
        ..Default::default()
    };
    status.state = Some(ContainerState { terminated: Some(terminated), ..Default::default() });
    status.started = status.started.map(|_| false);
    status.ready = false;
    true
}

fn begin_anew(status: &mut ContainerStatus, reason: &str, notes: &mut Notes) {
    let Some(exit) = state::terminated(status).cloned() else { return };
    status.last_state = Some(ContainerState { terminated: Some(exit), ..Default::default() });
    status.state = Some(waiting(reason, None));
    status.ready = false;
    // A kubelet that has just started remembers no crashes.
    notes.of(&status.name).crashes_from = status.restart_count;
}
