//! The request pipeline: the list of stages that every request passes, and the driver that runs them in order.
//!
//! The driver times each stage and records its start in the request's trace. It ends with the first stage that answers or
//! refuses the request. Corresponds to DefaultBuildHandlerChain in k8s.io/apiserver/pkg/server/config.go.

mod exchange;
mod refusal;
mod stages;

use crate::answer;
use crate::cors;
use crate::record::Record;
use crate::server::Server;
use axum::body::Body;
use component_base::panics::caught_in;
use exchange::Exchange;
use futures::future::BoxFuture;
use http::request::Parts;
use http::{HeaderValue, Request, Response, header};
use proto::Status;
use refusal::Refusal;
use request::deadline;
use request::info::RequestInfo;
use request::run_to_completion::RunToCompletion;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

/// The result of a stage: go on to the next stage, answer with this response, or refuse the request.
type StageResult = Result<ControlFlow<Response<Body>>, Refusal>;

/// One stage of the pipeline.
struct Stage {
    run: for<'a> fn(&'a mut Exchange<'_>) -> BoxFuture<'a, StageResult>,
    /// Records metrics of the stage's result and duration.
    measure: fn(&Exchange<'_>, &StageResult, Duration),
}

/// The stages in the order in which they run. The last one always answers or refuses.
const STAGES: &[Stage] = &[
    Stage { run: |exchange| Box::pin(stages::authenticate(exchange)), measure: stages::count_authentication },
    Stage { run: |exchange| Box::pin(stages::audit(exchange)), measure: unmeasured },
    Stage { run: |exchange| Box::pin(stages::impersonate(exchange)), measure: unmeasured },
    Stage { run: |exchange| Box::pin(stages::wait_for_seat(exchange)), measure: unmeasured },
    Stage { run: |exchange| Box::pin(stages::authorize(exchange)), measure: stages::count_authorization },
    Stage { run: |exchange| Box::pin(stages::handle(exchange)), measure: unmeasured },
];

/// Does nothing: for stages without a metric of their own.
fn unmeasured(_: &Exchange<'_>, _: &StageResult, _: Duration) {}

/// The default Cache-Control: a response is for one user and for one request.
const NO_CACHE: HeaderValue = HeaderValue::from_static("no-cache, private");

/// Answers one request and records it. A write runs to its end even if the client disconnects meanwhile.
pub async fn serve(server: Arc<Server>, request: Request<Body>) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let info = RequestInfo::of(&parts.method, parts.uri.path(), parts.uri.query().unwrap_or_default());
    if info.is_write() {
        RunToCompletion::new(&server.env.clone(), respond_and_record(server, parts, body, info)).await
    } else {
        respond_and_record(server, parts, body, info).await
    }
}

async fn respond_and_record(server: Arc<Server>, mut parts: Parts, body: Body, info: RequestInfo) -> Response<Body> {
    let mut record = Record::begin(&server, &info, &parts);
    let cors = server.cors.headers(&parts.headers);
    let response = if !cors.is_empty() && cors::is_preflight(&parts.method, &parts.headers) {
        cors::preflight()
    } else {
        respond(&server, &mut parts, body, &info, &mut record).await
    };
    let mut response = record.audit_response(response).await;
    response.headers_mut().extend(cors);
    response.headers_mut().entry(header::CACHE_CONTROL).or_insert(NO_CACHE);
    answer::add_warnings(response.headers_mut(), &record.take_warnings());
    record.finish(&server, &info, &mut response);
    response
}

/// Runs the stages and always returns a response: 500 after a panic, 504 after the deadline, a Status for a refusal.
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
            let handled = caught_in(drive(Exchange::new(server, parts, body, info, record)));
            match limit {
                None => Ok(handled.await),
                Some(limit) => server.env.timeout(limit, handled).await,
            }
        }
    };
    match answered {
        Ok(Ok(Ok(response))) => response,
        Ok(Ok(Err(refusal))) => {
            record.trace_refusal(&refusal.status);
            refusal.into_response(&parts.headers, info)
        }
        Ok(Err(panic)) => {
            tracing::error!(path = %info.path, panic, "a request panicked");
            record.audit_panic(&panic);
            answer::plain_error(500, "This request caused apiserver to panic. Look in the logs for details.")
        }
        Err(_elapsed) => Refusal::of(Status::timed_out()).into_response(&parts.headers, info),
    }
}

/// Runs the stages until one of them answers or refuses.
async fn drive(mut exchange: Exchange<'_>) -> Result<Response<Body>, Refusal> {
    for stage in STAGES {
        let began = exchange.server.env.now();
        exchange.record.trace_stage_start();
        let result = (stage.run)(&mut exchange).await;
        (stage.measure)(&exchange, &result, began.elapsed());
        if let ControlFlow::Break(response) = result? {
            return Ok(response);
        }
    }
    unreachable!("the last stage answers")
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
            // The timeout is checked before authentication.
            let answer = api.ask(Method::GET, &path, "", &[("authorization", "Bearer nobody")]).await;
            let expected = if message.is_empty() { (401, "Unauthorized") } else { (400, message) };
            assert_eq!((answer.code, answer.message()), expected, "{timeout}");
        }
        assert_eq!(api.get("/api/v1/namespaces?timeout=1ns&watch=1&timeoutSeconds=1").await.code, 200);
    }
}
