//! Restarts all containers of a pod in place, because one of them has exited with a code that its rules name.
//!
//! Corresponds to ShouldAllContainersRestart in pkg/kubelet/container and to the action `RestartAllContainers` (KEP-5532).
//! Everything that runs is killed, without pre-stop hooks; then the pod begins anew with its init containers, in the same
//! sandbox and with the same volumes.

use crate::conditions::{self, ALL_CONTAINERS_RESTARTING};
use crate::container::exit::Exit;
use crate::container::life;
use crate::container::restart::restarts_all;
use crate::progress::Progress;
use crate::state::{self, terminated, waiting};
use crate::story::ContainerKind;
use crate::view::ContainerView;
use proto::kinds::api::core::v1::{ContainerState, ContainerStatus, PodStatus};
use proto::kinds::jiff::Timestamp;
use std::time::Duration;

/// Time from killing the containers until they are started anew: the kubelet's period of relisting containers.
const RESET_AFTER: Duration = Duration::from_secs(1);

/// The containers of a pod with their statuses: init, app and ephemeral ones.
pub type Containers<'s, 'a> = [(&'s [ContainerView<'a>], &'s mut Vec<ContainerStatus>); 3];

/// True for a pod that has a rule for this.
pub fn is_possible<'v, 'a: 'v>(views: impl IntoIterator<Item = &'v ContainerView<'a>>) -> bool {
    let mut rules = views.into_iter().flat_map(|view| view.spec.restart_policy_rules.iter().flatten());
    rules.any(|rule| rule.action == "RestartAllContainers")
}

/// Takes the next step of a restart: kills everything once a container has exited with such a code, and resets
/// the containers a moment later. Returns true while it is under way.
pub fn advance(status: &PodStatus, containers: Containers<'_, '_>, now: Timestamp, progress: &mut Progress) -> bool {
    let began = conditions::find(status, ALL_CONTAINERS_RESTARTING)
        .filter(|condition| condition.status == "True")
        .and_then(|condition| condition.last_transition_time.as_ref());
    match began.map(|began| began.0 + RESET_AFTER) {
        Some(reset_at) if now >= reset_at => {
            containers.into_iter().for_each(|(views, statuses)| reset(views, statuses));
            progress.wake_by(now + Duration::from_millis(1));
            false
        }
        Some(reset_at) => {
            progress.wake_by(reset_at);
            true
        }
        None if containers.iter().any(|(views, statuses)| is_triggered(views, statuses)) => {
            for (views, statuses) in containers {
                views.iter().zip(statuses).for_each(|(view, status)| kill(view, status, now, progress));
            }
            progress.wake_by(now + RESET_AFTER);
            true
        }
        None => false,
    }
}

fn is_triggered(views: &[ContainerView<'_>], statuses: &[ContainerStatus]) -> bool {
    let exited = |(view, status): (&ContainerView<'_>, &ContainerStatus)| {
        terminated(status).is_some_and(|exit| restarts_all(view, exit.exit_code))
    };
    views.iter().zip(statuses).any(exited)
}

fn kill(view: &ContainerView<'_>, status: &mut ContainerStatus, now: Timestamp, progress: &mut Progress) {
    if state::running(status).is_some() {
        let message = format!("Stopping container {}", view.spec.name);
        progress.normal(view, status.restart_count, "Killing", message);
        life::stop(view, status, Exit::killed(now));
        status.ready = false;
    }
}

/// Lets the containers start anew; ephemeral ones never start again.
fn reset(views: &[ContainerView<'_>], statuses: &mut [ContainerStatus]) {
    for (view, status) in views.iter().zip(statuses) {
        let Some(exit) = terminated(status).cloned().filter(|_| view.kind != ContainerKind::Ephemeral) else {
            continue;
        };
        status.last_state = Some(ContainerState { terminated: Some(exit), ..Default::default() });
        status.state = Some(waiting("PodInitializing", None));
        status.ready = false;
    }
}
