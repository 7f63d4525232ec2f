//! Controller references: which object controls which, and which objects a controller adopts and releases.
//!
//! Corresponds to pkg/controller/controller_ref_manager.go.

use client::{Client, Event, Lister, ReconcileError};
use proto::Kind;
use proto::kinds::metav1::OwnerReference;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Returns the reference that makes `owner` the managing controller of an object.
pub fn controller_ref<K: Kind>(owner: &K) -> OwnerReference {
    OwnerReference {
        api_version: K::gvk().api_version(),
        kind: K::KIND.to_owned(),
        name: owner.name().to_owned(),
        uid: owner.uid().to_owned(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// Returns the reference to an object's managing controller, if it has one.
pub fn controller_of<K: Kind>(object: &K) -> Option<&OwnerReference> {
    object.metadata().owner_references.iter().flatten().find(|owner| owner.controller == Some(true))
}

pub fn is_controlled_by<K: Kind>(object: &K, owner_uid: &str) -> bool {
    controller_of(object).is_some_and(|owner| owner.uid == owner_uid)
}

/// Returns `Kind/namespace/name` of the managing controller, which is the key of an index over controlled objects.
pub fn controller_key<K: Kind>(object: &K) -> Option<String> {
    controller_of(object).map(|owner| owner_key(&owner.kind, object.namespace(), &owner.name))
}

pub fn owner_key(kind: &str, namespace: &str, name: &str) -> String {
    format!("{kind}/{namespace}/{name}")
}

/// Returns the work queue key of an object's controller if the controller is of kind `K`.
pub fn controller_queue_key<K: Kind>(object: &impl Kind) -> Option<String> {
    let owner =
        controller_of(object).filter(|owner| owner.kind == K::KIND && owner.api_version == K::gvk().api_version())?;
    Some(client::cached::key(object.namespace(), &owner.name))
}

/// Returns the keys of the controllers of kind `K` that an event about an object concerns: the present controller and,
/// if it changed, the former one.
pub fn concerned_controllers<K: Kind, T: Kind>(event: &Event<T>) -> Vec<String> {
    let (former, present) = match event {
        Event::Added(object) | Event::Deleted(object) => (None, object),
        Event::Updated { old, new } => (controller_queue_key::<K>(&**old), new),
    };
    let present = controller_queue_key::<K>(&**present);
    let former = former.filter(|former| Some(former) != present.as_ref());
    former.into_iter().chain(present).collect()
}

/// Returns true if the owner was deleted, or replaced by another of the same name.
pub fn is_replaced<T: Kind>(event: &Event<T>) -> bool {
    match event {
        Event::Added(_) => false,
        Event::Updated { old, new } => old.uid() != new.uid(),
        Event::Deleted(_) => true,
    }
}

/// Returns true if an object has no controller, and is new or its labels or its controller have changed.
pub fn may_be_adopted<T: Kind>(event: &Event<T>) -> bool {
    let is_changed = match event {
        Event::Added(_) => true,
        Event::Updated { old, new } => {
            controller_of(&**old).is_some() || old.metadata().labels != new.metadata().labels
        }
        Event::Deleted(_) => false,
    };
    is_changed && controller_of(&**event.object()).is_none()
}

/// Returns the keys of the owners that may adopt the object of an event: those of its namespace that select its labels.
pub fn adopters<K: Kind, T: Kind>(
    owners: &Lister<K>,
    event: &Event<T>,
    selects: impl Fn(&K, &BTreeMap<String, String>) -> bool,
) -> Vec<String> {
    let object = event.object();
    let Some(labels) = object.metadata().labels.as_ref().filter(|_| may_be_adopted(event)) else { return Vec::new() };
    let selecting = owners.filter(object.namespace(), |owner| selects(owner, labels));
    selecting.iter().map(|owner| owner.key()).collect()
}

/// The objects that an owner has, those that it may adopt, and those that it releases.
#[derive(Debug)]
pub struct Claims<T> {
    /// Objects that refer to the owner and that its selector matches.
    pub owned: Vec<Arc<T>>,
    /// Objects without a controller that its selector matches: to be adopted.
    pub adopt: Vec<Arc<T>>,
    /// Objects that refer to the owner and that its selector does not match: to be released.
    pub release: Vec<Arc<T>>,
}

impl<T: Kind> Claims<T> {
    /// Sorts `candidates` into those that the owner has, adopts and releases. An owner that is being deleted neither
    /// adopts nor releases. An object that is being deleted is not adopted.
    pub fn of<K: Kind>(
        owner: &K,
        candidates: impl IntoIterator<Item = Arc<T>>,
        selects: impl Fn(&BTreeMap<String, String>) -> bool,
    ) -> Self {
        let mut claims = Self { owned: Vec::new(), adopt: Vec::new(), release: Vec::new() };
        let no_labels = BTreeMap::new();
        for object in candidates {
            let selected = selects(object.metadata().labels.as_ref().unwrap_or(&no_labels));
            match controller_of(&*object) {
                Some(controller) if controller.uid != owner.uid() => {}
                Some(_) if selected => claims.owned.push(object),
                Some(_) if !owner.is_deleting() => claims.release.push(object),
                None if selected && !owner.is_deleting() && !object.is_deleting() => claims.adopt.push(object),
                _ => {}
            }
        }
        claims
    }

    /// Returns true if nothing is to be adopted or released.
    pub fn are_complete(&self) -> bool {
        self.adopt.is_empty() && self.release.is_empty()
    }
}

/// Before an adoption, asks the server whether the owner still has the cached uid and is not being deleted. The garbage
/// collector would delete what an absent owner adopts.
pub async fn confirm_adoption<K: Kind, T>(
    client: &Client,
    owner: &K,
    claims: &Claims<T>,
) -> Result<(), ReconcileError> {
    if claims.adopt.is_empty() {
        return Ok(());
    }
    let fresh = client.api::<K>(owner.namespace()).get(owner.name()).await?;
    if fresh.uid() != owner.uid() {
        let what =
            format!("original {} {} is gone: got uid {}, wanted {}", K::KIND, owner.key(), fresh.uid(), owner.uid());
        return Err(ReconcileError::new(what));
    }
    if fresh.is_deleting() {
        return Err(ReconcileError::new(format!("{} {} has just been deleted", K::KIND, owner.key())));
    }
    Ok(())
}

/// Returns the patch that gives an orphan its controller. The uid is a precondition: the patch fails on a later object
/// of the same name.
pub fn adoption_patch<K: Kind, T: Kind>(owner: &K, object: &T, finalizer: Option<&str>) -> Value {
    let mut metadata = json!({"ownerReferences": [controller_ref(owner)], "uid": object.uid()});
    if let Some(finalizer) = finalizer {
        metadata["finalizers"] = json!([finalizer]);
    }
    json!({"metadata": metadata})
}

/// Returns the strategic merge patch that removes an object's reference to `owner_uid`.
pub fn release_patch<T: Kind>(owner_uid: &str, object: &T, finalizer: Option<&str>) -> Value {
    let mut metadata = json!({"ownerReferences": [{"$patch": "delete", "uid": owner_uid}], "uid": object.uid()});
    if let Some(finalizer) = finalizer {
        metadata["$deleteFromPrimitiveList/finalizers"] = json!([finalizer]);
    }
    json!({"metadata": metadata})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use proto::kinds::api::apps::v1::ReplicaSet;
    use proto::kinds::api::core::v1::Pod;

    fn names(pods: &[Arc<Pod>]) -> String {
        pods.iter().map(|pod| pod.name()).collect::<Vec<_>>().join(" ")
    }

    /// Returns a pod for every combination of controller, labels and deletion.
    fn candidates() -> Vec<Arc<Pod>> {
        let mut pods = Vec::new();
        for controller in ["mine", "foreign", "orphan"] {
            for selected in [true, false] {
                for deleting in [false, true] {
                    let name = format!(
                        "{controller}{}{}",
                        if selected { "-selected" } else { "" },
                        if deleting { "-deleting" } else { "" }
                    );
                    let mut pod = fixture::pod(&name);
                    pod.metadata.labels = Some(fixture::labels(&[("app", if selected { "web" } else { "other" })]));
                    pod.metadata.owner_references = match controller {
                        "mine" => Some(vec![fixture::owner("apps/v1", "ReplicaSet", "web", true)]),
                        "foreign" => Some(vec![fixture::owner("apps/v1", "ReplicaSet", "db", true)]),
                        _ => None,
                    };
                    pod.metadata.deletion_timestamp = deleting.then(|| fixture::time(0));
                    pods.push(Arc::new(pod));
                }
            }
        }
        pods
    }

    #[test]
    fn claims_follow_reference_and_selector() {
        let selects = |labels: &BTreeMap<String, String>| labels.get("app").is_some_and(|app| app == "web");
        let mut owner: ReplicaSet = fixture::replica_set("web", "nginx:1", 1);
        let claims = Claims::of(&owner, candidates(), selects);
        assert_eq!(names(&claims.owned), "mine-selected mine-selected-deleting");
        assert_eq!(names(&claims.adopt), "orphan-selected");
        assert_eq!(names(&claims.release), "mine mine-deleting");

        owner.metadata.deletion_timestamp = Some(fixture::time(1));
        let claims = Claims::of(&owner, candidates(), selects);
        assert_eq!(names(&claims.owned), "mine-selected mine-selected-deleting");
        assert!(claims.are_complete());
    }
}
