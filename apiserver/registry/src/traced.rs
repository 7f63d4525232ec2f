//! What a write leaves in a trace of its request: what the server filled in, what validation said, which revision it got.

use super::Result;
use super::mutation::Mutation;
use proto::meta::status::FieldError;
use request::trace::{Before, Gate, Step, StepOutcome};
use serde_json::Value;

impl Mutation<'_> {
    /// Which time the write is tried.
    pub(super) fn attempt(&self, number: usize) {
        if let Some(steps) = self.steps {
            steps.attempt(u32::try_from(number).unwrap_or(u32::MAX));
        }
    }

    /// A stage begins: what was done until now is not its time.
    pub(super) fn begin_stage(&self) {
        self.steps.inspect(|steps| steps.begin());
    }

    /// The object before the server fills in what is its own.
    pub(super) fn before(&self, object: &Value) -> Option<Before> {
        let steps = self.steps?;
        steps.begin();
        Some(Before::of(object))
    }

    pub(super) fn prepared(&self, before: Option<Before>, object: &Value) {
        let (Some(steps), Some(before)) = (self.steps, before) else { return };
        let served = self.target.row.storage_version();
        let change = before.then(object, &served.group, &served.resource);
        let outcome = if change.is_some() { StepOutcome::Changed } else { StepOutcome::Passed };
        let step = Step::new(Gate::Preparation, format!("strategy of {}", served.resource), outcome);
        steps.add(Step { patch: change.into_patch(), ..step });
    }

    pub(super) fn validated(&self, errors: &[FieldError]) {
        let Some(steps) = self.steps else { return };
        let outcome = if errors.is_empty() { StepOutcome::Passed } else { StepOutcome::Refused };
        let step = Step::new(Gate::Validation, format!("strategy of {}", self.served().resource), outcome);
        steps.add(step.details(errors.iter().map(ToString::to_string).collect()));
    }

    pub(super) fn expected(&self, outcome: &Result<()>) {
        let (Some(steps), Err(error)) = (self.steps, outcome) else { return };
        steps.add(Step::new(Gate::Preconditions, "the writer", StepOutcome::Refused).because(error.to_string()));
    }

    pub(super) fn stored(&self, key: &str, outcome: StepOutcome, revision: u64) {
        let Some(steps) = self.steps else { return };
        let step = Step::new(Gate::Storage, key, outcome);
        steps.add(if revision == 0 { step } else { step.at_revision(revision) });
    }

    pub(super) fn not_written(&self, key: &str, why: &str) {
        let Some(steps) = self.steps else { return };
        steps.add(Step::new(Gate::Storage, key, StepOutcome::NotWritten).because(why));
    }
}
