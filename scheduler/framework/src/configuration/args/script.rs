//! `ScriptArgs`: the script of a policy, and what one call of it may use. Kubernetes has no such plugin.

use super::Args;
use proto::meta::status::FieldError;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// Names of the plugin. Each may have a script of its own in the same profile.
pub const NAMES: [&str; 4] = ["Script", "Script2", "Script3", "Script4"];

/// Most steps that a call may take: about a second.
const MAX_STEPS: i64 = 10_000_000;
/// Most memory that a call may take.
const MAX_MEMORY_BYTES: i64 = 1 << 30;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ScriptArgs {
    /// File with the script.
    pub path: Option<String>,
    /// The script itself, instead of a file.
    pub source: Option<String>,
    pub limits: ScriptLimits,
}

/// What a call may use before it fails.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ScriptLimits {
    /// Calls and rounds of loops. A function of a library takes more for a large argument.
    pub steps: i64,
    /// Memory that the call allocates, and memory that a script may keep between calls.
    pub memory_bytes: i64,
}

impl Default for ScriptLimits {
    fn default() -> Self {
        Self { steps: 100_000, memory_bytes: 1 << 20 }
    }
}

impl Args for ScriptArgs {
    fn validate(&self, path: &str, errors: &mut Vec<FieldError>) {
        match (&self.path, &self.source) {
            (Some(_), None) | (None, Some(_)) => {}
            (None, None) => errors.push(FieldError::required(format!("{path}.path"), "path or source is required")),
            (Some(given), Some(_)) => {
                let why = "may not be given together with source";
                errors.push(FieldError::invalid(format!("{path}.path"), &json!(given), why));
            }
        }
        let ScriptLimits { steps, memory_bytes } = self.limits;
        for (name, value, most) in [("steps", steps, MAX_STEPS), ("memoryBytes", memory_bytes, MAX_MEMORY_BYTES)] {
            if !(1..=most).contains(&value) {
                let why = format!("not in valid range [1, {most}]");
                errors.push(FieldError::invalid(format!("{path}.limits.{name}"), &json!(value), why));
            }
        }
    }
}
