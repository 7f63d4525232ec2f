//! The core group: pods, nodes, services and what they need; events are also served as events.k8s.io.
//!
//! Corresponds to pkg/registry/core/rest and pkg/registry/events/rest.

use super::conversion::event;
use super::fields::{SelectableField, UnknownField, text_at};
use super::row::Group;
use super::{Conversion, Resource, Verb};
use serde_json::Value;

const CORE: Group = Group { name: "", version: "v1", package: "io.k8s.api.core.v1" };
const EVENTS: Group = Group { name: "events.k8s.io", version: "v1", package: "io.k8s.api.events.v1" };

/// A connection that is upgraded or copied through; each verb is an HTTP method.
const STREAM: &[Verb] = &[Verb::Create, Verb::Get];
const PROXY: &[Verb] = &[Verb::Create, Verb::Delete, Verb::Get, Verb::Patch, Verb::Update];
/// A namespace is never deleted with others: it goes when its content has gone.
const NAMESPACE: &[Verb] = &[Verb::Create, Verb::Delete, Verb::Get, Verb::List, Verb::Patch, Verb::Update, Verb::Watch];

pub(super) fn rows() -> Vec<Resource> {
    vec![
        CORE.namespaced("bindings", "Binding").computed(&[Verb::Create]),
        CORE.cluster("componentstatuses", "ComponentStatus").short("cs").computed(&[Verb::Get, Verb::List]),
        CORE.namespaced("configmaps", "ConfigMap").short("cm"),
        CORE.namespaced("endpoints", "Endpoints").stored_at("services/endpoints").short("ep"),
        CORE.namespaced("events", "Event")
            .short("ev")
            .selectable(event_fields(), UnknownField::Plain)
            .also(&EVENTS, Conversion::With { to_storage: event::to_core, from_storage: event::from_core })
            .selectable(new_event_fields(), UnknownField::Plain),
        CORE.namespaced("limitranges", "LimitRange").short("limits"),
        CORE.cluster("namespaces", "Namespace")
            .short("ns")
            .verbs(NAMESPACE)
            .subresource("finalize", &[Verb::Update], None)
            .status()
            .selectable(vec![SelectableField::at("status.phase")], UnknownField::Plain),
        CORE.cluster("nodes", "Node")
            .stored_at("minions")
            .short("no")
            .subresource("proxy", PROXY, Some(("", "v1", "NodeProxyOptions")))
            .status()
            .selectable(vec![SelectableField::with("spec.unschedulable", unschedulable)], UnknownField::Plain),
        CORE.namespaced("persistentvolumeclaims", "PersistentVolumeClaim").short("pvc").status(),
        CORE.cluster("persistentvolumes", "PersistentVolume").short("pv").status(),
        CORE.namespaced("pods", "Pod")
            .short("po")
            .category("all")
            .subresource("attach", STREAM, Some(("", "v1", "PodAttachOptions")))
            .subresource("binding", &[Verb::Create], Some(("", "v1", "Binding")))
            .part("ephemeralcontainers")
            .subresource("eviction", &[Verb::Create], Some(("policy", "v1", "Eviction")))
            .subresource("exec", STREAM, Some(("", "v1", "PodExecOptions")))
            .subresource("log", &[Verb::Get], None)
            .subresource("portforward", STREAM, Some(("", "v1", "PodPortForwardOptions")))
            .subresource("proxy", PROXY, Some(("", "v1", "PodProxyOptions")))
            .part("resize")
            .status()
            .selectable(pod_fields(), UnknownField::Plain),
        CORE.namespaced("podtemplates", "PodTemplate"),
        CORE.namespaced("replicationcontrollers", "ReplicationController")
            .stored_at("controllers")
            .short("rc")
            .category("all")
            .scale()
            .status()
            .selectable(vec![SelectableField::with("status.replicas", replicas)], UnknownField::Plain),
        CORE.namespaced("resourcequotas", "ResourceQuota").short("quota").status(),
        CORE.namespaced("secrets", "Secret").selectable(vec![SelectableField::at("type")], UnknownField::Plain),
        CORE.namespaced("serviceaccounts", "ServiceAccount").short("sa").subresource(
            "token",
            &[Verb::Create],
            Some(("authentication.k8s.io", "v1", "TokenRequest")),
        ),
        CORE.namespaced("services", "Service")
            .stored_at("services/specs")
            .short("svc")
            .category("all")
            .subresource("proxy", PROXY, Some(("", "v1", "ServiceProxyOptions")))
            .status()
            .selectable(
                vec![SelectableField::at("spec.clusterIP"), SelectableField::at("spec.type")],
                UnknownField::Plain,
            ),
    ]
}

fn pod_fields() -> Vec<SelectableField> {
    vec![
        SelectableField::at("spec.nodeName"),
        SelectableField::at("spec.restartPolicy"),
        SelectableField::at("spec.schedulerName"),
        SelectableField::at("spec.serviceAccountName"),
        SelectableField::with("spec.hostNetwork", |pod| flag(pod, "/spec/hostNetwork")),
        SelectableField::at("status.phase"),
        SelectableField::with("status.podIP", |pod| {
            pod.pointer("/status/podIPs/0/ip").and_then(Value::as_str).unwrap_or_default().to_owned()
        }),
        // Accepted, but nothing is ever indexed under it: only the empty value matches.
        SelectableField::with("status.podIPs", |_| String::new()),
        SelectableField::at("status.nominatedNodeName"),
        SelectableField::alias("spec.host", "spec.nodeName"),
    ]
}

fn event_fields() -> Vec<SelectableField> {
    vec![
        SelectableField::at("involvedObject.kind"),
        SelectableField::at("involvedObject.namespace"),
        SelectableField::at("involvedObject.name"),
        SelectableField::at("involvedObject.uid"),
        SelectableField::at("involvedObject.apiVersion"),
        SelectableField::at("involvedObject.resourceVersion"),
        SelectableField::at("involvedObject.fieldPath"),
        SelectableField::at("reason"),
        SelectableField::at("reportingComponent"),
        SelectableField::with("source", event_source),
        SelectableField::at("type"),
    ]
}

/// The names that events.k8s.io gives to the same fields.
fn new_event_fields() -> Vec<SelectableField> {
    vec![
        SelectableField::alias("regarding.kind", "involvedObject.kind"),
        SelectableField::alias("regarding.namespace", "involvedObject.namespace"),
        SelectableField::alias("regarding.name", "involvedObject.name"),
        SelectableField::alias("regarding.uid", "involvedObject.uid"),
        SelectableField::alias("regarding.apiVersion", "involvedObject.apiVersion"),
        SelectableField::alias("regarding.resourceVersion", "involvedObject.resourceVersion"),
        SelectableField::alias("regarding.fieldPath", "involvedObject.fieldPath"),
        SelectableField::at("reason"),
        SelectableField::alias("reportingController", "reportingComponent"),
        SelectableField::at("type"),
    ]
}

fn event_source(event: &Value) -> String {
    let component = text_at(event, "source.component");
    if component.is_empty() { text_at(event, "reportingComponent") } else { component }
}

fn unschedulable(node: &Value) -> String {
    flag(node, "/spec/unschedulable")
}

fn replicas(controller: &Value) -> String {
    controller.pointer("/status/replicas").and_then(Value::as_i64).unwrap_or(0).to_string()
}

fn flag(object: &Value, pointer: &str) -> String {
    object.pointer(pointer).and_then(Value::as_bool).unwrap_or(false).to_string()
}
