//! `Stage`: one rule.

use crate::delay::Delay;
use crate::expression::Expression;
use crate::problem::Problem;
use crate::reader::Reader;
use crate::selector::Selector;
use crate::step::{self, Step};
use crate::template::Facts;
use jiff::Timestamp;
use serde_json::Value;
use std::time::Duration;

pub use crate::step::{Action, EventKind, PatchKind};

pub const API_VERSION: &str = "kwok.x-k8s.io/v1alpha1";

/// The kind of object that a stage is for.
///
/// Deviation: KWOK's stages may be for any kind. Here only pods and nodes have stages, because only they have a
/// simulated kubelet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    Node,
    Pod,
}

#[derive(Clone, Debug)]
pub struct Stage {
    pub name: String,
    pub subject: Subject,
    /// Without a selector, a stage is for no object.
    selector: Option<Selector>,
    weight: i64,
    weight_from: Option<Expression>,
    delay: Delay,
    steps: Vec<Step>,
    /// True if the object's next stage is looked for in the answer of the API server, not when the change is observed.
    pub is_immediate: bool,
}

impl Stage {
    /// Reads a stage. Every mistake is reported with its path.
    pub fn read(document: &Value) -> Result<Self, Vec<Problem>> {
        let mut reader = Reader::default();
        match Self::read_with(&mut reader, document) {
            Some(stage) if reader.problems.is_empty() => Ok(stage),
            _ => Err(reader.problems),
        }
    }

    fn read_with(reader: &mut Reader, document: &Value) -> Option<Self> {
        let root = reader.object(document, "", &["apiVersion", "kind", "metadata", "spec", "status"])?;
        for (name, wanted) in [("apiVersion", API_VERSION), ("kind", "Stage")] {
            if reader.required_text(&root, name).is_some_and(|text| text != wanted) {
                reader.report(name, format!("must be {wanted}"));
            }
        }
        // Objects of the API server have more metadata than files. None of it is read.
        let name = root.get("metadata").and_then(|metadata| metadata["name"].as_str()).unwrap_or_default();
        if name.is_empty() {
            reader.report("metadata.name", "required");
        }
        let known = ["resourceRef", "selector", "weight", "weightFrom", "delay", "next", "steps", "immediateNextStage"];
        if root.get("spec").is_none() {
            reader.report("spec", "required");
        }
        let spec = reader.child(&root, "spec", &known)?;
        if spec.get("resourceRef").is_none() {
            reader.report("spec.resourceRef", "required");
        }
        let subject = reader.child(&spec, "resourceRef", &["apiGroup", "kind"]).and_then(|resource| {
            let group = reader.text(&resource, "apiGroup").unwrap_or("v1");
            if group != "v1" {
                reader.report("spec.resourceRef.apiGroup", "must be v1");
            }
            match reader.required_text(&resource, "kind")? {
                "Pod" => Some(Subject::Pod),
                "Node" => Some(Subject::Node),
                _ => {
                    reader.report("spec.resourceRef.kind", "must be Pod or Node");
                    None
                }
            }
        });
        let stage = Self {
            name: name.to_owned(),
            subject: subject.unwrap_or(Subject::Pod),
            selector: Selector::read(reader, &spec),
            weight: reader.count(&spec, "weight").and_then(|weight| i64::try_from(weight).ok()).unwrap_or(0),
            weight_from: Expression::read(reader, &spec, "weightFrom"),
            delay: Delay::read(reader, &spec),
            steps: step::read(reader, &spec),
            is_immediate: reader.flag(&spec, "immediateNextStage"),
        };
        Some(stage)
    }

    pub fn matches(&self, subject: Subject, object: &Value) -> bool {
        self.subject == subject && self.selector.as_ref().is_some_and(|selector| selector.matches(object))
    }

    /// Returns the weight among the stages that match an object; `None` if the object says none that can be read.
    pub fn weight(&self, object: &Value) -> Option<i64> {
        match self.weight_from.as_ref().and_then(|from| from.first(object)) {
            None | Some(Value::Null) => Some(self.weight),
            Some(Value::Number(number)) => number.as_i64().filter(|weight| *weight >= 0),
            Some(Value::String(text)) => text.parse().ok().filter(|weight| *weight >= 0),
            Some(_) => None,
        }
    }

    /// Returns how long the stage waits for an object that it was first chosen for at `since`. `draw` lies in `0..1`.
    pub fn delay(&self, object: &Value, since: Timestamp, draw: f64) -> Duration {
        self.delay.of(object, since, draw)
    }

    /// Returns what the stage does to an object, in order. Behind a deletion come only events.
    pub fn actions(&self, object: &Value, facts: &Facts) -> Result<Vec<Action>, Problem> {
        let (mut actions, mut is_deleted) = (Vec::new(), false);
        for step in &self.steps {
            if is_deleted && !matches!(step, Step::Event { .. }) {
                continue;
            }
            is_deleted |= matches!(step, Step::Delete);
            actions.extend(step.action(object, facts)?);
        }
        Ok(actions)
    }
}
