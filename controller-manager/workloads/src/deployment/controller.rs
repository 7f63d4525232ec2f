//! Starts the Deployment controller: its event handlers, and the handling of writes that fail.
//!
//! Corresponds to pkg/controller/deployment/deployment_controller.go.

use super::observe::{Listers, Observed, observe};
use super::{history, plan, sizes};
use client::reconcile::Reconciler;
use client::{Action, ApplyError, Client, ConsistencyStore, Event, Lister, Plan, ReconcileError, Stale, WorkQueue};
use controller_base::context::{Actor, Running};
use controller_base::controller_ref::{
    concerned_controllers, confirm_adoption, controller_of, controller_queue_key, is_controlled_by,
};
use controller_base::descriptor::Setup;
use controller_base::indexes;
use controller_base::pod;
use controller_base::pod_control::apply_and_record_versions;
use jiff::Timestamp;
use proto::Kind;
use proto::kinds::api::apps::v1::{Deployment, ReplicaSet};
use proto::kinds::api::core::v1::Pod;
use proto::meta::label_selector;

struct Controller {
    listers: Listers,
    /// Deviation: a round waits until the caches show this controller's writes of the deployment and its replica sets,
    /// as Kubernetes' controllers of replica sets and jobs do since v1.36. Its Deployment controller does not wait, and
    /// can create a second replica set beside one that its cache does not show yet, over `maxSurge`.
    consistency: ConsistencyStore,
}

pub fn start(setup: &Setup<'_>) -> Running {
    let queue = setup.queue();
    indexes::pods_by_controller(&setup.informer());
    let listers = Listers { deployments: setup.lister(), replica_sets: setup.lister(), pods: setup.lister() };
    let consistency = ConsistencyStore::default().reading(&listers.deployments).reading(&listers.replica_sets);
    setup.on_event(&queue, {
        let consistency = consistency.clone();
        move |event: &Event<Deployment>, queue| {
            if matches!(event, Event::Deleted(_)) {
                consistency.clear(&event.object().key());
            }
            queue.add(event.object().key());
        }
    });
    setup.on_event(&queue, {
        let deployments = listers.deployments.clone();
        move |event, queue| on_replica_set(queue, &deployments, event)
    });
    setup.on_event(&queue, {
        let listers = listers.clone();
        move |event, queue| on_pod(queue, &listers, event)
    });
    setup.run(queue, setup.settings.concurrent_deployment_syncs, Controller { listers, consistency })
}

fn on_replica_set(queue: &WorkQueue<String>, deployments: &Lister<Deployment>, event: &Event<ReplicaSet>) {
    let replica_set = event.object();
    if controller_of(&**replica_set).is_some() || matches!(event, Event::Updated { .. }) {
        concerned_controllers::<Deployment, _>(event).into_iter().for_each(|key| queue.add(key));
    }
    if controller_of(&**replica_set).is_none() && !matches!(event, Event::Deleted(_)) {
        for deployment in deployments.in_namespace(replica_set.namespace()) {
            let selector = label_selector::from_typed(Some(&sizes::spec(&deployment).selector));
            let labels = replica_set.metadata.labels.clone().unwrap_or_default();
            if selector.is_ok_and(|selector| selector.matches(&labels)) {
                queue.add(deployment.key());
            }
        }
    }
}

/// Adds the deployment of a pod that has ended, if its strategy is Recreate, which waits for old pods to end.
fn on_pod(queue: &WorkQueue<String>, listers: &Listers, event: &Event<Pod>) {
    let ended = match event {
        Event::Added(_) => false,
        Event::Updated { old, new } => !pod::is_terminal(old) && pod::is_terminal(new),
        Event::Deleted(_) => true,
    };
    let replica_set = controller_queue_key::<ReplicaSet>(&**event.object()).filter(|_| ended);
    let replica_set = replica_set.and_then(|key| listers.replica_sets.by_key(&key));
    let deployment = replica_set.and_then(|replica_set| controller_queue_key::<Deployment>(&*replica_set));
    let deployment = deployment.and_then(|key| listers.deployments.by_key(&key));
    if let Some(deployment) = deployment.filter(|deployment| !sizes::is_rolling(deployment)) {
        queue.add(deployment.key());
    }
}

impl Reconciler for Controller {
    type Observed = Observed;

    fn ensure_ready(&self, key: &str) -> Result<(), Stale> {
        self.consistency.ensure_ready(key)
    }

    fn observe(&self, key: &str) -> Option<Observed> {
        observe(key, &self.listers)
    }

    async fn consult(&self, client: &Client, observed: Observed) -> Result<Option<Observed>, ReconcileError> {
        confirm_adoption(client, &*observed.deployment, &observed.replica_sets).await?;
        Ok(Some(observed))
    }

    fn plan(&self, observed: &Observed, now: Timestamp) -> Plan {
        plan::plan(observed, now)
    }

    async fn apply(&self, actor: &Actor, key: &str, observed: &Observed, plan: &Plan) -> Result<(), ApplyError> {
        apply_and_record_versions(actor, &self.consistency, key, observed.deployment.uid(), &plan.actions).await
    }

    fn recover(&self, observed: &Observed, error: &ApplyError, now: Timestamp) -> Option<Plan> {
        let Action::Create { object, .. } = &error.failed else { return None };
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let deployment = &*observed.deployment;
        if error.cause.is_namespace_terminating() {
            return None;
        }
        if !error.cause.is_already_exists() {
            return Some(plan::plan_create_failed(deployment, name, &error.cause.to_string(), now));
        }
        // The name belongs to this deployment's replica set or to an unrelated one.
        let present = self.listers.replica_sets.get(deployment.namespace(), name)?;
        let template = present.spec.as_ref().and_then(|spec| spec.template.as_ref());
        let is_ours = is_controlled_by(&*present, deployment.uid())
            && template.is_some_and(|template| history::is_same_template(template, &sizes::spec(deployment).template));
        (!is_ours).then(|| plan::plan_collision(deployment))
    }
}
