//! The steps that a `Record` adds to the request's trace. They do nothing if the client asks for no trace.

use super::Record;
use crate::server::Server;
use access::authz::Attributes;
use axum::body::Body;
use extension::aggregation::table::RemoteVersion;
use flow_control::configuration::Flow;
use flow_control::max_in_flight::NoSeat;
use http::{HeaderValue, Response, StatusCode, header};
use proto::Status;
use remote::reference::ServiceReference;
use request::UserInfo;
use request::trace::{Gate, PATH, Step, StepOutcome, Steps, draft, path_of};
use std::time::Duration;

impl Record {
    /// Returns the list to which gates add their steps; `None` if the request is not traced.
    pub fn steps(&self) -> Option<&Steps> {
        self.trace.as_ref().map(|trace| &trace.steps)
    }

    /// Sets the start of a stage, from which the duration of its first step counts.
    pub fn trace_stage_start(&self) {
        self.steps().inspect(|steps| steps.begin());
    }

    /// Drops the trace, with a warning, unless the user may read traces.
    pub async fn permit_trace(&mut self, server: &Server, user: &UserInfo) {
        let Some(mut trace) = self.trace.take() else { return };
        let path = path_of(&self.ids.audit);
        if server.access.authorization.allows(&Attributes::of_path(user, "get", &path)).await {
            trace.permit(user);
            self.trace = Some(trace);
        } else {
            self.warn([format!("the request is not traced: you cannot get {PATH}/*")]);
        }
    }

    /// Adds the Status with which the request is refused.
    pub fn trace_refusal(&mut self, status: &Status) {
        if let Some(trace) = &mut self.trace {
            trace.refused(status);
        }
    }

    /// Adds the step of flow control: passed, or refused because there is no seat.
    pub fn trace_flow_control(&self, flow: Option<&Flow>, refusal: Option<&NoSeat>) {
        let Some(steps) = self.steps() else { return };
        let outcome = if refusal.is_some() { StepOutcome::Refused } else { StepOutcome::Passed };
        let (by, level) = match flow {
            Some(Flow { schema, level, .. }) => {
                (format!("FlowSchema {}", schema.name), format!("PriorityLevelConfiguration {}", level.name))
            }
            None => ("requests in flight".to_owned(), String::new()),
        };
        let why = refusal.map_or("", |NoSeat(why)| why.as_str());
        let reason = [level.as_str(), why].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(": ");
        steps.add(Step::new(Gate::FlowControl, by, outcome).because(reason));
    }

    /// Adds the step of a read that found `count` objects.
    pub fn trace_read(&self, count: usize, revision: u64) {
        let Some(steps) = self.steps() else { return };
        let objects = if count == 1 { "one object".to_owned() } else { format!("{count} objects") };
        steps.add(Step::new(Gate::Read, "watch cache", StepOutcome::Passed).because(objects).at_revision(revision));
    }

    /// Adds the step of a request that is passed on to an aggregated API server: the code of its answer, or why it does not
    /// answer.
    pub fn trace_aggregation(&self, remote: &RemoteVersion, answer: Result<StatusCode, &str>) {
        let Some(steps) = self.steps() else { return };
        let ServiceReference { namespace, name, .. } = &remote.service;
        let (outcome, what) = match answer {
            Ok(code) => (StepOutcome::Passed, format!("answers {}", code.as_u16())),
            Err(why) => (StepOutcome::Refused, format!("cannot be asked: {why}")),
        };
        let step = Step::new(Gate::Aggregation, format!("APIService {}", remote.name), outcome);
        steps.add(step.because(format!("the Service {namespace}/{name} {what}")));
    }

    /// Adds the last step of a watch's trace: the watch begins.
    pub fn trace_watch(&self) {
        let Some(steps) = self.steps() else { return };
        steps.add(Step::new(Gate::Read, "watch cache", StepOutcome::Passed).because("events from now on"));
    }

    /// Keeps the trace, and adds a `Link` header to it if the user may read it.
    pub(super) fn end_trace(&mut self, server: &Server, code: u16, took: Duration, response: &mut Response<Body>) {
        let (Some(traces), Some(trace)) = (&server.records.request_traces, self.trace.take()) else { return };
        let permitted = trace.is_permitted();
        let link = permitted.then(|| HeaderValue::from_str(&draft::link(&self.ids.audit)).ok());
        if let Some(link) = link.flatten() {
            response.headers_mut().append(header::LINK, link);
        }
        traces.keep(&trace.finish(&self.ids.audit, code, took), permitted);
    }
}
