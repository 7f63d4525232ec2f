//! What a request's record takes down for its trace, where its client wants one.

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
    /// What gates write down of the request, where a trace is wanted.
    pub fn steps(&self) -> Option<&Steps> {
        self.trace.as_ref().map(|trace| &trace.steps)
    }

    /// A stage begins: what was done until now is not its time.
    pub fn begin_stage(&self) {
        self.steps().inspect(|steps| steps.begin());
    }

    /// A trace goes on for those alone who may read it.
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

    /// The answer is this refusal.
    pub fn refused(&mut self, status: &Status) {
        if let Some(trace) = &mut self.trace {
            trace.refused(status);
        }
    }

    /// Whether there was room for it.
    pub fn seated(&self, flow: Option<&Flow>, refusal: Option<&NoSeat>) {
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

    /// What a read finds.
    pub fn read(&self, count: usize, revision: u64) {
        let Some(steps) = self.steps() else { return };
        let objects = if count == 1 { "one object".to_owned() } else { format!("{count} objects") };
        steps.add(Step::new(Gate::Read, "watch cache", StepOutcome::Passed).because(objects).at_revision(revision));
    }

    /// Another server answers, or does not; what it does with the request it knows alone.
    pub fn passed_on(&self, remote: &RemoteVersion, answer: Result<StatusCode, &str>) {
        let Some(steps) = self.steps() else { return };
        let ServiceReference { namespace, name, .. } = &remote.service;
        let (outcome, what) = match answer {
            Ok(code) => (StepOutcome::Passed, format!("answers {}", code.as_u16())),
            Err(why) => (StepOutcome::Refused, format!("cannot be asked: {why}")),
        };
        let step = Step::new(Gate::Aggregation, format!("APIService {}", remote.name), outcome);
        steps.add(step.because(format!("the Service {namespace}/{name} {what}")));
    }

    /// A watch begins, and a trace ends with that.
    pub fn watches(&self) {
        let Some(steps) = self.steps() else { return };
        steps.add(Step::new(Gate::Read, "watch cache", StepOutcome::Passed).because("events from now on"));
    }

    /// What there is of it is kept, and whoever may read it is told where.
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
