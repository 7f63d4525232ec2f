//! Owner references, and the owner that controls an object.
//!
//! Corresponds to k8s.io/apimachinery/pkg/apis/meta/v1/controller_ref.go.

use crate::kinds::Kind;
use crate::kinds::metav1::{ObjectMeta, OwnerReference};
use serde_json::Value;

/// Returns a plain reference. The garbage collector follows it, but it makes no controller.
pub fn owner_reference<K: Kind>(owner: &K) -> OwnerReference {
    OwnerReference {
        api_version: K::gvk().api_version(),
        kind: K::KIND.to_owned(),
        name: owner.name().to_owned(),
        uid: owner.uid().to_owned(),
        controller: None,
        block_owner_deletion: None,
    }
}

/// Returns the owner that controls the object.
pub fn controller_of(metadata: &ObjectMeta) -> Option<&OwnerReference> {
    metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))
}

/// Returns whether an owner controls the object. Compares the uid, because a new owner may have the name of an old one.
pub fn is_controlled_by<K: Kind>(metadata: &ObjectMeta, owner: &K) -> bool {
    controller_of(metadata).is_some_and(|reference| reference.uid == owner.uid())
}

/// Returns the controlling entry of `metadata.ownerReferences` from an object's JSON.
pub fn controller_of_value(object: &Value) -> Option<&Value> {
    let owners = object.pointer("/metadata/ownerReferences").and_then(Value::as_array)?;
    owners.iter().find(|owner| owner.get("controller") == Some(&Value::Bool(true)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::api::apps::v1::ReplicaSet;
    use serde_json::json;

    #[test]
    fn control_goes_by_uid() {
        let named = |uid: &str| ReplicaSet {
            metadata: ObjectMeta { name: Some("web".into()), uid: Some(uid.into()), ..ObjectMeta::default() },
            ..ReplicaSet::default()
        };
        let (old, new) = (named("1"), named("2"));
        let metadata = ObjectMeta {
            owner_references: Some(vec![
                owner_reference(&new),
                OwnerReference { controller: Some(true), ..owner_reference(&old) },
            ]),
            ..ObjectMeta::default()
        };
        assert!(is_controlled_by(&metadata, &old) && !is_controlled_by(&metadata, &new));
        let reference = controller_of(&metadata).unwrap();
        assert_eq!((reference.api_version.as_str(), reference.kind.as_str()), ("apps/v1", "ReplicaSet"));
    }

    #[test]
    fn the_controlling_entry_of_a_tree() {
        let object = json!({"metadata": {"ownerReferences": [{"name": "a"}, {"name": "b", "controller": true}]}});
        assert_eq!(controller_of_value(&object).unwrap()["name"], "b");
        assert_eq!(controller_of_value(&json!({"metadata": {}})), None);
    }
}
