//! ControllerRevisions: the pod templates that a StatefulSet or a DaemonSet had, so that it can be rolled back to one.
//!
//! Corresponds to pkg/controller/history/controller_history.go, and to getPatch and ApplyRevision of the controllers.
//!
//! A revision's data is a patch that replaces the owner's pod template. Its name ends in a hash of the data, so the same
//! template gives the same name again:
//!
//! ```text
//!   web-776999688b  revision 2  {"spec":{"template":{"$patch":"replace","metadata":…,"spec":…}}}
//! ```

use crate::template_hash::safe_encode;
use controller_base::controller_ref::controller_ref;
use proto::Kind;
use proto::go_text::html_escaped;
use proto::kinds::api::apps::v1::ControllerRevision;
use proto::kinds::api::core::v1::PodTemplateSpec;
use proto::kinds::apimachinery::runtime::RawExtension;
use proto::kinds::metav1::ObjectMeta;
use proto::serializer::json;
use serde_json::{Value, json};
use std::sync::Arc;

/// Label with the hash of a StatefulSet's revision, on the revision.
pub const REVISION_HASH: &str = "controller.kubernetes.io/hash";
/// Label of a pod: the name of its revision in a StatefulSet, the hash of its revision in a DaemonSet. Revisions of
/// DaemonSets have it too.
pub const CONTROLLER_REVISION_HASH: &str = "controller-revision-hash";
/// Longest part of the owner's name that a revision's name begins with.
const MAX_NAME_PREFIX: usize = 223;

/// Returns the data of a revision: a strategic merge patch of the owner that replaces its template.
pub fn data_of(template: &PodTemplateSpec) -> Value {
    let mut template = serde_json::to_value(template).expect("API types are plain data");
    template["$patch"] = json!("replace");
    json!({"spec": {"template": template}})
}

/// Returns the template that a revision restores; `None` if its data is no such patch.
pub fn template_of(revision: &ControllerRevision) -> Option<PodTemplateSpec> {
    let mut template = data(revision).pointer("/spec/template")?.clone();
    template.as_object_mut()?.remove("$patch");
    serde_json::from_value(template).ok()
}

fn data(revision: &ControllerRevision) -> &Value {
    revision.data.as_ref().map_or(&Value::Null, |data| &data.0)
}

/// Returns the hash of a revision's data, as HashControllerRevision does: 32 bit FNV-1 over the JSON text that Go writes,
/// and over the collision count, which changes the hash when the resulting name is already in use.
pub fn data_hash(data: &Value, collision_count: i32) -> String {
    let text = String::from_utf8(json::to_canonical(data)).expect("JSON is UTF-8");
    let text = html_escaped(&text) + &collision_count.to_string();
    let step = |hash: u32, byte: u8| hash.wrapping_mul(0x0100_0193) ^ u32::from(byte);
    safe_encode(&text.bytes().fold(0x811c_9dc5, step).to_string())
}

/// Returns the name of a revision. A long name of the owner is cut, so that the result is a valid name.
pub fn name(owner: &str, hash: &str) -> String {
    let prefix: String = owner.chars().take(MAX_NAME_PREFIX).collect();
    format!("{prefix}-{hash}")
}

/// Returns a revision of the owner's template, to be created. `label` is the key of the label that gets the hash. The
/// owner's annotations are copied: `kubectl rollout history` shows the change cause among them.
pub fn build<K: Kind>(
    owner: &K,
    template: &PodTemplateSpec,
    number: i64,
    label: &str,
    hash: &str,
) -> ControllerRevision {
    let labels = template.metadata.as_ref().and_then(|metadata| metadata.labels.clone()).unwrap_or_default();
    ControllerRevision {
        metadata: ObjectMeta {
            name: Some(name(owner.name(), hash)),
            namespace: Some(owner.namespace().to_owned()),
            labels: Some(labels.into_iter().chain([(label.to_owned(), hash.to_owned())]).collect()),
            annotations: owner.metadata().annotations.clone(),
            owner_references: Some(vec![controller_ref(owner)]),
            ..ObjectMeta::default()
        },
        data: Some(RawExtension(data_of(template))),
        revision: number,
    }
}

/// Sorts revisions by their numbers, oldest first. The age and then the name decide between equal numbers.
pub fn sort(revisions: &mut [Arc<ControllerRevision>]) {
    revisions.sort_by_cached_key(|revision| {
        (revision.revision, revision.metadata.creation_timestamp.clone(), revision.name().to_owned())
    });
}

/// Returns the number of the next revision of a sorted history.
pub fn next_number(sorted: &[Arc<ControllerRevision>]) -> i64 {
    sorted.last().map_or(1, |newest| newest.revision + 1)
}

/// Returns true if two revisions restore the same template.
pub fn is_equal(one: &ControllerRevision, other: &ControllerRevision) -> bool {
    data(one) == data(other)
}

/// Returns the newest revision of a sorted history that is equal to `wanted`.
pub fn find_equal<'a>(
    sorted: &'a [Arc<ControllerRevision>],
    wanted: &ControllerRevision,
) -> Option<&'a Arc<ControllerRevision>> {
    sorted.iter().rev().find(|revision| is_equal(revision, wanted))
}

/// Returns up to `count` revisions of a sorted history that are not in use, oldest first: those to delete.
pub fn oldest_unused(
    sorted: &[Arc<ControllerRevision>],
    is_live: impl Fn(&ControllerRevision) -> bool,
    count: usize,
) -> Vec<Arc<ControllerRevision>> {
    sorted.iter().filter(|revision| !is_live(revision)).take(count).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use controller_base::fixture;

    fn revision(name: &str, number: i64, second: i64, image: &str) -> Arc<ControllerRevision> {
        let mut metadata = fixture::meta(name);
        metadata.creation_timestamp = Some(fixture::time(second));
        let data = Some(RawExtension(data_of(&fixture::template(image))));
        Arc::new(ControllerRevision { metadata, data, revision: number })
    }

    fn names<'a>(revisions: impl IntoIterator<Item = &'a Arc<ControllerRevision>>) -> Vec<&'a str> {
        revisions.into_iter().map(|revision| revision.name()).collect()
    }

    /// Kubernetes 1.34 named this revision of the StatefulSet `test` so.
    #[test]
    fn the_hash_is_kubernetes_own() {
        let template = json!({
            "metadata": {"annotations": {"test": "value"}, "labels": {"app": "foo"}},
            "spec": {
                "containers": [{
                    "image": "test", "imagePullPolicy": "Always", "name": "test", "resources": {},
                    "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
                }],
                "dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "schedulerName": "default-scheduler",
                "securityContext": {}, "terminationGracePeriodSeconds": 30,
            },
        });
        let template: PodTemplateSpec = serde_json::from_value(template).unwrap();
        let data = data_of(&template);
        assert_eq!(name("test", &data_hash(&data, 0)), "test-776999688b");
        assert_ne!(data_hash(&data, 1), data_hash(&data, 0));
    }

    #[test]
    fn data_is_written_as_by_go() {
        let mut template = fixture::template("nginx:1");
        template.spec.as_mut().unwrap().containers[0].command = Some(vec!["a <b> && c".to_owned()]);
        let data = data_of(&template);
        let expected = concat!(
            r#"{"spec":{"template":{"$patch":"replace","metadata":{"labels":{"app":"web"}},"#,
            r#""spec":{"containers":[{"command":["a <b> && c"],"image":"nginx:1","name":"main"}]}}}}"#
        );
        assert_eq!(String::from_utf8(json::to_canonical(&data)).unwrap(), expected);
        assert_eq!(data_hash(&data, 0), "5c6f86cb99", "of the text in which < > & are escaped");
    }

    #[test]
    fn a_revision_is_owned_labelled_and_restores_its_template() {
        let mut owner = fixture::replica_set("web", "nginx:1", 1);
        fixture::annotate(&mut owner, &[("kubernetes.io/change-cause", "better")]);
        let template = fixture::template("nginx:1");
        let built = build(&owner, &template, 4, REVISION_HASH, "abc");
        assert_eq!((built.name(), built.namespace(), built.revision), ("web-abc", "default", 4));
        assert_eq!(built.metadata.labels, Some(fixture::labels(&[("app", "web"), (REVISION_HASH, "abc")])));
        assert_eq!(built.metadata.annotations, Some(fixture::labels(&[("kubernetes.io/change-cause", "better")])));
        let references = built.metadata.owner_references.clone().unwrap();
        assert_eq!(references, [fixture::owner("apps/v1", "ReplicaSet", "web", true)]);
        assert_eq!(template_of(&built), Some(template));
    }

    #[test]
    fn data_that_is_no_patch_restores_nothing() {
        for data in [None, Some(json!({})), Some(json!({"spec": {"template": 3}})), Some(json!([1]))] {
            let revision = ControllerRevision { data: data.clone().map(RawExtension), ..ControllerRevision::default() };
            assert_eq!(template_of(&revision), None, "{data:?}");
        }
    }

    #[test]
    fn names_stay_valid() {
        assert_eq!(name("web", "abc"), "web-abc");
        assert_eq!(name(&"w".repeat(253), "776999688b").len(), 234);
    }

    #[test]
    fn revisions_are_sorted_by_number_age_and_name() {
        let mut history = [("d", 2, 0), ("c", 1, 9), ("b", 1, 5), ("a", 1, 9)]
            .map(|(name, number, second)| revision(name, number, second, "nginx:1"));
        sort(&mut history);
        assert_eq!(names(&history), ["b", "a", "c", "d"]);
        assert_eq!(next_number(&history), 3);
        assert_eq!(next_number(&[]), 1);
    }

    #[test]
    fn the_newest_equal_revision_is_found() {
        let history = [revision("a", 1, 0, "nginx:1"), revision("b", 2, 1, "nginx:1"), revision("c", 3, 2, "nginx:2")];
        let wanted = |image: &str| revision("wanted", 9, 9, image);
        assert_eq!(find_equal(&history, &wanted("nginx:1")).map(|found| found.name()), Some("b"));
        assert_eq!(find_equal(&history, &wanted("nginx:2")).map(|found| found.name()), Some("c"));
        assert_eq!(find_equal(&history, &wanted("nginx:3")), None);
    }

    #[test]
    fn unused_revisions_go_oldest_first() {
        let history = ["a", "b", "c", "d"].map(|name| revision(name, 1, 0, "nginx:1"));
        let cases: &[(&str, usize, &[&str])] =
            &[("a", 2, &["b", "c"]), ("b", 1, &["a"]), ("c", 9, &["a", "b", "d"]), ("a", 0, &[])];
        for (live, count, expected) in cases {
            let found = oldest_unused(&history, |revision| revision.name() == *live, *count);
            assert_eq!(names(&found), *expected, "{live} in use, {count}");
        }
    }
}
