//! The objects, lists and tables of the group.
//!
//! Corresponds to pkg/api of sigs.k8s.io/metrics-server.

use proto::Status;
use proto::kinds::jiff::Timestamp;
use proto::meta::field_selector::FieldSelector;
use proto::meta::selector::Selector;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// The interval that a measurement stands for: that of metrics-server.
pub const WINDOW: Duration = Duration::from_secs(15);

/// What a request is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    Nodes,
    Pods {
        /// `None` for all namespaces.
        namespace: Option<String>,
    },
}

impl Scope {
    pub fn resource(&self) -> &'static str {
        match self {
            Self::Nodes => "nodes",
            Self::Pods { .. } => "pods",
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Self::Nodes => "NodeMetrics",
            Self::Pods { .. } => "PodMetrics",
        }
    }
}

/// Selects objects by labels and by their name and namespace.
#[derive(Clone, Debug)]
pub struct Selection {
    labels: Selector,
    fields: FieldSelector,
}

impl Selection {
    pub fn of(query: &BTreeMap<String, String>) -> Result<Self, Status> {
        let text = |key: &str| query.get(key).map(String::as_str).unwrap_or_default();
        let labels = Selector::parse(text("labelSelector")).map_err(Status::bad_request)?;
        let fields = FieldSelector::parse(text("fieldSelector")).map_err(Status::bad_request)?;
        Ok(Self { labels, fields })
    }

    pub fn of_name(name: &str) -> Self {
        let fields = FieldSelector::parse(&format!("metadata.name={name}")).unwrap_or_default();
        Self { labels: Selector::everything(), fields }
    }

    pub fn selects(&self, namespace: &str, name: &str, labels: Option<&BTreeMap<String, String>>) -> bool {
        let of_path = |path: &str| match path {
            "metadata.name" => name,
            "metadata.namespace" => namespace,
            _ => "",
        };
        static NO_LABELS: BTreeMap<String, String> = BTreeMap::new();
        self.labels.matches(labels.unwrap_or(&NO_LABELS)) && self.fields.matches_by(of_path)
    }
}

/// The usage of one container, or of a node as a whole.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Usage {
    pub name: String,
    pub cpu_cores: f64,
    pub memory_bytes: f64,
}

impl Usage {
    fn quantities(&self) -> Value {
        let nanocores = (self.cpu_cores * 1e9).round() as i64;
        let cpu = if nanocores == 0 { "0".to_owned() } else { format!("{nanocores}n") };
        let kibibytes = (self.memory_bytes / 1024.0).round() as i64;
        json!({"cpu": cpu, "memory": format!("{kibibytes}Ki")})
    }
}

/// A node or pod with its usage.
#[derive(Clone, Debug)]
pub struct Item {
    pub namespace: String,
    pub name: String,
    pub labels: Option<BTreeMap<String, String>>,
    pub now: Timestamp,
    /// One for a node; one of each running container for a pod.
    pub usages: Vec<Usage>,
}

pub fn list(scope: &Scope, items: Vec<Item>, as_table: bool) -> Value {
    if as_table {
        return table(items.iter().map(|item| row(scope, item)).collect());
    }
    let of_list = |item: &Item| {
        let mut object = object(scope, item);
        object
            .as_object_mut()
            .into_iter()
            .for_each(|fields| fields.retain(|key, _| key != "kind" && key != "apiVersion"));
        object
    };
    let items: Vec<Value> = items.iter().map(of_list).collect();
    let kind = format!("{}List", scope.kind());
    json!({"kind": kind, "apiVersion": "metrics.k8s.io/v1beta1", "metadata": {}, "items": items})
}

pub fn one(scope: &Scope, item: Item, as_table: bool) -> Value {
    if as_table { table(vec![row(scope, &item)]) } else { object(scope, &item) }
}

pub fn not_found(scope: &Scope, name: &str) -> Status {
    let (resource, name) = match scope {
        Scope::Nodes => ("nodemetrics", name.to_owned()),
        Scope::Pods { namespace } => ("podmetrics", format!("{}/{name}", namespace.as_deref().unwrap_or_default())),
    };
    Status::not_found("metrics.k8s.io", resource, &name)
}

fn object(scope: &Scope, item: &Item) -> Value {
    let mut metadata = json!({"name": item.name, "creationTimestamp": shown(item.now)});
    if !item.namespace.is_empty() {
        metadata["namespace"] = json!(item.namespace);
    }
    if let Some(labels) = item.labels.as_ref().filter(|labels| !labels.is_empty()) {
        metadata["labels"] = json!(labels);
    }
    let mut object = json!({
        "kind": scope.kind(), "apiVersion": "metrics.k8s.io/v1beta1", "metadata": metadata,
        "timestamp": shown(item.now), "window": format!("{}s", WINDOW.as_secs()),
    });
    match scope {
        Scope::Nodes => object["usage"] = item.usages.first().map(Usage::quantities).unwrap_or_default(),
        Scope::Pods { .. } => {
            let containers = item.usages.iter().map(|used| json!({"name": used.name, "usage": used.quantities()}));
            object["containers"] = containers.collect();
        }
    }
    object
}

fn row(scope: &Scope, item: &Item) -> Value {
    let whole = Usage {
        name: String::new(),
        cpu_cores: item.usages.iter().map(|used| used.cpu_cores).sum(),
        memory_bytes: item.usages.iter().map(|used| used.memory_bytes).sum(),
    };
    let quantities = whole.quantities();
    let mut partial = object(scope, item);
    let metadata = partial["metadata"].take();
    json!({
        "cells": [item.name, quantities["cpu"], quantities["memory"], format!("{}s", WINDOW.as_secs())],
        "object": {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata},
    })
}

fn table(rows: Vec<Value>) -> Value {
    let column = |name: &str, format: &str, description: &str| json!({"name": name, "type": "string", "format": format, "description": description, "priority": 0});
    json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {},
        "columnDefinitions": [
            column("Name", "name", "Name of the resource"),
            column("cpu", "", "CPU in use"),
            column("memory", "", "Memory in use"),
            column("Window", "duration", "Length of the interval in which the usage was measured"),
        ],
        "rows": rows,
    })
}

fn shown(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
