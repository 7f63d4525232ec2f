//! `log`: streams the log of a container from the agent of its node.
//!
//! Corresponds to pkg/registry/core/pod/rest/log.go and LogLocation in pkg/registry/core/pod/strategy.go.

use super::{Call, container_choice, log_messages};
use crate::answer;
use crate::node_agents::Agent;
use axum::body::Body;
use bytes::Bytes;
use component_base::http::read_all;
use http::{Method, Response, StatusCode};
use proto::Status;
use proto::kinds::jiff::Timestamp;
use proto::meta::status::{Cause, FieldError};
use proto::resources::Target;
use request::ids::trace_headers;
use request::query::Query;
use serde_json::json;
use strategy::object_meta;

/// Size of the largest error message of an agent that is read. A larger one counts as empty.
const MAX_REFUSAL_BYTES: usize = 10_000;

pub async fn answer(call: &Call<'_>, target: &Target) -> Result<Response<Body>, Status> {
    let name = call.info.name.as_str();
    let options = LogOptions::read(&call.info.query, name)?;
    let pod = call.server.registry.read_object(target, call.namespace(target), name, "").await?.value();
    let container = container_choice::choose(&pod, call.info.query.text("container"))?;
    let Some(agent) = container_choice::agent(call, &pod).await? else { return Ok(no_content()) };
    let permit = call.server.upstreams.node_agents.permit()?;
    let namespace = object_meta::text(&pod, "namespace");
    let path = format!("/containerLogs/{namespace}/{name}/{container}{}", options.query());
    let sent = call
        .server
        .upstreams
        .node_agents
        .send(&agent, Method::GET, &path, trace_headers(call.headers()), Body::empty())
        .await;
    let found = sent.map_err(|error| unreachable(&agent, &path, &error))?;
    if found.status() != StatusCode::OK {
        return Err(agent_error(found, name).await);
    }
    let log = call.server.upstreams.node_agents.streamed(found.into_body(), permit);
    if log_messages::is_requested(call.headers()) {
        return Ok(log_messages::answer(call, log).await);
    }
    let mut answer = answer::response(200, "text/plain", Bytes::new());
    *answer.body_mut() = log;
    Ok(answer)
}

/// Builds the 204 for a pod that is bound to no node.
fn no_content() -> Response<Body> {
    let mut answer = answer::response(204, "text/plain", Bytes::new());
    answer.headers_mut().remove(http::header::CONTENT_TYPE);
    answer
}

fn unreachable(agent: &Agent, path: &str, error: &dyn std::fmt::Display) -> Status {
    Status::failure(500, "", format!("Get {:?}: {error}", agent.url(path)))
}

/// Converts an error response of the agent to a Status.
async fn agent_error(answer: Response<Body>, pod: &str) -> Status {
    let code = answer.status().as_u16();
    let text = read_all(answer.into_body(), MAX_REFUSAL_BYTES).await.unwrap_or_default();
    let text = String::from_utf8_lossy(&text).into_owned();
    let (reason, message) = match code {
        400 => return Status::bad_request(text.trim_end()),
        500 => return Status::internal(text.trim_end()),
        401 => ("Unauthorized", "the server has asked for the client to provide credentials"),
        403 => ("Forbidden", text.trim_end()),
        404 => ("NotFound", "the server could not find the requested resource"),
        _ => ("InternalError", "an error on the server has prevented the request from succeeding"),
    };
    let mut status = Status::failure(code, reason, format!("{message} ( pods/log {pod})"));
    status = status.with_details("", "pods/log", pod, "");
    let cause = Cause { reason: "UnexpectedServerResponse".into(), message: text, field: String::new() };
    status.details.get_or_insert_default().causes = vec![cause];
    status
}

/// The options of a log request, as in PodLogOptions.
#[derive(Debug, Default, PartialEq)]
struct LogOptions {
    follow: bool,
    previous: bool,
    timestamps: bool,
    since_s: Option<i64>,
    since: Option<Timestamp>,
    tail_lines: Option<i64>,
    limit_bytes: Option<i64>,
}

impl LogOptions {
    fn read(query: &Query, pod: &str) -> Result<Self, Status> {
        let since = match query.text("sinceTime") {
            "" => None,
            text => Some(text.parse().map_err(|_| {
                let layout = "2006-01-02T15:04:05Z07:00";
                Status::bad_request(format!("parsing time {text:?} as {layout:?}: cannot parse {text:?} as \"2006\""))
            })?),
        };
        let options = Self {
            follow: query.switch("follow"),
            previous: query.switch("previous"),
            timestamps: query.switch("timestamps"),
            since_s: query.integer("sinceSeconds")?,
            since,
            tail_lines: query.integer("tailLines")?,
            limit_bytes: query.integer("limitBytes")?,
        };
        let errors = options.errors(query.has("stream"));
        if errors.is_empty() { Ok(options) } else { Err(Status::invalid("", "PodLogOptions", pod, &errors)) }
    }

    fn errors(&self, selects_stream: bool) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let mut check = |field: &str, value: Option<i64>, least: i64, detail: &str| {
            if let Some(value) = value.filter(|value| *value < least) {
                errors.push(FieldError::invalid(field, &json!(value), detail));
            }
        };
        check("tailLines", self.tail_lines, 0, "must be greater than or equal to 0");
        check("limitBytes", self.limit_bytes, 1, "must be greater than 0");
        if self.since.is_some() && self.since_s.is_some() {
            let detail = "at most one of `sinceTime` or `sinceSeconds` may be specified";
            errors.push(FieldError::forbidden("[]", detail));
        } else {
            check("sinceSeconds", self.since_s, 1, "must be greater than 0");
        }
        if selects_stream {
            errors.push(FieldError::forbidden("stream", "may not be specified"));
        }
        errors
    }

    /// Writes the options as a query for the agent, with its `?`. Empty if no option is set.
    fn query(&self) -> String {
        let mut query = form_urlencoded::Serializer::new(String::new());
        for (name, wanted) in [("follow", self.follow), ("previous", self.previous), ("timestamps", self.timestamps)] {
            if wanted {
                query.append_pair(name, "true");
            }
        }
        let numbers =
            [("sinceSeconds", self.since_s), ("tailLines", self.tail_lines), ("limitBytes", self.limit_bytes)];
        for (name, number) in numbers {
            if let Some(number) = number {
                query.append_pair(name, &number.to_string());
            }
        }
        if let Some(since) = self.since {
            query.append_pair("sinceTime", &since.to_string());
        }
        let text = query.finish();
        if text.is_empty() { text } else { format!("?{text}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Api;
    use component_base::dial::AGENT_ENDPOINT;
    use component_base::network::{HttpService, Network};
    use http::{Request, header};
    use std::convert::Infallible;

    /// Simulates an agent that answers with the request's host and path, and has no pod of the name `gone`.
    fn repeat(request: Request<Body>) -> Response<Body> {
        let host = request.headers()[header::HOST].to_str().unwrap().to_owned();
        let uri = request.uri().to_string();
        let mut answer = Response::new(Body::from(format!("{host} {uri}\n")));
        if uri.contains("/gone/") {
            *answer.status_mut() = StatusCode::NOT_FOUND;
            *answer.body_mut() = Body::from("pod does not exist\n");
        }
        answer
    }

    #[tokio::test(start_paused = true)]
    async fn a_log_comes_from_the_agent_of_the_pods_node() {
        let api = Api::start().await;
        let Network::InProcess(registry) = api.server.server.env.network() else { panic!("there are no sockets here") };
        let agent = tower::service_fn(|request| async { Ok::<_, Infallible>(repeat(request)) });
        registry.register("agent:1", HttpService::new(agent));
        let node = |name: &str, endpoint: &str| {
            let annotations = if endpoint.is_empty() { json!({}) } else { json!({AGENT_ENDPOINT: endpoint}) };
            json!({"metadata": {"name": name, "annotations": annotations}})
        };
        let account = json!({"metadata": {"name": "default"}});
        api.create("/api/v1/namespaces/default/serviceaccounts", account).await;
        for (name, endpoint) in [("n", "agent:1"), ("away", "agent:2"), ("silent", "")] {
            api.create("/api/v1/nodes", node(name, endpoint)).await;
        }
        for (name, node) in [("here", "n"), ("gone", "n"), ("lost", "away"), ("mute", "silent"), ("waits", "")] {
            let spec = json!({
                "nodeName": node, "automountServiceAccountToken": false, "containers": [{"name": "c", "image": "i"}],
            });
            let pod = json!({"metadata": {"name": name}, "spec": spec});
            api.create("/api/v1/namespaces/default/pods", pod).await;
        }
        for (request_path, code, expected) in [
            ("here", 200, "n /containerLogs/default/here/c\n"),
            ("here/log?tailLines=3&follow=1", 200, "n /containerLogs/default/here/c?follow=true&tailLines=3\n"),
            ("gone", 404, "the server could not find the requested resource ( pods/log gone)"),
            (
                "lost",
                500,
                "Get \"https://agent:2/containerLogs/default/lost/c\": dial tcp agent:2: connect: connection refused",
            ),
            ("mute", 503, "the agent of node \"silent\" cannot be reached"),
            ("waits", 204, ""),
            ("none", 404, "pods \"none\" not found"),
            ("here/log?container=x", 400, "container x is not valid for pod here"),
        ] {
            let path = if request_path.contains('/') { request_path.to_owned() } else { format!("{request_path}/log") };
            let answer = api.get(&format!("/api/v1/namespaces/default/pods/{path}")).await;
            let message_or_text = if answer.body.is_null() { answer.text.as_str() } else { answer.message() };
            assert_eq!(answer.code, code, "{request_path}: {message_or_text}");
            assert!(message_or_text.starts_with(expected), "{request_path}: {message_or_text}");
        }
    }

    #[test]
    fn options_are_checked_and_passed_on() {
        for (query, expected) in [
            ("", Ok("")),
            ("follow=true&previous=0&timestamps=1", Ok("?follow=true&timestamps=true")),
            ("tailLines=0&limitBytes=1&sinceSeconds=5", Ok("?sinceSeconds=5&tailLines=0&limitBytes=1")),
            ("sinceTime=2026-01-01T00:00:00%2B01:00", Ok("?sinceTime=2025-12-31T23%3A00%3A00Z")),
            ("tailLines=-1", Err("tailLines: Invalid value: -1: must be greater than or equal to 0")),
            ("limitBytes=0", Err("limitBytes: Invalid value: 0: must be greater than 0")),
            ("sinceSeconds=0", Err("sinceSeconds: Invalid value: 0: must be greater than 0")),
            (
                "sinceSeconds=5&sinceTime=2024-01-01T00:00:00Z",
                Err("[]: Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified"),
            ),
            ("stream=Bogus", Err("stream: Forbidden: may not be specified")),
        ] {
            let read = LogOptions::read(&Query::parse(query), "p").map(|options| options.query());
            let expected = expected.map(str::to_owned);
            let expected = expected.map_err(|error| format!("PodLogOptions \"p\" is invalid: {error}"));
            assert_eq!(read.map_err(|status| status.message), expected, "{query}");
        }
        for bad in ["tailLines=x", "sinceTime=yesterday"] {
            assert_eq!(LogOptions::read(&Query::parse(bad), "p").unwrap_err().code, 400, "{bad}");
        }
    }
}
