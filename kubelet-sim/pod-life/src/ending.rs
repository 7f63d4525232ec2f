//! Stops a pod's containers together: because the pod is deleted, its deadline has passed, or its work is done.
//!
//! Corresponds to killContainersWithSyncResult of pkg/kubelet/kuberuntime. All containers are stopped at
//! once, except sidecars: they are stopped after all others have ended, one by one, the last one first.

use crate::container::exit::{Ending, killed_exit, record_pre_stop, stopped_exit};
use crate::container::kill::kill;
use crate::container::life;
use crate::handlers::health;
use crate::progress::Progress;
use crate::state;
use crate::story::ContainerKind;
use crate::view::ContainerView;
use proto::kinds::api::core::v1::ContainerStatus;
use proto::kinds::jiff::Timestamp;

/// Stops the containers whose time has come. Returns true once nothing runs any more.
pub fn stop_containers(
    ending: Ending,
    mut containers: Vec<(&ContainerView<'_>, &mut ContainerStatus)>,
    now: Timestamp,
    progress: &mut Progress,
) -> bool {
    let sidecars = containers.extract_if(.., |(view, _)| view.kind == ContainerKind::Sidecar).collect::<Vec<_>>();
    let mut may_stop_at = ending.asked_at;
    for (view, status) in &mut containers {
        may_stop_at = may_stop_at.max(stop_when_due(ending, ending.asked_at, view, status, now, progress));
    }
    for (view, status) in sidecars.into_iter().rev() {
        if may_stop_at > now {
            return false;
        }
        may_stop_at = stop_when_due(ending, may_stop_at, view, status, now, progress);
    }
    may_stop_at <= now
}

/// Stops a container that may be asked to stop from `may_stop_at` on. Returns when it has ended or will end.
fn stop_when_due(
    ending: Ending,
    may_stop_at: Timestamp,
    view: &ContainerView<'_>,
    status: &mut ContainerStatus,
    now: Timestamp,
    progress: &mut Progress,
) -> Timestamp {
    if state::running(status).is_none() {
        let exit = state::terminated(status).and_then(|exit| exit.finished_at.as_ref());
        return exit.map_or(may_stop_at, |finished_at| finished_at.0.max(may_stop_at));
    }
    progress.normal(view, status.restart_count, "Killing", format!("Stopping container {}", view.spec.name));
    record_pre_stop(ending, view, status, now, progress);
    // Readiness is probed to the end. The container may have been killed for itself before.
    let health = health::observe(view, status, Some(ending.asked_at), now, progress).unwrap_or_default();
    let kill = kill(view, status, &health, Some(ending.asked_at), now, progress);
    let killed = kill.map(|kill| killed_exit(kill.ending, view, status));
    let stopped = stopped_exit(ending, may_stop_at, view, status);
    let exit = killed.filter(|killed| killed.at < stopped.at).unwrap_or(stopped);
    if now >= exit.at {
        life::stop(view, status, exit);
    } else {
        let is_ready = health.is_ready;
        status.ready = is_ready;
        progress.wake_by(exit.at);
    }
    exit.at
}
