//! Starts the device taint eviction controller, and remembers the pods whose eviction is scheduled.
//!
//! Corresponds to Run and the handle functions in pkg/controller/devicetainteviction/device_taint_eviction.go.
//!
//! Deviation: taints are those in ResourceSlices. DeviceTaintRules, whose gate DRADeviceTaintRules is off by default, are not
//! served.

use super::eviction::{Observed, devices, eviction, pool_key};
use crate::pod_claims::{claim_keys, consumers, entries, is_pod};
use client::reconcile::Reconciler;
use client::{Event, Informer, Lister, Plan, WorkQueue};
use controller_base::context::Running;
use controller_base::descriptor::Setup;
use controller_base::eviction::{Eviction, Words};
use controller_base::pod;
use jiff::Timestamp;
use parking_lot::Mutex;
use proto::Kind;
use proto::kinds::api::core::v1::Pod;
use proto::kinds::api::resource::v1::{ResourceClaim, ResourceSlice};
use std::collections::{BTreeMap, BTreeSet};

const GATE: &str = "DRADeviceTaints";
/// Slices, and the claims with devices of them, by the key of their pool.
const BY_POOL: &str = "pool";

struct Controller {
    pods: Lister<Pod>,
    claims: Lister<ResourceClaim>,
    slices: Lister<ResourceSlice>,
    /// Keys of the pods whose eviction is scheduled.
    scheduled: Mutex<BTreeSet<String>>,
}

pub fn start(setup: &Setup<'_>) -> Running {
    if !setup.has_gates(&[GATE]) {
        return Box::pin(async {});
    }
    let queue = setup.queue();
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
    let scheduled = Mutex::default();
    let controller = Controller { pods: setup.lister(), claims: claims.lister(), slices: slices.lister(), scheduled };
    setup.run(queue, setup.settings.devices.concurrent_device_taint_eviction_syncs, controller)
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

/// Adds the pods that a claim is reserved for.
fn add_users(claim: &ResourceClaim, queue: &WorkQueue<String>) {
    let pods = consumers(claim).iter().filter(|consumer| is_pod(consumer));
    pods.for_each(|pod| queue.add(client::cached::key(claim.namespace(), &pod.name)));
}

impl Reconciler for Controller {
    type Observed = Observed;

    fn observe(&self, key: &str) -> Option<Observed> {
        let mut scheduled = self.scheduled.lock();
        let Some(pod) = self.pods.by_key(key) else {
            scheduled.remove(key);
            return None;
        };
        let claims: BTreeMap<_, _> = claim_keys(&pod)
            .iter()
            .filter_map(|key| self.claims.by_key(key))
            .map(|claim| (claim.name().to_owned(), claim))
            .collect();
        let pools = claims.values().flat_map(|claim| devices(claim)).map(|it| pool_key(&it.driver, &it.pool));
        let pools: BTreeSet<String> = pools.collect();
        let slices = pools.into_iter().map(|pool| (pool.clone(), self.slices.by_index(BY_POOL, &pool))).collect();
        let mut observed = Observed { pod, claims, slices, was_scheduled: false };
        observed.was_scheduled = match eviction(&observed) {
            Eviction::At(_) => !scheduled.insert(key.to_owned()),
            Eviction::Never => scheduled.remove(key),
        };
        Some(observed)
    }

    fn plan(&self, observed: &Observed, now: Timestamp) -> Plan {
        plan(observed, now)
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
