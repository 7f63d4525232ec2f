//! The node, pod or container that a request to an agent names: by its Host header and its path.
//!
//! Corresponds to getExecRequestParams and getPortForwardRequestParams in pkg/kubelet/server/server.go.

use super::plain_text::Refusal;
use crate::fleet::Fleet;
use crate::runtime::container::PodContainer;
use axum::extract::rejection::PathRejection;
use axum::extract::{FromRequestParts, Path};
use http::request::Parts;
use http::{HeaderMap, StatusCode, header};
use proto::kinds::api::core::v1::Pod;
use std::sync::Arc;

/// Returns the node that the Host header names.
pub fn node_name(headers: &HeaderMap) -> String {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    host.split_once(':').map_or(host, |(name, _)| name).to_owned()
}

/// A pod on a node, as a path names it.
#[derive(Clone, Debug)]
pub struct PodRef {
    pub node: String,
    pub namespace: String,
    pub pod: String,
}

impl PodRef {
    pub fn find(&self, fleet: &Fleet) -> Option<Arc<Pod>> {
        fleet.find(&self.node, &self.namespace, &self.pod).map(|(pod, _)| pod)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for PodRef {
    type Rejection = PathRejection;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Self::Rejection> {
        let Path((namespace, pod)) = Path::from_request_parts(parts, state).await?;
        Ok(Self { node: node_name(&parts.headers), namespace, pod })
    }
}

/// A container of a pod on a node, as a path names it.
#[derive(Clone, Debug)]
pub struct ContainerRef {
    pub node: String,
    pub namespace: String,
    pub pod: String,
    pub container: String,
}

impl ContainerRef {
    /// Finds the container; otherwise refuses with 404 in the kubelet's words.
    pub fn find(&self, fleet: &Fleet) -> Result<PodContainer, Refusal> {
        let (pod, status) = fleet
            .find(&self.node, &self.namespace, &self.pod)
            .ok_or_else(|| (StatusCode::NOT_FOUND, "pod does not exist\n".to_owned()))?;
        PodContainer::new(pod, status, &self.container).ok_or_else(|| {
            let text = format!("container {:?} not found in pod {:?}\n", self.container, self.pod);
            (StatusCode::NOT_FOUND, text)
        })
    }
}

impl<S: Send + Sync> FromRequestParts<S> for ContainerRef {
    type Rejection = PathRejection;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Self::Rejection> {
        let Path((namespace, pod, container)) = Path::from_request_parts(parts, state).await?;
        Ok(Self { node: node_name(&parts.headers), namespace, pod, container })
    }
}
