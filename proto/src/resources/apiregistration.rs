//! apiregistration.k8s.io: APIServices, one per group and version, which may name another server.
//!
//! Corresponds to k8s.io/kube-aggregator/pkg/registry/apiservice.

use super::Resource;
use super::columns::read::str_at;
use super::columns::{age, name, string};
use super::row::Group;
use crate::meta::condition;
use serde_json::{Value, json};

const APIREGISTRATION: Group = Group {
    name: "apiregistration.k8s.io",
    version: "v1",
    package: "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1",
};

pub(super) fn rows() -> Vec<Resource> {
    vec![
        APIREGISTRATION
            .cluster("apiservices", "APIService")
            .stored_at("apiregistration.k8s.io/apiservices")
            .category("api-extensions")
            .status()
            .columns(vec![
                name(),
                string("Service", "Who answers: this server, or the service named.", |o, _| json!(service(o))),
                string("Available", "Whether it answers.", |o, _| json!(available(o))),
                age(),
            ]),
    ]
}

fn service(api: &Value) -> String {
    match api.pointer("/spec/service").filter(|service| service.is_object()) {
        Some(service) => format!("{}/{}", str_at(service, "/namespace"), str_at(service, "/name")),
        None => "Local".to_owned(),
    }
}

/// Returns `True`, or `False (MissingEndpoints)`.
fn available(api: &Value) -> String {
    let Some(condition) = condition::find_value(api, "Available") else { return "Unknown".to_owned() };
    match (str_at(condition, "/status"), str_at(condition, "/reason")) {
        (status @ "True", _) | (status, "") => status.to_owned(),
        (status, reason) => format!("{status} ({reason})"),
    }
}
