//! `Draft`: the trace of a request that is still being processed.

use super::document::{Trace, TracedRequest, TracedResponse};
use super::steps::Steps;
use super::{HEADER, path_of};
use crate::info::RequestInfo;
use crate::user_info::UserInfo;
use component_base::env::Env;
use http::header;
use http::request::Parts;
use jiff::Timestamp;
use proto::Status;
use serde_json::Value;
use std::time::Duration;

/// Longest user agent that is recorded.
const MAX_USER_AGENT_BYTES: usize = 256;

#[derive(Debug)]
pub struct Draft {
    pub steps: Steps,
    /// Whether the caller may read the trace.
    is_permitted: bool,
    received: Timestamp,
    request: TracedRequest,
    user: Value,
    impersonated_user: Value,
    refusal: TracedResponse,
}

impl Draft {
    /// Starts a trace if the request asks for one.
    pub fn of(env: &Env, parts: &Parts, info: &RequestInfo) -> Option<Box<Self>> {
        let is_asked_for = parts.headers.get(HEADER).is_some_and(|value| value == "true");
        is_asked_for.then(|| {
            let uri = parts.uri.path_and_query().map_or("/", |uri| uri.as_str());
            let agent = parts.headers.get(header::USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or_default();
            // Header values that are text are ASCII.
            let agent = &agent[..agent.len().min(MAX_USER_AGENT_BYTES)];
            Box::new(Self {
                steps: Steps::new(env),
                is_permitted: false,
                received: env.wall(),
                request: TracedRequest::of(parts.method.as_str(), uri, agent, info),
                user: Value::Null,
                impersonated_user: Value::Null,
                refusal: TracedResponse::default(),
            })
        })
    }

    /// Records the authenticated user, which may read the trace.
    pub fn permit(&mut self, user: &UserInfo) {
        self.is_permitted = true;
        self.user = user.to_value();
    }

    pub fn is_permitted(&self) -> bool {
        self.is_permitted
    }

    /// Records the user after impersonation.
    pub fn set_impersonated_user(&mut self, user: &UserInfo) {
        let user = user.to_value();
        self.impersonated_user = if user == self.user { Value::Null } else { user };
    }

    pub fn refused(&mut self, status: &Status) {
        let Status { reason, message, .. } = status;
        self.refusal = TracedResponse { code: status.code, reason: reason.clone(), message: message.clone() };
    }

    /// Completes the trace once the request is answered.
    pub fn finish(self, audit_id: &str, code: u16, took: Duration) -> Trace {
        let (steps, steps_left_out) = self.steps.take();
        Trace {
            audit_id: audit_id.to_owned(),
            received: self.received.to_string(),
            took_us: u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
            request: self.request,
            user: self.user,
            impersonated_user: self.impersonated_user,
            steps,
            steps_left_out,
            answer: TracedResponse { code, ..self.refusal },
        }
    }
}

/// Returns the value of the `Link` header that says where the trace of a request will be.
pub fn link(audit_id: &str) -> String {
    format!("<{}>; rel=\"trace\"", path_of(audit_id))
}
