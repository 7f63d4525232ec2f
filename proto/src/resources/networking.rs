//! networking.k8s.io: ingresses, network policies, and the addresses of services.
//!
//! Corresponds to pkg/registry/networking/rest.

use super::Resource;
use super::columns::read::{items, str_at};
use super::columns::{age, ingress, name, read, string, text};
use super::row::Group;
use serde_json::{Value, json};

const NETWORKING: Group = Group { name: "networking.k8s.io", version: "v1", package: "io.k8s.api.networking.v1" };

pub(super) fn rows() -> Vec<Resource> {
    vec![
        NETWORKING.cluster("ingressclasses", "IngressClass").followed_by_server().columns(vec![
            name(),
            text("Controller", "Which controller serves the class.", "/spec/controller"),
            string("Parameters", "Where the controller finds more.", |o, _| json!(parameters(o))),
            age(),
        ]),
        NETWORKING
            .namespaced("ingresses", "Ingress")
            .stored_at("ingress")
            .short("ing")
            .status()
            .columns(ingress::columns()),
        NETWORKING.cluster("ipaddresses", "IPAddress").short("ip").columns(vec![
            name(),
            string("ParentRef", "What the address belongs to.", |o, _| json!(parent(o))),
            // Kubernetes sends the age as a cell without a column definition.
            string("", "", |o, now| read::since(o, "/metadata/creationTimestamp", now)),
        ]),
        NETWORKING.namespaced("networkpolicies", "NetworkPolicy").short("netpol").columns(vec![
            name(),
            string("Pod-Selector", "Which pods the policy is about.", |o, _| read::selector(o, "/spec/podSelector")),
            age(),
        ]),
        NETWORKING.cluster("servicecidrs", "ServiceCIDR").status().columns(vec![
            name(),
            string("CIDRs", "The ranges from which services get addresses.", |o, _| {
                json!(read::joined(items(o, "/spec/cidrs").iter().filter_map(Value::as_str), ","))
            }),
            age(),
        ]),
    ]
}

/// Returns `Kind.group/name`.
fn parameters(class: &Value) -> String {
    let Some(reference) = class.pointer("/spec/parameters").filter(|p| p.is_object()) else {
        return "<none>".to_owned();
    };
    let group = reference.get("apiGroup").and_then(Value::as_str).map(|group| format!(".{group}")).unwrap_or_default();
    format!("{}{group}/{}", str_at(reference, "/kind"), str_at(reference, "/name"))
}

/// Returns `services/namespace/name` or `resource.group/name`.
fn parent(address: &Value) -> String {
    let Some(reference) = address.pointer("/spec/parentRef").filter(|p| p.is_object()) else {
        return "<none>".to_owned();
    };
    let resource = match (str_at(reference, "/resource"), str_at(reference, "/group")) {
        (resource, "") => resource.to_lowercase(),
        (resource, group) => format!("{resource}.{group}").to_lowercase(),
    };
    let parts = [resource.as_str(), str_at(reference, "/namespace"), str_at(reference, "/name")];
    read::joined(parts.into_iter().filter(|part| !part.is_empty()), "/")
}
