//! A StatefulSet's history: which revision its template is, which one its other pods have, and which are deleted.
//!
//! Corresponds to getStatefulSetRevisions and truncateHistory in pkg/controller/statefulset/stateful_set_control.go.

use super::pods::{Revision, revision_of};
use super::spec::spec;
use crate::controller_revision::{self, REVISION_HASH, data_hash, data_of, template_of};
use proto::Kind;
use proto::kinds::api::apps::v1::{ControllerRevision, StatefulSet};
use proto::kinds::api::core::v1::{Pod, PodTemplateSpec};
use proto::schema::defaults::apply_defaults;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The revision of the set's template, to which pods are updated.
#[derive(Debug)]
pub enum UpdateRevision {
    Present(Arc<ControllerRevision>),
    /// The template is that of an older revision, to which the set was rolled back: it becomes the newest.
    Renumbered(ControllerRevision),
    New(ControllerRevision),
}

/// Decides about the update revision. `history` is sorted.
pub fn update_revision(set: &StatefulSet, history: &[Arc<ControllerRevision>]) -> UpdateRevision {
    let wanted = new_revision(set, controller_revision::next_number(history));
    let Some(newest) = history.last() else { return UpdateRevision::New(wanted) };
    let equal = controller_revision::find_equal(history, &wanted);
    match equal {
        Some(equal) if controller_revision::is_equal(equal, newest) => UpdateRevision::Present(newest.clone()),
        _ if restores(newest, &spec(set).template) => UpdateRevision::Present(newest.clone()),
        Some(equal) => {
            UpdateRevision::Renumbered(ControllerRevision { revision: wanted.revision, ..(**equal).clone() })
        }
        None => UpdateRevision::New(wanted),
    }
}

fn new_revision(set: &StatefulSet, number: i64) -> ControllerRevision {
    let template = &spec(set).template;
    let collision_count = set.status.as_ref().and_then(|status| status.collision_count).unwrap_or(0);
    let hash = data_hash(&data_of(template), collision_count);
    controller_revision::build(set, template, number, REVISION_HASH, &hash)
}

/// Returns true if a revision restores this template once defaults are set. A revision that was recorded before a field
/// existed lacks the field's default, and must not cause a rollout.
fn restores(revision: &ControllerRevision, template: &PodTemplateSpec) -> bool {
    let Some(restored) = template_of(revision) else { return false };
    let mut tree = json!({"spec": {"template": restored}});
    apply_defaults(&StatefulSet::gvk(), &mut tree);
    serde_json::from_value::<PodTemplateSpec>(tree["spec"]["template"].take()).is_ok_and(|it| it == *template)
}

/// Returns the revision that pods have before an update: the one in the status, or at first the update revision.
pub fn current_revision(
    set: &StatefulSet,
    history: &[Arc<ControllerRevision>],
    update: &Arc<ControllerRevision>,
) -> Arc<ControllerRevision> {
    let name = set.status.as_ref().and_then(|status| status.current_revision.as_deref());
    let current = history.iter().find(|revision| Some(revision.name()) == name && template_of(revision).is_some());
    current.unwrap_or(update).clone()
}

/// Returns a revision as new pods need it. One whose data is damaged restores the set's own template.
pub fn restored(set: &StatefulSet, revision: &ControllerRevision) -> Revision {
    let template = template_of(revision).unwrap_or_else(|| spec(set).template.clone());
    Revision { name: revision.name().to_owned(), template }
}

/// Returns the revisions beyond `revisionHistoryLimit`, oldest first. Those in use do not count. `history` is sorted.
pub fn beyond_limit(
    set: &StatefulSet,
    history: &[Arc<ControllerRevision>],
    pods: &[Arc<Pod>],
    in_use: [&ControllerRevision; 2],
) -> Vec<Arc<ControllerRevision>> {
    let Some(limit) = spec(set).revision_history_limit.and_then(|limit| usize::try_from(limit).ok()) else {
        return Vec::new();
    };
    let mut live: BTreeSet<&str> = pods.iter().map(|pod| revision_of(pod)).collect();
    live.extend(in_use.map(Kind::name));
    let is_live = |revision: &ControllerRevision| live.contains(revision.name()) || revision.is_deleting();
    let unused = history.iter().filter(|revision| !is_live(revision)).count();
    controller_revision::oldest_unused(history, is_live, unused.saturating_sub(limit))
}

/// Returns true if the name of a new revision is in use by a revision that is not this one. The next name is then another.
///
/// A revision of an earlier set of this name is no collision if its data is equal: the garbage collector deletes it soon.
pub fn is_collision(set: &StatefulSet, new: &Value, present: &ControllerRevision) -> bool {
    let is_equal = present.data.as_ref().is_some_and(|data| data.0 == new["data"]);
    let owner = controller_base::controller_ref::controller_of(present);
    let is_ours = owner.is_none_or(|owner| owner.kind == StatefulSet::KIND && owner.name == set.name());
    !(is_equal && is_ours)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statefulset::sample;
    use controller_base::fixture;
    use proto::kinds::apimachinery::runtime::RawExtension;

    /// Returns a revision of the set with another image.
    fn revision(name: &str, number: i64, image: &str) -> Arc<ControllerRevision> {
        let mut revision =
            controller_revision::build(&sample::set(3), &fixture::template(image), number, REVISION_HASH, name);
        revision.metadata.name = Some(name.to_owned());
        Arc::new(revision)
    }

    fn decision(set: &StatefulSet, history: &[Arc<ControllerRevision>]) -> String {
        match update_revision(set, history) {
            UpdateRevision::Present(revision) => revision.name().to_owned(),
            UpdateRevision::Renumbered(revision) => format!("{} becomes {}", revision.name(), revision.revision),
            UpdateRevision::New(revision) => format!("new {}", revision.revision),
        }
    }

    #[test]
    fn a_template_is_the_newest_an_older_or_a_new_revision() {
        let set = sample::set(3);
        let (one, two) = ("nginx:1", "nginx:2");
        let cases: &[(&[(&str, i64, &str)], &str)] = &[
            (&[], "new 1"),
            (&[("a", 1, one)], "a"),
            (&[("a", 1, two)], "new 2"),
            (&[("a", 1, one), ("b", 2, two)], "a becomes 3"),
            (&[("a", 1, two), ("b", 2, one)], "b"),
            (&[("a", 1, one), ("b", 4, one)], "b"),
        ];
        for (history, expected) in cases {
            let history: Vec<_> = history.iter().map(|(name, number, image)| revision(name, *number, image)).collect();
            assert_eq!(decision(&set, &history), *expected, "{history:?}");
        }
    }

    #[test]
    fn a_collision_changes_the_name() {
        let mut set = sample::set(3);
        let first = new_revision(&set, 1);
        set.status.get_or_insert_default().collision_count = Some(1);
        assert_ne!(new_revision(&set, 1).name(), first.name());
        assert!(controller_revision::is_equal(&new_revision(&set, 1), &first));
        let encoded = first.encode();
        let by = |kind: &str, name: &str, image: &str| {
            let mut present = (*revision("x", 1, image)).clone();
            present.metadata.owner_references = Some(vec![fixture::owner("apps/v1", kind, name, true)]);
            is_collision(&set, &encoded, &present)
        };
        assert!(by("StatefulSet", "web", "nginx:2"), "other data");
        assert!(!by("StatefulSet", "web", "nginx:1"), "the own one, or that of a set that is gone");
        assert!(by("DaemonSet", "web", "nginx:1"), "another controller's");
        let mut orphan = (*revision("x", 1, "nginx:1")).clone();
        orphan.metadata.owner_references = None;
        assert!(!is_collision(&set, &encoded, &orphan), "it will be adopted");
    }

    #[test]
    fn a_missing_default_is_no_change() {
        let mut set = sample::set(3);
        let mut tree = set.encode();
        apply_defaults(&StatefulSet::gvk(), &mut tree);
        let defaulted = StatefulSet::decode_value(tree).unwrap();
        set.spec.as_mut().unwrap().template = defaulted.spec.unwrap().template;
        assert_ne!(set.spec.as_ref().unwrap().template, fixture::template("nginx:1"));
        assert_eq!(decision(&set, &[revision("a", 1, "nginx:1")]), "a");
        assert_eq!(decision(&set, &[revision("a", 1, "nginx:2")]), "new 2");
    }

    #[test]
    fn the_current_revision_is_that_of_the_status() {
        let mut set = sample::set(3);
        let history = [revision("a", 1, "nginx:2"), revision("b", 2, "nginx:1")];
        let current = |set: &StatefulSet| current_revision(set, &history, &history[1]).name().to_owned();
        assert_eq!(current(&set), "b", "at first");
        for (name, expected) in [("a", "a"), ("b", "b"), ("gone", "b")] {
            set.status.get_or_insert_default().current_revision = Some(name.to_owned());
            assert_eq!(current(&set), expected);
        }
        let mut damaged = (*history[0]).clone();
        damaged.data = Some(RawExtension(json!({"a": "b"})));
        set.status.get_or_insert_default().current_revision = Some("a".to_owned());
        let found = current_revision(&set, &[Arc::new(damaged.clone())], &history[1]);
        assert_eq!(found.name(), "b", "a revision that restores nothing");
        assert_eq!(restored(&set, &damaged).template, set.spec.unwrap().template);
    }

    #[test]
    fn history_is_limited() {
        let history = ["a", "b", "c", "d", "e"].map(|name| revision(name, 1, "nginx:1"));
        let mut set = sample::set(3);
        let pod = Arc::new(sample::pod(&set, "0@br"));
        let cases: &[(Option<i32>, &[&str])] =
            &[(Some(0), &["a", "c"]), (Some(1), &["a"]), (Some(2), &[]), (Some(-1), &[]), (None, &[])];
        for (limit, expected) in cases {
            set.spec.as_mut().unwrap().revision_history_limit = *limit;
            let pods = std::slice::from_ref(&pod);
            let found = beyond_limit(&set, &history, pods, [&history[3], &history[4]]);
            let names: Vec<&str> = found.iter().map(|revision| revision.name()).collect();
            assert_eq!(names, *expected, "limit {limit:?}: b, d and e are in use");
        }
    }
}
