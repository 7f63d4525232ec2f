//! The revisions of a DaemonSet: finds or makes the one of the present template, and deletes the oldest unused ones.
//!
//! Corresponds to constructHistory, snapshot, dedupCurHistories and cleanupHistory in pkg/controller/daemon/update.go.

use super::observe::{Observed, next_hash, spec};
use crate::controller_revision::{CONTROLLER_REVISION_HASH, build, find_equal, is_equal, next_number, oldest_unused};
use client::{Action, DeleteOptions, Patch};
use controller_base::actions;
use proto::Kind;
use proto::kinds::api::apps::v1::ControllerRevision;
use proto::kinds::api::core::v1::Pod;
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The history at the beginning of a round.
#[derive(Debug, PartialEq)]
pub enum History {
    Known {
        /// Hash of the present template's revision, which its pods have as a label.
        hash: String,
        /// The other revisions, oldest first.
        old: Vec<Arc<ControllerRevision>>,
        /// Creates the present revision, or raises its number. Empty in most rounds.
        actions: Vec<Action>,
    },
    /// Several revisions have the present template: the others give their pods to the newest one, and are deleted.
    Duplicates(Vec<Action>),
    /// A revision with another template has the name that the present one would get.
    Collision,
}

pub fn construct(observed: &Observed) -> History {
    let set = &*observed.set;
    let owned = &observed.revisions.owned;
    let hash = next_hash(set);
    let wanted = build(set, &spec(set).template, 0, CONTROLLER_REVISION_HASH, &hash);
    let (equal, old): (Vec<_>, Vec<_>) = owned.iter().cloned().partition(|revision| is_equal(revision, &wanted));
    let number = next_number(&old);
    let mut actions: Vec<Action> =
        owned.iter().filter(|revision| label(revision).is_none()).map(|revision| add_label(revision)).collect();
    if let Some(present) = find_equal(&equal, &wanted) {
        if equal.len() > 1 {
            actions.extend(merge(observed, present, &equal));
            return History::Duplicates(actions);
        }
        if present.revision < number {
            actions.push(Action::update(&ControllerRevision { revision: number, ..(**present).clone() }));
        }
        return History::Known { hash: hash_of(present).to_owned(), old, actions };
    }
    match &observed.namesake {
        Some(namesake) if !is_equal(namesake, &wanted) => return History::Collision,
        // It is deleted with its owner, a former DaemonSet of this name. Another revision takes its place then.
        Some(_) => {}
        None => actions.push(Action::create(&ControllerRevision { revision: number, ..wanted })),
    }
    History::Known { hash, old, actions }
}

fn label(revision: &ControllerRevision) -> Option<&str> {
    revision.metadata.labels.as_ref()?.get(CONTROLLER_REVISION_HASH).map(String::as_str)
}

/// Returns the hash of a revision; its name if it is so old that it has no label.
fn hash_of(revision: &ControllerRevision) -> &str {
    label(revision).unwrap_or_else(|| revision.name())
}

fn add_label(revision: &ControllerRevision) -> Action {
    let labels = json!({CONTROLLER_REVISION_HASH: revision.name()});
    let patch = json!({"metadata": {"labels": labels, "uid": revision.uid()}});
    Action::patch::<ControllerRevision>(revision.namespace(), revision.name(), Patch::Merge(patch))
}

/// Gives the pods of the other equal revisions the label of the one to keep, and deletes these others.
///
/// Deviation: pods of revisions with other templates keep their labels. Kubernetes gives them the label, too, and takes
/// them for updated pods from then on.
fn merge(observed: &Observed, keep: &ControllerRevision, equal: &[Arc<ControllerRevision>]) -> Vec<Action> {
    let others: Vec<&Arc<ControllerRevision>> = equal.iter().filter(|one| one.name() != keep.name()).collect();
    let hashes: BTreeSet<&str> = others.iter().map(|revision| hash_of(revision)).collect();
    let pods = observed.pods.owned.iter().filter(|pod| pod_hash(pod).is_some_and(|hash| hashes.contains(hash)));
    let relabel = pods.map(|pod| {
        let labels = json!({CONTROLLER_REVISION_HASH: hash_of(keep)});
        let patch = json!({"metadata": {"labels": labels, "uid": pod.uid()}});
        Action::patch::<Pod>(pod.namespace(), pod.name(), Patch::Merge(patch))
    });
    relabel.chain(others.iter().map(|revision| actions::delete_exactly(&***revision))).collect()
}

fn pod_hash(pod: &Pod) -> Option<&str> {
    pod.metadata.labels.as_ref()?.get(CONTROLLER_REVISION_HASH).map(String::as_str)
}

/// Returns the deletions of the old revisions beyond `revisionHistoryLimit` that no pod has, oldest first.
pub fn clean_up(observed: &Observed, old: &[Arc<ControllerRevision>]) -> Vec<Action> {
    let limit = spec(&observed.set).revision_history_limit.and_then(|limit| usize::try_from(limit).ok());
    let surplus = old.len().saturating_sub(limit.unwrap_or(usize::MAX));
    if surplus == 0 {
        return Vec::new();
    }
    let in_use: BTreeSet<&str> = observed.pods.owned.iter().filter_map(|pod| pod_hash(pod)).collect();
    let unused = oldest_unused(old, |revision| in_use.contains(hash_of(revision)), surplus);
    unused.iter().map(|revision| actions::delete(&**revision, DeleteOptions::default())).collect()
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{daemon_set, observed, pod, revision};
    use super::*;
    use client::Plan;
    use expect_test::{Expect, expect};

    fn check(revisions: Vec<ControllerRevision>, namesake: Option<ControllerRevision>, expected: Expect) {
        let pods = vec![pod("a", "n1", "new"), pod("b", "n2", "old")];
        let mut observed = observed(daemon_set("logs", "nginx:1"), &["n1", "n2"], pods);
        observed.revisions.owned = revisions.into_iter().map(Arc::new).collect();
        observed.namesake = namesake.map(Arc::new);
        let text = match construct(&observed) {
            History::Known { hash, old, actions } => {
                let old: Vec<&str> = old.iter().map(|revision| revision.name()).collect();
                format!("hash {hash}, old {old:?}\n{}", Plan::of(actions))
            }
            History::Duplicates(actions) => format!("duplicates\n{}", Plan::of(actions)),
            History::Collision => "collision\n".to_owned(),
        };
        expected.assert_eq(&text);
    }

    #[test]
    fn the_present_template_has_one_revision_with_the_highest_number() {
        let old = |number: i64| revision("old", number, "nginx:0");
        let new = |number: i64| revision("new", number, "nginx:1");
        check(
            vec![old(1), new(2)],
            None,
            expect![[r#"
            hash new, old ["logs-old"]
        "#]],
        );
        // After an undo, the revision of the restored template becomes the newest.
        check(
            vec![new(1), old(2)],
            None,
            expect![[r#"
            hash new, old ["logs-old"]
            update controllerrevisions.apps default/logs-new
        "#]],
        );
        check(
            vec![old(1)],
            None,
            expect![[r#"
            hash 55cc6b6ff, old ["logs-old"]
            create controllerrevisions.apps default/logs-55cc6b6ff
        "#]],
        );
        let mut unlabelled = new(2);
        unlabelled.metadata.labels = None;
        check(
            vec![old(1), unlabelled],
            None,
            expect![[r#"
            hash logs-new, old ["logs-old"]
            merge patch controllerrevisions.apps default/logs-new {"metadata":{"labels":{"controller-revision-hash":"logs-new"},"uid":"uid-logs-new"}}
        "#]],
        );
    }

    #[test]
    fn equal_revisions_become_one() {
        let (new, newer) = (revision("new", 2, "nginx:1"), revision("newer", 3, "nginx:1"));
        check(
            vec![revision("old", 1, "nginx:0"), new, newer],
            None,
            expect![[r#"
            duplicates
            merge patch pods default/a {"metadata":{"labels":{"controller-revision-hash":"newer"},"uid":"uid-a"}}
            delete controllerrevisions.apps default/logs-new uid=uid-logs-new
        "#]],
        );
    }

    #[test]
    fn a_name_in_use_is_a_collision_unless_the_template_is_equal() {
        let hash = next_hash(&daemon_set("logs", "nginx:1"));
        check(
            vec![],
            Some(revision(&hash, 1, "other")),
            expect![[r#"
            collision
        "#]],
        );
        check(
            vec![],
            Some(revision(&hash, 1, "nginx:1")),
            expect![[r#"
            hash 55cc6b6ff, old []
        "#]],
        );
    }

    #[test]
    fn revisions_beyond_the_limit_go_if_no_pod_has_them() {
        let cases: &[(Option<i32>, &[&str])] =
            &[(Some(0), &["a", "c"]), (Some(1), &["a", "c"]), (Some(2), &["a"]), (Some(3), &[]), (None, &[])];
        for (limit, expected) in cases {
            let mut set = daemon_set("logs", "nginx:1");
            set.spec.as_mut().unwrap().revision_history_limit = *limit;
            let observed = observed(set, &["n1"], vec![pod("p", "n1", "old deleting")]);
            let old = ["a", "old", "c"].map(|hash| Arc::new(revision(hash, 1, hash)));
            let deleted: Vec<String> = clean_up(&observed, &old).iter().map(ToString::to_string).collect();
            let expected: Vec<String> =
                expected.iter().map(|name| format!("delete controllerrevisions.apps default/logs-{name}")).collect();
            assert_eq!(deleted, expected, "limit {limit:?}");
        }
    }
}
