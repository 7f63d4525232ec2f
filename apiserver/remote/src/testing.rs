//! Simulated servers that answer reviews, for the tests of their clients.

use axum::body::{Body, to_bytes};
use component_base::env::Env;
use component_base::network::{HttpService, Network};
use http::{Request, Response};
use parking_lot::Mutex;
use serde_json::Value;
use std::convert::Infallible;
use std::sync::Arc;

/// Largest body of a review.
const MAX_REVIEW_BYTES: usize = 1 << 20;

/// Registers a server in this environment that answers reviews with a status, and returns the reviews that it received.
pub fn reviewing(
    env: &Env,
    authority: &str,
    status: impl Fn(&Value) -> Value + Send + Sync + 'static,
) -> Arc<Mutex<Vec<Value>>> {
    let received: Arc<Mutex<Vec<Value>>> = Arc::default();
    let (recorder, status) = (received.clone(), Arc::new(status));
    let service = HttpService::new(tower::service_fn(move |request: Request<Body>| {
        let (recorder, status) = (recorder.clone(), status.clone());
        async move {
            let bytes = to_bytes(request.into_body(), MAX_REVIEW_BYTES).await.expect("a review arrives whole");
            let mut review: Value = serde_json::from_slice(&bytes).expect("a review is JSON");
            recorder.lock().push(review.clone());
            review["status"] = status(&review["spec"]);
            Ok::<_, Infallible>(Response::new(Body::from(review.to_string())))
        }
    }));
    let Network::InProcess(network) = env.network() else { panic!("tests are simulated") };
    network.register(authority, service);
    received
}

/// Registers a server that answers SubjectAccessReviews.
pub fn allowing(
    env: &Env,
    authority: &str,
    allows: impl Fn(&Value) -> bool + Send + Sync + 'static,
) -> Arc<Mutex<Vec<Value>>> {
    reviewing(env, authority, move |spec| serde_json::json!({"allowed": allows(spec)}))
}
