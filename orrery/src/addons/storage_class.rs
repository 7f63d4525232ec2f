//! The default StorageClass of a new cluster, whose volumes the controller manager simulates.
//!
//! Corresponds to the StorageClass `standard` of kind and minikube.

use client::{Client, Error, ListOptions};
use proto::Gvr;
use serde_json::{Value, json};

/// Creates the class, unless the cluster has classes already.
pub async fn create(admin: &Client) -> Result<(), Error> {
    let classes = admin.dynamic(&Gvr::new("storage.k8s.io", "v1", "storageclasses"), "");
    let known = classes.list(&ListOptions::default()).await?;
    if !known.items.is_empty() {
        return Ok(());
    }
    match classes.create(&standard()).await {
        Err(error) if !error.is_already_exists() => Err(error),
        _ => Ok(()),
    }
}

fn standard() -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {
            "name": "standard",
            "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
        },
        "provisioner": "orrery.dev/simulated",
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "Immediate",
        "allowVolumeExpansion": true,
    })
}
