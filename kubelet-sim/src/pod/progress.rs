//! What the steps of a pod's containers add up to: events to tell, images pulled, and when to look again.

use crate::pod::script::Role;
use crate::pod::view::ContainerView;
use proto::kinds::jiff::Timestamp;

/// What a step tells about a pod. `once` names the occurrence, so that a step that is taken again tells it once.
#[derive(Clone, Debug, PartialEq)]
pub struct PodEvent {
    pub warning: bool,
    pub reason: String,
    pub message: String,
    /// `spec.containers{web}`; empty for the pod as a whole.
    pub field_path: String,
    pub occurrence: String,
}

impl PodEvent {
    /// About the pod as a whole.
    pub fn of_pod(warning: bool, reason: &str, message: impl Into<String>) -> Self {
        let (reason, message) = (reason.to_owned(), message.into());
        Self { warning, occurrence: format!("{reason}/{message}"), reason, message, field_path: String::new() }
    }
}

#[derive(Debug, Default)]
pub struct Progress {
    pub events: Vec<PodEvent>,
    pub wake_at: Option<Timestamp>,
    /// Images that have been pulled onto the node.
    pub pulled: Vec<String>,
}

impl Progress {
    pub fn wake_by(&mut self, at: Timestamp) {
        self.wake_at = Some(self.wake_at.map_or(at, |other| other.min(at)));
    }

    /// `run` counts the container's runs, or within one the tries: what happens again is told again.
    pub fn normal(&mut self, view: &ContainerView<'_>, run: impl Into<Occasion>, reason: &str, message: String) {
        self.record(view, run.into(), false, reason, message);
    }

    pub fn warning(&mut self, view: &ContainerView<'_>, run: impl Into<Occasion>, reason: &str, message: String) {
        self.record(view, run.into(), true, reason, message);
    }

    fn record(&mut self, view: &ContainerView<'_>, occasion: Occasion, warning: bool, reason: &str, message: String) {
        let list = match view.role {
            Role::App => "containers",
            Role::Init | Role::Sidecar => "initContainers",
            Role::Ephemeral => "ephemeralContainers",
        };
        let Occasion { run, attempt } = occasion;
        let field_path = format!("spec.{list}{{{}}}", view.spec.name);
        let occurrence = format!("{reason}/{field_path}/{run}/{attempt}/{message}");
        self.events.push(PodEvent { warning, reason: reason.to_owned(), message, field_path, occurrence });
    }
}

/// Which run of a container, and which attempt to start it.
#[derive(Clone, Copy, Debug)]
pub struct Occasion {
    pub run: i32,
    pub attempt: u32,
}

impl From<i32> for Occasion {
    fn from(run: i32) -> Self {
        Self { run, attempt: 0 }
    }
}
