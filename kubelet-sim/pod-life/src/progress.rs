//! Collects the results of a step over a pod's containers: events to record, pulled images, and when the next step is
//! due.

use crate::notes::Notes;
use crate::story::ContainerKind;
use crate::view::ContainerView;
use proto::kinds::jiff::Timestamp;
use std::collections::BTreeMap;

/// An event about a pod. `occurrence` identifies it, so that a step that is taken twice records it once.
#[derive(Clone, Debug, PartialEq)]
pub struct PodEvent {
    pub warning: bool,
    pub reason: String,
    pub message: String,
    /// The container, as in `spec.containers{web}`; empty for the pod as a whole.
    pub field_path: String,
    pub occurrence: String,
}

impl PodEvent {
    /// Returns an event about the pod as a whole.
    pub fn of_pod(warning: bool, reason: &str, message: impl Into<String>) -> Self {
        let (reason, message) = (reason.to_owned(), message.into());
        Self { warning, occurrence: format!("{reason}/{message}"), reason, message, field_path: String::new() }
    }

    /// Tells this event from those of other attempts at the same thing.
    pub fn of_attempt(self, attempt: u32) -> Self {
        Self { occurrence: format!("{}/{attempt}", self.occurrence), ..self }
    }
}

/// How many probes of one kind have succeeded and failed during a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProbeCounts {
    pub successes: u64,
    pub failures: u64,
}

impl ProbeCounts {
    pub fn add(&mut self, succeeds: bool, count: u64) {
        *(if succeeds { &mut self.successes } else { &mut self.failures }) += count;
    }
}

/// The results of a step so far.
#[derive(Debug, Default)]
pub struct Progress {
    pub events: Vec<PodEvent>,
    pub wake_at: Option<Timestamp>,
    /// Images that have been pulled onto the node.
    pub pulled: Vec<String>,
    /// By container and kind of probe: how many there were in the present run.
    pub probes: BTreeMap<(String, &'static str), ProbeCounts>,
    /// What the agent keeps in memory.
    pub notes: Notes,
}

impl Progress {
    /// Asks for a step at this time at the latest.
    pub fn wake_by(&mut self, at: Timestamp) {
        self.wake_at = Some(self.wake_at.map_or(at, |other| other.min(at)));
    }

    /// Records an event of type Normal. `run` is part of its identity: what happens again in another run is recorded
    /// again.
    pub fn normal(&mut self, view: &ContainerView<'_>, run: impl Into<RunAttempt>, reason: &str, message: String) {
        self.record(view, run.into(), false, reason, message);
    }

    /// Records an event of type Warning.
    pub fn warning(&mut self, view: &ContainerView<'_>, run: impl Into<RunAttempt>, reason: &str, message: String) {
        self.record(view, run.into(), true, reason, message);
    }

    fn record(
        &mut self,
        view: &ContainerView<'_>,
        run_attempt: RunAttempt,
        warning: bool,
        reason: &str,
        message: String,
    ) {
        let list = match view.kind {
            ContainerKind::App => "containers",
            ContainerKind::Init | ContainerKind::Sidecar => "initContainers",
            ContainerKind::Ephemeral => "ephemeralContainers",
        };
        let RunAttempt { run, attempt } = run_attempt;
        let field_path = format!("spec.{list}{{{}}}", view.spec.name);
        let occurrence = format!("{reason}/{field_path}/{run}/{attempt}/{message}");
        self.events.push(PodEvent { warning, reason: reason.to_owned(), message, field_path, occurrence });
    }
}

/// A run of a container, and the attempt to start it.
#[derive(Clone, Copy, Debug)]
pub struct RunAttempt {
    pub run: i32,
    pub attempt: u32,
}

impl From<i32> for RunAttempt {
    fn from(run: i32) -> Self {
        Self { run, attempt: 0 }
    }
}
