//! Starts the device taint eviction controller, and remembers the pods whose eviction is scheduled.
//!
//! Corresponds to Run and the handle functions in pkg/controller/devicetainteviction/device_taint_eviction.go.

use super::caches::{BY_POOL, Caches, users};
use super::eviction::{Observed, evicting_rules, eviction, pool_key};
use super::rule_status::{RuleReconciler, RuleStatus};
use crate::pod_claims::{claim_keys, devices, entries};
use client::reconcile::{Actor, Reconciler};
use client::{Action, ApplyError, Event, Informer, Plan, WorkQueue, apply};
use controller_base::context::Running;
use controller_base::descriptor::Setup;
use controller_base::eviction::{Eviction, Words};
use controller_base::pod;
use futures::future::join;
use jiff::Timestamp;
use parking_lot::Mutex;
use proto::Kind;
use proto::kinds::api::core::v1::Pod;
use proto::kinds::api::resource::v1::{ResourceClaim, ResourceSlice};
use proto::kinds::api::resource::v1beta2::DeviceTaintRule;
use std::collections::BTreeSet;
use std::sync::Arc;

const GATE: &str = "DRADeviceTaints";
pub const RULES_GATE: &str = "DRADeviceTaintRules";

struct Controller {
    caches: Arc<Caches>,
    /// Keys of the pods whose eviction is scheduled.
    scheduled: Mutex<BTreeSet<String>>,
    rule_status: Arc<RuleStatus>,
}

pub fn start(setup: &Setup<'_>) -> Running {
    if !setup.has_gates(&[GATE]) {
        return Box::pin(async {});
    }
    let [queue, rule_queue] = setup.queues();
    let (claims, slices): (Informer<ResourceClaim>, Informer<ResourceSlice>) = (setup.informer(), setup.informer());
    claims.index(BY_POOL, |claim| devices(claim).map(|device| pool_key(&device.driver, &device.pool)).collect());
    slices.index(BY_POOL, |slice| vec![pool_of(slice)]);
    setup.on_event(&queue, |event: &Event<Pod>, queue| {
        if concerns_claims(event) {
            queue.add(event.object().key());
        }
    });
    setup.on_event(&queue, |event: &Event<ResourceClaim>, queue| {
        if let Event::Updated { old, .. } = event {
            add_users(old, queue);
        }
        add_users(event.object(), queue);
    });
    setup.on_event(&queue, {
        let claims = claims.lister();
        move |event: &Event<ResourceSlice>, queue| {
            let is_same = matches!(event, Event::Updated { old, new } if old.spec == new.spec);
            if !is_same {
                claims.by_index(BY_POOL, &pool_of(event.object())).iter().for_each(|claim| add_users(claim, queue));
            }
        }
    });
    let has_rules = setup.has_gates(&[RULES_GATE]) && setup.serves::<DeviceTaintRule>();
    let caches = Arc::new(Caches {
        pods: setup.lister(),
        claims: claims.lister(),
        slices: slices.lister(),
        rules: has_rules.then(|| setup.lister()),
    });
    let rule_status = Arc::new(RuleStatus::new(caches.clone(), rule_queue.clone()));
    if has_rules {
        follow_rules(setup, &queue, &rule_status);
    }
    let controller = Controller { caches, scheduled: Mutex::default(), rule_status: rule_status.clone() };
    let pods = setup.run(queue, setup.settings.devices.concurrent_device_taint_eviction_syncs, controller);
    if !has_rules {
        return pods;
    }
    let rules = setup.run(rule_queue, 1, RuleReconciler(rule_status));
    Box::pin(async move {
        join(pods, rules).await;
    })
}

/// Looks at the status of a new rule, and at the pods that a new, changed or deleted rule is about.
fn follow_rules(setup: &Setup<'_>, queue: &WorkQueue<String>, rule_status: &Arc<RuleStatus>) {
    let rule_status = rule_status.clone();
    setup.on_event(queue, move |event: &Event<DeviceTaintRule>, queue| {
        let before = match event {
            Event::Updated { old, new } if old.spec == new.spec => return,
            Event::Updated { old, .. } => Some(old),
            Event::Added(_) | Event::Deleted(_) => None,
        };
        rule_status.changed(event);
        for rule in before.into_iter().chain([event.object()]) {
            rule_status.caches().claims_of(rule).iter().for_each(|claim| add_users(claim, queue));
        }
    });
}

fn pool_of(slice: &ResourceSlice) -> String {
    pool_key(&slice.spec.driver, &slice.spec.pool.name)
}

/// Returns true if the pod has claims, and is new, was bound, or learned the names of its claims.
fn concerns_claims(event: &Event<Pod>) -> bool {
    let has_claims = entries(event.object()).next().is_some();
    let is_same = matches!(event, Event::Updated { old, new }
        if old.uid() == new.uid() && pod::node_name(old) == pod::node_name(new) && claim_keys(old) == claim_keys(new));
    has_claims && !is_same
}

fn add_users(claim: &ResourceClaim, queue: &WorkQueue<String>) {
    users(claim).for_each(|pod| queue.add(pod));
}

impl Reconciler for Controller {
    type Observed = Observed;

    fn observe(&self, key: &str) -> Option<Observed> {
        let mut scheduled = self.scheduled.lock();
        let Some(pod) = self.caches.pods.by_key(key) else {
            scheduled.remove(key);
            return None;
        };
        let mut observed = self.caches.observe(pod, self.caches.rules());
        observed.was_scheduled = match eviction(&observed) {
            Eviction::At(_) => !scheduled.insert(key.to_owned()),
            Eviction::Never => scheduled.remove(key),
        };
        Some(observed)
    }

    fn plan(&self, observed: &Observed, now: Timestamp) -> Plan {
        plan(observed, now)
    }

    /// Tells the status of the rules which pods they evict.
    async fn apply(&self, actor: &Actor, _key: &str, observed: &Observed, plan: &Plan) -> Result<(), ApplyError> {
        let rules = || evicting_rules(observed);
        let is_evicted = plan.actions.iter().any(|action| matches!(action, Action::Delete { .. }));
        if is_evicted {
            apply(&actor.client, &actor.recorder, plan).await?;
            rules().for_each(|rule| self.rule_status.evicted(rule));
            return Ok(());
        }
        rules().for_each(|rule| self.rule_status.pending(rule));
        apply(&actor.client, &actor.recorder, plan).await.map(drop)
    }
}

fn plan(observed: &Observed, now: Timestamp) -> Plan {
    let words = Words {
        event: "DeviceTaintManagerEviction",
        marking: "Marking for deletion".to_owned(),
        cancelling: "Cancelling deletion".to_owned(),
        reason: "DeletionByDeviceTaintManager",
        message: "Device Taint manager: deleting due to NoExecute taint",
    };
    controller_base::eviction::plan(&observed.pod, eviction(observed), observed.was_scheduled, now, &words)
}
