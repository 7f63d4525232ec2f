//! Answers the requests of a scheduler: bindings, patches and deletions of pods.

use crate::answered::{Answered, name_of};
use bytes::Bytes;
use component_base::env::Env;
use component_base::http::{Body, read_all};
use http::{Method, Request, Response};
use proto::Kind;
use proto::kinds::api::core::v1::Pod;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// Most bytes of a body, as of the API server.
const MAX_BYTES: usize = 3 << 20;

/// The pods that requests are about. An error is the code and the message of the answer.
pub trait Pods: Send + Sync {
    fn env(&self) -> &Env;
    /// The time of a request.
    fn request_time(&self) -> Duration;
    /// Counts the requests that were answered.
    fn answered(&self) -> &Answered;
    fn get(&self, key: &str) -> Option<Arc<Pod>>;
    fn bind(&self, key: &str, binding: &Value) -> Result<(), (u16, String)>;
    fn patch(&self, key: &str, patch: &Value) -> Result<Arc<Pod>, (u16, String)>;
    fn delete(&self, key: &str, uid: &str) -> Result<(), (u16, String)>;
}

/// The object that a request is about.
#[derive(Debug, PartialEq, Eq)]
enum Target<'a> {
    Pod { key: String, subresource: &'a str },
    Other,
}

impl<'a> Target<'a> {
    fn of(path: &'a str) -> Self {
        let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        match parts.as_slice() {
            ["api", "v1", "namespaces", namespace, "pods", name] => {
                Self::Pod { key: format!("{namespace}/{name}"), subresource: "" }
            }
            ["api", "v1", "namespaces", namespace, "pods", name, subresource] => {
                Self::Pod { key: format!("{namespace}/{name}"), subresource }
            }
            _ => Self::Other,
        }
    }
}

/// Answers a request, after the time that requests take.
pub async fn answer(api: Option<Arc<impl Pods>>, request: Request<Body>) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let Some(api) = api else { return failure(503, "the model is not there") };
    let target = Target::of(parts.uri.path());
    api.env().sleep(api.request_time()).await;
    let body = read_all(body, MAX_BYTES).await.unwrap_or_default();
    let document: Value = serde_json::from_slice(&body).unwrap_or_default();
    api.answered().count(name_of(&parts.method, &parts.uri));
    let done = |_| json!({"kind": "Status", "apiVersion": "v1", "status": "Success"});
    let answered = match (&target, parts.method) {
        (Target::Pod { key, subresource: "binding" }, Method::POST) => api.bind(key, &document).map(done),
        (Target::Pod { key, subresource: "" | "status" }, Method::PATCH) => {
            api.patch(key, &document).map(|pod| pod.encode())
        }
        (Target::Pod { key, subresource: "" }, Method::DELETE) => {
            api.delete(key, document["preconditions"]["uid"].as_str().unwrap_or_default()).map(done)
        }
        (Target::Pod { key, subresource: "" }, Method::GET) => {
            api.get(key).map(|pod| pod.encode()).ok_or_else(|| (404, format!("pods {key:?} not found")))
        }
        _ => Err((404, "the model does not serve this".to_owned())),
    };
    match answered {
        Ok(document) => with_body(200, document.to_string().into()),
        Err((code, message)) => failure(code, &message),
    }
}

fn failure(code: u16, message: &str) -> Response<Body> {
    let reason = match code {
        404 => "NotFound",
        409 => "Conflict",
        422 => "Invalid",
        _ => "ServiceUnavailable",
    };
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": message,
    });
    with_body(code, status.to_string().into())
}

fn with_body(code: u16, body: Bytes) -> Response<Body> {
    let response = Response::builder().status(code).header(http::header::CONTENT_TYPE, "application/json");
    response.body(Body::from(body)).expect("the code is one of ours")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_name_their_target() {
        let pod = |subresource| Target::Pod { key: "a/p".to_owned(), subresource };
        for (path, target) in [
            ("/api/v1/namespaces/a/pods/p", pod("")),
            ("/api/v1/namespaces/a/pods/p/binding", pod("binding")),
            ("/api/v1/namespaces/a/events", Target::Other),
            ("/apis/resource.k8s.io/v1/resourceclaims", Target::Other),
        ] {
            assert_eq!(Target::of(path), target);
        }
    }
}
