//! Error states of owners, namespaces, groups and certificates.

use super::ErrorState;
use crate::Simulation;
use crate::user::User;
use client::{DeleteOptions, Propagation};
use proto::gvk::Gvr;
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
        name: "owners-in-a-circle",
        objects: || vec![config_map("one"), config_map("two")],
        told: &[],
        requests_per_minute: 0,
        cured_without: &[],
    },
    ErrorState {
        name: "owner-abroad",
        objects: || vec![config_map("stray")],
        told: &[
            "ConfigMap OwnerRefInvalidNamespace: ownerRef [v1/ConfigMap, namespace: owner-abroad, name: one, uid: ",
        ],
        requests_per_minute: 0,
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

/// The ConfigMaps that own each other: first the owner, then what it owns, each as namespace and name.
const OWNERS: [[(&str, &str); 2]; 3] = [
    [("owners-in-a-circle", "one"), ("owners-in-a-circle", "two")],
    [("owners-in-a-circle", "two"), ("owners-in-a-circle", "one")],
    [("owners-in-a-circle", "one"), ("owner-abroad", "stray")],
];

fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

/// Makes the owners of `OWNERS`, which takes their UIDs.
pub async fn own_each_other(simulation: &Simulation, user: &User<'_>) {
    for [(namespace, name), (owned_in, owned)] in OWNERS {
        let owners = simulation.admin().dynamic(&Gvr::new("", "v1", "configmaps"), namespace);
        let uid = owners.get(name).await.map(|owner| owner["metadata"]["uid"].clone()).unwrap_or_default();
        let owner =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid, "blockOwnerDeletion": true});
        let patch = json!({"metadata": {"ownerReferences": [owner]}});
        user.patch("", "configmaps", owned_in, owned, patch).await;
    }
}

/// Deletes one object of the circle in the foreground: both go, though each waits for the other.
pub async fn end_circle(simulation: &Simulation) {
    let [namespace, name] = ["owners-in-a-circle", "one"];
    let options = DeleteOptions { propagation: Some(Propagation::Foreground), ..DeleteOptions::default() };
    let circle = simulation.admin().dynamic(&Gvr::new("", "v1", "configmaps"), namespace);
    // The wait below says what a failed deletion leaves.
    let _ = circle.delete(name, &options).await;
    let is_gone = async |name: &str| circle.get(name).await.is_err_and(|error| error.is_not_found());
    simulation.until("the circle is gone", async |_| is_gone("one").await && is_gone("two").await).await;
}

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
