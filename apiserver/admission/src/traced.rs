//! What plugins, webhooks and policies leave in a trace of the request: who, what it changed, and what it said.
//!
//! Nothing of this happens where nobody wants a trace: an object is copied only to be compared.

use super::Attributes;
use proto::Status;
use proto::resources::Served;
use request::trace::{Before, Change, Gate, Step, StepOutcome};
use serde_json::Value;
use tokio::time::Instant;

/// What was there before a plugin.
#[derive(Debug)]
pub struct BeforePlugin {
    object: Option<Before>,
    /// Steps that were told before it.
    steps: usize,
}

/// Somebody whom a plugin asks: a webhook, a policy.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    pub gate: Gate,
    pub plugin: &'a str,
    pub name: &'a str,
}

/// What he says.
#[derive(Clone, Copy, Debug)]
pub enum Word<'a> {
    Admits,
    /// Something is wrong, and the write is admitted all the same.
    Objects(&'a str),
    Refuses(&'a str),
}

impl Attributes<'_> {
    pub(super) fn before_plugin(&self) -> Option<BeforePlugin> {
        let steps = self.steps?;
        let before = BeforePlugin { object: self.object.as_deref().map(Before::of), steps: steps.len() };
        steps.begin();
        Some(before)
    }

    /// What a plugin did. One whose webhooks and policies have told it already has nothing to add.
    pub(super) fn after_plugin(&self, before: BeforePlugin, gate: Gate, name: &str, outcome: &Result<(), Status>) {
        let Some(steps) = self.steps else { return };
        let has_told = steps.len() > before.steps;
        let refusal = outcome.as_ref().err().map(|status| status.message.as_str());
        match (has_told, refusal) {
            (false, _) => {
                let patch = before.object.and_then(|before| self.change(&before));
                steps.add(self.step(gate, name, patch, refusal));
            }
            (true, Some(why)) => steps.add(self.step(gate, name, None, Some(why))),
            (true, None) => steps.begin(),
        }
    }

    /// What a policy made of the object. One that changed nothing after it was told what went wrong has nothing to add.
    pub(super) fn after_policy(&self, before: BeforePlugin, asked: Asked<'_>, refusal: Option<&str>) {
        let has_told = self.steps.is_some_and(|steps| steps.len() > before.steps);
        let patch = before.object.and_then(|before| self.change(&before));
        match refusal {
            None if has_told && patch.is_none() => {}
            None => self.heard(asked, patch, Word::Admits, None),
            Some(why) => self.heard(asked, patch, Word::Refuses(why), None),
        }
    }

    /// What a webhook makes of the object, where a trace is wanted.
    pub(super) fn change_to(&self, changed: Option<&Value>) -> Option<Value> {
        self.steps?;
        let Served { group, resource, .. } = self.served;
        Change::between(self.new_object(), changed?, group, resource).into_patch()
    }

    /// What was made of it since, as a JSON patch.
    fn change(&self, before: &Before) -> Option<Value> {
        before.then(self.new_object(), &self.served.group, &self.served.resource).into_patch()
    }

    /// What a webhook or a policy said since `began`, or since the last step.
    pub(super) fn heard(&self, asked: Asked<'_>, patch: Option<Value>, word: Word<'_>, began: Option<Instant>) {
        let Some(steps) = self.steps else { return };
        let (refusal, reason) = match word {
            Word::Admits => (None, ""),
            Word::Objects(why) => (None, why),
            Word::Refuses(why) => (Some(why), why),
        };
        let step = self.step(asked.gate, asked.name, patch, refusal).because(reason);
        let step = Step { of: asked.plugin.to_owned(), ..step };
        match began {
            Some(began) => steps.add_since(began, step),
            None => steps.add(step),
        }
    }

    /// What went wrong with a webhook or a policy that lets nobody suffer for it.
    pub(super) fn overlooked(&self, asked: Asked<'_>, why: &str, began: Option<Instant>) {
        if self.steps.is_some() {
            let why = format!("it failed, and its failurePolicy is Ignore: {why}");
            self.heard(asked, None, Word::Objects(&why), began);
        }
    }

    fn step(&self, gate: Gate, by: &str, patch: Option<Value>, refusal: Option<&str>) -> Step {
        let outcome = match (refusal, &patch) {
            (Some(_), _) => StepOutcome::Refused,
            (None, Some(_)) => StepOutcome::Changed,
            (None, None) => StepOutcome::Passed,
        };
        let round = 1 + u32::from(self.reinvocation.is_second());
        Step { patch, round, ..Step::new(gate, by, outcome).because(refusal.unwrap_or_default()) }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Write;
    use serde_json::json;

    #[tokio::test]
    async fn nothing_is_copied_where_nobody_wants_a_trace() {
        let write = Write::create("", "configmaps", json!({"metadata": {"name": "m", "namespace": "a"}}));
        let seen = write.see(async |attributes| {
            assert!(attributes.before_plugin().is_none());
            assert!(attributes.change_to(Some(&json!({"changed": true}))).is_none());
            Ok(())
        });
        seen.await.passed();
    }
}
