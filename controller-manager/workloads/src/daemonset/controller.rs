//! Starts the DaemonSet controller: its event handlers, and the memory of failed pods.
//!
//! Corresponds to pkg/controller/daemon/daemon_controller.go.

use super::backoff::FailedPodBackoff;
use super::daemon_pod::target_node;
use super::observe::{Listers, Observed, observe, spec};
use super::placement::{Placement, may_change};
use super::plan::{plan, plan_after};
use client::reconcile::Reconciler;
use client::{Action, ApplyError, Client, Event, Plan, ReconcileError, Stale, WorkQueue};
use controller_base::context::{Actor, Running};
use controller_base::controller_ref::{
    adopters, concerned_controllers, confirm_adoption, controller_queue_key, is_replaced,
};
use controller_base::descriptor::Setup;
use controller_base::indexes::{self, PODS_BY_NODE};
use controller_base::pod;
use controller_base::pod_control::PodControl;
use controller_base::status_batch;
use jiff::Timestamp;
use proto::Kind;
use proto::kinds::api::apps::v1::{ControllerRevision, DaemonSet};
use proto::kinds::api::core::v1::{Node, Pod};
use proto::meta::label_selector;
use std::collections::{BTreeMap, BTreeSet};

struct Controller {
    control: PodControl,
    backoff: FailedPodBackoff,
    listers: Listers,
}

pub fn start(setup: &Setup<'_>) -> Running {
    let queue = setup.queue();
    indexes::pods_by_controller(&setup.informer());
    indexes::pods_by_node(&setup.informer());
    indexes::revisions_by_controller(&setup.informer());
    let listers =
        Listers { sets: setup.lister(), revisions: setup.lister(), pods: setup.lister(), nodes: setup.lister() };
    let control = PodControl::new(setup.env, &listers.sets, &listers.pods).reading(&listers.revisions);
    let backoff = FailedPodBackoff::new(setup.env);
    setup.on_event(&queue, {
        let (control, backoff) = (control.clone(), backoff.clone());
        move |event: &Event<DaemonSet>, queue| {
            let key = event.object().key();
            if is_replaced(event) {
                control.forget(&key);
                backoff.forget(&key);
            }
            queue.add(key);
        }
    });
    setup.on_event(&queue, {
        let sets = listers.sets.clone();
        move |event: &Event<ControllerRevision>, queue| {
            let concerned = concerned_controllers::<DaemonSet, _>(event);
            concerned.into_iter().chain(adopters(&sets, event, selects)).for_each(|key| queue.add(key));
        }
    });
    setup.on_event(&queue, {
        let (control, sets) = (control.clone(), listers.sets.clone());
        move |event: &Event<Pod>, queue| {
            for key in control.observe_event::<DaemonSet>(event) {
                let pods = sets.by_key(&key).map_or(0, |set| settled_pods(&set));
                queue.add_after(key, status_batch::delay(event, pods));
            }
            adopters(&sets, event, selects).into_iter().for_each(|key| queue.add(key));
        }
    });
    setup.on_event(&queue, {
        let listers = listers.clone();
        move |event, queue| on_node(queue, &listers, event)
    });
    let workers = setup.settings.concurrent_daemonset_syncs;
    setup.run(queue, workers, Controller { control, backoff, listers })
}

fn selects(set: &DaemonSet, labels: &BTreeMap<String, String>) -> bool {
    label_selector::from_typed(Some(&spec(set).selector)).is_ok_and(|selector| selector.matches(labels))
}

/// Returns the number of nodes that should have a pod; 0 while pods are replaced, because the next ones follow when these are
/// available.
fn settled_pods(set: &DaemonSet) -> i32 {
    let status = set.status.as_ref().filter(|status| status.observed_generation == set.metadata.generation);
    let settled = status.filter(|status| status.updated_number_scheduled == Some(status.desired_number_scheduled));
    settled.map_or(0, |status| status.desired_number_scheduled)
}

/// Adds the DaemonSets for which a node begins or ceases to fit.
///
/// Deviation: Kubernetes does not look at deleted nodes, which its status counts until something else happens.
fn on_node(queue: &WorkQueue<String>, listers: &Listers, event: &Event<Node>) {
    if !may_change(event) {
        return;
    }
    let pods = listers.pods.by_index(PODS_BY_NODE, event.object().name());
    let with_pods: BTreeSet<String> = pods.iter().filter_map(|pod| controller_queue_key::<DaemonSet>(&**pod)).collect();
    for set in listers.sets.list() {
        let key = set.key();
        if Placement::of(&set).is_concerned(event, with_pods.contains(&key)) {
            queue.add(key);
        }
    }
}

/// Returns the generation whose failed pods wait on their own.
fn observed_generation(set: &DaemonSet) -> i64 {
    set.status.as_ref().and_then(|status| status.observed_generation).unwrap_or(0)
}

impl Controller {
    /// Raises the back-off of the nodes whose failed pods a plan deletes.
    fn raise_backoff(&self, key: &str, observed: &Observed, plan: &Plan) {
        let failed: BTreeMap<&str, &Pod> = observed
            .pods
            .owned
            .iter()
            .filter(|pod| pod::phase(pod) == "Failed")
            .map(|pod| (pod.uid(), &**pod))
            .collect();
        let set = &*observed.set;
        for action in &plan.actions {
            let Action::Delete { options, .. } = action else { continue };
            if let Some(node) = failed.get(options.preconditions.uid.as_str()).and_then(|pod| target_node(pod)) {
                self.backoff.next(key, set.uid(), observed_generation(set), node);
            }
        }
    }
}

impl Reconciler for Controller {
    type Observed = Observed;

    fn ensure_ready(&self, key: &str) -> Result<(), Stale> {
        self.control.ensure_ready(key)
    }

    fn observe(&self, key: &str) -> Option<Observed> {
        let are_expectations_satisfied = self.control.are_expectations_satisfied(key);
        let mut observed = observe(key, &self.listers, are_expectations_satisfied)?;
        let set = &*observed.set;
        observed.waits = self.backoff.waits(key, set.uid(), observed_generation(set));
        Some(observed)
    }

    async fn consult(&self, client: &Client, observed: Observed) -> Result<Option<Observed>, ReconcileError> {
        let set = &*observed.set;
        self.control.confirm_creations(client, &set.key(), set).await?;
        confirm_adoption(client, set, &observed.pods).await?;
        confirm_adoption(client, set, &observed.revisions).await?;
        Ok(Some(observed))
    }

    fn plan(&self, observed: &Observed, now: Timestamp) -> Plan {
        plan(observed, now)
    }

    async fn apply(&self, actor: &Actor, key: &str, observed: &Observed, plan: &Plan) -> Result<(), ApplyError> {
        self.raise_backoff(key, observed, plan);
        self.control.apply(actor, key, &*observed.set, plan).await
    }

    fn recover(&self, observed: &Observed, error: &ApplyError, now: Timestamp) -> Option<Plan> {
        plan_after(observed, error, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto::kinds::api::apps::v1::DaemonSetStatus;

    #[test]
    fn a_set_is_settled_when_all_its_pods_are_of_the_present_template() {
        let mut set = DaemonSet::default();
        set.metadata.generation = Some(2);
        assert_eq!(settled_pods(&set), 0);
        for (generation, updated, expected) in [(2, Some(5), 5), (2, Some(4), 0), (2, None, 0), (1, Some(5), 0)] {
            set.status = Some(DaemonSetStatus {
                observed_generation: Some(generation),
                desired_number_scheduled: 5,
                updated_number_scheduled: updated,
                ..DaemonSetStatus::default()
            });
            assert_eq!(settled_pods(&set), expected, "{generation} {updated:?}");
        }
    }
}
