//! The stages that every request passes, in order, on one screen.
//!
//! Corresponds to DefaultBuildHandlerChain in k8s.io/apiserver/pkg/server/config.go.

use crate::answer;
use crate::cors;
use crate::endpoints;
use crate::media::{self, Form};
use crate::record::Record;
use crate::server::Server;
use access::authn::{Heard, bearer, impersonation};
use access::authz::{Attributes, Listener};
use axum::body::Body;
use component_base::panics::caught_in;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Request, Response, header};
use proto::Status;
use request::UserInfo;
use request::deadline;
use request::info::RequestInfo;
use request::trace::{Gate, Steps};
use request::unbroken::Unbroken;
use std::sync::Arc;

/// An answer is good for the one who asked, once.
const NO_CACHE: HeaderValue = HeaderValue::from_static("no-cache, private");

/// Answers one request and writes down that it did. A write goes on to its end when the client goes away meanwhile.
pub async fn serve(server: Arc<Server>, request: Request<Body>) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let info = RequestInfo::of(&parts.method, parts.uri.path(), parts.uri.query().unwrap_or_default());
    if info.is_write() {
        Unbroken::new(&server.env.clone(), answered(server, parts, body, info)).await
    } else {
        answered(server, parts, body, info).await
    }
}

async fn answered(server: Arc<Server>, mut parts: Parts, body: Body, info: RequestInfo) -> Response<Body> {
    let mut record = Record::begin(&server, &info, &parts);
    let cors = server.cors.headers(&parts.headers);
    let response = if !cors.is_empty() && cors::is_preflight(&parts.method, &parts.headers) {
        cors::preflight()
    } else {
        respond(&server, &mut parts, body, &info, &mut record).await
    };
    let mut response = record.answered(response).await;
    response.headers_mut().extend(cors);
    response.headers_mut().entry(header::CACHE_CONTROL).or_insert(NO_CACHE);
    answer::add_warnings(response.headers_mut(), &record.take_warnings());
    record.end(&server, &info, &mut response);
    response
}

/// Whatever happens: panics are 500, deadlines 504, refusals their Status.
async fn respond(
    server: &Arc<Server>,
    parts: &mut Parts,
    body: Body,
    info: &RequestInfo,
    record: &mut Record,
) -> Response<Body> {
    let answered = match deadline::limit(info, server.request_timeout()) {
        Err(status) => Ok(Ok(Err(Refusal::of(status)))),
        Ok(limit) => {
            let handled = caught_in(stages(server, parts, body, info, record));
            match limit {
                None => Ok(handled.await),
                Some(limit) => server.env.timeout(limit, handled).await,
            }
        }
    };
    match answered {
        Ok(Ok(Ok(response))) => response,
        Ok(Ok(Err(refusal))) => {
            record.refused(&refusal.status);
            refuse(&parts.headers, info, &refusal)
        }
        Ok(Err(panic)) => {
            tracing::error!(path = %info.path, panic, "a request panicked");
            record.panicked(&panic);
            answer::plain_error(500, "This request caused apiserver to panic. Look in the logs for details.")
        }
        Err(_elapsed) => refuse(&parts.headers, info, &Refusal::of(Status::timed_out())),
    }
}

/// Authentication, audit, impersonation, flow control, authorization, and then the verb itself.
async fn stages(
    server: &Arc<Server>,
    parts: &mut Parts,
    body: Body,
    info: &RequestInfo,
    record: &mut Record,
) -> Result<Response<Body>, Refusal> {
    let began = server.env.now();
    let heard = Heard { warn: &|warning| record.warn([warning]), steps: record.steps() };
    let authenticated = server.authenticate(parts, &heard).await;
    server.metrics.access.authenticated(&authenticated, began.elapsed());
    let stored = record.audit(server, parts, info, authenticated.as_ref().ok()).await;
    let user = authenticated?;
    if !stored {
        let line = format!("Internal Server Error: {:?}: failed to store audit event", uri_text(parts));
        return Ok(answer::plain_error(500, &line));
    }
    if let Some(proxies) = &server.authentication.request_headers {
        proxies.forget(&mut parts.headers);
    }
    bearer::forget(&mut parts.headers);
    record.caller(&user);
    record.permit_trace(server, &user).await;
    let user = impersonate(server, user, &parts.headers, info, record.steps()).await?;
    record.user(&user);
    let flow = server.flow_control.classify(info, &user);
    record.flow(flow.as_deref());
    let limit = server.request_timeout();
    let traced_flow = record.steps().and_then(|steps| {
        steps.begin();
        flow.clone()
    });
    let seat = server.flow_control.enter(flow, info, &user, &server.registry, limit).await;
    record.seated(traced_flow.as_deref(), seat.as_ref().err());
    let Ok(_seat) = seat else {
        return Ok(answer::too_many_requests());
    };
    let selected = info.named_by_selector().unwrap_or_default();
    let attributes = Attributes::of_request(&user, info, &selected);
    let began = server.env.now();
    let listener = record.steps().map(|steps| Listener::new(steps, Gate::Authorization));
    let verdict = server.authorization.decide_traced(&attributes, listener).await;
    record.decided(&verdict.decision);
    let authorized = verdict.into_result(&attributes);
    server.metrics.access.authorized(&authorized, began.elapsed());
    authorized.map_err(Refusal::by_filter)?;
    let body = record.overhear(body);
    let call = endpoints::Call { server, info, user: &user, parts, record };
    Ok(endpoints::dispatch(&call, body).await?)
}

fn uri_text(parts: &Parts) -> &str {
    parts.uri.path_and_query().map_or("/", |uri| uri.as_str())
}

/// The user that the rest of the request acts as.
async fn impersonate(
    server: &Server,
    user: UserInfo,
    headers: &HeaderMap,
    info: &RequestInfo,
    steps: Option<&Steps>,
) -> Result<UserInfo, Refusal> {
    let Some(wanted) = impersonation::requested(headers).map_err(Refusal::by_filter)? else { return Ok(user) };
    server.authorize_impersonation(&user, &wanted, info, steps).await.map_err(Refusal::by_filter)?;
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

#[cfg(test)]
mod tests {
    use crate::testing::Api;
    use http::Method;

    #[tokio::test(start_paused = true)]
    async fn a_timeout_is_a_duration() {
        let api = Api::start().await;
        for (timeout, message) in [
            ("5s", ""),
            ("-5s", ""),
            ("0s", ""),
            ("", ""),
            ("abc", r#"invalid timeout specified in the request URL - time: invalid duration "abc""#),
            ("10", r#"invalid timeout specified in the request URL - time: missing unit in duration "10""#),
        ] {
            let path = format!("/api/v1/namespaces?timeout={timeout}");
            // Told before the caller is known.
            let answer = api.ask(Method::GET, &path, "", &[("authorization", "Bearer nobody")]).await;
            let expected = if message.is_empty() { (401, "Unauthorized") } else { (400, message) };
            assert_eq!((answer.code, answer.message()), expected, "{timeout}");
        }
        assert_eq!(api.get("/api/v1/namespaces?timeout=1ns&watch=1&timeoutSeconds=1").await.code, 200);
    }
}
