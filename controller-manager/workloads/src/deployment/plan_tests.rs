//! Runs whole rollouts against a model of the cluster whose replica sets create and delete pods at once.
//!
//! Corresponds to the rollout tests of test/e2e/apps/deployment.go.

use super::observe::Observed;
use super::plan::{plan, plan_collision, plan_create_failed};
use super::recreate::PodsByOwner;
use super::{history, sizes};
use client::Action;
use controller_base::controller_ref::Claims;
use controller_base::fixture;
use expect_test::{Expect, expect};
use proto::Kind;
use proto::kinds::api::apps::v1::{Deployment, ReplicaSet};
use std::sync::Arc;

/// A deployment and its replica sets. Each round takes one second.
struct Cluster {
    deployment: Deployment,
    replica_sets: Vec<ReplicaSet>,
    /// The image whose pods never become ready.
    broken: &'static str,
    second: i64,
    log: Vec<String>,
}

impl Cluster {
    fn new(deployment: Deployment) -> Self {
        Self { deployment, replica_sets: Vec::new(), broken: "", second: 0, log: Vec::new() }
    }

    fn observed(&self) -> Observed {
        let owned = self.replica_sets.iter().cloned().map(Arc::new).collect();
        let replica_sets = Claims { owned, adopt: Vec::new(), release: Vec::new() };
        Observed { deployment: Arc::new(self.deployment.clone()), replica_sets, pods: PodsByOwner::new() }
    }

    /// Carries out one plan. Returns true if it writes anything.
    fn round(&mut self) -> bool {
        self.second += 1;
        let plan = plan(&self.observed(), fixture::at(self.second));
        for action in &plan.actions {
            self.log.push(action.to_string().split(" {").next().unwrap().to_owned());
            match action {
                Action::Create { object, .. } => {
                    let mut created = ReplicaSet::decode_value(object.clone()).unwrap();
                    created.metadata.uid = Some(format!("uid-{}", created.name()));
                    created.metadata.creation_timestamp = Some(fixture::time(self.second));
                    created.metadata.generation = Some(1);
                    self.replica_sets.push(created);
                }
                Action::Update { object, .. } => {
                    let updated = ReplicaSet::decode_value(object.clone()).unwrap();
                    let present = self.replica_sets.iter_mut().find(|set| set.name() == updated.name()).unwrap();
                    *present = updated;
                }
                Action::UpdateStatus { object, .. } => {
                    let updated = Deployment::decode_value(object.clone()).unwrap();
                    self.deployment.status = updated.status;
                    self.deployment.metadata.annotations = updated.metadata.annotations;
                }
                Action::Delete { name, .. } => self.replica_sets.retain(|set| set.name() != name),
                Action::Event(_) => {}
                other => panic!("unexpected: {other}"),
            }
        }
        !plan.actions.is_empty()
    }

    /// Gives each replica set the pods of its size. They become available at once unless their image is broken.
    fn update_pods(&mut self) {
        for replica_set in &mut self.replica_sets {
            let size = sizes::size(replica_set);
            let template = replica_set.spec.as_ref().unwrap().template.as_ref().unwrap();
            let image = template.spec.as_ref().unwrap().containers[0].image.clone().unwrap();
            let available = if image == self.broken { 0 } else { size };
            let status = replica_set.status.get_or_insert_default();
            status.replicas = size;
            status.ready_replicas = Some(available);
            status.available_replicas = Some(available);
            status.terminating_replicas = Some(0);
            status.observed_generation = replica_set.metadata.generation;
        }
    }

    fn all_pods(&self) -> i32 {
        sizes::total(&self.replica_sets, sizes::size)
    }

    fn serving(&self) -> i32 {
        // Pods beyond the size stop serving before the next round.
        self.replica_sets.iter().map(|set| sizes::available(set).min(sizes::size(set))).sum()
    }

    fn set_image(&mut self, image: &str) {
        self.deployment.spec.as_mut().unwrap().template = fixture::template(image);
        *self.deployment.metadata.generation.as_mut().unwrap() += 1;
    }

    fn set_replicas(&mut self, replicas: i32) {
        self.deployment.spec.as_mut().unwrap().replicas = Some(replicas);
        *self.deployment.metadata.generation.as_mut().unwrap() += 1;
    }

    /// Runs rounds until one writes nothing. Checks the limits after every round.
    fn run_until_stable(&mut self, floor: i32, ceiling: i32) {
        for _ in 0..200 {
            let wrote = self.round();
            assert!(self.serving() >= floor, "{} of {floor} serve after {:#?}", self.serving(), self.log);
            assert!(self.all_pods() <= ceiling, "{} pods, {ceiling} allowed after {:#?}", self.all_pods(), self.log);
            let before = self.replica_sets.clone();
            self.update_pods();
            if !wrote && before == self.replica_sets {
                return;
            }
        }
        panic!("no end: {:#?}", self.log);
    }

    fn active(&self) -> Vec<(i64, i32)> {
        let active = self.replica_sets.iter().filter(|set| sizes::size(set) > 0);
        active.map(|set| (history::revision(set), sizes::size(set))).collect()
    }

    fn condition(&self, type_: &str) -> (String, String) {
        let condition = super::status::find_condition(self.deployment.status.as_ref(), type_).unwrap();
        (condition.status.clone(), condition.reason.clone().unwrap())
    }

    fn check_log(&mut self, expected: Expect) {
        expected.assert_eq(&(std::mem::take(&mut self.log).join("\n") + "\n"));
    }
}

#[test]
fn every_rollout_keeps_its_limits_and_comes_to_an_end() {
    for replicas in [0, 1, 2, 3, 4, 10, 11] {
        for surge in ["0", "1", "3", "25%", "100%"] {
            for unavailable in ["0", "1", "25%", "50%", "100%"] {
                let deployment = fixture::deployment(replicas, surge, unavailable);
                let (floor, ceiling) = (sizes::min_available(&deployment), replicas + sizes::max_surge(&deployment));
                let mut cluster = Cluster::new(deployment);
                cluster.run_until_stable(0, ceiling);
                cluster.set_image("nginx:2");
                cluster.run_until_stable(floor, ceiling);
                let expected = if replicas == 0 { vec![] } else { vec![(2, replicas)] };
                assert_eq!(cluster.active(), expected, "{replicas} {surge} {unavailable}");
                let progressing = ("True".to_owned(), "NewReplicaSetAvailable".to_owned());
                assert_eq!(cluster.condition("Progressing"), progressing, "{replicas} {surge} {unavailable}");
                assert_eq!(cluster.condition("Available").0, "True", "{replicas} {surge} {unavailable}");
            }
        }
    }
}

#[test]
fn a_broken_image_stops_the_rollout_and_undo_repairs_it() {
    let mut cluster = Cluster::new(fixture::deployment(10, "3", "2"));
    cluster.run_until_stable(0, 13);
    cluster.broken = "nginx:broken";
    cluster.set_image("nginx:broken");
    cluster.run_until_stable(8, 13);
    assert_eq!(cluster.active(), [(1, 8), (2, 5)], "8 serve, 5 are broken, and there it stops");
    cluster.second += 700;
    cluster.run_until_stable(8, 13);
    assert_eq!(cluster.condition("Progressing"), ("False".to_owned(), "ProgressDeadlineExceeded".to_owned()));
    cluster.set_image("nginx:1");
    cluster.run_until_stable(8, 13);
    assert_eq!(cluster.active(), [(3, 10)], "the first replica set serves again under a new revision");
    let first = &cluster.replica_sets[0];
    assert_eq!(sizes::annotation(first, history::REVISION_HISTORY), Some("1"));
    let revision = cluster.deployment.metadata.annotations.as_ref().unwrap()[history::REVISION].clone();
    assert_eq!(revision, "3");
}

#[test]
fn scaling_in_the_middle_of_a_rollout_keeps_proportions() {
    let mut cluster = Cluster::new(fixture::deployment(10, "3", "2"));
    cluster.run_until_stable(0, 13);
    cluster.broken = "nginx:broken";
    cluster.set_image("nginx:broken");
    cluster.run_until_stable(8, 13);
    cluster.set_replicas(15);
    cluster.run_until_stable(8, 18);
    assert_eq!(cluster.active(), [(1, 11), (2, 7)], "5 more among 8 and 5");
}

#[test]
fn a_paused_deployment_scales_but_does_not_roll() {
    let mut cluster = Cluster::new(fixture::deployment(4, "1", "1"));
    cluster.run_until_stable(0, 5);
    cluster.deployment.spec.as_mut().unwrap().paused = Some(true);
    cluster.set_image("nginx:2");
    cluster.run_until_stable(4, 5);
    assert_eq!(cluster.active(), [(1, 4)]);
    assert_eq!(cluster.condition("Progressing"), ("Unknown".to_owned(), "DeploymentPaused".to_owned()));
    cluster.set_replicas(6);
    cluster.run_until_stable(4, 7);
    assert_eq!(cluster.active(), [(1, 6)]);
    cluster.deployment.spec.as_mut().unwrap().paused = None;
    cluster.run_until_stable(5, 8);
    assert_eq!(cluster.active(), [(2, 6)]);
}

#[test]
fn recreate_has_no_old_pod_beside_a_new_one() {
    let mut deployment = fixture::deployment(3, "0", "0");
    deployment.spec.as_mut().unwrap().strategy.as_mut().unwrap().type_ = Some("Recreate".to_owned());
    let mut cluster = Cluster::new(deployment);
    cluster.run_until_stable(0, 3);
    cluster.log.clear();
    cluster.set_image("nginx:2");
    cluster.run_until_stable(0, 3);
    assert_eq!(cluster.active(), [(2, 3)]);
    cluster.check_log(expect![[r#"
        update replicasets.apps default/web-55cc6b6ff
        event Normal ScalingReplicaSet Deployment default/web: Scaled down replica set web-55cc6b6ff from 3 to 0
        update deployments.apps/status default/web
        create replicasets.apps default/web-6b7cc85cd8
        event Normal ScalingReplicaSet Deployment default/web: Scaled up replica set web-6b7cc85cd8 from 0 to 3
        update deployments.apps/status default/web
        update deployments.apps/status default/web
    "#]]);
}

#[test]
fn old_revisions_are_forgotten_beyond_the_limit() {
    let mut deployment = fixture::deployment(1, "1", "0");
    deployment.spec.as_mut().unwrap().revision_history_limit = Some(2);
    let mut cluster = Cluster::new(deployment);
    for image in ["nginx:1", "nginx:2", "nginx:3", "nginx:4", "nginx:5"] {
        cluster.set_image(image);
        cluster.run_until_stable(0, 2);
    }
    let revisions: Vec<i64> = cluster.replica_sets.iter().map(history::revision).collect();
    assert_eq!(revisions, [3, 4, 5]);
}

#[test]
fn a_first_rollout_reads_as_a_list() {
    let mut cluster = Cluster::new(fixture::deployment(3, "25%", "25%"));
    cluster.run_until_stable(0, 4);
    cluster.check_log(expect![[r#"
        create replicasets.apps default/web-55cc6b6ff
        event Normal ScalingReplicaSet Deployment default/web: Scaled up replica set web-55cc6b6ff from 0 to 3
        update deployments.apps/status default/web
        update deployments.apps/status default/web
    "#]]);
}

#[test]
fn collisions_and_failed_creations_differ() {
    let deployment = fixture::deployment(3, "1", "1");
    let collision = plan_collision(&deployment);
    let [Action::UpdateStatus { object, .. }] = collision.actions.as_slice() else { panic!("{collision}") };
    assert_eq!(object["status"]["collisionCount"], 1);
    let failed = plan_create_failed(&deployment, "web-abc", "exceeded quota: pods", fixture::at(9));
    let [Action::Event(event), Action::UpdateStatus { object, .. }] = failed.actions.as_slice() else {
        panic!("{failed}")
    };
    assert_eq!(object["status"]["conditions"][0]["reason"], "ReplicaSetCreateError");
    assert_eq!(event.message, "Failed to create new replica set \"web-abc\": exceeded quota: pods");
}

#[test]
fn a_template_becomes_a_revision_before_it_is_rolled_back() {
    let mut cluster = Cluster::new(fixture::deployment(2, "1", "0"));
    cluster.run_until_stable(0, 3);
    cluster.set_image("nginx:2");
    fixture::annotate(&mut cluster.deployment, &[(history::ROLLBACK_TO, "0")]);
    cluster.log.clear();
    cluster.round();
    assert!(cluster.log[0].starts_with("create replicasets.apps"), "{:#?}", cluster.log);
    let rolled_back = plan(&cluster.observed(), fixture::at(9));
    let [Action::Update { object, .. }, Action::Event(event)] = rolled_back.actions.as_slice() else {
        panic!("{rolled_back}")
    };
    assert_eq!(object["spec"]["template"]["spec"]["containers"][0]["image"], "nginx:1");
    assert_eq!(event.message, "Rolled back deployment \"web\" to revision 1");
}

#[test]
fn a_long_name_leaves_room_for_the_hash() {
    let mut deployment = fixture::deployment(1, "1", "0");
    deployment.metadata.name = Some("a".repeat(250));
    let mut cluster = Cluster::new(deployment);
    cluster.round();
    let name = cluster.replica_sets[0].name();
    assert!(name.len() <= 253 && name.starts_with("aaa") && !name.ends_with('a'), "{name}");
}

#[test]
fn orphans_are_adopted_before_anything_else() {
    let cluster = Cluster::new(fixture::deployment(3, "1", "1"));
    let mut observed = cluster.observed();
    let mut orphan = fixture::replica_set("web-orphan", "nginx:1", 3);
    orphan.metadata.owner_references = None;
    observed.replica_sets.adopt.push(Arc::new(orphan));
    expect![[r#"
        strategic patch replicasets.apps default/web-orphan {"metadata":{"ownerReferences":[{"apiVersion":"apps/v1","blockOwnerDeletion":true,"controller":true,"kind":"Deployment","name":"web","uid":"uid-web"}],"uid":"uid-web-orphan"}}
    "#]].assert_eq(&plan(&observed, fixture::at(1)).to_string());
}
