//! The stages that every request passes, in order, on one screen.
//!
//! Corresponds to DefaultBuildHandlerChain in k8s.io/apiserver/pkg/server/config.go.

use crate::answer;
use crate::audit::Record;
use crate::authn::{UserInfo, impersonation};
use crate::authz::Attributes;
use crate::endpoints;
use crate::media::{self, Form};
use crate::request::info::RequestInfo;
use crate::server::Server;
use axum::body::Body;
use component_base::network::ConnectionInfo;
use futures::FutureExt;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Request, Response, header};
use proto::Status;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

/// An answer is good for the one who asked, once.
const NO_CACHE: HeaderValue = HeaderValue::from_static("no-cache, private");

/// Answers one request, whatever happens: panics are 500, deadlines 504, refusals their Status.
pub async fn serve(server: Arc<Server>, request: Request<Body>) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let info = RequestInfo::of(&parts.method, parts.uri.path(), parts.uri.query().unwrap_or_default());
    let mut record = Record::begin(&server, &info);
    let handled = AssertUnwindSafe(stages(&server, &parts, body, &info, &mut record)).catch_unwind();
    let answered = match deadline(&server, &info) {
        None => Ok(handled.await),
        Some(limit) => server.env.timeout(limit, handled).await,
    };
    let mut response = match answered {
        Ok(Ok(Ok(response))) => response,
        Ok(Ok(Err(refusal))) => refuse(&parts.headers, &info, &refusal),
        Ok(Err(panic)) => {
            tracing::error!(path = %info.path, panic = panic_text(&panic), "a request panicked");
            refuse(&parts.headers, &info, &Refusal::of(Status::internal("the request could not be finished")))
        }
        Err(_elapsed) => refuse(&parts.headers, &info, &Refusal::of(timed_out())),
    };
    response.headers_mut().entry(header::CACHE_CONTROL).or_insert(NO_CACHE);
    record.end(&server, &info, &response);
    response
}

/// Authentication, audit, impersonation, flow control, authorization, and then the verb itself.
async fn stages(
    server: &Arc<Server>,
    parts: &Parts,
    body: Body,
    info: &RequestInfo,
    record: &mut Record,
) -> Result<Response<Body>, Refusal> {
    let connection = parts.extensions.get::<ConnectionInfo>();
    let user = server.authenticate(connection, &parts.headers).await?;
    record.caller(&user);
    let user = impersonate(server, user, &parts.headers, info)?;
    record.user(&user);
    let _seat = server.flow_control.enter(info, &user)?;
    let selected = info.named_by_selector().unwrap_or_default();
    let attributes = Attributes::of_request(&user, info, &selected);
    server.authorization.authorize(&attributes).map_err(Refusal::by_filter)?;
    let call = endpoints::Call { server, info, user: &user, parts };
    Ok(endpoints::dispatch(&call, body, record).await?)
}

/// The user that the rest of the request acts as.
fn impersonate(server: &Server, user: UserInfo, headers: &HeaderMap, info: &RequestInfo) -> Result<UserInfo, Refusal> {
    let Some(wanted) = impersonation::requested(headers).map_err(Refusal::by_filter)? else { return Ok(user) };
    server.authorize_impersonation(&user, &wanted, info).map_err(Refusal::by_filter)?;
    Ok(impersonation::completed(wanted))
}

/// A Status on its way out; refusals by filters say that their type is not to be guessed.
pub struct Refusal {
    pub status: Status,
    no_sniff: bool,
}

impl Refusal {
    pub fn of(status: Status) -> Self {
        Self { status, no_sniff: false }
    }

    fn by_filter(status: Status) -> Self {
        Self { status, no_sniff: true }
    }
}

impl From<Status> for Refusal {
    fn from(status: Status) -> Self {
        Self::of(status)
    }
}

fn refuse(headers: &HeaderMap, info: &RequestInfo, refusal: &Refusal) -> Response<Body> {
    let pretty = media::wants_pretty(headers, info.query.get("pretty"));
    let form = Form { encoding: media::encoding_of_errors(headers), pretty, ..Form::default() };
    let mut response = answer::status(&form, &refusal.status);
    if refusal.no_sniff {
        response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    }
    response
}

/// How long a request may take; `None` for those that stay open.
fn deadline(server: &Server, info: &RequestInfo) -> Option<Duration> {
    if info.is_long_running() {
        return None;
    }
    let asked = info.query.get("timeout").and_then(duration).filter(|limit| !limit.is_zero());
    Some(asked.map_or(server.request_timeout(), |limit| limit.min(server.request_timeout())))
}

/// Go's `32s`, `1m30s`, `500ms`.
fn duration(text: &str) -> Option<Duration> {
    let mut total = Duration::ZERO;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest[..digits].parse().ok()?;
        let unit_end = rest[digits..].find(|c: char| c.is_ascii_digit()).map_or(rest.len(), |at| digits + at);
        let seconds = match &rest[digits..unit_end] {
            "ms" => 0.001,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return None,
        };
        total += Duration::try_from_secs_f64(number * seconds).ok()?;
        rest = &rest[unit_end..];
    }
    Some(total)
}

fn timed_out() -> Status {
    Status::timeout("Timeout: request did not complete within the allotted timeout", 0)
}

fn panic_text(panic: &Box<dyn std::any::Any + Send>) -> &str {
    panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("?")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_as_in_go() {
        assert_eq!(duration("1m30s"), Some(Duration::from_secs(90)));
        assert_eq!(duration("500ms"), Some(Duration::from_millis(500)));
        assert_eq!(duration("abc"), None);
        assert_eq!(duration("10"), None);
    }
}
