//! `DynamicResourcesArgs`: how long the allocation of devices may take.
//!
//! Corresponds to DynamicResourcesArgs of k8s.io/kube-scheduler/config/v1.

use super::Args;
use component_base::duration::parse_duration;
use proto::meta::status::FieldError;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::time::Duration;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DynamicResourcesArgs {
    /// Time that Filter may take on one node, such as `10s`; `0s` for no limit.
    pub filter_timeout: String,
    /// Time that PreBind waits for the binding conditions of devices.
    pub binding_timeout: String,
}

impl Default for DynamicResourcesArgs {
    fn default() -> Self {
        Self { filter_timeout: "10s".to_owned(), binding_timeout: "10m0s".to_owned() }
    }
}

impl Args for DynamicResourcesArgs {
    fn validate(&self, path: &str, errors: &mut Vec<FieldError>) {
        let filter_path = format!("{path}.filterTimeout");
        match duration(&self.filter_timeout) {
            Ok((true, _)) => {
                errors.push(FieldError::invalid(filter_path, &json!(self.filter_timeout), "must be zero or positive"));
            }
            Ok(_) => {}
            Err(why) => errors.push(FieldError::invalid(filter_path, &json!(self.filter_timeout), why)),
        }
        let binding_path = format!("{path}.bindingTimeout");
        match duration(&self.binding_timeout) {
            Ok((false, timeout)) if timeout >= Duration::from_secs(1) => {}
            Ok(_) => {
                errors.push(FieldError::invalid(
                    binding_path,
                    &json!(self.binding_timeout),
                    "must be at least 1 second",
                ));
            }
            Err(why) => errors.push(FieldError::invalid(binding_path, &json!(self.binding_timeout), why)),
        }
    }
}

/// Parses a duration that may be negative. Returns the sign with it.
fn duration(text: &str) -> Result<(bool, Duration), String> {
    match text.strip_prefix('-') {
        Some(rest) => parse_duration(rest).map(|duration| (!duration.is_zero(), duration)),
        None => parse_duration(text).map(|duration| (false, duration)),
    }
}
