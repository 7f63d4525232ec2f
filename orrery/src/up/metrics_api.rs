//! Registers the group `metrics.k8s.io`, which kubelet-sim serves, so that `kubectl top` works from the start.
//!
//! The objects are those that metrics-server's own manifest creates, as far as they are about the API.

use super::Options;
use super::components::{Component, server_url};
use client::{Client, Error, Patch, PatchOptions};
use component_base::dial::SERVICE_ENDPOINT;
use proto::Gvr;
use serde_json::{Value, json};

/// The field manager of the objects.
const MANAGER: &str = "orrery-up";

/// Returns `host:port` of the component that serves the group.
pub fn endpoint(options: &Options, components: &[Component]) -> String {
    let port = components.iter().find(|component| component.name == "kubelet-sim").map_or(0, |found| found.port);
    server_url(options.bind_address, port).trim_start_matches("https://").to_owned()
}

/// Creates the Service and the APIService, or brings them up to date, and lets all users who may view pods view their usage.
pub async fn register(client: &Client, endpoint: &str) -> Result<(), Error> {
    for (gvr, namespace, object) in objects(endpoint) {
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let patch = Patch::Apply { value: object, manager: MANAGER.to_owned(), force: true };
        client.dynamic(&gvr, namespace).patch(&name, &patch, &PatchOptions::default()).await?;
    }
    Ok(())
}

fn objects(endpoint: &str) -> [(Gvr, &'static str, Value); 3] {
    let labels = json!({"k8s-app": "metrics-server"});
    let service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {
            "name": "metrics-server", "namespace": "kube-system", "labels": labels,
            "annotations": {SERVICE_ENDPOINT: endpoint},
        },
        "spec": {"ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 443}]},
    });
    let api_service = json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": {"name": "v1beta1.metrics.k8s.io", "labels": labels},
        "spec": {
            "group": "metrics.k8s.io", "version": "v1beta1", "groupPriorityMinimum": 100, "versionPriority": 100,
            "insecureSkipTLSVerify": true,
            "service": {"name": "metrics-server", "namespace": "kube-system", "port": 443},
        },
    });
    let reader = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {
            "name": "system:aggregated-metrics-reader",
            "labels": {
                "k8s-app": "metrics-server", "rbac.authorization.k8s.io/aggregate-to-admin": "true",
                "rbac.authorization.k8s.io/aggregate-to-edit": "true",
                "rbac.authorization.k8s.io/aggregate-to-view": "true",
            },
        },
        "rules": [{"apiGroups": ["metrics.k8s.io"], "resources": ["pods", "nodes"], "verbs": ["get", "list", "watch"]}],
    });
    [
        (Gvr::new("rbac.authorization.k8s.io", "v1", "clusterroles"), "", reader),
        (Gvr::new("", "v1", "services"), "kube-system", service),
        (Gvr::new("apiregistration.k8s.io", "v1", "apiservices"), "", api_service),
    ]
}
