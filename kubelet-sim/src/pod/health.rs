//! The health of a running container, as its probes find it: started, ready, or to be killed.
//!
//! Corresponds to pkg/kubelet/prober: Manager.UpdatePodStatus, and to the part of computePodActions that kills a
//! container whose liveness or startup probe has failed.

use crate::pod::exit::Ending;
use crate::pod::probe::{FailedProbe, Findings, ProbeEnd, ProbeRun, seconds};
use crate::pod::probe_outcome::Outcomes;
use crate::pod::probe_target;
use crate::pod::progress::{Progress, RunAttempt};
use crate::pod::restart::restarts_after_failure;
use crate::pod::state::running;
use crate::pod::story::ContainerKind;
use crate::pod::view::ContainerView;
use proto::kinds::api::core::v1::{ContainerStatus, Probe};
use proto::kinds::jiff::Timestamp;
use std::time::Duration;

/// The health of a running container.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Health {
    /// When the startup probe succeeded, or the container started without one.
    pub started_at: Option<Timestamp>,
    pub is_ready: bool,
    /// Set once a probe has failed so often that the container is killed.
    pub kill: Option<Kill>,
}

/// A container that is killed because of a probe.
#[derive(Clone, Debug, PartialEq)]
pub struct Kill {
    pub ending: Ending,
    /// The message of its event.
    pub message: String,
}

/// Returns the health of a container at `now`; `None` when it does not run. Records an event for a probe that has just
/// failed. `probed_until` is the time at which the pod was asked to stop: only readiness is probed after that.
pub fn observe(
    view: &ContainerView<'_>,
    status: &ContainerStatus,
    probed_until: Option<Timestamp>,
    now: Timestamp,
    progress: &mut Progress,
) -> Option<Health> {
    let container_started_at = running(status)?;
    let mut prober = Prober { view, run: status.restart_count, container_started_at, now, probed_until, progress };
    let mut health = Health::default();
    match &view.spec.startup_probe {
        None => health.started_at = Some(container_started_at),
        Some(spec) => match prober.probe("Startup", spec, &view.story.startup, container_started_at).result {
            Some((true, at)) => health.started_at = Some(at),
            Some((false, at)) => health.kill = Some(kill(view, "startup", spec, at)),
            None => {}
        },
    }
    let Some(started_at) = health.started_at else { return Some(health) };
    if let Some(spec) = &view.spec.liveness_probe {
        let result = prober.probe("Liveness", spec, &view.story.liveness, started_at).result;
        health.kill = result.filter(|(succeeds, _)| !succeeds).map(|(_, at)| kill(view, "liveness", spec, at));
    }
    health.is_ready = match (&view.story.ready_after, &view.spec.readiness_probe) {
        (Some(after), _) => after.is_some_and(|after| prober.has_passed(container_started_at + after)),
        (None, None) => true,
        (None, Some(spec)) => {
            let result = prober.probe("Readiness", spec, &view.story.readiness, started_at).result;
            result.is_some_and(|(succeeds, _)| succeeds)
        }
    };
    // Init containers have no readiness of their own while they run.
    health.is_ready &= view.kind != ContainerKind::Init;
    Some(health)
}

/// Runs the probes of one container.
struct Prober<'a, 'p> {
    view: &'a ContainerView<'a>,
    run: i32,
    container_started_at: Timestamp,
    now: Timestamp,
    probed_until: Option<Timestamp>,
    progress: &'p mut Progress,
}

impl Prober<'_, '_> {
    fn probe(&mut self, name: &str, spec: &Probe, story: &Option<Outcomes>, enabled_at: Timestamp) -> Findings {
        let by_itself;
        let outcomes = match story {
            Some(story) => story,
            None => {
                by_itself = Outcomes::always(probe_target::outcome(self.view, spec));
                &by_itself
            }
        };
        let end = match name {
            "Startup" => ProbeEnd::AnyResult,
            "Liveness" => ProbeEnd::Failure,
            _ => ProbeEnd::Never,
        };
        let stops_at = self.probed_until.filter(|_| end != ProbeEnd::Never);
        let until = stops_at.map_or(self.now, |stops_at| self.now.min(stops_at));
        let run = ProbeRun { spec, outcomes, container_started_at: self.container_started_at, enabled_at, end };
        let findings = run.findings(until);
        if let Some(FailedProbe { number, outcome }) = findings.failing {
            let attempt = RunAttempt { run: self.run, attempt: u32::try_from(number).unwrap_or(u32::MAX) };
            let output = probe_target::output(self.view, spec, outcome, story.is_some());
            self.progress.warning(self.view, attempt, "Unhealthy", format!("{name} probe failed: {output}"));
        }
        if let (Some(next), None) = (findings.next, stops_at) {
            self.progress.wake_by(next);
        }
        findings
    }

    fn has_passed(&mut self, at: Timestamp) -> bool {
        if self.now < at {
            self.progress.wake_by(at);
        }
        self.now >= at
    }
}

fn kill(view: &ContainerView<'_>, probe: &str, spec: &Probe, at: Timestamp) -> Kill {
    let restarted = if restarts_after_failure(view) { ", will be restarted" } else { "" };
    let of_probe = spec.termination_grace_period_seconds;
    let grace_s = of_probe.or(view.pod.termination_grace_period_seconds);
    Kill {
        ending: Ending {
            asked_at: at,
            grace: grace_s.map_or(seconds(None, 30), |s| Duration::from_secs(u64::try_from(s).unwrap_or(0))),
        },
        message: format!("Container {} failed {probe} probe{restarted}", view.spec.name),
    }
}
