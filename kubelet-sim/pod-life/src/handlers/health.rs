//! The health of a running container, as its probes find it: started, ready, or failed for good.
//!
//! Corresponds to Manager.UpdatePodStatus of pkg/kubelet/prober.

use crate::handlers::hook::post_start;
use crate::handlers::probe::{FailedProbe, Findings, ProbeEnd, ProbeRun};
use crate::handlers::target;
use crate::outcomes::Outcomes;
use crate::progress::{Progress, RunAttempt};
use crate::state::running;
use crate::story::ContainerKind;
use crate::view::ContainerView;
use proto::kinds::api::core::v1::{ContainerStatus, Probe};
use proto::kinds::jiff::Timestamp;

/// The health of a running container.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Health<'a> {
    /// When the startup probe succeeded, or the container started without one.
    pub started_at: Option<Timestamp>,
    pub is_ready: bool,
    /// Set once a probe has failed so often that the container is killed.
    pub failed_probe: Option<FailedThreshold<'a>>,
}

/// A startup or liveness probe that has reached its failure threshold.
#[derive(Clone, Debug, PartialEq)]
pub struct FailedThreshold<'a> {
    pub name: &'static str,
    pub spec: &'a Probe,
    pub at: Timestamp,
}

/// Returns the health of a container at `now`; `None` when it does not run. Records an event for a probe that has just
/// failed. `probed_until` is the time at which the pod was asked to stop: only readiness is probed after that.
pub fn observe<'a>(
    view: &'a ContainerView<'_>,
    status: &ContainerStatus,
    probed_until: Option<Timestamp>,
    now: Timestamp,
    progress: &mut Progress,
) -> Option<Health<'a>> {
    let container_started_at = running(status)?;
    let mut prober = Prober { view, run: status.restart_count, container_started_at, now, probed_until, progress };
    let mut health = Health::default();
    if post_start(&view.spec, view.pod).is_some_and(|hook| !hook.succeeds) {
        return Some(health); // It is killed before anything is probed.
    }
    match &view.spec.startup_probe {
        None => health.started_at = Some(container_started_at),
        Some(spec) => match prober.probe("Startup", spec, &view.story.startup, container_started_at).result {
            Some((true, at)) => health.started_at = Some(at),
            Some((false, at)) => health.failed_probe = Some(FailedThreshold { name: "Startup", spec, at }),
            None => {}
        },
    }
    let Some(started_at) = health.started_at else { return Some(health) };
    if let Some(spec) = &view.spec.liveness_probe {
        let result = prober.probe("Liveness", spec, &view.story.liveness, started_at).result;
        let failed = result.filter(|(succeeds, _)| !succeeds);
        health.failed_probe = failed.map(|(_, at)| FailedThreshold { name: "Liveness", spec, at });
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
    fn probe(&mut self, name: &'static str, spec: &Probe, story: &Option<Outcomes>, enabled_at: Timestamp) -> Findings {
        let by_itself;
        let outcomes = match story {
            Some(story) => story,
            None => {
                by_itself = target::outcomes(self.view, spec);
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
        self.progress.probes.insert((self.view.spec.name.clone(), name), findings.counts);
        if let Some(FailedProbe { number, outcome }) = findings.failing {
            let attempt = RunAttempt { run: self.run, attempt: u32::try_from(number).unwrap_or(u32::MAX) };
            let output = target::output(self.view, spec, outcome, story.is_some());
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
