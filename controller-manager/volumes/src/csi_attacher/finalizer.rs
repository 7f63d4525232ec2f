//! The finalizer with which an attacher keeps attachments and volumes until they are detached.
//!
//! Corresponds to GetFinalizerName of external-attacher.

use client::{Action, Patch};
use proto::Kind;
use serde_json::json;

/// Returns the finalizer of a driver: its name with dashes for all but letters and digits.
pub fn name(driver: &str) -> String {
    let mut plain: String = driver.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    if plain.ends_with('-') {
        plain.push('X');
    }
    format!("external-attacher/{plain}")
}

pub fn has<K: Kind>(object: &K, finalizer: &str) -> bool {
    object.metadata().finalizers.iter().flatten().any(|present| present == finalizer)
}

pub fn add<K: Kind>(object: &K, finalizer: &str) -> Action {
    let metadata = json!({"uid": object.uid(), "finalizers": [finalizer]});
    Action::patch::<K>("", object.name(), Patch::Strategic(json!({"metadata": metadata})))
}

pub fn remove<K: Kind>(object: &K, finalizer: &str) -> Action {
    let metadata = json!({"uid": object.uid(), "$deleteFromPrimitiveList/finalizers": [finalizer]});
    Action::patch::<K>("", object.name(), Patch::Strategic(json!({"metadata": metadata})))
}
