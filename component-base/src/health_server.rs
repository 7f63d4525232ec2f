//! The HTTPS port of a component: health, metrics, configuration and its own pages.
//!
//! The health endpoints are open to everybody, as with the originals' `--authorization-always-allow-paths`. All other
//! paths pass the access check, also single health checks, which show why they fail.
//! Corresponds to the secure serving of kube-controller-manager and kube-scheduler.

use crate::env::Env;
use crate::health_checks::{self, Check};
use crate::health_metrics::HealthMetrics;
use crate::metrics;
use crate::network::{HttpService, Network};
use crate::options::{OptionsError, ServingOptions};
use crate::serving::SecureServer;
use crate::tls::TlsError;
use crate::zpages::ZPages;
use axum::Router;
use axum::body::Body;
use futures::future::BoxFuture;
use http::request::Parts;
use http::{HeaderValue, Request, Response, StatusCode, header};
use proto::Status;
use serde_json::Value;
use std::convert::Infallible;
use std::sync::Arc;
use tower::ServiceExt;

/// Decides who may see a path; `client::delegated_auth` asks the API server.
pub trait AccessCheck: Send + Sync {
    fn admit<'a>(&'a self, request: &'a Parts) -> BoxFuture<'a, Result<(), Status>>;
}

#[derive(Debug, thiserror::Error)]
pub enum HealthServerError {
    #[error(transparent)]
    Options(#[from] OptionsError),
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// Returns the content of `/configz`.
type Configz = Arc<dyn Fn() -> Value + Send + Sync>;

/// Builds the pages of one component.
#[derive(Default)]
pub struct HealthServer {
    checks: Vec<Check>,
    configz: Option<Configz>,
    zpages: Option<ZPages>,
    pages: Router,
    access_check: Option<Arc<dyn AccessCheck>>,
}

impl HealthServer {
    /// Refuses everything but health until an access check is given.
    pub fn new() -> Self {
        Self { checks: vec![Check::ping()], ..Self::default() }
    }

    /// Adds a condition of readiness, shown as `/readyz/<name>`. A process that is not ready is healthy all the same.
    pub fn check(mut self, name: &'static str, check: impl Fn() -> Result<(), String> + Send + Sync + 'static) -> Self {
        self.checks.push(Check::new(name, check));
        self
    }

    /// Sets the content of `/configz`.
    pub fn configz(self, config: Value) -> Self {
        self.configz_from(move || config.clone())
    }

    /// Sets the content of `/configz` for a configuration that may change.
    pub fn configz_from(mut self, config: impl Fn() -> Value + Send + Sync + 'static) -> Self {
        self.configz = Some(Arc::new(config));
        self
    }

    /// Adds `/statusz` and `/flagz`.
    pub fn zpages(self, zpages: ZPages) -> Self {
        Self { zpages: Some(zpages), ..self }
    }

    /// Adds the component's own pages, which pass the access check.
    pub fn pages(mut self, pages: Router) -> Self {
        self.pages = self.pages.merge(pages);
        self
    }

    pub fn access_check(mut self, access_check: Arc<dyn AccessCheck>) -> Self {
        self.access_check = Some(access_check);
        self
    }

    /// Returns everything as a service, for a `SecureServer` or the in-process network.
    pub fn service(self, env: &Env) -> HttpService {
        let pages = Arc::new(Pages {
            env: env.clone(),
            alive: vec![Check::ping()],
            ready: self.checks,
            configz: self.configz,
            zpages: self.zpages,
            health_metrics: HealthMetrics::default(),
            routes: self.pages,
            access_check: self.access_check,
        });
        HttpService::new(tower::service_fn(move |request| {
            let pages = pages.clone();
            async move { Ok::<_, Infallible>(pages.answer(request).await) }
        }))
    }

    /// Opens the port that the options name, or in process registers `<name>:<port>`, and serves until shutdown. Errors of
    /// the port or the certificate are returned at once.
    pub async fn start(
        self,
        env: &Env,
        name: &str,
        options: &ServingOptions,
        default_port: u16,
    ) -> Result<(), HealthServerError> {
        let Some(address) = options.address(default_port) else { return Ok(()) };
        let service = self.service(env);
        let serving = env.clone();
        match env.network() {
            Network::InProcess(registry) => {
                let (registry, authority) = (registry.clone(), format!("{name}:{}", address.port()));
                registry.register(&authority, service);
                env.spawn(async move {
                    serving.shutdown().cancelled().await;
                    registry.remove(&authority);
                });
            }
            Network::Sockets => {
                let tls = options.tls()?;
                let server = SecureServer::new(ServingOptions::listen(address).await?, &tls)?;
                let own = options.clone();
                let server = server.following(options.files(), move || own.tls());
                env.spawn(async move { server.serve(&serving, service).await });
            }
        }
        Ok(())
    }
}

struct Pages {
    env: Env,
    alive: Vec<Check>,
    ready: Vec<Check>,
    configz: Option<Configz>,
    zpages: Option<ZPages>,
    health_metrics: HealthMetrics,
    routes: Router,
    access_check: Option<Arc<dyn AccessCheck>>,
}

/// Splits `/readyz/ping` into `("readyz", "ping")`; `None` for other paths.
fn health_path(path: &str) -> Option<(&str, &str)> {
    let path = path.strip_prefix('/')?;
    let (endpoint, single) = path.split_once('/').unwrap_or((path, ""));
    matches!(endpoint, "healthz" | "livez" | "readyz").then_some((endpoint, single))
}

impl Pages {
    fn health(&self, endpoint: &str, single: &str, query: &str) -> Response<Body> {
        let checks = if endpoint == "readyz" { &self.ready } else { &self.alive };
        health_checks::answer(endpoint, checks, single, query, &self.health_metrics)
    }

    fn zpage(&self, request: &Parts) -> Option<Response<Body>> {
        let configz = self.configz.as_ref().map(|_| "/configz");
        let others: Vec<&str> = configz.into_iter().chain(["/healthz", "/livez", "/metrics", "/readyz"]).collect();
        self.zpages.as_ref()?.answer(request.uri.path(), &request.headers, self.env.wall(), &others)
    }

    async fn answer(&self, request: Request<Body>) -> Response<Body> {
        let (parts, body) = request.into_parts();
        let path = parts.uri.path();
        let query = parts.uri.query().unwrap_or_default();
        let health = health_path(path);
        if let Some((endpoint, "")) = health {
            return self.health(endpoint, "", query);
        }
        let admitted = match &self.access_check {
            Some(access_check) => access_check.admit(&parts).await,
            None => Err(Status::forbidden("", "", "", "no authorizer is configured on this port")),
        };
        if let Err(status) = admitted {
            return refuse(&status);
        }
        if let Some((endpoint, single)) = health {
            return self.health(endpoint, single, query);
        }
        match path {
            "/metrics" => text(metrics::TEXT_FORMAT, self.env.metrics().encode()),
            "/metrics/slis" => text(metrics::TEXT_FORMAT, self.health_metrics.page()),
            "/configz" => {
                let config = self.configz.as_ref().map_or(Value::Null, |config| config());
                text("application/json", config.to_string())
            }
            _ => match self.zpage(&parts) {
                Some(page) => page,
                None => match self.routes.clone().oneshot(Request::from_parts(parts, body)).await {
                    Ok(answer) => answer,
                    Err(never) => match never {},
                },
            },
        }
    }
}

fn text(content_type: &'static str, body: String) -> Response<Body> {
    let mut answer = Response::new(Body::from(body));
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    answer
}

fn refuse(status: &Status) -> Response<Body> {
    let mut answer = text("application/json", status.to_value().to_string());
    *answer.status_mut() = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    answer
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::defaults;
    use axum::routing::get;
    use serde_json::json;

    /// Admits requests for one path.
    struct Only(&'static str);

    impl AccessCheck for Only {
        fn admit<'a>(&'a self, request: &'a Parts) -> BoxFuture<'a, Result<(), Status>> {
            let allowed = request.uri.path() == self.0;
            let verdict = if allowed { Ok(()) } else { Err(Status::forbidden("", "", "", "not for you")) };
            Box::pin(async move { verdict })
        }
    }

    async fn ask(env: &Env, server: HealthServer, path: &str) -> (u16, String) {
        let request = Request::get(path).body(Body::empty()).unwrap();
        let answer = server.service(env).oneshot(request).await.unwrap();
        let code = answer.status().as_u16();
        let body = axum::body::to_bytes(answer.into_body(), 1 << 16).await.unwrap();
        (code, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn health_is_open_and_the_rest_is_not() {
        let env = Env::simulated(1);
        let closed = || HealthServer::new().check("cache", || Err("not synced".into()));
        assert_eq!(ask(&env, closed(), "/healthz").await, (200, "ok".into()));
        assert_eq!(ask(&env, closed(), "/livez?verbose").await, (200, "[+]ping ok\nlivez check passed\n".into()));
        let unready = "[+]ping ok\n[-]cache failed: reason withheld\nreadyz check failed\n";
        assert_eq!(ask(&env, closed(), "/readyz").await, (500, unready.into()));
        assert_eq!(ask(&env, closed(), "/readyz/cache").await.0, 403);
        let may_look = closed().access_check(Arc::new(Only("/readyz/cache")));
        let why = "internal server error: not synced\n";
        assert_eq!(ask(&env, may_look, "/readyz/cache").await, (500, why.into()));
        assert_eq!(ask(&env, closed(), "/healthzz").await.0, 403);
        assert_eq!(ask(&env, closed(), "/metrics").await.0, 403);
        let server = |path| {
            let pages = Router::new().route("/rules", get(|| async { "the rules" }));
            HealthServer::new().configz(json!({"port": 1})).pages(pages).access_check(Arc::new(Only(path)))
        };
        assert_eq!(ask(&env, server("/rules"), "/rules").await, (200, "the rules".into()));
        assert_eq!(ask(&env, server("/configz"), "/configz").await, (200, r#"{"port":1}"#.into()));
        assert_eq!(ask(&env, server("/metrics"), "/metrics").await.0, 200);
        assert_eq!(ask(&env, server("/nothing"), "/nothing").await.0, 404);
        assert_eq!(ask(&env, server("/statusz"), "/statusz").await.0, 404);
        assert_eq!(ask(&env, server("/metrics/slis"), "/metrics/slis").await.0, 200);
        assert_eq!(ask(&env, server("/metrics"), "/metrics/slis").await.0, 403);
        let (code, body) = ask(&env, server("/rules"), "/metrics").await;
        assert_eq!(code, 403);
        assert!(body.contains("forbidden: not for you"), "{body}");
    }

    #[tokio::test(start_paused = true)]
    async fn in_process_it_is_found_by_name() {
        let env = Env::simulated(1);
        let options = ServingOptions { bind_address: [0, 0, 0, 0].into(), secure_port: None, ..defaults() };
        HealthServer::new().start(&env, "scheduler", &options, 10259).await.unwrap();
        let Network::InProcess(registry) = env.network() else { panic!("simulations have no sockets") };
        assert!(registry.connect("scheduler:10259").is_some());
        env.drain().await;
        assert!(registry.connect("scheduler:10259").is_none());
    }

    #[tokio::test]
    async fn a_certificate_that_cannot_be_used_is_found_at_the_start() {
        let env = Env::system();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tls.pem");
        std::fs::write(&file, "not PEM").unwrap();
        let options = ServingOptions {
            bind_address: [127, 0, 0, 1].into(),
            secure_port: None,
            tls_cert_file: Some(file.clone()),
            tls_private_key_file: Some(file),
            ..defaults()
        };
        // Port 0 switches serving off; any port of the system's choice is one that was asked for and is taken.
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = taken.local_addr().unwrap().port();
        let error = HealthServer::new().start(&env, "scheduler", &options, port).await.unwrap_err();
        assert!(error.to_string().starts_with("--bind-address, --secure-port: cannot listen on"), "{error}");
        drop(taken);
        let error = HealthServer::new().start(&env, "scheduler", &options, port).await.unwrap_err();
        assert_eq!(error.to_string(), "serving certificate: no certificate in it");
    }
}
