//! Why a running container is killed although its pod goes on: a probe or its post-start hook has failed, or its image
//! or its resources have changed.
//!
//! Corresponds to computePodActions and startContainer of pkg/kubelet/kuberuntime.

use crate::container::exit::Ending;
use crate::container::restart::restarts_after_failure;
use crate::handlers::health::Health;
use crate::handlers::hook::post_start;
use crate::images;
use crate::progress::Progress;
use crate::state::running;
use crate::story::ContainerKind;
use crate::view::ContainerView;
use proto::kinds::api::core::v1::{ContainerStatus, Probe};
use proto::kinds::jiff::Timestamp;
use std::time::Duration;

/// The grace period of a pod that names none.
const DEFAULT_GRACE: Duration = Duration::from_secs(30);

/// A container that is killed.
#[derive(Clone, Debug, PartialEq)]
pub struct Kill {
    pub ending: Ending,
    /// The message of its event.
    pub message: String,
}

/// Returns the kill that comes first, if there is one, and records its events. `until` is the time at which the pod was
/// asked to stop: what happens later kills nobody.
pub fn kill(
    view: &ContainerView<'_>,
    status: &ContainerStatus,
    health: &Health,
    until: Option<Timestamp>,
    now: Timestamp,
    progress: &mut Progress,
) -> Option<Kill> {
    let probes = health.failed_probe.as_ref().map(|failed| of_probe(view, failed.name, failed.spec, failed.at));
    let kills = [probes, of_hook(view, status), of_change(view, status, until, now, progress)];
    let first = kills.into_iter().flatten().min_by_key(|kill| kill.ending.asked_at)?;
    let run = status.restart_count;
    if first.message == HOOK_FAILED {
        // Its message could tell a secret.
        progress.warning(view, run, HOOK_FAILED, "PostStartHook failed".to_owned());
    }
    progress.normal(view, run, "Killing", first.message.clone());
    Some(first)
}

const HOOK_FAILED: &str = "FailedPostStartHook";

fn of_probe(view: &ContainerView<'_>, name: &str, spec: &Probe, at: Timestamp) -> Kill {
    let restarted = if restarts_after_failure(view) { ", will be restarted" } else { "" };
    Kill {
        ending: Ending { asked_at: at, grace: grace(view, spec.termination_grace_period_seconds) },
        message: format!("Container {} failed {} probe{restarted}", view.spec.name, name.to_lowercase()),
    }
}

fn of_hook(view: &ContainerView<'_>, status: &ContainerStatus) -> Option<Kill> {
    let hook = post_start(&view.spec, view.pod).filter(|hook| !hook.succeeds)?;
    let ending = Ending { asked_at: running(status)? + hook.takes, grace: grace(view, None) };
    Some(Kill { ending, message: HOOK_FAILED.to_owned() })
}

/// A container whose image has changed, or whose new resources require it, is replaced, whatever its restart policy.
fn of_change(
    view: &ContainerView<'_>,
    status: &ContainerStatus,
    until: Option<Timestamp>,
    now: Timestamp,
    progress: &mut Progress,
) -> Option<Kill> {
    let run = status.restart_count;
    let is_replaceable = matches!(view.kind, ContainerKind::App | ContainerKind::Sidecar);
    let notes = progress.notes.of(&view.spec.name);
    let is_resized = notes.resize_restarts == Some(run);
    if !is_replaceable || (!is_resized && status.image == images::canonical(view.image())) {
        return None;
    }
    let known = notes.replaced.filter(|(replaced, _)| *replaced == run);
    if known.is_none() && until.is_some() {
        return None;
    }
    let (_, at) = *notes.replaced.insert(known.unwrap_or((run, now)));
    let kind = if view.kind == ContainerKind::Sidecar { "Init container" } else { "Container" };
    let why = if is_resized { "resize requires restart" } else { "definition changed, will be restarted" };
    let message = format!("{kind} {} {why}", view.spec.name);
    Some(Kill { ending: Ending { asked_at: at, grace: grace(view, None) }, message })
}

fn grace(view: &ContainerView<'_>, of_probe: Option<i64>) -> Duration {
    let grace_s = of_probe.or(view.pod.termination_grace_period_seconds);
    grace_s.map_or(DEFAULT_GRACE, |s| Duration::from_secs(u64::try_from(s).unwrap_or(0)))
}
