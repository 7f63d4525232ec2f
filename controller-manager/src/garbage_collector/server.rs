//! Looks up objects on the server, because the graph may be stale.
//!
//! Corresponds to getObject and isDangling in pkg/controller/garbagecollector/garbagecollector.go.

use super::decide::OwnerState;
use super::graph::{FOREGROUND, Identity, referenced_identity};
use super::monitors::Monitors;
use client::{Client, ReconcileError};
use proto::Gvr;
use proto::kinds::metav1::{ObjectMeta, OwnerReference};

/// The result of a lookup.
#[derive(Debug)]
pub enum Lookup {
    Present {
        gvr: Gvr,
        metadata: Box<ObjectMeta>,
    },
    /// The object does not exist, or another one has its name.
    Absent,
    /// A cluster-scoped object refers to a namespaced owner. Its namespace is unknown, so the object is left alone.
    Unknowable,
}

/// Looks up an object, and compares its uid.
pub async fn look_up(client: &Client, monitors: &Monitors, identity: &Identity) -> Result<Lookup, ReconcileError> {
    let served = monitors.resource_of(&identity.api_version, &identity.kind);
    let is_namespaced = served.as_ref().map_or(!identity.namespace.is_empty(), |served| served.is_namespaced);
    let Some(gvr) = identity.gvr.clone().or_else(|| served.map(|served| served.gvr)) else {
        // The kind may be served later or never: an error causes a retry.
        let what = format!("no resource is served for kind {} of {}", identity.kind, identity.api_version);
        return Err(ReconcileError::new(what));
    };
    if is_namespaced && identity.namespace.is_empty() {
        return Ok(Lookup::Unknowable);
    }
    let namespace = if is_namespaced { identity.namespace.as_str() } else { "" };
    match client.dynamic(&gvr, namespace).get_metadata(&identity.name).await {
        Ok(object) => {
            let metadata = Box::new(object.metadata);
            let is_same = metadata.uid.as_deref() == Some(identity.uid.as_str());
            Ok(if is_same { Lookup::Present { gvr, metadata } } else { Lookup::Absent })
        }
        Err(error) if error.is_not_found() => Ok(Lookup::Absent),
        Err(error) => Err(error.into()),
    }
}

/// Returns the state of the owner that an object of `namespace` refers to; `None` if it is unknowable.
pub async fn owner_state(
    client: &Client,
    monitors: &Monitors,
    owner: &OwnerReference,
    namespace: &str,
) -> Result<Option<OwnerState>, ReconcileError> {
    let identity = referenced_identity(owner, namespace);
    if monitors.absent.lock().has(&identity) {
        return Ok(Some(OwnerState::Absent));
    }
    Ok(match look_up(client, monitors, &identity).await? {
        Lookup::Unknowable => None,
        Lookup::Absent => {
            monitors.absent.lock().add(&identity);
            Some(OwnerState::Absent)
        }
        Lookup::Present { metadata, .. } => {
            let in_foreground = metadata.finalizers.iter().flatten().any(|finalizer| finalizer == FOREGROUND);
            let waits = metadata.deletion_timestamp.is_some() && in_foreground;
            Some(if waits { OwnerState::Waiting } else { OwnerState::Solid })
        }
    })
}
