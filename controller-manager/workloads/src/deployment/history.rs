//! A deployment's revisions: which replica set is the new one, its revision number, and which old ones are deleted.
//!
//! Corresponds to FindNewReplicaSet, SetNewReplicaSetAnnotations and cleanupDeployment in pkg/controller/deployment.

use super::{scale, sizes};
use crate::template_hash::POD_TEMPLATE_HASH;
use proto::Kind;
use proto::kinds::api::apps::v1::{Deployment, ReplicaSet};
use proto::kinds::api::core::v1::PodTemplateSpec;
use std::collections::BTreeMap;

/// Annotation with the number of a rollout, on the replica set that it created and on the deployment.
pub const REVISION: &str = "deployment.kubernetes.io/revision";
/// Annotation with the earlier revisions of a replica set to which the deployment was rolled back.
pub const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";
/// Annotation that asks for a rollback to a revision; 0 means the previous one.
pub const ROLLBACK_TO: &str = "deprecated.deployment.rollback.to";
/// Longest annotation `REVISION_HISTORY`. Beyond it the oldest revisions are dropped.
const REVISION_HISTORY_CHARS: usize = 2000;

/// Annotations that belong to one object alone and are not copied between deployment and replica set.
const NOT_COPIED: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    REVISION_HISTORY,
    sizes::DESIRED_REPLICAS,
    sizes::MAX_REPLICAS,
    ROLLBACK_TO,
];

/// Returns true if the templates are equal without the label `pod-template-hash`.
pub fn is_same_template(one: &PodTemplateSpec, other: &PodTemplateSpec) -> bool {
    without_hash(one) == without_hash(other)
}

fn without_hash(template: &PodTemplateSpec) -> PodTemplateSpec {
    let mut template = template.clone();
    if let Some(labels) = template.metadata.as_mut().and_then(|metadata| metadata.labels.as_mut()) {
        labels.remove(POD_TEMPLATE_HASH);
    }
    template
}

/// Returns the index of the replica set that has the deployment's template; of several, the oldest, so that every round
/// finds the same one. `all` is sorted by age, oldest first.
pub fn find_new(deployment: &Deployment, all: &[ReplicaSet]) -> Option<usize> {
    let template = without_hash(&sizes::spec(deployment).template);
    all.iter().position(|replica_set| {
        replica_set
            .spec
            .as_ref()
            .and_then(|spec| spec.template.as_ref())
            .is_some_and(|own| without_hash(own) == template)
    })
}

pub fn revision(replica_set: &ReplicaSet) -> i64 {
    sizes::annotation(replica_set, REVISION).and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// Returns one more than the highest revision of the old replica sets.
pub fn next_revision<'a>(old: impl IntoIterator<Item = &'a ReplicaSet>) -> i64 {
    old.into_iter().map(revision).max().unwrap_or(0) + 1
}

/// Gives the new replica set the deployment's annotations and the next revision. A lower revision that it already has
/// moves to its revision history. A revision that is not a number stays, because another client wrote it.
pub fn annotate_new(deployment: &Deployment, replica_set: &mut ReplicaSet, next: i64, is_created: bool) {
    let before = sizes::annotation(replica_set, REVISION).map(str::to_owned);
    let annotations = replica_set.metadata.annotations.get_or_insert_default();
    for (key, value) in deployment.metadata.annotations.iter().flatten() {
        if !NOT_COPIED.contains(&key.as_str()) {
            annotations.insert(key.clone(), value.clone());
        }
    }
    let current = before.as_deref().map_or(Ok(0), str::parse::<i64>);
    if current.is_ok_and(|current| current < next) {
        annotations.insert(REVISION.to_owned(), next.to_string());
        if let Some(before) = before {
            append_to_history(annotations, &before);
        }
    }
    if is_created {
        scale::annotate_size(deployment, replica_set);
    }
}

fn append_to_history(annotations: &mut BTreeMap<String, String>, revision: &str) {
    let history = annotations.get(REVISION_HISTORY).map(String::as_str).unwrap_or_default();
    let mut revisions: Vec<&str> = history.split(',').filter(|text| !text.is_empty()).collect();
    revisions.push(revision);
    while revisions.len() > 1 && revisions.join(",").len() > REVISION_HISTORY_CHARS {
        revisions.remove(0);
    }
    let joined = revisions.join(",");
    annotations.insert(REVISION_HISTORY.to_owned(), joined);
}

/// Returns the annotations that a deployment gets when it is rolled back to `replica_set`.
pub fn rolled_back_annotations(deployment: &Deployment, replica_set: &ReplicaSet) -> BTreeMap<String, String> {
    let own = deployment.metadata.annotations.iter().flatten().filter(|(key, _)| NOT_COPIED.contains(&key.as_str()));
    let restored = replica_set.metadata.annotations.iter().flatten();
    let restored = restored.filter(|(key, _)| !NOT_COPIED.contains(&key.as_str()));
    own.chain(restored).map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// Returns the old replica sets beyond `revisionHistoryLimit` that have no pods, lowest revision first.
pub fn beyond_limit<'a>(deployment: &Deployment, old: &'a [ReplicaSet]) -> Vec<&'a ReplicaSet> {
    let Some(limit) = sizes::spec(deployment).revision_history_limit.filter(|limit| *limit != i32::MAX) else {
        return Vec::new();
    };
    let mut cleanable: Vec<&ReplicaSet> = old.iter().filter(|replica_set| !replica_set.is_deleting()).collect();
    let surplus = cleanable.len().saturating_sub(usize::try_from(limit).unwrap_or(0));
    cleanable.sort_by_key(|replica_set| {
        (revision(replica_set), &replica_set.metadata.creation_timestamp, replica_set.name())
    });
    cleanable.into_iter().take(surplus).filter(|replica_set| is_empty(replica_set)).collect()
}

/// Returns true if the replica set has and wants no pods, and its controller has observed that.
fn is_empty(replica_set: &ReplicaSet) -> bool {
    let observed = replica_set.status.as_ref().and_then(|status| status.observed_generation).unwrap_or(0);
    sizes::size(replica_set) == 0
        && sizes::actual(replica_set) == 0
        && replica_set.metadata.generation.unwrap_or(0) <= observed
}

#[cfg(test)]
mod tests {
    use super::*;
    use controller_base::fixture;

    fn with_revision(name: &str, size: i32, revision: &str) -> ReplicaSet {
        let mut replica_set = fixture::replica_set(name, name, size);
        fixture::annotate(&mut replica_set, &[(REVISION, revision)]);
        replica_set
    }

    #[test]
    fn the_new_replica_set_is_found_by_its_template() {
        let deployment = fixture::deployment(3, "1", "1");
        let mut all = vec![fixture::replica_set("a", "nginx:0", 1), fixture::replica_set("b", "nginx:1", 1)];
        let template = all[1].spec.as_mut().unwrap().template.as_mut().unwrap();
        let labels = template.metadata.as_mut().unwrap().labels.as_mut().unwrap();
        labels.insert(POD_TEMPLATE_HASH.to_owned(), "abc".to_owned());
        assert_eq!(find_new(&deployment, &all), Some(1));
        assert_eq!(find_new(&deployment, &all[..1]), None);
    }

    #[test]
    fn revisions_count_up_and_remember() {
        let mut deployment = fixture::deployment(3, "1", "1");
        fixture::annotate(
            &mut deployment,
            &[
                ("kubernetes.io/change-cause", "better"),
                (REVISION, "9"),
                ("kubectl.kubernetes.io/last-applied-configuration", "{}"),
            ],
        );
        let cases = [
            // revision and history before, next revision => revision and history after
            (None, None, 1, "1", None),
            (Some("1"), None, 3, "3", Some("1")),
            (Some("3"), Some("1"), 5, "5", Some("1,3")),
            (Some("9"), None, 10, "10", Some("9")),
            (Some("5"), None, 4, "5", None),
            (Some("five"), None, 4, "five", None),
        ];
        for (before, history, next, after, history_after) in cases {
            let mut replica_set = fixture::replica_set("web-a", "nginx:1", 0);
            let pairs = [(REVISION, before), (REVISION_HISTORY, history)];
            let pairs: Vec<_> = pairs.iter().filter_map(|(key, value)| Some((*key, (*value)?))).collect();
            fixture::annotate(&mut replica_set, &pairs);
            annotate_new(&deployment, &mut replica_set, next, false);
            assert_eq!(sizes::annotation(&replica_set, REVISION), Some(after), "{before:?} {next}");
            assert_eq!(sizes::annotation(&replica_set, REVISION_HISTORY), history_after, "{before:?} {next}");
            assert_eq!(sizes::annotation(&replica_set, "kubernetes.io/change-cause"), Some("better"));
            assert_eq!(sizes::annotation(&replica_set, "kubectl.kubernetes.io/last-applied-configuration"), None);
        }
        assert_eq!(next_revision(&[with_revision("a", 0, "10"), with_revision("b", 0, "9")]), 11);
    }

    #[test]
    fn history_is_limited() {
        let old = |busy: &str| -> Vec<ReplicaSet> {
            [("a", "1"), ("b", "2"), ("c", "3")]
                .map(|(name, number)| with_revision(name, i32::from(name == busy), number))
                .into()
        };
        let cases: &[(Option<i32>, &str, &[&str])] = &[
            (Some(0), "", &["a", "b", "c"]),
            (Some(1), "", &["a", "b"]),
            (Some(1), "a", &["b"]),
            (Some(3), "", &[]),
            (Some(10), "", &[]),
            (Some(i32::MAX), "", &[]),
            (None, "", &[]),
        ];
        for (limit, busy, expected) in cases {
            let mut deployment = fixture::deployment(3, "1", "1");
            deployment.spec.as_mut().unwrap().revision_history_limit = *limit;
            let old = old(busy);
            let names: Vec<&str> = beyond_limit(&deployment, &old).iter().map(|set| set.name()).collect();
            assert_eq!(names, *expected, "limit {limit:?}, busy {busy:?}");
        }
    }
}
