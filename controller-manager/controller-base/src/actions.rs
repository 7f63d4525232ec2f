//! Actions that many controllers plan: events about an object, deletions, adoption and release.
//!
//! Corresponds to the event recorder's use in pkg/controller and to PodControllerRefManager's patches.

use crate::controller_ref::{Claims, adoption_patch, release_patch};
use client::{Action, DeleteOptions, EventSpec, EventType, Patch, Plan, Regarding};
use proto::Kind;

pub fn normal<K: Kind>(regarding: &K, reason: &str, message: impl Into<String>) -> Action {
    Action::Event(EventSpec::new(&Regarding::of(regarding), EventType::Normal, reason, message))
}

pub fn warning<K: Kind>(regarding: &K, reason: &str, message: impl Into<String>) -> Action {
    Action::Event(EventSpec::new(&Regarding::of(regarding), EventType::Warning, reason, message))
}

pub fn delete<K: Kind>(object: &K, options: DeleteOptions) -> Action {
    Action::delete::<K>(object.namespace(), object.name(), options)
}

/// Deletes the object with this uid, and no later object of the same name.
pub fn delete_exactly<K: Kind>(object: &K) -> Action {
    delete(object, DeleteOptions::with_uid(object.uid()))
}

/// Adopts and releases objects. The next round observes the result. `finalizer` is the one that the owner puts on all
/// objects that it owns.
pub fn adopt_and_release<K: Kind, T: Kind>(owner: &K, claims: &Claims<T>, finalizer: Option<&str>) -> Plan {
    let adopt = claims.adopt.iter().map(|object| (object, adoption_patch(owner, &**object, finalizer)));
    let release = claims.release.iter().map(|object| (object, release_patch(owner.uid(), &**object, finalizer)));
    Plan::of(
        adopt
            .chain(release)
            .map(|(object, patch)| Action::patch::<T>(object.namespace(), object.name(), Patch::Strategic(patch))),
    )
}
