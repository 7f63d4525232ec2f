//! `MetricsSource`: a server of `external.metrics.k8s.io` beside the simulated cluster, whose values a scenario sets.
//!
//! The API server forwards requests to it, as to the adapter of a monitoring system.

use axum::body::Body;
use component_base::env::Env;
use component_base::network::{HttpService, Network};
use http::{Request, Response, StatusCode, header};
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

const AUTHORITY: &str = "metrics-source:443";
const GROUP_VERSION: &str = "external.metrics.k8s.io/v1beta1";
const NAME: &str = "metrics-source";

/// The values of metrics, by name. Clones share them.
#[derive(Clone)]
pub struct MetricsSource {
    env: Env,
    values: Arc<Mutex<BTreeMap<String, Measured>>>,
}

/// The value of a metric, and how old it is when it is read.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    pub value: String,
    pub age: SignedDuration,
}

impl MetricsSource {
    /// Starts the server in the network of `env`. It knows no metric yet.
    pub fn start(env: &Env) -> Self {
        let source = Self { env: env.clone(), values: Arc::default() };
        let Network::InProcess(registry) = env.network() else { unreachable!("a simulated Env has no sockets") };
        let server = source.clone();
        let service = HttpService::new(tower::service_fn(move |request: Request<Body>| {
            let answer = server.answer(request.uri().path());
            async move { Ok::<_, Infallible>(answer) }
        }));
        registry.register(AUTHORITY, service);
        source
    }

    /// Returns the objects by which the API server finds this server.
    pub fn registration() -> [Value; 2] {
        let (group, version) = GROUP_VERSION.split_once('/').unwrap_or_default();
        let metadata = json!({
            "name": NAME, "namespace": "kube-system", "annotations": {"orrery.dev/service-endpoint": AUTHORITY},
        });
        let service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": [{"port": 443}]},
        });
        let api_service = json!({
            "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
            "metadata": {"name": format!("{version}.{group}")},
            "spec": {
                "group": group, "version": version, "groupPriorityMinimum": 100, "versionPriority": 100,
                "insecureSkipTLSVerify": true, "service": {"namespace": "kube-system", "name": NAME},
            },
        });
        [service, api_service]
    }

    /// Sets a metric, which is then measured anew whenever it is read.
    pub fn set(&self, metric: &str, value: &str) {
        self.set_with_age(metric, value, SignedDuration::ZERO);
    }

    /// Sets a metric whose value is that old whenever it is read.
    pub fn set_with_age(&self, metric: &str, value: &str, age: SignedDuration) {
        self.values.lock().insert(metric.to_owned(), Measured { value: value.to_owned(), age });
    }

    fn answer(&self, path: &str) -> Response<Body> {
        let content = match path.strip_prefix("/apis/").and_then(|path| path.strip_prefix(GROUP_VERSION)) {
            Some("") => Some(json!({
                "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": GROUP_VERSION, "resources": [],
            })),
            Some(rest) => {
                rest.rsplit_once('/').map(|(_, metric)| list(metric, self.values.lock().get(metric), self.env.wall()))
            }
            None => None,
        };
        let mut response = Response::new(Body::from(content.as_ref().map(Value::to_string).unwrap_or_default()));
        *response.status_mut() = if content.is_some() { StatusCode::OK } else { StatusCode::NOT_FOUND };
        let json = http::HeaderValue::from_static("application/json");
        response.headers_mut().insert(header::CONTENT_TYPE, json);
        response
    }
}

/// Returns the list of a metric's values; it is empty for an unknown metric.
fn list(metric: &str, measured: Option<&Measured>, now: Timestamp) -> Value {
    let item = |measured: &Measured| {
        let taken_at = now.checked_sub(measured.age).unwrap_or(now);
        json!({"metricName": metric, "metricLabels": {}, "timestamp": taken_at.to_string(), "value": measured.value})
    };
    let items: Vec<Value> = measured.into_iter().map(item).collect();
    json!({"kind": "ExternalMetricValueList", "apiVersion": GROUP_VERSION, "metadata": {}, "items": items})
}
