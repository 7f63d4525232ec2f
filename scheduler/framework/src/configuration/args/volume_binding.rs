//! `VolumeBindingArgs`: how long the binding of volumes may take.
//!
//! Corresponds to VolumeBindingArgs of k8s.io/kube-scheduler/config/v1.

use super::Args;
use super::function_shape::FunctionShape;
use proto::meta::status::FieldError;
use serde::{Deserialize, Serialize};
use serde_json::json;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct VolumeBindingArgs {
    pub bind_timeout_seconds: i64,
    /// Scores of nodes by the use of their storage. Needs the feature gate StorageCapacityScoring, which is off.
    pub shape: Option<FunctionShape>,
}

impl Default for VolumeBindingArgs {
    fn default() -> Self {
        Self { bind_timeout_seconds: 600, shape: None }
    }
}

impl Args for VolumeBindingArgs {
    fn validate(&self, path: &str, errors: &mut Vec<FieldError>) {
        if self.bind_timeout_seconds < 0 {
            let (path, value) = (format!("{path}.bindTimeoutSeconds"), json!(self.bind_timeout_seconds));
            let why = "invalid BindTimeoutSeconds, should not be a negative value";
            errors.push(FieldError::invalid(path, &value, why));
        }
        if let Some(shape) = &self.shape {
            let why = "unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring";
            errors.push(FieldError::invalid(format!("{path}.shape"), &json!(shape), why));
        }
    }
}
