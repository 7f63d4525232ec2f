//! Tests that every kind of bad request is answered with Kubernetes' code, reason and message, and that nothing is
//! stored.

mod bodies;
mod callers;
mod objects;
mod queries;

use crate::{etcd, program};
use e2e::apiserver::ApiServer;
use e2e::raw_request::{Answer, RawRequest};
use e2e::store::Store;
use orrery::up::data_dir::DataDir;
use serde_json::Value;
use std::sync::Arc;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

/// One row of a table: a request, and the code, reason and message of its answer.
struct Case {
    request: RawRequest,
    code: u16,
    reason: &'static str,
    /// The whole message, or its beginning if it ends with `…`.
    message: String,
}

impl Case {
    fn new(request: RawRequest, code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self { request, code, reason, message: message.into() }
    }

    fn bad_request(request: RawRequest, message: impl Into<String>) -> Self {
        Self::new(request, 400, "BadRequest", message)
    }

    fn invalid(request: RawRequest, message: impl Into<String>) -> Self {
        Self::new(request, 422, "Invalid", message)
    }

    fn unsupported(request: RawRequest, message: impl Into<String>) -> Self {
        Self::new(request, 415, "UnsupportedMediaType", message)
    }

    /// Expects the plain answer to a path without an API group, which is not a Status.
    fn no_route(request: RawRequest) -> Self {
        Self::new(request, 404, "", "404 page not found\n")
    }

    /// Returns the expected and the actual answer if they differ.
    fn difference(&self, answer: &Answer) -> Option<String> {
        if answer.body.is_null() {
            return (answer.code != self.code || answer.text != self.message).then(|| self.describe(answer));
        }
        let text = |key: &str| answer.body[key].as_str().unwrap_or_default();
        let message = match self.message.strip_suffix('…') {
            Some(beginning) => text("message").starts_with(beginning),
            None => text("message") == self.message,
        };
        let whole = self.code < 400 || (answer.body["status"] == "Failure" && answer.body["code"] == self.code);
        let same = whole && message && answer.code == self.code && text("reason") == self.reason;
        (!same).then(|| self.describe(answer))
    }

    fn describe(&self, answer: &Answer) -> String {
        let Self { request, code, reason, message } = self;
        format!("{request}\n  wanted: {code} {reason}: {message}\n  got:    {} {}", answer.code, answer.text)
    }
}

#[tokio::test]
async fn bad_requests_on_the_memory_store() {
    refuses_everything(Store::Memory).await;
}

#[tokio::test]
async fn bad_requests_on_the_embedded_store() {
    refuses_everything(Store::Embedded).await;
}

#[tokio::test]
async fn bad_requests_on_etcd() {
    let directory = tempfile::tempdir().unwrap();
    let Some(etcd) = etcd(directory.path()) else { return };
    refuses_everything(Store::Etcd(&etcd)).await;
}

async fn refuses_everything(store: Store<'_>) {
    let directory = tempfile::tempdir().unwrap();
    let data_dir = Arc::new(DataDir::open(&directory.path().join("data")).unwrap());
    // Otherwise a server on etcd would renew its lease now and then, which is a write.
    let flags = ["--endpoint-reconciler-type=none"];
    let server = ApiServer::start_in(program(), data_dir, store, &flags).await;
    let admin = server.client(&server.admin);
    let there = r#"{"metadata":{"name":"there"},"data":{"a":"1"}}"#;
    assert_eq!(RawRequest::post(CONFIG_MAPS, there).send(&admin).await.unwrap().code, 201);

    let before = server.revision().await;
    let mut differences = Vec::new();
    for case in bodies::cases().into_iter().chain(objects::cases()).chain(queries::cases()) {
        let answer = case.request.send(&admin).await.unwrap_or_else(|error| panic!("{}: {error}", case.request));
        differences.extend(case.difference(&answer));
    }
    assert!(differences.is_empty(), "{} rows differ:\n{}", differences.len(), differences.join("\n"));
    assert_eq!(server.revision().await, before, "something was stored");
}

/// Checks that `fieldValidation=Warn` accepts unknown and duplicate fields with warnings, and `Ignore` without.
#[tokio::test]
async fn field_validation_warns_or_ignores() {
    let directory = tempfile::tempdir().unwrap();
    let server = ApiServer::start(program(), directory.path(), Store::Memory).await;
    let admin = server.client(&server.admin);
    let odd = r#"{"metadata":{"name":"odd"},"data":{"a":"1","a":"2"},"dta":{}}"#;
    for (validation, warnings) in [
        ("Warn", vec![r#"299 - "unknown field \"dta\"""#, r#"299 - "duplicate field \"data.a\"""#]),
        ("Ignore", vec![]),
    ] {
        let path = format!("{CONFIG_MAPS}?dryRun=All&fieldValidation={validation}");
        let answer = RawRequest::post(&path, odd).send(&admin).await.unwrap();
        assert_eq!(answer.code, 201, "{}", answer.body);
        assert_eq!((&answer.body["data"]["a"], &answer.body["dta"]), (&Value::from("2"), &Value::Null));
        let mut found: Vec<&str> = answer.headers.get_all("warning").iter().map(|v| v.to_str().unwrap()).collect();
        found.sort_unstable_by(|a, b| b.cmp(a));
        assert_eq!(found, warnings);
    }
}
