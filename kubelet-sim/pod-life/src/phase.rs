//! A pod's phase, and the final statuses of containers that did not end by themselves.
//!
//! Corresponds to getPhase in pkg/kubelet/kubelet_pods.go and TerminatePod in pkg/kubelet/status/status_manager.go.

use crate::state::{is_waiting, last_exit, never_ran, terminated};
use proto::kinds::api::core::v1::{ContainerState, ContainerStateTerminated, ContainerStatus};

/// The exit code that is reported for a process whose end was not observed.
const EXIT_UNKNOWN: i32 = 137;

/// Returns the phase while something runs or may still run: Pending until every app container and sidecar has run.
pub fn while_alive<'s>(apps_and_sidecars: impl IntoIterator<Item = &'s ContainerStatus>) -> &'static str {
    if apps_and_sidecars.into_iter().any(never_ran) { "Pending" } else { "Running" }
}

/// Returns the phase once nothing will run any more.
pub fn at_the_end(apps: &[ContainerStatus]) -> &'static str {
    let succeeded = |status: &ContainerStatus| terminated(status).is_some_and(|exit| exit.exit_code == 0);
    if apps.iter().all(succeeded) { "Succeeded" } else { "Failed" }
}

/// Ends containers that wait for a restart, which will not come: their last exit becomes their state.
pub fn restore_last_exits(statuses: &mut [ContainerStatus]) {
    for status in statuses.iter_mut().filter(|status| is_waiting(status)) {
        if let Some(exit) = last_exit(status).cloned() {
            status.state = Some(ContainerState { terminated: Some(exit), ..Default::default() });
            status.last_state = Some(ContainerState::default());
        }
    }
}

/// Marks containers without a known end as failed: app containers, once the pod was initialized, and init containers up
/// to the last one that was tried.
pub fn mark_lost(init: &mut [ContainerStatus], apps: &mut [ContainerStatus]) {
    if is_initialized(init, apps) {
        apps.iter_mut().for_each(mark_status_unknown);
    }
    let tried = init.iter().rposition(|status| !never_ran(status)).map_or(1, |last| last + 1);
    init.iter_mut().take(tried).for_each(mark_status_unknown);
}

fn is_initialized(init: &[ContainerStatus], apps: &[ContainerStatus]) -> bool {
    let completed = |status: &ContainerStatus| {
        terminated(status).into_iter().chain(last_exit(status)).any(|exit| exit.exit_code == 0)
    };
    init.last().is_none_or(completed) || !apps.iter().all(never_ran)
}

fn mark_status_unknown(status: &mut ContainerStatus) {
    if terminated(status).is_none() {
        let unknown = ContainerStateTerminated {
            exit_code: EXIT_UNKNOWN,
            reason: Some("ContainerStatusUnknown".to_owned()),
            message: Some("The container could not be located when the pod was terminated".to_owned()),
            ..Default::default()
        };
        status.state = Some(ContainerState { terminated: Some(unknown), ..Default::default() });
        status.started = status.started.map(|_| false);
        status.ready = false;
    }
}
