//! Starts the resource claim controller: rounds about pods, and rounds about claims.
//!
//! Corresponds to NewController and syncHandler in pkg/controller/resourceclaim/controller.go.

use super::metrics::{Metrics, count_claims};
use super::observe::{Caches, resolve};
use super::{claim_plan, pod_plan};
use crate::pod_claims::{self, PODS_BY_CLAIM, claim_keys, has_claims, is_done};
use client::reconcile::Reconciler;
use client::{
    Action, ApplyError, Client, ConsistencyStore, Event, Informer, Lister, Plan, ReconcileError, Stale, WorkQueue,
};
use controller_base::context::{Actor, Running};
use controller_base::controller_ref::controller_queue_key;
use controller_base::descriptor::Setup;
use controller_base::indexes::{self, BY_CONTROLLER_UID};
use controller_base::sequence::apply_in_sequence;
use jiff::Timestamp;
use proto::Kind;
use proto::kinds::api::core::v1::Pod;
use proto::kinds::api::resource::v1::{ResourceClaim, ResourceClaimTemplate};

/// Start of the keys of pods and of claims in the one queue.
const POD: &str = "pod:";
const CLAIM: &str = "claim:";
/// Pods by the keys of the templates that they name.
const PODS_BY_TEMPLATE: &str = "pod-resource-claim-template-index";

struct Controller {
    caches: Caches,
    consistency: ConsistencyStore,
    metrics: Metrics,
}

enum Observed {
    Pod(pod_plan::Observed),
    Claim(claim_plan::Observed),
}

pub fn start(setup: &Setup<'_>) -> Running {
    let queue = setup.queue();
    let (pods, claims): (Informer<Pod>, Informer<ResourceClaim>) = (setup.informer(), setup.informer());
    pod_claims::index(&pods);
    pods.index(PODS_BY_TEMPLATE, template_keys);
    indexes::by_controller_uid(&claims);
    setup.on_event(&queue, {
        let claims = claims.lister();
        move |event: &Event<Pod>, queue| on_pod(event, &claims, queue)
    });
    setup.on_event(&queue, {
        let pods = pods.lister();
        move |event: &Event<ResourceClaim>, queue| on_claim(event, &pods, queue)
    });
    setup.on_event(&queue, {
        let pods = pods.lister();
        move |event: &Event<ResourceClaimTemplate>, queue| {
            let of_template = pods.by_index(PODS_BY_TEMPLATE, &event.object().key());
            of_template.iter().for_each(|pod| queue.add(format!("{POD}{}", pod.key())));
        }
    });
    let caches = Caches { pods: pods.lister(), claims: claims.lister(), templates: setup.lister() };
    let consistency = ConsistencyStore::default().reading(&caches.pods).reading(&caches.claims);
    count_claims(setup.env, caches.claims.clone());
    let controller = Controller { caches, consistency, metrics: Metrics::new(setup.env) };
    setup.run(queue, setup.settings.devices.concurrent_resourceclaim_syncs, controller)
}

fn template_keys(pod: &Pod) -> Vec<String> {
    let names = pod_claims::entries(pod).filter_map(|entry| entry.resource_claim_template_name.as_deref());
    names.map(|name| client::cached::key(pod.namespace(), name)).collect()
}

/// Adds a pod that has claims, and the claims of a pod that needs them no more. An update may hide that another pod took the
/// name of a deleted one.
fn on_pod(event: &Event<Pod>, claims: &Lister<ResourceClaim>, queue: &WorkQueue<String>) {
    let release = |pod: &Pod| {
        let own = claims.by_index(BY_CONTROLLER_UID, pod.uid()).into_iter().map(|claim| claim.key());
        claim_keys(pod).into_iter().chain(own).for_each(|key| queue.add(format!("{CLAIM}{key}")));
    };
    let pod = event.object();
    match event {
        Event::Deleted(pod) if has_claims(pod) => return release(pod),
        Event::Updated { old, new } if old.uid() != new.uid() && has_claims(old) => release(old),
        _ => {}
    }
    if !has_claims(pod) || matches!(event, Event::Deleted(_)) {
        return;
    }
    if is_done(pod) {
        release(pod);
    } else {
        queue.add(format!("{POD}{}", pod.key()));
    }
}

/// Adds a claim, the pods that use it, and the pod for which it was made.
fn on_claim(event: &Event<ResourceClaim>, pods: &Lister<Pod>, queue: &WorkQueue<String>) {
    let claim = event.object();
    if !matches!(event, Event::Deleted(_)) {
        queue.add(format!("{CLAIM}{}", claim.key()));
    }
    let users = pods.by_index(PODS_BY_CLAIM, &claim.key()).into_iter().map(|pod| pod.key());
    users.chain(controller_queue_key::<Pod>(&**claim)).for_each(|key| queue.add(format!("{POD}{key}")));
}

impl Reconciler for Controller {
    type Observed = Observed;

    fn ensure_ready(&self, key: &str) -> Result<(), Stale> {
        self.consistency.ensure_ready(key)
    }

    fn observe(&self, key: &str) -> Option<Observed> {
        match key.strip_prefix(POD) {
            Some(pod) => self.caches.pod(pod).map(Observed::Pod),
            None => self.caches.claim(key.strip_prefix(CLAIM)?).map(Observed::Claim),
        }
    }

    async fn consult(&self, client: &Client, mut observed: Observed) -> Result<Option<Observed>, ReconcileError> {
        if let Observed::Claim(claim) = &mut observed {
            resolve(client, claim).await?;
        }
        Ok(Some(observed))
    }

    fn plan(&self, observed: &Observed, _now: Timestamp) -> Plan {
        match observed {
            Observed::Pod(observed) => pod_plan::plan(observed),
            Observed::Claim(observed) => claim_plan::plan(observed),
        }
    }

    async fn apply(&self, actor: &Actor, key: &str, _observed: &Observed, plan: &Plan) -> Result<(), ApplyError> {
        apply_in_sequence(actor, &plan.actions, |action, answer| {
            if let (Some(gvr), Ok(answer)) = (action.gvr(), answer) {
                self.consistency.answered(key, "", gvr, answer);
            }
            if let Action::Create { object, .. } = action {
                self.metrics.created(object, answer.is_ok());
            }
        })
        .await
    }

    /// Says on the pod why a claim cannot be made; the loop tries again.
    fn recover(&self, observed: &Observed, error: &ApplyError, _now: Timestamp) -> Option<Plan> {
        let (Observed::Pod(observed), Action::Create { object, .. }) = (observed, &error.failed) else { return None };
        let entry = object["metadata"]["annotations"][pod_plan::POD_CLAIM_NAME].as_str()?;
        // The name is not generated yet.
        let cause = format!("create ResourceClaim : {}", error.cause);
        Some(Plan::of([pod_plan::failure(&observed.pod, entry, &cause)]))
    }
}
