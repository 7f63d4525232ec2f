//! `Trace`: one request and all its steps, as `/debug/requests/ID` shows it.

use super::step::Step;
use crate::info::RequestInfo;
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Trace {
    #[serde(rename = "auditID")]
    pub audit_id: String,
    /// Time at which the request arrived, in RFC 3339.
    pub received: String,
    #[serde(rename = "tookMicroseconds")]
    pub took_us: u64,
    pub request: TracedRequest,
    /// The authenticated user; null if there is none.
    pub user: Value,
    /// The user after impersonation; absent without impersonation.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub impersonated_user: Value,
    pub steps: Vec<Step>,
    /// Number of steps that there was no room for.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub steps_left_out: usize,
    pub answer: TracedResponse,
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// The request. The fields from `group` on are those of a request for a resource.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TracedRequest {
    pub method: String,
    pub uri: String,
    pub user_agent: String,
    pub verb: String,
    pub group: String,
    pub resource: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub subresource: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
}

impl TracedRequest {
    pub fn of(method: &str, uri: &str, user_agent: &str, info: &RequestInfo) -> Self {
        Self {
            method: method.to_owned(),
            uri: uri.to_owned(),
            user_agent: user_agent.to_owned(),
            verb: info.verb.clone(),
            group: info.group.clone(),
            resource: info.resource.clone(),
            subresource: info.subresource.clone(),
            namespace: info.namespace.clone(),
            name: info.name.clone(),
        }
    }
}

/// The response.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TracedResponse {
    pub code: u16,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// A line of the list of traces.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    #[serde(rename = "auditID")]
    pub audit_id: String,
    pub received: String,
    pub method: String,
    pub uri: String,
    /// Name of the user after impersonation; empty if there is none.
    pub user: String,
    pub code: u16,
}

impl Trace {
    pub fn summary(&self) -> Summary {
        let name = |user: &Value| user["username"].as_str().map(str::to_owned);
        Summary {
            audit_id: self.audit_id.clone(),
            received: self.received.clone(),
            method: self.request.method.clone(),
            uri: self.request.uri.clone(),
            user: name(&self.impersonated_user).or_else(|| name(&self.user)).unwrap_or_default(),
            code: self.answer.code,
        }
    }
}
