//! Steps of a write in the trace of its request: preparation, validation, preconditions and the store.

use super::Result;
use super::mutation::Mutation;
use proto::meta::status::FieldError;
use request::trace::{Before, Gate, Step, StepOutcome};
use serde_json::Value;

impl Mutation<'_> {
    /// Records the number of the attempt that begins.
    pub(super) fn attempt(&self, number: usize) {
        if let Some(steps) = self.steps {
            steps.attempt(u32::try_from(number).unwrap_or(u32::MAX));
        }
    }

    /// Starts the clock of a stage.
    pub(super) fn begin_stage(&self) {
        self.steps.inspect(|steps| steps.begin());
    }

    /// Keeps the object as it was before its strategy prepares it; `None` when the request is not traced.
    pub(super) fn before(&self, object: &Value) -> Option<Before> {
        let steps = self.steps?;
        steps.begin();
        Some(Before::of(object))
    }

    /// Records what the strategy changed in the object.
    pub(super) fn trace_preparation(&self, before: Option<Before>, object: &Value) {
        let (Some(steps), Some(before)) = (self.steps, before) else { return };
        let served = self.target.row.storage_version();
        let change = before.then(object, &served.group, &served.resource);
        let outcome = if change.is_some() { StepOutcome::Changed } else { StepOutcome::Passed };
        let step = Step::new(Gate::Preparation, format!("strategy of {}", served.resource), outcome);
        steps.add(Step { patch: change.into_patch(), ..step });
    }

    /// Records the field errors of validation.
    pub(super) fn trace_validation(&self, errors: &[FieldError]) {
        let Some(steps) = self.steps else { return };
        let outcome = if errors.is_empty() { StepOutcome::Passed } else { StepOutcome::Refused };
        let step = Step::new(Gate::Validation, format!("strategy of {}", self.served().resource), outcome);
        steps.add(step.details(errors.iter().map(ToString::to_string).collect()));
    }

    /// Records a precondition that does not hold.
    pub(super) fn trace_preconditions(&self, outcome: &Result<()>) {
        let (Some(steps), Err(error)) = (self.steps, outcome) else { return };
        steps.add(Step::new(Gate::Preconditions, "the writer", StepOutcome::Refused).because(error.to_string()));
    }

    /// Records the outcome of a write to the store; the revision is 0 when nothing was written.
    pub(super) fn trace_storage(&self, key: &str, outcome: StepOutcome, revision: u64) {
        let Some(steps) = self.steps else { return };
        let step = Step::new(Gate::Storage, key, outcome);
        steps.add(if revision == 0 { step } else { step.at_revision(revision) });
    }

    /// Records why nothing was sent to the store.
    pub(super) fn trace_not_written(&self, key: &str, why: &str) {
        let Some(steps) = self.steps else { return };
        steps.add(Step::new(Gate::Storage, key, StepOutcome::NotWritten).because(why));
    }
}
