//! `Step`: what one authenticator, authorizer, plugin or writer said to a request.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Where on its way a request is, in the order in which it gets there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Gate {
    Authentication,
    Impersonation,
    FlowControl,
    Authorization,
    /// Another server answers.
    Aggregation,
    /// A read of what is stored.
    Read,
    MutatingAdmission,
    /// What the server itself fills in: names, times, addresses.
    Preparation,
    /// What the writer expects of the object that is there.
    Preconditions,
    Validation,
    ValidatingAdmission,
    Storage,
}

/// What was said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Outcome {
    /// The next one is asked.
    NoOpinion,
    /// Known, allowed, admitted, valid.
    Passed,
    /// Admitted, with changes.
    Changed,
    Refused,
    Stored,
    Removed,
    /// A dry run, or nothing changed.
    NotWritten,
    /// Another writer was faster: it begins again.
    Outrun,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    pub gate: Gate,
    /// What had to be decided, where a gate has more than one question.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub question: String,
    /// The plugin that a webhook or policy is asked by.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub of: String,
    /// Who said it.
    pub by: String,
    pub outcome: Outcome,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The rule that allowed it, the bindings that did not, every error of a field.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<String>,
    /// What changed, as a JSON patch (RFC 6902).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patch: Option<Value>,
    /// There was more to tell than a trace may hold.
    #[serde(default, skip_serializing_if = "is_false")]
    pub cut: bool,
    /// Of the object that was read, stored or removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<u64>,
    /// From 2 on: which time the write was tried, because other writers were faster.
    #[serde(default, skip_serializing_if = "is_first")]
    pub attempt: u32,
    /// From 2 on: which time the mutating plugins ran, because one of them asked for it.
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
    pub fn new(gate: Gate, by: impl Into<String>, outcome: Outcome) -> Self {
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
