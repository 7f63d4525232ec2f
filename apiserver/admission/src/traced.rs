//! Records plugins, webhooks and policies in a trace of the request: what each changed, and what it decided.
//!
//! Without a trace, no object is copied.

use super::Attributes;
use proto::Status;
use proto::resources::Served;
use request::trace::{Before, Change, Gate, Step, StepOutcome};
use serde_json::Value;
use tokio::time::Instant;

/// State before a plugin runs.
#[derive(Debug)]
pub struct BeforePlugin {
    object: Option<Before>,
    /// Number of steps recorded before it.
    steps: usize,
}

/// A webhook or policy that a plugin calls.
#[derive(Clone, Copy, Debug)]
pub struct TracedHook<'a> {
    pub gate: Gate,
    pub plugin: &'a str,
    pub name: &'a str,
}

/// Decision of a webhook or policy.
#[derive(Clone, Copy, Debug)]
pub enum HookDecision<'a> {
    Admits,
    /// Admits the write in spite of a problem: a warning, or a failure that is ignored.
    AdmitsDespite(&'a str),
    Refuses(&'a str),
}

impl Attributes<'_> {
    pub(super) fn before_plugin(&self) -> Option<BeforePlugin> {
        let steps = self.steps?;
        let before = BeforePlugin { object: self.object.as_deref().map(Before::of), steps: steps.len() };
        steps.begin();
        Some(before)
    }

    /// Records a plugin, unless its webhooks and policies have recorded steps and it succeeded.
    pub(super) fn record_plugin(&self, before: BeforePlugin, gate: Gate, name: &str, outcome: &Result<(), Status>) {
        let Some(steps) = self.steps else { return };
        let has_recorded = steps.len() > before.steps;
        let refusal = outcome.as_ref().err().map(|status| status.message.as_str());
        match (has_recorded, refusal) {
            (false, _) => {
                let patch = before.object.and_then(|before| self.change(&before));
                steps.add(self.step(gate, name, patch, refusal));
            }
            (true, Some(why)) => steps.add(self.step(gate, name, None, Some(why))),
            (true, None) => steps.begin(),
        }
    }

    /// Records a policy and its change, unless its failure is already recorded and it changed nothing.
    pub(super) fn record_policy(&self, before: BeforePlugin, hook: TracedHook<'_>, refusal: Option<&str>) {
        let has_recorded = self.steps.is_some_and(|steps| steps.len() > before.steps);
        let patch = before.object.and_then(|before| self.change(&before));
        match refusal {
            None if has_recorded && patch.is_none() => {}
            None => self.record_hook(hook, patch, HookDecision::Admits, None),
            Some(why) => self.record_hook(hook, patch, HookDecision::Refuses(why), None),
        }
    }

    /// Returns the change of a webhook as a JSON patch, if the request is traced.
    pub(super) fn patch_to(&self, changed: Option<&Value>) -> Option<Value> {
        self.steps?;
        let Served { group, resource, .. } = self.served;
        Change::between(self.new_object(), changed?, group, resource).into_patch()
    }

    /// Returns the change since `before` as a JSON patch.
    fn change(&self, before: &Before) -> Option<Value> {
        before.then(self.new_object(), &self.served.group, &self.served.resource).into_patch()
    }

    /// Records the decision of a webhook or policy. Its duration is counted from `began`, or from the last step.
    pub(super) fn record_hook(
        &self,
        hook: TracedHook<'_>,
        patch: Option<Value>,
        decision: HookDecision<'_>,
        began: Option<Instant>,
    ) {
        let Some(steps) = self.steps else { return };
        let (refusal, reason) = match decision {
            HookDecision::Admits => (None, ""),
            HookDecision::AdmitsDespite(why) => (None, why),
            HookDecision::Refuses(why) => (Some(why), why),
        };
        let step = self.step(hook.gate, hook.name, patch, refusal).because(reason);
        let step = Step { of: hook.plugin.to_owned(), ..step };
        match began {
            Some(began) => steps.add_since(began, step),
            None => steps.add(step),
        }
    }

    /// Records the failure of a webhook or policy with `failurePolicy: Ignore`.
    pub(super) fn record_ignored_failure(&self, hook: TracedHook<'_>, why: &str, began: Option<Instant>) {
        if self.steps.is_some() {
            let why = format!("it failed, and its failurePolicy is Ignore: {why}");
            self.record_hook(hook, None, HookDecision::AdmitsDespite(&why), began);
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
            assert!(attributes.patch_to(Some(&json!({"changed": true}))).is_none());
            Ok(())
        });
        seen.await.passed();
    }
}
