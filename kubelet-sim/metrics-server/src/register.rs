//! Registers the group `metrics.k8s.io`, so that `kubectl top` works from the start.
//!
//! The objects are those that metrics-server's own manifest creates, as far as they are about the API.

use client::{Client, Error, Patch, PatchOptions};
use component_base::dial::SERVICE_ENDPOINT;
use proto::Gvr;
use serde_json::{Value, json};

/// The field manager of the objects.
const MANAGER: &str = "orrery";
/// User of a metrics-server with a process of its own.
pub const USER: &str = "system:metrics-server";
const RBAC: &str = "rbac.authorization.k8s.io";

/// The group is not registered, in one line.
#[derive(Debug, thiserror::Error)]
#[error("metrics.k8s.io cannot be registered: {0}")]
pub struct RegisterError(#[from] Error);

/// Allows a metrics-server with a process of its own what it does.
pub async fn permit(client: &Client) -> Result<(), RegisterError> {
    Ok(apply(client, permissions()).await?)
}

/// Creates the Service and the APIService, or brings them up to date, and lets all users who may view pods view their usage.
/// `endpoint` is `host:port` of the program that serves the group.
pub async fn register(client: &Client, endpoint: &str) -> Result<(), RegisterError> {
    Ok(apply(client, objects(endpoint)).await?)
}

type Object = (Gvr, &'static str, Value);

async fn apply(client: &Client, objects: impl IntoIterator<Item = Object>) -> Result<(), Error> {
    for (gvr, namespace, object) in objects {
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let patch = Patch::Apply { value: object, manager: MANAGER.to_owned(), force: true };
        client.dynamic(&gvr, namespace).patch(&name, &patch, &PatchOptions::default()).await?;
    }
    Ok(())
}

/// Returns what lets a metrics-server ask nodes, find their labels and those of pods, and ask who its callers are.
fn permissions() -> [Object; 3] {
    let metadata = |name: &str| json!({"name": name, "labels": {"k8s-app": "metrics-server"}});
    let role = json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRole", "metadata": metadata(USER),
        "rules": [
            {"apiGroups": [""], "resources": ["nodes/proxy"], "verbs": ["get"]},
            {"apiGroups": [""], "resources": ["pods", "nodes"], "verbs": ["list", "watch"]},
        ],
    });
    let binding = |name: &str, role: &str| {
        json!({
            "apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRoleBinding", "metadata": metadata(name),
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": RBAC, "kind": "User", "name": USER}],
        })
    };
    let bindings = Gvr::new(RBAC, "v1", "clusterrolebindings");
    [
        (Gvr::new(RBAC, "v1", "clusterroles"), "", role),
        (bindings.clone(), "", binding(USER, USER)),
        (bindings, "", binding("metrics-server:system:auth-delegator", "system:auth-delegator")),
    ]
}

fn objects(endpoint: &str) -> [Object; 3] {
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
        "apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRole",
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
        (Gvr::new(RBAC, "v1", "clusterroles"), "", reader),
        (Gvr::new("", "v1", "services"), "kube-system", service),
        (Gvr::new("apiregistration.k8s.io", "v1", "apiservices"), "", api_service),
    ]
}
