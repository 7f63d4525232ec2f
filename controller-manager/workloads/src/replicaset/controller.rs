//! Starts the ReplicaSet and ReplicationController controllers, and connects them with caches and events.
//!
//! Corresponds to pkg/controller/replicaset/replica_set.go.

use super::observe::{Listers, Observed, observe};
use super::plan;
use super::rank::age_ratios;
use super::replicated::Replicated;
use super::status::Failure;
use client::reconcile::Reconciler;
use client::{ApplyError, Client, Event, Plan, ReconcileError, Stale};
use component_base::metrics::{Histograms, Labels, exponential};
use controller_base::context::{Actor, Running};
use controller_base::controller_ref::{adopters, confirm_adoption, is_replaced};
use controller_base::descriptor::Setup;
use controller_base::indexes;
use controller_base::pod_control::PodControl;
use controller_base::{pod_state, status_batch};
use jiff::Timestamp;
use proto::Kind;
use proto::kinds::api::apps::v1::ReplicaSet;
use proto::kinds::api::core::v1::{Pod, ReplicationController};
use std::collections::BTreeSet;

/// Bounds of the ratios of ages.
const RATIOS: &[f64] = &exponential::<6>(0.25, 2.0);

struct Controller<T> {
    control: PodControl,
    listers: Listers<T>,
    deletion_age_ratios: Histograms,
}

pub fn start_replica_sets(setup: &Setup<'_>) -> Running {
    start::<ReplicaSet>(setup, setup.settings.concurrent_replicaset_syncs)
}

pub fn start_replication_controllers(setup: &Setup<'_>) -> Running {
    start::<ReplicationController>(setup, setup.settings.concurrent_rc_syncs)
}

fn start<T: Replicated>(setup: &Setup<'_>, workers: usize) -> Running {
    let queue = setup.queue();
    indexes::pods_by_controller(&setup.informer());
    pod_state::index(&setup.informer());
    indexes::by_controller_uid::<T>(&setup.informer());
    let listers: Listers<T> = Listers { owners: setup.lister(), pods: setup.lister() };
    let control = PodControl::new(setup.env, &listers.owners, &listers.pods);
    setup.on_event(&queue, {
        let control = control.clone();
        move |event: &Event<T>, queue| {
            if is_replaced(event) {
                control.forget(&event.object().key());
            }
            queue.add(event.object().key());
        }
    });
    setup.on_event(&queue, {
        let (control, owners) = (control.clone(), listers.owners.clone());
        move |event: &Event<Pod>, queue| {
            let concerned = control.observe_event::<T>(event);
            let adopters = adopters(&owners, event, |owner: &T, labels| owner.selector().matches(labels));
            for key in concerned {
                let replicas = owners.by_key(&key).map_or(0, |owner| owner.replicas());
                queue.add_after(key, status_batch::delay(event, replicas));
            }
            adopters.into_iter().for_each(|key| queue.add(key));
        }
    });
    let help = "The ratio of chosen deleted pod's ages to the current youngest pod's age (at the time). Should be <2. The \
                intent of this metric is to measure the rough efficacy of the LogarithmicScaleDown feature gate's effect on \
                the sorting (and deletion) of pods when a replicaset scales down. This only considers Ready pods when \
                calculating and reporting.";
    let name = "replicaset_controller_sorting_deletion_age_ratio";
    let deletion_age_ratios = setup.env.metrics().histograms(name, help, RATIOS);
    setup.run(queue, workers, Controller { control, listers, deletion_age_ratios })
}

impl<T: Replicated> Reconciler for Controller<T> {
    type Observed = Observed<T>;

    fn ensure_ready(&self, key: &str) -> Result<(), Stale> {
        self.control.ensure_ready(key)
    }

    fn observe(&self, key: &str) -> Option<Observed<T>> {
        let are_expectations_satisfied = self.control.are_expectations_satisfied(key);
        let observed = observe(key, &self.listers, are_expectations_satisfied);
        if observed.is_none() {
            self.control.forget(key);
        }
        observed
    }

    async fn consult(&self, client: &Client, observed: Observed<T>) -> Result<Option<Observed<T>>, ReconcileError> {
        confirm_adoption(client, &*observed.owner, &observed.pods).await?;
        Ok(Some(observed))
    }

    fn plan(&self, observed: &Observed<T>, now: Timestamp) -> Plan {
        plan::plan(observed, now)
    }

    async fn apply(&self, actor: &Actor, key: &str, observed: &Observed<T>, plan: &Plan) -> Result<(), ApplyError> {
        self.control.apply(actor, key, &*observed.owner, plan).await?;
        let deleted: BTreeSet<&str> = plan.actions.iter().filter_map(plan::deleted_pod).collect();
        let pods = &observed.pods.owned;
        if !deleted.is_empty() && deleted.len() < pods.len() {
            let now = actor.client.env().wall();
            for ratio in age_ratios(pods, |pod| deleted.contains(pod.name()), now) {
                self.deletion_age_ratios.get_or_create(&Labels::new()).observe(ratio);
            }
        }
        Ok(())
    }

    /// Plans the status with the reason of a failed creation or deletion.
    fn recover(&self, observed: &Observed<T>, error: &ApplyError, now: Timestamp) -> Option<Plan> {
        plan::changes_pods(&error.failed).then(|| plan::plan_status(observed, Failure::of(error).as_ref(), now))
    }
}
