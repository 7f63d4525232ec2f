//! `Step`: the decision of one authenticator, authorizer, plugin or writer about a request.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The stages of a request, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Gate {
    Authentication,
    Impersonation,
    FlowControl,
    Authorization,
    /// Another server answers the request.
    Aggregation,
    /// A read of stored objects.
    Read,
    MutatingAdmission,
    /// The server itself fills in fields: names, times, addresses.
    Preparation,
    /// The writer's expectations of the existing object.
    Preconditions,
    Validation,
    ValidatingAdmission,
    Storage,
}

/// The decision of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StepOutcome {
    /// Undecided: the next authenticator or authorizer decides.
    NoOpinion,
    /// Authenticated, allowed, admitted or valid.
    Passed,
    /// Admitted, with changes.
    Changed,
    Refused,
    Stored,
    Removed,
    /// A dry run, or no change.
    NotWritten,
    /// Another writer was faster: the write begins again.
    Outrun,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    pub gate: Gate,
    /// The question that was decided, if a gate has more than one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub question: String,
    /// The plugin that calls the webhook or evaluates the policy.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub of: String,
    /// The name of the authenticator, authorizer, plugin or writer that decided.
    pub by: String,
    pub outcome: StepOutcome,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The rule that allowed the request, the bindings that did not, or all field errors.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<String>,
    /// The change as a JSON patch (RFC 6902).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patch: Option<Value>,
    /// The step was shortened, because a trace has a limit.
    #[serde(default, skip_serializing_if = "is_false")]
    pub cut: bool,
    /// The revision of the object that was read, stored or removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<u64>,
    /// The number of the attempt, from 2 on: other writers were faster.
    #[serde(default, skip_serializing_if = "is_first")]
    pub attempt: u32,
    /// The number of the round of mutating plugins, from 2 on: a plugin asked for another one.
    #[serde(default, skip_serializing_if = "is_first")]
    pub round: u32,
    #[serde(rename = "tookMicroseconds")]
    pub took_us: u64,
}

fn is_false(flag: &bool) -> bool {
    !flag
}

fn is_first(count: &u32) -> bool {
    *count < 2
}

impl Step {
    pub fn new(gate: Gate, by: impl Into<String>, outcome: StepOutcome) -> Self {
        Self {
            gate,
            question: String::new(),
            of: String::new(),
            by: by.into(),
            outcome,
            reason: String::new(),
            details: Vec::new(),
            patch: None,
            cut: false,
            revision: None,
            attempt: 1,
            round: 1,
            took_us: 0,
        }
    }

    pub fn because(self, reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), ..self }
    }

    pub fn details(self, details: Vec<String>) -> Self {
        Self { details, ..self }
    }

    pub fn at_revision(self, revision: u64) -> Self {
        Self { revision: Some(revision), ..self }
    }
}
