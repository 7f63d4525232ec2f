//! The metadata that the server decides: identity on creation, fields that an update keeps, marks of a deletion.
//!
//! Corresponds to k8s.io/apiserver/pkg/registry/rest/{meta,create,update,delete}.go.

use jiff::Timestamp;
use proto::Status;
use serde_json::{Map, Value, json};

/// A generated name keeps this many characters of its `generateName`.
const MAX_GENERATED_PREFIX: usize = 58;
/// Number of random characters at the end of a generated name.
pub const GENERATED_SUFFIX: usize = 5;

pub const ORPHAN: &str = "orphan";
pub const FOREGROUND: &str = "foregroundDeletion";

/// Formats a time as metav1.Time does: RFC 3339 in UTC with whole seconds.
pub fn time(at: Timestamp) -> String {
    let whole = Timestamp::from_second(at.as_second()).unwrap_or(at);
    whole.to_string()
}

/// Returns the object's metadata, and creates it when it is missing or not a JSON object.
pub fn meta_mut(object: &mut Value) -> &mut Map<String, Value> {
    if !object.is_object() {
        *object = json!({});
    }
    let meta = &mut object["metadata"];
    if !meta.is_object() {
        *meta = json!({});
    }
    meta.as_object_mut().expect("just made sure of it")
}

/// Returns a text field of the metadata, or "" when it is absent.
pub fn text<'a>(object: &'a Value, key: &str) -> &'a str {
    object.get("metadata").and_then(|m| m.get(key)).and_then(Value::as_str).unwrap_or_default()
}

/// Returns `metadata.generation`, or 0 when it is absent.
pub fn generation(object: &Value) -> i64 {
    object.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or(0)
}

pub fn finalizers(object: &Value) -> Vec<String> {
    let list = object.pointer("/metadata/finalizers").and_then(Value::as_array);
    list.map(|items| items.iter().filter_map(|f| f.as_str().map(str::to_owned)).collect()).unwrap_or_default()
}

pub fn set_finalizers(object: &mut Value, finalizers: &[String]) {
    if finalizers.is_empty() {
        meta_mut(object).remove("finalizers");
    } else {
        meta_mut(object).insert("finalizers".into(), json!(finalizers));
    }
}

pub fn deletion_timestamp(object: &Value) -> Option<Timestamp> {
    text(object, "deletionTimestamp").parse().ok()
}

pub fn grace_period_s(object: &Value) -> Option<i64> {
    object.pointer("/metadata/deletionGracePeriodSeconds").and_then(Value::as_i64)
}

/// Removes the fields that the server sets from the body of a new object, so that the client does not own them.
pub fn wipe_system_fields(object: &mut Value) {
    let meta = meta_mut(object);
    for key in ["creationTimestamp", "uid", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
        meta.remove(key);
    }
}

/// Gives a new object its uid, creation time and generated name, and removes marks of a deletion.
pub fn begin_create(object: &mut Value, uid: String, now: Timestamp, name_suffix: impl FnOnce() -> String) {
    let meta = meta_mut(object);
    for key in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
        meta.remove(key);
    }
    meta.insert("creationTimestamp".into(), json!(time(now)));
    meta.insert("uid".into(), json!(uid));
    let is_empty = |key: &str| meta.get(key).and_then(Value::as_str).is_none_or(str::is_empty);
    if is_empty("name") && !is_empty("generateName") {
        let prefix = meta["generateName"].as_str().unwrap_or_default();
        let kept: String = prefix.chars().take(MAX_GENERATED_PREFIX).collect();
        meta.insert("name".into(), json!(format!("{kept}{}", name_suffix())));
    }
}

/// Restores the metadata that an update cannot change.
pub fn begin_update(object: &mut Value, old: &Value) {
    let kept = ["creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation"];
    let old_meta = old.get("metadata").and_then(Value::as_object);
    let meta = meta_mut(object);
    meta.remove("selfLink");
    for key in kept {
        match old_meta.and_then(|m| m.get(key)) {
            Some(value) => meta.insert(key.into(), value.clone()),
            None => meta.remove(key),
        };
    }
    if meta.get("uid").and_then(Value::as_str).is_none_or(str::is_empty)
        && let Some(uid) = old_meta.and_then(|m| m.get("uid"))
    {
        meta.insert("uid".into(), uid.clone());
    }
}

/// Marks an object whose deletion waits for finalizers.
pub fn mark_deleting(object: &mut Value, now: Timestamp) {
    let marked = deletion_timestamp(object);
    if marked.is_none() {
        bump_generation(object);
    }
    if marked.is_none_or(|at| at > now) {
        meta_mut(object).insert("deletionTimestamp".into(), json!(time(now)));
    }
    meta_mut(object).insert("deletionGracePeriodSeconds".into(), json!(0));
}

/// Raises the generation when a deletion begins, because controllers then have a change to observe.
pub fn bump_generation(object: &mut Value) {
    let generation = generation(object);
    if generation > 0 {
        meta_mut(object).insert("generation".into(), json!(generation + 1));
    }
}

/// Returns whether a marked object has no finalizers and no grace period left, so that it can be removed.
pub fn is_to_be_deleted(object: &Value) -> bool {
    deletion_timestamp(object).is_some() && finalizers(object).is_empty() && grace_period_s(object).unwrap_or(0) == 0
}

/// Sets the namespace of the request. An admission plugin may have removed it, but may not have changed it.
pub fn keep_namespace(object: &mut Value, namespace: &str) -> Result<(), Status> {
    let given = text(object, "namespace");
    if given == namespace {
        return Ok(());
    }
    if !given.is_empty() && !namespace.is_empty() {
        let why = "the namespace of the provided object does not match the namespace sent on the request";
        return Err(Status::bad_request(why));
    }
    let meta = meta_mut(object);
    meta.remove("namespace");
    if !namespace.is_empty() {
        meta.insert("namespace".into(), json!(namespace));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-01-01T00:00:10.5Z".parse().unwrap()
    }

    #[test]
    fn creation_decides_identity() {
        let mut object =
            json!({"metadata": {"generateName": "web-", "deletionTimestamp": "2020-01-01T00:00:00Z", "uid": "mine"}});
        begin_create(&mut object, "u1".into(), now(), || "abcde".into());
        assert_eq!(
            object,
            json!({"metadata": {"generateName": "web-", "name": "web-abcde", "uid": "u1", "creationTimestamp": "2026-01-01T00:00:10Z"}})
        );
    }

    #[test]
    fn an_update_keeps_what_the_server_decided() {
        let old = json!({"metadata": {"uid": "u", "creationTimestamp": "t", "generation": 3}});
        let mut new = json!({"metadata": {"creationTimestamp": null, "generation": 9, "deletionTimestamp": "x"}});
        begin_update(&mut new, &old);
        assert_eq!(new, json!({"metadata": {"uid": "u", "creationTimestamp": "t", "generation": 3}}));
    }

    #[test]
    fn marking_bumps_the_generation_once() {
        let mut object = json!({"metadata": {"generation": 1, "finalizers": ["a/b"]}});
        mark_deleting(&mut object, now());
        mark_deleting(&mut object, now());
        assert_eq!(generation(&object), 2);
        assert!(!is_to_be_deleted(&object));
        set_finalizers(&mut object, &[]);
        assert!(is_to_be_deleted(&object));
    }
}
