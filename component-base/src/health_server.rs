//! What a component shows of itself on its own port: health, metrics, configuration, and pages of its own.
//!
//! Corresponds to k8s.io/apiserver/pkg/server/healthz and the secure serving of kube-scheduler and
//! kube-controller-manager. Health is open to everybody; all else passes the gate.

use crate::env::Env;
use crate::network::HttpService;
use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{Request, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use futures::future::BoxFuture;
use prometheus_client::encoding::text::encode;
use proto::Status;
use serde_json::Value;
use std::sync::Arc;
use tower::ServiceExt;
use tower::util::BoxCloneSyncService;

/// The media type of OpenMetrics text, which Prometheus and its friends read.
const METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Whether a caller may see a path; the API server is asked (`client::delegated_auth`).
pub trait Gate: Send + Sync {
    fn admit<'a>(&'a self, request: &'a http::request::Parts) -> BoxFuture<'a, Result<(), Status>>;
}

/// A named condition: an error says why it does not hold.
pub type Check = Arc<dyn Fn() -> Result<(), String> + Send + Sync>;

/// The pages of one component.
#[derive(Default)]
pub struct HealthServer {
    checks: Vec<(&'static str, Check)>,
    configz: Value,
    pages: Router,
    gate: Option<Arc<dyn Gate>>,
}

impl HealthServer {
    /// Everything but health is refused until a gate is given.
    pub fn new() -> Self {
        Self::default()
    }

    /// A condition of readiness, shown as `/readyz/<name>`.
    pub fn check(mut self, name: &'static str, check: impl Fn() -> Result<(), String> + Send + Sync + 'static) -> Self {
        self.checks.push((name, Arc::new(check)));
        self
    }

    /// What `/configz` shows.
    pub fn configz(mut self, config: Value) -> Self {
        self.configz = config;
        self
    }

    /// Pages of the component's own, behind the gate.
    pub fn pages(mut self, pages: Router) -> Self {
        self.pages = self.pages.merge(pages);
        self
    }

    pub fn gate(mut self, gate: Arc<dyn Gate>) -> Self {
        self.gate = Some(gate);
        self
    }

    /// The whole as a service, for `serving::serve` or the in-process network.
    pub fn service(self, env: &Env) -> HttpService {
        let checks = Arc::new(self.checks);
        let open = Router::new()
            .route("/healthz", get(|| async { "ok" }))
            .route("/livez", get(|| async { "ok" }))
            .route("/readyz", get(all_checks))
            .route("/readyz/{name}", get(one_check))
            .with_state(checks);
        let (metrics, configz) = (env.clone(), self.configz);
        let closed = self
            .pages
            .route("/metrics", get(move || async move { show_metrics(&metrics) }))
            .route("/configz", get(move || async move { axum::Json(configz) }))
            .layer(middleware::from_fn_with_state(self.gate, guard));
        let router = open.merge(closed);
        BoxCloneSyncService::new(router.map_request(|request: Request<Body>| request))
    }
}

type Checks = Arc<Vec<(&'static str, Check)>>;

/// `ok`, or the list with a mark at each check and 500.
async fn all_checks(State(checks): State<Checks>, request: Request<Body>) -> Response {
    let verbose = request.uri().query().is_some_and(|query| query.split('&').any(|p| p.starts_with("verbose")));
    let mut failed = false;
    let mut text = String::new();
    for (name, check) in checks.iter() {
        match check() {
            Ok(()) => text.push_str(&format!("[+]{name} ok\n")),
            Err(why) => {
                failed = true;
                text.push_str(&format!("[-]{name} failed: {why}\n"));
            }
        }
    }
    match (failed, verbose) {
        (true, _) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{text}readyz check failed\n")).into_response(),
        (false, true) => format!("{text}readyz check passed\n").into_response(),
        (false, false) => "ok".into_response(),
    }
}

async fn one_check(State(checks): State<Checks>, Path(name): Path<String>) -> Response {
    match checks.iter().find(|(known, _)| *known == name).map(|(_, check)| check()) {
        Some(Ok(())) => "ok".into_response(),
        Some(Err(why)) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{why}\n")).into_response(),
        None => (StatusCode::NOT_FOUND, "404 page not found\n").into_response(),
    }
}

fn show_metrics(env: &Env) -> Response {
    let mut text = String::new();
    match encode(&mut text, &env.metrics().lock()) {
        Ok(()) => ([(header::CONTENT_TYPE, METRICS_TYPE)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}

async fn guard(State(gate): State<Option<Arc<dyn Gate>>>, request: Request<Body>, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let admitted = match &gate {
        Some(gate) => gate.admit(&parts).await,
        None => Err(Status::forbidden("", "", "", "no authorizer is configured on this port")),
    };
    match admitted {
        Ok(()) => next.run(Request::from_parts(parts, body)).await,
        Err(status) => refusal(&status),
    }
}

fn refusal(status: &Status) -> Response {
    let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (code, axum::Json(status.to_value())).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::read_all;

    struct Open;

    impl Gate for Open {
        fn admit<'a>(&'a self, _: &'a http::request::Parts) -> BoxFuture<'a, Result<(), Status>> {
            Box::pin(async { Ok(()) })
        }
    }

    async fn fetch(service: &HttpService, path: &str) -> (u16, String) {
        let request = Request::get(path).body(Body::empty()).unwrap();
        let response = service.clone().oneshot(request).await.unwrap();
        let code = response.status().as_u16();
        let body = read_all(response.into_body(), 1 << 16).await.unwrap();
        (code, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn health_is_open_and_the_rest_is_not() {
        let env = Env::simulated(1);
        let closed = HealthServer::new().check("cache", || Err("not synced".into())).service(&env);
        assert_eq!(fetch(&closed, "/healthz").await, (200, "ok".into()));
        assert_eq!(fetch(&closed, "/readyz").await, (500, "[-]cache failed: not synced\nreadyz check failed\n".into()));
        assert_eq!(fetch(&closed, "/metrics").await.0, 403);
        let page = Router::new().route("/rules", get(|| async { "rules" }));
        let open = HealthServer::new().pages(page).gate(Arc::new(Open)).service(&env);
        assert_eq!(fetch(&open, "/readyz").await, (200, "ok".into()));
        assert_eq!(fetch(&open, "/metrics").await.0, 200);
        assert_eq!(fetch(&open, "/rules").await, (200, "rules".into()));
    }
}
