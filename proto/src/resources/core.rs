//! The core group: pods, nodes, services, volumes, configuration. Its events are also served as events.k8s.io.
//!
//! Corresponds to pkg/registry/core/rest and pkg/registry/events/rest.

use super::columns::read::{int_at, str_at};
use super::columns::{self, age, name, read, string, text};
use super::conversion::event;
use super::fields::{SelectableField, UnknownField, text_at};
use super::row::Group;
use super::{Column, Conversion, Resource, Verb};
use serde_json::{Value, json};

const CORE: Group = Group { name: "", version: "v1", package: "io.k8s.api.core.v1" };
const EVENTS: Group = Group { name: "events.k8s.io", version: "v1", package: "io.k8s.api.events.v1" };

/// The verbs of a connection that is upgraded.
const STREAM: &[Verb] = &[Verb::Create, Verb::Get];
/// The verbs of a proxy: one for each HTTP method.
const PROXY: &[Verb] = &[Verb::Create, Verb::Delete, Verb::Get, Verb::Patch, Verb::Update];
/// A namespace cannot be deleted as part of a collection, because its content is deleted first.
const NAMESPACE: &[Verb] = &[Verb::Create, Verb::Delete, Verb::Get, Verb::List, Verb::Patch, Verb::Update, Verb::Watch];

pub(super) fn rows() -> Vec<Resource> {
    vec![
        CORE.namespaced("bindings", "Binding").computed(&[Verb::Create]),
        CORE.cluster("componentstatuses", "ComponentStatus")
            .short("cs")
            .deprecated("v1 ComponentStatus is deprecated in v1.19+")
            .computed(&[Verb::Get, Verb::List])
            .columns(component_status_columns()),
        CORE.namespaced("configmaps", "ConfigMap").short("cm").columns(vec![
            name(),
            string("Data", "How many entries it has.", |o, _| {
                json!(read::count(o, "/data") + read::count(o, "/binaryData"))
            }),
            age(),
        ]),
        CORE.namespaced("endpoints", "Endpoints")
            .stored_at("services/endpoints")
            .short("ep")
            .deprecated("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice")
            .columns(columns::endpoints::endpoints_columns()),
        CORE.namespaced("events", "Event")
            .expires()
            .short("ev")
            .columns(columns::event::columns())
            .selectable(event_fields(), UnknownField::Plain)
            .also(&EVENTS, Conversion::With { to_storage: event::to_core, from_storage: event::from_core })
            .selectable(new_event_fields(), UnknownField::Plain),
        CORE.namespaced("limitranges", "LimitRange").followed_by_server().short("limits"),
        CORE.cluster("namespaces", "Namespace")
            .short("ns")
            .verbs(NAMESPACE)
            .subresource("finalize", &[Verb::Update], None)
            .status()
            .columns(vec![name(), text("Status", "Whether it is in use or going.", "/status/phase"), age()])
            .selectable(vec![SelectableField::at("status.phase")], UnknownField::Plain),
        CORE.cluster("nodes", "Node")
            .stored_at("minions")
            .short("no")
            .subresource("proxy", PROXY, Some(("", "v1", "NodeProxyOptions")))
            .status()
            .columns(columns::node::columns())
            .selectable(vec![SelectableField::with("spec.unschedulable", unschedulable)], UnknownField::Plain),
        CORE.namespaced("persistentvolumeclaims", "PersistentVolumeClaim")
            .returns_deleted()
            .short("pvc")
            .status()
            .columns(columns::volume::claim_columns()),
        CORE.cluster("persistentvolumes", "PersistentVolume")
            .returns_deleted()
            .short("pv")
            .status()
            .columns(columns::volume::volume_columns()),
        CORE.namespaced("pods", "Pod")
            .returns_deleted()
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
            .columns(columns::pod::columns())
            .row_conditions(columns::pod::row_conditions)
            .selectable(pod_fields(), UnknownField::Plain),
        CORE.namespaced("podtemplates", "PodTemplate").returns_deleted().columns(columns::workload::pod_template()),
        CORE.namespaced("replicationcontrollers", "ReplicationController")
            .stored_at("controllers")
            .short("rc")
            .category("all")
            .scale()
            .status()
            .columns(columns::workload::replication_controller())
            .selectable(vec![SelectableField::with("status.replicas", replicas)], UnknownField::Plain),
        CORE.namespaced("resourcequotas", "ResourceQuota")
            .returns_deleted()
            .followed_by_server()
            .short("quota")
            .status()
            .columns(resource_quota_columns()),
        CORE.namespaced("secrets", "Secret")
            .columns(vec![
                name(),
                text("Type", "What the data is for.", "/type"),
                string("Data", "How many entries it has.", |o, _| json!(read::count(o, "/data"))),
                age(),
            ])
            .selectable(vec![SelectableField::at("type")], UnknownField::Plain),
        CORE.namespaced("serviceaccounts", "ServiceAccount")
            .returns_deleted()
            .short("sa")
            .subresource("token", &[Verb::Create], Some(("authentication.k8s.io", "v1", "TokenRequest")))
            .columns(vec![name(), age()]),
        CORE.namespaced("services", "Service")
            .returns_deleted()
            .stored_at("services/specs")
            .short("svc")
            .category("all")
            .subresource("proxy", PROXY, Some(("", "v1", "ServiceProxyOptions")))
            .status()
            .columns(columns::service::columns())
            .selectable(
                vec![SelectableField::at("spec.clusterIP"), SelectableField::at("spec.type")],
                UnknownField::Plain,
            ),
    ]
}

fn component_status_columns() -> Vec<Column> {
    fn healthy(component: &Value) -> Option<&Value> {
        read::items(component, "/conditions").iter().find(|condition| condition["type"] == "Healthy")
    }
    vec![
        name(),
        string("Status", "Whether the component answers.", |o, _| {
            json!(match healthy(o).map(|condition| str_at(condition, "/status")) {
                None => "Unknown",
                Some("True") => "Healthy",
                Some(_) => "Unhealthy",
            })
        }),
        string("Message", "What it answered.", |o, _| healthy(o).map_or(json!(""), |c| read::text(c, "/message"))),
        string("Error", "What went wrong.", |o, _| healthy(o).map_or(json!(""), |c| read::text(c, "/error"))),
    ]
}

fn resource_quota_columns() -> Vec<Column> {
    vec![
        name(),
        string("Request", "What is used of each limit on requests and counts.", |o, _| {
            json!(quota_usage(o, |resource| !resource.starts_with("limits.")))
        }),
        string("Limit", "What is used of each limit on limits.", |o, _| {
            json!(quota_usage(o, |resource| resource.starts_with("limits.")))
        }),
        age(),
    ]
}

/// Returns used and hard amounts: `pods: 3/10, requests.cpu: 0/4`.
fn quota_usage(quota: &Value, belongs: fn(&str) -> bool) -> String {
    let hard = quota.pointer("/status/hard").and_then(Value::as_object).into_iter().flatten();
    let used = |resource: &str| {
        quota.pointer("/status/used").and_then(|used| used.get(resource)).and_then(Value::as_str).unwrap_or("0")
    };
    let shown = hard
        .filter(|(resource, _)| belongs(resource))
        .map(|(resource, limit)| format!("{resource}: {}/{}", used(resource), limit.as_str().unwrap_or("0")));
    shown.collect::<Vec<_>>().join(", ")
}

fn pod_fields() -> Vec<SelectableField> {
    vec![
        SelectableField::at("spec.nodeName"),
        SelectableField::at("spec.restartPolicy"),
        SelectableField::at("spec.schedulerName"),
        SelectableField::at("spec.serviceAccountName"),
        SelectableField::with("spec.hostNetwork", |pod| flag(pod, "/spec/hostNetwork")),
        SelectableField::at("status.phase"),
        SelectableField::with("status.podIP", |pod| str_at(pod, "/status/podIPs/0/ip").to_owned()),
        // Kubernetes accepts this path but gives it no value, so that only the empty text matches.
        SelectableField::with("status.podIPs", |_| String::new()),
        SelectableField::at("status.nominatedNodeName"),
        SelectableField::alias("spec.host", "spec.nodeName"),
    ]
}

/// The fields of an event's involved object: the path in events.k8s.io, and the path in the core group.
const INVOLVED_OBJECT: [(&str, &str); 7] = [
    ("regarding.kind", "involvedObject.kind"),
    ("regarding.namespace", "involvedObject.namespace"),
    ("regarding.name", "involvedObject.name"),
    ("regarding.uid", "involvedObject.uid"),
    ("regarding.apiVersion", "involvedObject.apiVersion"),
    ("regarding.resourceVersion", "involvedObject.resourceVersion"),
    ("regarding.fieldPath", "involvedObject.fieldPath"),
];

fn event_fields() -> Vec<SelectableField> {
    let mut fields = INVOLVED_OBJECT.map(|(_, path)| SelectableField::at(path)).to_vec();
    fields.extend(["reason", "reportingComponent", "type"].map(SelectableField::at));
    fields.push(SelectableField::with("source", event_source));
    fields
}

fn new_event_fields() -> Vec<SelectableField> {
    let mut fields = INVOLVED_OBJECT.map(|(path, key)| SelectableField::alias(path, key)).to_vec();
    fields.extend(["reason", "type"].map(SelectableField::at));
    fields.push(SelectableField::alias("reportingController", "reportingComponent"));
    fields
}

fn event_source(event: &Value) -> String {
    let component = text_at(event, "source.component");
    if component.is_empty() { text_at(event, "reportingComponent") } else { component }
}

fn unschedulable(node: &Value) -> String {
    flag(node, "/spec/unschedulable")
}

fn replicas(controller: &Value) -> String {
    int_at(controller, "/status/replicas").to_string()
}

fn flag(object: &Value, pointer: &str) -> String {
    object.pointer(pointer).and_then(Value::as_bool).unwrap_or(false).to_string()
}
