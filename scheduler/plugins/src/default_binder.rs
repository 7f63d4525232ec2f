//! DefaultBinder binds the pod through its `binding` subresource.
//!
//! Corresponds to pkg/scheduler/framework/plugins/defaultbinder.

use async_trait::async_trait;
use client::Client;
use proto::Kind;
use proto::kinds::api::core::v1::Pod;
use scheduling_framework::pod_info::PodInfo;
use scheduling_framework::{Bind, Plugin};
use serde_json::{Value, json};

pub struct DefaultBinder {
    pub client: Client,
}

const NAME: &str = "DefaultBinder";

/// Returns the binding. Its uid prevents the binding of a later pod of the same name.
pub fn binding(pod: &PodInfo, node: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"namespace": pod.namespace(), "name": pod.pod.name(), "uid": pod.uid()},
        "target": {"kind": "Node", "name": node},
    })
}

impl Plugin for DefaultBinder {
    fn name(&self) -> &'static str {
        NAME
    }
}

#[async_trait]
impl Bind for DefaultBinder {
    async fn bind(&self, pod: &PodInfo, node: &str) -> Option<Result<(), String>> {
        let pods = self.client.api::<Pod>(pod.namespace());
        let bound = pods.create_subresource(pod.pod.name(), "binding", &binding(pod, node)).await;
        Some(bound.map(drop).map_err(|error| error.to_string()))
    }
}
