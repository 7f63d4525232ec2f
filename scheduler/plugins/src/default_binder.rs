//! DefaultBinder binds the pod through its `binding` subresource.
//!
//! Corresponds to pkg/scheduler/framework/plugins/defaultbinder.

use async_trait::async_trait;
use client::Client;
use proto::Kind;
use proto::kinds::api::core::v1::Pod;
use scheduling_framework::pod_info::PodInfo;
use scheduling_framework::{Bind, CycleState, Plugin};
use serde::Serialize;
use std::collections::BTreeMap;

pub struct DefaultBinder {
    pub client: Client,
}

const NAME: &str = "DefaultBinder";

/// A binding. Its uid prevents the binding of a later pod of the same name.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Binding<'a> {
    api_version: &'a str,
    kind: &'a str,
    metadata: Metadata<'a>,
    target: Target<'a>,
}

#[derive(Serialize)]
struct Metadata<'a> {
    namespace: &'a str,
    name: &'a str,
    uid: &'a str,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    annotations: &'a BTreeMap<String, String>,
}

#[derive(Serialize)]
struct Target<'a> {
    kind: &'a str,
    name: &'a str,
}

/// Returns the JSON of the binding, with the annotations that plugins have left.
pub fn binding(state: &CycleState, pod: &PodInfo, node: &str) -> Vec<u8> {
    let metadata = Metadata {
        namespace: pod.namespace(),
        name: pod.pod.name(),
        uid: pod.uid(),
        annotations: &state.binding_annotations,
    };
    let target = Target { kind: "Node", name: node };
    let binding = Binding { api_version: "v1", kind: "Binding", metadata, target };
    serde_json::to_vec(&binding).expect("a binding is plain data")
}

impl Plugin for DefaultBinder {
    fn name(&self) -> &'static str {
        NAME
    }
}

#[async_trait]
impl Bind for DefaultBinder {
    async fn bind(&self, state: &CycleState, pod: &PodInfo, node: &str) -> Option<Result<(), String>> {
        let pods = self.client.dynamic(&Pod::gvr(), pod.namespace());
        let bound = pods.create_subresource_unread(pod.pod.name(), "binding", binding(state, pod, node)).await;
        Some(bound.map_err(|error| error.to_string()))
    }
}
