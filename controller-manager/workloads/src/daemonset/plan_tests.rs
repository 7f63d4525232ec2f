//! Tests whole rounds: what they write, and that rounds reach their goal within their limits.

use super::fixture::{daemon_set, observed, pod, revision, roll};
use super::observe::{Observed, allows_surge, max_unavailable, next_hash};
use super::plan::{plan, plan_after};
use client::{Action, ApplyError, Error, Plan};
use component_base::rng::Random;
use controller_base::fixture;
use controller_base::pod as pods;
use expect_test::{Expect, expect};
use proto::Kind;
use proto::Status;
use proto::kinds::api::apps::v1::{ControllerRevision, DaemonSet, DaemonSetStatus};
use proto::kinds::api::core::v1::{Node, Pod};
use std::sync::Arc;
use std::time::Duration;

fn check(observed: &Observed, expected: Expect) {
    expected.assert_eq(&plan(observed, fixture::at(100)).to_string());
}

fn at_rest(pods: Vec<Pod>, status: (i32, i32)) -> Observed {
    let (desired, available) = status;
    let mut set = daemon_set("logs", "nginx:1");
    set.status = Some(DaemonSetStatus {
        desired_number_scheduled: desired,
        current_number_scheduled: desired,
        number_ready: available,
        number_available: Some(available),
        updated_number_scheduled: Some(desired),
        observed_generation: Some(1),
        ..DaemonSetStatus::default()
    });
    observed(set, &["n1", "n2"], pods)
}

#[test]
fn a_new_daemon_set_gets_a_revision_and_a_pod_on_every_node() {
    let mut observed = observed(daemon_set("logs", "nginx:1"), &["n1", "n2", "n3!"], vec![]);
    observed.revisions.owned.clear();
    check(
        &observed,
        expect![[r#"
        create controllerrevisions.apps default/logs-55cc6b6ff
        create pods default/logs-*
        create pods default/logs-*
        update daemonsets.apps/status default/logs {"currentNumberScheduled":0,"desiredNumberScheduled":2,"numberMisscheduled":0,"numberReady":0,"numberUnavailable":2,"observedGeneration":1}
    "#]],
    );
}

#[test]
fn an_unchanged_daemon_set_writes_nothing() {
    check(&at_rest(vec![pod("a", "n1", "new ready"), pod("b", "n2", "new ready")], (2, 2)), expect![""]);
}

#[test]
fn an_update_begins_when_no_node_lacks_a_pod() {
    let mut updating = at_rest(vec![pod("a", "n1", "old ready"), pod("b", "n2", "old ready")], (2, 2));
    check(
        &updating,
        expect![[r#"
        delete pods default/a uid=uid-a
        update daemonsets.apps/status default/logs {"currentNumberScheduled":2,"desiredNumberScheduled":2,"numberAvailable":2,"numberMisscheduled":0,"numberReady":2,"observedGeneration":1}
    "#]],
    );
    updating.nodes.push(Arc::new(fixture::node("n3")));
    check(
        &updating,
        expect![[r#"
        create pods default/logs-*
        update daemonsets.apps/status default/logs {"currentNumberScheduled":2,"desiredNumberScheduled":3,"numberAvailable":2,"numberMisscheduled":0,"numberReady":2,"numberUnavailable":1,"observedGeneration":1}
    "#]],
    );
    let set = Arc::get_mut(&mut updating.set).unwrap();
    set.spec.as_mut().unwrap().update_strategy.as_mut().unwrap().type_ = Some("OnDelete".to_owned());
    updating.nodes.pop();
    check(
        &updating,
        expect![[r#"
        update daemonsets.apps/status default/logs {"currentNumberScheduled":2,"desiredNumberScheduled":2,"numberAvailable":2,"numberMisscheduled":0,"numberReady":2,"observedGeneration":1}
    "#]],
    );
}

#[test]
fn ended_pods_are_deleted_with_an_event() {
    let mut ended = at_rest(vec![pod("a", "n1", "new failed"), pod("b", "n2", "new succeeded")], (2, 0));
    check(
        &ended,
        expect![[r#"
        event Warning FailedDaemonPod DaemonSet default/logs: Found failed daemon pod default/a on node n1, will try to kill it
        event Normal SucceededDaemonPod DaemonSet default/logs: Found succeeded daemon pod default/b on node n2, will try to delete it
        delete pods default/a uid=uid-a
        delete pods default/b uid=uid-b
        update daemonsets.apps/status default/logs {"currentNumberScheduled":2,"desiredNumberScheduled":2,"numberMisscheduled":0,"numberReady":0,"numberUnavailable":2,"observedGeneration":1,"updatedNumberScheduled":2}
    "#]],
    );
    ended.pods.owned.pop();
    ended.nodes.pop();
    ended.waits = [("n1".to_owned(), Duration::from_secs(8))].into();
    check(
        &ended,
        expect![[r#"
        update daemonsets.apps/status default/logs {"currentNumberScheduled":1,"desiredNumberScheduled":1,"numberMisscheduled":0,"numberReady":0,"numberUnavailable":1,"observedGeneration":1,"updatedNumberScheduled":1}
        look again after 8s
    "#]],
    );
}

#[test]
fn a_round_looks_again_when_a_pod_becomes_available() {
    let mut observed = at_rest(vec![pod("a", "n1", "new ready"), pod("b", "n2", "new fresh")], (2, 2));
    Arc::get_mut(&mut observed.set).unwrap().spec.as_mut().unwrap().min_ready_seconds = Some(30);
    check(
        &observed,
        expect![[r#"
        update daemonsets.apps/status default/logs {"currentNumberScheduled":2,"desiredNumberScheduled":2,"numberAvailable":1,"numberMisscheduled":0,"numberReady":2,"numberUnavailable":1,"observedGeneration":1,"updatedNumberScheduled":2}
        look again after 30s
    "#]],
    );
}

#[test]
fn a_cache_that_is_behind_is_only_counted() {
    let mut observed = at_rest(vec![pod("a", "n1", "new ready")], (2, 2));
    observed.are_expectations_satisfied = false;
    Arc::get_mut(&mut observed.set).unwrap().metadata.generation = Some(2);
    check(
        &observed,
        expect![[r#"
        update daemonsets.apps/status default/logs {"currentNumberScheduled":1,"desiredNumberScheduled":2,"numberAvailable":1,"numberMisscheduled":0,"numberReady":1,"numberUnavailable":1,"observedGeneration":1,"updatedNumberScheduled":1}
    "#]],
    );
}

#[test]
fn objects_are_adopted_and_released_first() {
    let mut observed = at_rest(vec![], (2, 2));
    observed.pods.adopt.push(Arc::new(fixture::pod("orphan")));
    observed.pods.release.push(Arc::new(fixture::pod("relabelled")));
    observed.revisions.adopt.push(Arc::new(revision("orphan", 1, "nginx:0")));
    check(
        &observed,
        expect![[r#"
        strategic patch controllerrevisions.apps default/logs-orphan {"metadata":{"ownerReferences":[{"apiVersion":"apps/v1","blockOwnerDeletion":true,"controller":true,"kind":"DaemonSet","name":"logs","uid":"uid-logs"}],"uid":"uid-logs-orphan"}}
        strategic patch pods default/orphan {"metadata":{"ownerReferences":[{"apiVersion":"apps/v1","blockOwnerDeletion":true,"controller":true,"kind":"DaemonSet","name":"logs","uid":"uid-logs"}],"uid":"uid-orphan"}}
        strategic patch pods default/relabelled {"metadata":{"ownerReferences":[{"$patch":"delete","uid":"uid-logs"}],"uid":"uid-relabelled"}}
    "#]],
    );
}

#[test]
fn some_daemon_sets_get_no_round() {
    let mut observed = at_rest(vec![], (2, 2));
    let set = Arc::get_mut(&mut observed.set).unwrap();
    set.metadata.deletion_timestamp = Some(fixture::time(9));
    check(&observed, expect![""]);
    let set = Arc::get_mut(&mut observed.set).unwrap();
    set.spec.as_mut().unwrap().selector.match_labels = None;
    check(
        &observed,
        expect![[r#"
        event Warning SelectingAll DaemonSet default/logs: This daemon set is selecting all pods. A non-empty selector is required.
    "#]],
    );
}

#[test]
fn a_collision_changes_the_next_name() {
    let mut observed = at_rest(vec![], (2, 2));
    observed.revisions.owned.clear();
    let before = next_hash(&observed.set);
    observed.namesake = Some(Arc::new(revision(&before, 1, "another")));
    let plan = plan(&observed, fixture::at(100));
    let [Action::UpdateStatus { object, .. }] = plan.actions.as_slice() else { panic!("{plan}") };
    let set = DaemonSet::decode_value(object.clone()).unwrap();
    assert_eq!(set.status.as_ref().unwrap().collision_count, Some(1));
    assert_ne!(next_hash(&set), before);
}

#[test]
fn what_does_not_depend_on_a_failed_action_goes_on() {
    let mut observed = at_rest(vec![pod("a", "n1", "new failed")], (2, 2));
    observed.revisions.owned.clear();
    let round = plan(&observed, fixture::at(100));
    let after = |resource: &str, verb: &str, code: u16, reason: &str| {
        let is_failed = |action: &&Action| action.to_string().starts_with(&format!("{verb} {resource}"));
        let failed = round.actions.iter().find(is_failed).unwrap().clone();
        let cause = Error::Status(Box::new(Status::failure(code, reason, "refused".to_owned())));
        let rest = plan_after(&observed, &ApplyError { done: 0, failed, cause }, fixture::at(100));
        let line = |action: &Action| action.to_string().split(' ').take(3).collect::<Vec<_>>().join(" ");
        rest.map(|rest| rest.actions.iter().map(line).collect::<Vec<_>>())
    };
    let status = "update daemonsets.apps/status default/logs";
    assert_eq!(after("pods", "create", 403, "Forbidden").unwrap(), [status]);
    assert_eq!(after("pods", "delete", 500, "InternalError").unwrap(), ["create pods default/logs-*", status]);
    assert_eq!(after("controllerrevisions", "create", 403, "Forbidden").unwrap(), ["event Warning FailedCreate"]);
    assert_eq!(after("controllerrevisions", "create", 409, "AlreadyExists"), None);
}

/// A cluster that carries plans out at once. Pods become ready, and deleted ones disappear, when chance says so.
struct Model {
    observed: Observed,
    random: Random,
    created: usize,
}

impl Model {
    fn new(seed: u64) -> Self {
        let random = Random::from_seed(seed, "daemonset");
        let mut set = daemon_set("logs", "nginx:1");
        let limits = [("1", "0"), ("2", "0"), ("40%", "0"), ("0", "1"), ("0", "50%")];
        let (unavailable, surge) = limits[random.below(limits.len())];
        roll(&mut set, unavailable, surge);
        let mut observed = observed(set, &["n0", "n1", "n2", "n3"], vec![]);
        observed.revisions.owned.clear();
        Self { observed, random, created: 0 }
    }

    fn set(&mut self) -> &mut DaemonSet {
        Arc::get_mut(&mut self.observed.set).unwrap()
    }

    /// Runs one round and checks what it plans. Returns true if it has written something.
    fn round(&mut self) -> bool {
        let plan = plan(&self.observed, fixture::at(1000));
        self.check_deletions(&plan);
        plan.actions.iter().for_each(|action| self.carry_out(action));
        self.check_nodes();
        !plan.is_empty()
    }

    fn carry_out(&mut self, action: &Action) {
        let decoded = |object: &serde_json::Value| ControllerRevision::decode_value(object.clone());
        match action {
            Action::Create { gvr, object, .. } if *gvr == Pod::gvr() => {
                self.created += 1;
                let mut pod = Pod::decode_value(object.clone()).unwrap();
                let node = super::daemon_pod::target_node(&pod).unwrap().to_owned();
                let name = format!("logs-{:03}", self.created);
                pod.metadata = proto::kinds::metav1::ObjectMeta {
                    labels: pod.metadata.labels,
                    creation_timestamp: Some(fixture::time(i64::try_from(self.created).unwrap())),
                    ..fixture::meta(&name)
                };
                pod.spec.as_mut().unwrap().node_name = Some(node);
                fixture::set_phase(&mut pod, "Running");
                self.observed.pods.owned.push(Arc::new(pod));
            }
            Action::Delete { gvr, options, .. } if *gvr == Pod::gvr() => {
                let is_deleted = |pod: &&mut Arc<Pod>| pod.uid() == options.preconditions.uid;
                let pod = self.observed.pods.owned.iter_mut().find(is_deleted).expect("it exists");
                Arc::make_mut(pod).metadata.deletion_timestamp = Some(fixture::time(1));
            }
            Action::Create { object, .. } => {
                let mut revision = decoded(object).unwrap();
                revision.metadata.uid = Some(format!("uid-{}", revision.name()));
                self.observed.revisions.owned.push(Arc::new(revision));
            }
            Action::Update { object, .. } => {
                let revision = decoded(object).unwrap();
                let is_same = |one: &&mut Arc<ControllerRevision>| one.name() == revision.name();
                let held = self.observed.revisions.owned.iter_mut().find(is_same).expect("it exists");
                *held = Arc::new(revision.clone());
            }
            Action::Delete { name, .. } => self.observed.revisions.owned.retain(|one| one.name() != name),
            Action::UpdateStatus { object, .. } => {
                let status = DaemonSet::decode_value(object.clone()).unwrap().status;
                self.set().status = status;
            }
            Action::Event(_) => {}
            other => panic!("{other}"),
        }
        crate::controller_revision::sort(&mut self.observed.revisions.owned);
    }

    /// Nobody else deletes available pods here, so an update must leave enough of them.
    fn check_deletions(&self, plan: &Plan) {
        let set = &self.observed.set;
        if allows_surge(set) {
            return;
        }
        let is_deleted = |pod: &Pod| {
            plan.actions.iter().any(
                |action| matches!(action, Action::Delete { options, .. } if options.preconditions.uid == pod.uid()),
            )
        };
        let serving = |pod: &&Arc<Pod>| !pod.is_deleting() && pods::is_ready(pod) && self.runs(pods::node_name(pod));
        let (deleted, left): (Vec<_>, Vec<_>) =
            self.observed.pods.owned.iter().filter(serving).partition(|pod| is_deleted(pod));
        let desired = self.observed.nodes.iter().filter(|node| self.runs(node.name())).count();
        let least = desired.saturating_sub(max_unavailable(set, desired));
        assert!(deleted.is_empty() || left.len() >= least, "{} of {desired} pods are left\n{plan}", left.len());
    }

    fn check_nodes(&self) {
        let most = if allows_surge(&self.observed.set) { 2 } else { 1 };
        for node in &self.observed.nodes {
            let on_node = self.observed.pods.owned.iter().filter(|pod| pods::node_name(pod) == node.name());
            let is_leaving = |pod: &Pod| pods::is_terminal(pod) || (most == 2 && pod.is_deleting());
            let counts = |pod: &&Arc<Pod>| !is_leaving(pod);
            let names: Vec<&str> = on_node.filter(counts).map(|pod| pod.name()).collect();
            assert!(names.len() <= most, "{} has {names:?}", node.name());
        }
    }

    fn runs(&self, node: &str) -> bool {
        let taints = |node: &Node| node.spec.as_ref().and_then(|spec| spec.taints.as_ref()).map_or(0, Vec::len);
        self.observed.nodes.iter().any(|one| one.name() == node && taints(one) == 0)
    }

    /// Lets something happen on the nodes: pods become ready, end and disappear.
    fn pass_time(&mut self, may_fail: bool) {
        let random = &self.random;
        self.observed.pods.owned.retain(|pod| !(pod.is_deleting() && random.below(2) == 0));
        for pod in &mut self.observed.pods.owned {
            let pod = Arc::make_mut(pod);
            match random.below(8) {
                0..=3 if !pods::is_terminal(pod) => fixture::set_ready(pod, fixture::at(0)),
                4 if may_fail && random.below(6) == 0 => fixture::set_phase(pod, "Failed"),
                5 if may_fail && random.below(6) == 0 => pod.metadata.deletion_timestamp = Some(fixture::time(1)),
                _ => {}
            }
            if pods::is_terminal(pod) {
                pod.status.as_mut().unwrap().conditions = None;
            }
        }
    }

    /// Changes the template or a node.
    fn disturb(&mut self) {
        let (kind, number) = (self.random.below(6), self.random.below(6));
        let name = format!("n{number}");
        match kind {
            0 | 1 => {
                let template = fixture::template(&format!("nginx:{number}"));
                self.set().spec.as_mut().unwrap().template = template;
            }
            2 => {
                // Its pods go with a node.
                self.observed.nodes.retain(|node| node.name() != name);
                self.observed.pods.owned.retain(|pod| pods::node_name(pod) != name);
            }
            3 if !self.observed.nodes.iter().any(|node| node.name() == name) => {
                self.observed.nodes.push(Arc::new(fixture::node(&name)));
                self.observed.nodes.sort_by_key(|node| node.name().to_owned());
            }
            _ => {
                let effect = ["NoSchedule", "NoExecute"][self.random.below(2)];
                if let Some(node) = self.observed.nodes.iter_mut().find(|node| node.name() == name) {
                    let node = Arc::make_mut(node);
                    node.spec = None;
                    if kind == 4 {
                        super::fixture::taint(node, "gpu", effect);
                    }
                }
            }
        }
    }
}

#[test]
fn any_order_of_changes_ends_with_one_updated_pod_on_each_node() {
    for seed in 0..40 {
        let mut model = Model::new(seed);
        for _ in 0..60 {
            if model.random.below(4) == 0 {
                model.disturb();
            }
            model.round();
            model.pass_time(true);
        }
        let mut at_rest = 0;
        for _ in 0..150 {
            at_rest = if model.round() { 0 } else { at_rest + 1 };
            model.pass_time(false);
        }
        assert!(at_rest > 50, "seed {seed} is still writing");
        let observed = &model.observed;
        let hash = next_hash(&observed.set);
        for node in &observed.nodes {
            let on_node: Vec<&Arc<Pod>> =
                observed.pods.owned.iter().filter(|pod| pods::node_name(pod) == node.name()).collect();
            let hashes: Vec<&str> = on_node
                .iter()
                .map(|pod| pod.metadata.labels.as_ref().unwrap()["controller-revision-hash"].as_str())
                .collect();
            if model.runs(node.name()) {
                assert_eq!(hashes, [hash.as_str()], "seed {seed}, {}", node.name());
            } else {
                assert!(on_node.len() <= 1, "seed {seed}, {}", node.name());
            }
        }
        let newest = observed.revisions.owned.last().unwrap();
        assert_eq!(newest.name(), format!("logs-{hash}"), "seed {seed}");
    }
}
