//! Tables of the rounds over a StatefulSet, written from the documentation of its guarantees.
//!
//! Corresponds to pkg/controller/statefulset/stateful_set_control_test.go.

use super::observe::Observed;
use super::plan::{plan, plan_after_failure, plan_collision};
use super::{claims, identity, sample, spec};
use crate::controller_revision::{self, REVISION_HASH};
use client::{Action, ApplyError, Error, Plan};
use controller_base::controller_ref::Claims;
use controller_base::fixture;
use expect_test::expect;
use proto::kinds::api::apps::v1::{ControllerRevision, StatefulSet, StatefulSetStatus};
use proto::kinds::api::core::v1::{PersistentVolumeClaim, Pod};
use proto::{Kind, Status};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// Returns a revision of the set that restores an image.
fn revision(set: &StatefulSet, name: &str, number: i64, image: &str) -> Arc<ControllerRevision> {
    let mut revision = controller_revision::build(set, &fixture::template(image), number, REVISION_HASH, name);
    revision.metadata.name = Some(name.to_owned());
    revision.metadata.uid = Some(format!("uid-{name}"));
    Arc::new(revision)
}

/// Returns what a round over the set sees: the revisions `old` and `new`, which is that of the template, and pods as
/// `sample::pod` describes them. All claims of these pods exist.
fn observed(mut set: StatefulSet, pods: &str) -> Observed {
    let status = set.status.get_or_insert_default();
    status.current_revision.get_or_insert_with(|| "old".to_owned());
    let pods: Vec<Arc<Pod>> = pods.split_whitespace().map(|text| Arc::new(sample::pod(&set, text))).collect();
    let present: BTreeSet<i64> = pods.iter().filter_map(|pod| identity::ordinal(&set, pod)).collect();
    let claims: Vec<PersistentVolumeClaim> =
        present.iter().flat_map(|ordinal| claims::new_claims(&set, *ordinal)).collect();
    let revisions = vec![revision(&set, "old", 1, "nginx:0"), revision(&set, "new", 2, "nginx:1")];
    Observed {
        pods: Claims { owned: pods, adopt: Vec::new(), release: Vec::new() },
        revisions: Claims { owned: revisions, adopt: Vec::new(), release: Vec::new() },
        claims: claims.into_iter().map(|claim| (claim.name().to_owned(), Arc::new(claim))).collect(),
        missing: spec::ordinals(&set).filter(|ordinal| !present.contains(ordinal)).collect(),
        taken: BTreeSet::new(),
        are_expectations_satisfied: true,
        set: Arc::new(set),
    }
}

/// Describes the actions on pods and claims: `+` creates, `-` deletes, `~` updates, `!` records an event.
fn summary(plan: &Plan) -> String {
    let describe = |action: &Action| {
        let name = |object: &serde_json::Value| object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        match action {
            Action::Create { gvr, object, .. } if *gvr == Pod::gvr() => {
                let revision = object["metadata"]["labels"]["controller-revision-hash"].as_str().unwrap_or_default();
                Some(format!("+{}@{revision}", name(object)))
            }
            Action::Create { object, .. } => Some(format!("+{}", name(object))),
            Action::Update { object, .. } => Some(format!("~{}", name(object))),
            Action::Delete { name, .. } => Some(format!("-{name}")),
            Action::Event(event) => Some(format!("!{}", event.reason)),
            _ => None,
        }
    };
    plan.actions.iter().filter_map(describe).collect::<Vec<_>>().join(" ")
}

fn round(set: StatefulSet, pods: &str) -> String {
    summary(&plan(&observed(set, pods), fixture::at(100)))
}

#[test]
fn pods_come_and_go_in_order_or_at_once() {
    let cases = [
        // wanted, pods => ordered, parallel
        (3, "", "+web-0@new", "+web-0@new +web-1@new +web-2@new"),
        (3, "0@newp", "", "+web-1@new +web-2@new"),
        (3, "0@newb", "", "+web-1@new +web-2@new"),
        (3, "0@newr", "+web-1@new", "+web-1@new +web-2@new"),
        (3, "0@newr 1@newr 2@newr", "", ""),
        (3, "0@newr 2@newr", "+web-1@new", "+web-1@new"),
        (3, "1@newr 2@newb", "+web-0@new", "+web-0@new"),
        // A terminating pod is waited for.
        (3, "0@newt 1@newr", "", "+web-2@new"),
        // Pods that have ended are replaced, however they ended.
        (2, "0@newf 1@newf", "-web-0", "-web-0 -web-1"),
        (2, "0@newr 1@news", "-web-1", "-web-1"),
        // Too many pods: from the highest ordinal down.
        (1, "0@newr 1@newr 2@newr", "-web-2", "-web-2 -web-1"),
        (1, "0@newr 1@newr 2@newt", "", "-web-1"),
        (1, "0@newb 1@newr 2@newr", "", "-web-2 -web-1"),
        (1, "0@newr 1@newr 2@newb", "-web-2", "-web-2 -web-1"),
        (1, "0@newr 1@newb 2@newb", "", "-web-2 -web-1"),
        (1, "0@newr 1@newb 2@newr", "-web-2", "-web-2 -web-1"),
        (0, "0@newb", "-web-0", "-web-0"),
        // Scaling comes before an update.
        (2, "0@oldr", "+web-1@new", "+web-1@new"),
        (1, "0@oldr 1@oldr", "-web-1", "-web-1 -web-0"),
        (2, "0@oldr 1@oldr", "-web-1", "-web-1"),
        // A broken pod blocks an update of an ordered set, also an update to the right revision.
        (2, "0@oldr 1@oldb", "", "-web-1"),
        (2, "0@oldr 1@newb", "", ""),
        (2, "0@oldr 1@newr", "-web-0", "-web-0"),
    ];
    for (wanted, pods, ordered, parallel) in cases {
        assert_eq!(round(sample::set(wanted), pods), ordered, "ordered, {wanted} wanted, {pods}");
        let set = sample::parallel(sample::set(wanted));
        assert_eq!(round(set, pods), parallel, "parallel, {wanted} wanted, {pods}");
    }
}

#[test]
fn the_start_shifts_all_ordinals() {
    let cases =
        [("", "+web-5@new"), ("5@newr", "+web-6@new"), ("5@newr 6@newr 4@newr", "-web-4"), ("5@newb 0@newr", "")];
    for (pods, expected) in cases {
        let mut set = sample::set(2);
        set.spec.as_mut().unwrap().ordinals.get_or_insert_default().start = Some(5);
        assert_eq!(round(set, pods), expected, "{pods}");
    }
}

#[test]
fn a_partition_keeps_the_current_revision_below_it() {
    let cases = [
        ("0@oldr 1@oldr 2@oldr", "-web-2"),
        ("0@oldr 1@oldr", "+web-2@new"),
        ("0@oldr 2@newr", "+web-1@old"),
        ("0@oldr 1@oldr 2@newr", ""),
        // Pods below the partition that are already new stay.
        ("0@oldr 1@newr 2@newr", ""),
    ];
    for (pods, expected) in cases {
        let mut set = sample::set(3);
        sample::rolling(&mut set).partition = Some(2);
        assert_eq!(round(set, pods), expected, "{pods}");
    }
}

#[test]
fn on_delete_updates_what_the_user_deletes() {
    for (pods, expected) in [("0@oldr 1@oldr", ""), ("0@oldr", "+web-1@new")] {
        let mut set = sample::set(2);
        set.spec.as_mut().unwrap().update_strategy = Some(sample::on_delete());
        assert_eq!(round(set, pods), expected, "{pods}");
    }
}

#[test]
fn min_ready_seconds_delay_the_next_pod() {
    let mut set = sample::set(2);
    set.spec.as_mut().unwrap().min_ready_seconds = Some(30);
    let observed = observed(set, "0@newr");
    let early = plan(&observed, fixture::at(20));
    assert_eq!((summary(&early).as_str(), early.requeue_after), ("", Some(Duration::from_secs(10))));
    assert_eq!(summary(&plan(&observed, fixture::at(30))), "+web-1@new");
}

#[test]
fn claims_come_before_their_pod() {
    let set = || sample::set_with_claims(2, &["www", "log"]);
    let created = "+www-web-0 !SuccessfulCreate +log-web-0 !SuccessfulCreate +web-0@new";
    assert_eq!(round(set(), ""), created);
    let mut partly = observed(set(), "");
    let www = claims::new_claims(&partly.set, 0).next().unwrap();
    partly.claims = BTreeMap::from([("www-web-0".to_owned(), Arc::new(www.clone()))]);
    assert_eq!(summary(&plan(&partly, fixture::at(0))), "+log-web-0 !SuccessfulCreate +web-0@new");
    // A claim that is going must not be used.
    let mut going = www;
    going.metadata.deletion_timestamp = Some(fixture::time(0));
    partly.claims.insert("www-web-0".to_owned(), Arc::new(going));
    assert_eq!(summary(&plan(&partly, fixture::at(0))), "!FailedCreate");
    // A pending pod may wait for a claim that somebody deleted.
    let mut pending = observed(set(), "0@newp");
    pending.claims.remove("log-web-0");
    assert_eq!(summary(&plan(&pending, fixture::at(0))), "+log-web-0 !SuccessfulCreate");
    let mut running = observed(set(), "0@newr 1@newr");
    running.claims.clear();
    assert_eq!(summary(&plan(&running, fixture::at(0))), "", "a running pod has what it needs");
}

#[test]
fn owners_of_claims_follow_the_retention_policy() {
    let set = |replicas| sample::retaining(sample::set_with_claims(replicas, &["www"]), "Delete", "Delete");
    let observed_with = |replicas, pods: &str| observed(set(replicas), pods);
    // New claims belong to the set.
    let created = plan(&observed_with(1, ""), fixture::at(0));
    let Action::Create { object, .. } = &created.actions[0] else { panic!("{created}") };
    assert_eq!(object["metadata"]["ownerReferences"][0]["uid"], "uid-web");
    // The policy was changed while pods run.
    let adopted = summary(&plan(&observed_with(1, "0@newr"), fixture::at(100)));
    assert_eq!(adopted, "~www-web-0 !SuccessfulUpdate");
    // A claim goes with the pod that is scaled away.
    let condemned = plan(&observed_with(0, "0@newr"), fixture::at(100));
    assert_eq!(summary(&condemned), "~www-web-0 -web-0");
    let Action::Update { object, .. } = &condemned.actions[0] else { panic!("{condemned}") };
    assert_eq!(object["metadata"]["ownerReferences"][0]["uid"], "uid-web-0");
    // The next pod of that name waits until the claim of the former one is gone.
    let mut again = observed_with(1, "");
    let claim = PersistentVolumeClaim::decode_value(object.clone()).unwrap();
    again.claims.insert("www-web-0".to_owned(), Arc::new(claim));
    assert_eq!(summary(&plan(&again, fixture::at(100))), "");
}

#[test]
fn a_name_that_is_taken_is_waited_for() {
    let mut blocked = observed(sample::set(2), "");
    blocked.taken = BTreeSet::from([0]);
    let plan_of = |observed: &Observed| plan(observed, fixture::at(0));
    expect![[r#"
        event Warning FailedCreate StatefulSet default/web: create Pod web-0 in StatefulSet web failed error: pods "web-0" already exists
        update statefulsets.apps/status default/web {"availableReplicas":0,"collisionCount":0,"currentRevision":"old","observedGeneration":1,"replicas":0,"updateRevision":"new"}
    "#]]
    .assert_eq(&plan_of(&blocked).to_string());
    blocked.set = Arc::new(sample::parallel((*blocked.set).clone()));
    assert_eq!(summary(&plan_of(&blocked)), "!FailedCreate +web-1@new");
}

#[test]
fn revisions_come_first() {
    let mut fresh = observed(sample::set(2), "");
    fresh.revisions.owned.clear();
    assert_eq!(summary(&plan(&fresh, fixture::at(0))), "+web-75bd49cf7d");
    let mut back = observed(sample::set(2), "0@newr 1@newr");
    back.revisions.owned = vec![revision(&back.set, "new", 1, "nginx:1"), revision(&back.set, "other", 2, "nginx:2")];
    let rolled_back = plan(&back, fixture::at(0));
    assert_eq!(summary(&rolled_back), "~new", "and nothing else");
    let Action::Update { object, .. } = &rolled_back.actions[0] else { panic!("{rolled_back}") };
    assert_eq!(object["revision"], 3);
}

#[test]
fn orphans_are_adopted_before_all_else() {
    let mut observed = observed(sample::set(2), "0@newr");
    let orphan = fixture::pod("web-1");
    observed.pods.adopt = vec![Arc::new(orphan)];
    observed.pods.release = vec![Arc::new(fixture::pod("stranger"))];
    observed.revisions.adopt = vec![revision(&observed.set, "orphan", 1, "nginx:0")];
    let written: Vec<String> = plan(&observed, fixture::at(0))
        .actions
        .iter()
        .map(|action| action.to_string().split(" {").next().unwrap_or_default().to_owned())
        .collect();
    let expected = [
        "strategic patch controllerrevisions.apps default/orphan",
        "strategic patch pods default/web-1",
        "strategic patch pods default/stranger",
    ];
    assert_eq!(written, expected);
}

#[test]
fn a_lagging_cache_or_a_deletion_stop_the_round() {
    let mut lagging = observed(sample::set(2), "");
    lagging.are_expectations_satisfied = false;
    assert_eq!(plan(&lagging, fixture::at(0)), Plan::default());
    let mut set = sample::set(2);
    set.metadata.deletion_timestamp = Some(fixture::time(0));
    let mut deleting = observed(set, "0@newr");
    assert_eq!(summary(&plan(&deleting, fixture::at(0))), "", "no pod is created");
    deleting.revisions.owned.clear();
    assert_eq!(plan(&deleting, fixture::at(0)), Plan::default(), "no revision is recorded");
}

/// Returns the counts `replicas ready available current updated`, and the current revision.
fn status(set: StatefulSet, pods: &str) -> (String, String) {
    let observed = observed(set, pods);
    let plan = plan(&observed, fixture::at(100));
    let written = plan.actions.iter().find_map(|action| match action {
        Action::UpdateStatus { object, .. } => StatefulSet::decode_value(object.clone()).ok()?.status,
        _ => None,
    });
    let StatefulSetStatus { replicas, ready_replicas, available_replicas, current_replicas, updated_replicas, .. } =
        written.clone().unwrap();
    let counts = [Some(replicas), ready_replicas, available_replicas, current_replicas, updated_replicas];
    let counts = counts.map(|count| count.unwrap_or(0).to_string()).join(" ");
    (counts, written.unwrap().current_revision.unwrap())
}

#[test]
fn the_status_counts_pods_by_state_and_revision() {
    let cases = [
        // wanted, pods => replicas ready available current updated, current revision
        (3, "", "0 0 0 0 0", "old"),
        (3, "0@oldr 1@oldr 2@oldr", "3 3 3 2 0", "old"), // the round deletes one of the three
        (3, "0@oldr 1@oldr 2@oldt", "3 3 3 2 0", "old"),
        (3, "0@oldr 1@oldr 2@newp", "3 2 2 2 1", "old"),
        (3, "0@oldr 1@newr 2@newr", "3 3 3 0 2", "old"),
        (3, "0@newr 1@newr 2@newb", "3 2 2 0 3", "old"),
        (3, "0@newr 1@newr 2@newr", "3 3 3 3 3", "new"),
        (2, "0@newr 1@newr 2@newr", "3 3 3 0 3", "old"),
    ];
    for (wanted, pods, counts, current) in cases {
        let expected = (counts.to_owned(), current.to_owned());
        assert_eq!(status(sample::set(wanted), pods), expected, "{wanted} wanted, {pods}");
    }
    let mut set = sample::set(1);
    set.spec.as_mut().unwrap().min_ready_seconds = Some(101);
    assert_eq!(status(set, "0@newr").0, "1 1 0 1 1", "ready for 100 s of 101");
    let mut set = sample::set(1);
    set.spec.as_mut().unwrap().update_strategy = Some(sample::on_delete());
    assert_eq!(status(set, "0@newr").1, "old", "with OnDelete a rollout is never complete");
}

#[test]
fn an_unchanged_state_writes_nothing() {
    let mut observed = observed(sample::set(2), "0@newr 1@newr");
    let first = plan(&observed, fixture::at(100));
    let [Action::UpdateStatus { object, .. }] = &first.actions[..] else { panic!("{first}") };
    observed.set = Arc::new(StatefulSet::decode_value(object.clone()).unwrap());
    assert_eq!(plan(&observed, fixture::at(200)), Plan::default());
}

#[test]
fn a_round_reads_as_a_list() {
    let mut set = sample::set_with_claims(2, &["www"]);
    set.spec.as_mut().unwrap().revision_history_limit = Some(0);
    let mut observed = observed(set, "0@newr");
    observed.revisions.owned.insert(0, revision(&observed.set, "older", 0, "nginx:9"));
    expect![[r#"
        create persistentvolumeclaims default/www-web-1
        event Normal SuccessfulCreate StatefulSet default/web: create Claim www-web-1 Pod web-1 in StatefulSet web success
        create pods default/web-1
        update statefulsets.apps/status default/web {"availableReplicas":1,"collisionCount":0,"currentRevision":"old","observedGeneration":1,"readyReplicas":1,"replicas":1,"updateRevision":"new","updatedReplicas":1}
        delete controllerrevisions.apps default/older uid=uid-older
    "#]]
    .assert_eq(&plan(&observed, fixture::at(100)).to_string());
}

#[test]
fn failures_are_reported_and_the_status_is_written() {
    let set = sample::set_with_claims(2, &["www"]);
    let observed = observed(set, "0@newr");
    let refusal = Status::forbidden("", "persistentvolumeclaims", "www-web-1", "exceeded quota");
    let forbidden = Error::Status(Box::new(refusal));
    let after = |failed: Action| {
        let error = ApplyError { done: 0, failed, cause: forbidden.clone() };
        plan_after_failure(&observed, &error, fixture::at(100)).map(|plan| plan.to_string()).unwrap_or_default()
    };
    let claim = claims::new_claims(&observed.set, 1).next().unwrap();
    expect![[r#"
        event Warning FailedCreate StatefulSet default/web: create Claim www-web-1 for Pod web-1 in StatefulSet web failed error: persistentvolumeclaims "www-web-1" is forbidden: exceeded quota
        event Warning FailedCreate StatefulSet default/web: create Pod web-1 in StatefulSet web failed error: failed to create PVC www-web-1: persistentvolumeclaims "www-web-1" is forbidden: exceeded quota
        update statefulsets.apps/status default/web {"availableReplicas":1,"collisionCount":0,"currentRevision":"old","observedGeneration":1,"readyReplicas":1,"replicas":1,"updateRevision":"new","updatedReplicas":1}
    "#]].assert_eq(&after(Action::create(&claim)));
    let pod = sample::pod(&observed.set, "1@newr");
    expect![[r#"
        update statefulsets.apps/status default/web {"availableReplicas":1,"collisionCount":0,"currentRevision":"old","observedGeneration":1,"readyReplicas":1,"replicas":1,"updateRevision":"new","updatedReplicas":1}
    "#]].assert_eq(&after(Action::create(&pod)));
    expect![[r#"
        event Warning FailedUpdate StatefulSet default/web: update Pod web-1 in StatefulSet web failed error: persistentvolumeclaims "www-web-1" is forbidden: exceeded quota
        update statefulsets.apps/status default/web {"availableReplicas":1,"collisionCount":0,"currentRevision":"old","observedGeneration":1,"readyReplicas":1,"replicas":1,"updateRevision":"new","updatedReplicas":1}
    "#]].assert_eq(&after(Action::update(&pod)));
    assert_eq!(after(Action::update_status(&*observed.set)), "", "the retry writes it");
    let collided = plan_collision(&observed.set);
    assert!(collided.to_string().contains(r#""collisionCount":1"#), "{collided}");
}
