//! What the server says of an object: the graph may be behind, and nothing is deleted on its word alone.
//!
//! Corresponds to getObject and isDangling in pkg/controller/garbagecollector/garbagecollector.go.

use super::decide::OwnerState;
use super::graph::{FOREGROUND, Identity, referred};
use super::monitors::Monitors;
use client::{Client, ReconcileError};
use proto::Gvr;
use proto::kinds::metav1::{ObjectMeta, OwnerReference};

/// What became of an object that is looked for.
#[derive(Debug)]
pub enum Found {
    There {
        gvr: Gvr,
        metadata: Box<ObjectMeta>,
    },
    /// Nothing, or another object of its name.
    Gone,
    /// An object of no namespace says that its owner lives in one. Which, nobody knows: it is left alone.
    Unknowable,
}

/// The object itself, if it is still the same one.
pub async fn fetch(client: &Client, monitors: &Monitors, identity: &Identity) -> Result<Found, ReconcileError> {
    let served = monitors.resource_of(&identity.api_version, &identity.kind);
    let is_namespaced = served.as_ref().map_or(!identity.namespace.is_empty(), |served| served.is_namespaced);
    let Some(gvr) = identity.gvr.clone().or_else(|| served.map(|served| served.gvr)) else {
        // A kind that is served a moment later, or never: both look the same.
        let what = format!("no resource is served for kind {} of {}", identity.kind, identity.api_version);
        return Err(ReconcileError::new(what));
    };
    if is_namespaced && identity.namespace.is_empty() {
        return Ok(Found::Unknowable);
    }
    let namespace = if is_namespaced { identity.namespace.as_str() } else { "" };
    match client.dynamic(&gvr, namespace).get(&identity.name).await {
        Ok(object) => {
            let metadata: Box<ObjectMeta> = serde_json::from_value(object["metadata"].clone())?;
            let is_same = metadata.uid.as_deref() == Some(identity.uid.as_str());
            Ok(if is_same { Found::There { gvr, metadata } } else { Found::Gone })
        }
        Err(error) if error.is_not_found() => Ok(Found::Gone),
        Err(error) => Err(error.into()),
    }
}

/// How the owner that a reference in an object of `namespace` means is found; nothing where that cannot be known.
pub async fn state_of(
    client: &Client,
    monitors: &Monitors,
    owner: &OwnerReference,
    namespace: &str,
) -> Result<Option<OwnerState>, ReconcileError> {
    let identity = referred(owner, namespace);
    if monitors.absent.lock().has(&identity) {
        return Ok(Some(OwnerState::Absent));
    }
    Ok(match fetch(client, monitors, &identity).await? {
        Found::Unknowable => None,
        Found::Gone => {
            monitors.absent.lock().add(&identity);
            Some(OwnerState::Absent)
        }
        Found::There { metadata, .. } => {
            let in_foreground = metadata.finalizers.iter().flatten().any(|finalizer| finalizer == FOREGROUND);
            let waits = metadata.deletion_timestamp.is_some() && in_foreground;
            Some(if waits { OwnerState::Waiting } else { OwnerState::Solid })
        }
    })
}
