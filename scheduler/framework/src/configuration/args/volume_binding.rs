//! `VolumeBindingArgs`: how long the binding of volumes may take.
//!
//! Corresponds to VolumeBindingArgs of k8s.io/kube-scheduler/config/v1.

use super::Args;
use super::function_shape::{FunctionShape, MAX_CUSTOM_SCORE, MAX_UTILIZATION, ShapePoint};
use proto::meta::status::FieldError;
use serde::{Deserialize, Serialize};
use serde_json::json;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct VolumeBindingArgs {
    pub bind_timeout_seconds: i64,
    /// Scores of nodes by the use of their storage. Needs the feature gate StorageCapacityScoring.
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
    }
}

impl VolumeBindingArgs {
    /// Sets the default shape: the less of its storage a node has used, the better.
    pub fn complete_shape(&mut self) {
        let shape = self.shape.get_or_insert_default();
        if shape.0.is_empty() {
            let point = |utilization, score| ShapePoint { utilization, score };
            shape.0 = vec![point(0, MAX_CUSTOM_SCORE), point(MAX_UTILIZATION, 0)];
        }
    }

    /// Adds what is wrong with the shape. Without the gate StorageCapacityScoring there must be none.
    pub fn validate_shape(&self, is_gate_on: bool, path: &str, errors: &mut Vec<FieldError>) {
        let Some(shape) = &self.shape else { return };
        let path = format!("{path}.shape");
        if is_gate_on && shape.0.is_empty() {
            return; // the default stands in for it
        }
        if is_gate_on {
            return shape.validate(&path, errors);
        }
        let why = "unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring";
        errors.push(FieldError::invalid(path, &json!(shape), why));
    }
}
