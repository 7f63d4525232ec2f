//! The finalizer of an object that may be in use: it stays until the object is deleted and unused.
//!
//! Corresponds to pkg/controller/util/protectionutil.

use client::{Action, Event, Plan};
use proto::Kind;

/// Returns true if nothing but its use keeps the object.
pub fn is_candidate<K: Kind>(object: &K, finalizer: &str) -> bool {
    object.is_deleting() && has(object, finalizer)
}

/// Returns true if a round about the object may change it.
pub fn concerns<K: Kind>(event: &Event<K>, finalizer: &str) -> bool {
    let object = &**event.object();
    !matches!(event, Event::Deleted(_)) && object.is_deleting() == has(object, finalizer)
}

fn has<K: Kind>(object: &K, finalizer: &str) -> bool {
    object.metadata().finalizers.iter().flatten().any(|other| other == finalizer)
}

/// Plans the removal from an object that is deleted and unused, and the addition to one from before there were finalizers.
pub fn plan<K: Kind>(object: &K, finalizer: &str, is_used: bool) -> Plan {
    let mut changed = object.clone();
    let finalizers = changed.metadata_mut().finalizers.get_or_insert_default();
    if is_candidate(object, finalizer) && !is_used {
        finalizers.retain(|other| other != finalizer);
    } else if !object.is_deleting() && !has(object, finalizer) {
        finalizers.push(finalizer.to_owned());
    } else {
        return Plan::default();
    }
    Plan::of([Action::update(&changed)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{pod, time};

    #[test]
    fn a_finalizer_stays_while_the_object_is_used() {
        let ours = "kubernetes.io/pvc-protection";
        let cases = [
            // deleted, finalizers, used => finalizers written
            (false, vec!["a/b", ours], false, None),
            (false, vec!["a/b"], true, Some(vec!["a/b", ours])),
            (true, vec!["a/b", ours], true, None),
            (true, vec!["a/b", ours], false, Some(vec!["a/b"])),
            (true, vec!["a/b"], false, None),
        ];
        for (is_deleted, finalizers, is_used, expected) in cases {
            let mut object = pod("web");
            object.metadata.deletion_timestamp = is_deleted.then(|| time(1));
            object.metadata.finalizers = Some(finalizers.iter().map(|&name| name.to_owned()).collect());
            let plan = plan(&object, ours, is_used);
            let written = plan.actions.first().map(|action| match action {
                Action::Update { object, .. } => object["metadata"]["finalizers"].clone(),
                other => panic!("{other}"),
            });
            assert_eq!(
                written,
                expected.map(|names| serde_json::json!(names)),
                "{is_deleted} {finalizers:?} {is_used}"
            );
        }
    }
}
