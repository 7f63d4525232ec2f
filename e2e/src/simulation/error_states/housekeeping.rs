//! Error states of owners, namespaces, groups and certificates.

use super::ErrorState;
use serde_json::{Value, json};

pub const STATES: &[ErrorState] = &[
    ErrorState {
        name: "owner-elsewhere",
        objects: owner_elsewhere,
        told: &[],
        requests_per_minute: 2,
        cured_without: &[],
    },
    ErrorState {
        name: "group-gone",
        objects: group_gone,
        told: &["APIService Available=False ServiceNotFound"],
        requests_per_minute: 2,
        cured_without: &[],
    },
    ErrorState {
        name: "token-of-nobody",
        objects: token_of_nobody,
        told: &[],
        requests_per_minute: 1,
        cured_without: &[],
    },
];

/// An owner that is in another namespace, as far as anybody can tell.
fn owner_elsewhere() -> Vec<Value> {
    let owner = json!({"apiVersion": "v1", "kind": "Namespace", "name": "kube-system", "uid": "made-up"});
    let kept = json!({"apiVersion": "example.com/v1", "kind": "Moon", "name": "luna", "uid": "made-up-too"});
    let object = |name: &str, owner: &Value| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "ownerReferences": [owner]},
        })
    };
    vec![object("of-nobody", &owner), object("of-an-unknown-kind", &kept)]
}

/// A group whose server cannot be reached.
fn group_gone() -> Vec<Value> {
    vec![json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": "v1.group-gone.example.com"},
        "spec": {
            "group": "group-gone.example.com", "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 10,
            "insecureSkipTLSVerify": true, "service": {"namespace": "group-gone", "name": "nobody"},
        },
    })]
}

fn token_of_nobody() -> Vec<Value> {
    let annotations = json!({"kubernetes.io/service-account.name": "nobody"});
    vec![json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "token", "annotations": annotations},
        "type": "kubernetes.io/service-account-token",
    })]
}
