//! `TrackedClaims`: the claims as they will be, although the cache does not show the scheduler's own writes yet, and the devices
//! that they have.
//!
//! Corresponds to claimTracker in pkg/scheduler/framework/plugins/dynamicresources/dra_manager.go.
//!
//! ```text
//!   Reserve: in flight ── PreBind writes: assumed ── the cache shows it: cached
//!                 ╲────── it fails: as before
//! ```

use client::{Event, Lister};
use component_helpers::device_claims::allocation;
use device_allocation::{AllocatedState, Allocations, PoolChanges};
use parking_lot::Mutex;
use proto::Kind;
use proto::kinds::api::resource::v1::ResourceClaim;
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Default)]
struct Tracked {
    /// Claims with the allocations of pods that are being bound, by uid.
    in_flight: BTreeMap<String, Arc<ResourceClaim>>,
    /// Claims as the API server has answered, by key. The cache is older.
    assumed: BTreeMap<String, Arc<ResourceClaim>>,
    allocations: Allocations,
}

pub struct TrackedClaims {
    cached: Lister<ResourceClaim>,
    tracked: Mutex<Tracked>,
}

impl TrackedClaims {
    /// Begins with the claims of the cache. `on_event` has to learn of each change from then on.
    pub fn new(cached: Lister<ResourceClaim>) -> Self {
        let mut tracked = Tracked::default();
        cached.list().iter().for_each(|claim| tracked.allocations.set(claim.uid(), allocation(claim)));
        Self { cached, tracked: Mutex::new(tracked) }
    }

    pub fn on_event(&self, event: &Event<ResourceClaim>) {
        let mut tracked = self.tracked.lock();
        match event {
            Event::Added(claim) => tracked.observe(claim),
            Event::Updated { old, new } => {
                if old.uid() != new.uid() {
                    tracked.forget(old);
                }
                tracked.observe(new);
            }
            Event::Deleted(claim) => tracked.forget(claim),
        }
    }

    /// Returns a claim as it is in the API server, as far as that is known.
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<ResourceClaim>> {
        let cached = self.cached.get(namespace, name);
        let tracked = self.tracked.lock();
        let assumed = tracked.assumed.get(&client::cached::key(namespace, name));
        match (cached, assumed) {
            (Some(cached), Some(assumed)) if is_newer(assumed, &cached) => Some(assumed.clone()),
            (None, assumed) => assumed.cloned(),
            (cached, _) => cached,
        }
    }

    /// Returns what claims have, including those in flight, and which pools have changed.
    pub fn allocated(&self) -> (Arc<AllocatedState>, Arc<PoolChanges>) {
        let tracked = self.tracked.lock();
        (tracked.allocations.state(), tracked.allocations.changes())
    }

    pub fn is_in_flight(&self, uid: &str) -> bool {
        self.tracked.lock().in_flight.contains_key(uid)
    }

    /// Keeps the devices of a claim from others until `written` or `release`.
    pub fn reserve(&self, claim: Arc<ResourceClaim>) {
        let mut tracked = self.tracked.lock();
        tracked.allocations.set(claim.uid(), allocation(&claim));
        tracked.in_flight.insert(claim.uid().to_owned(), claim);
    }

    /// Records the answer to a write.
    pub fn written(&self, claim: Arc<ResourceClaim>) {
        let mut tracked = self.tracked.lock();
        tracked.in_flight.remove(claim.uid());
        let cached = self.cached.by_key(&claim.key());
        if cached.as_ref().is_some_and(|cached| !is_newer(&claim, cached)) {
            return self.restore(&mut tracked, claim.uid(), &claim.key());
        }
        tracked.allocations.set(claim.uid(), allocation(&claim));
        tracked.assumed.insert(claim.key(), claim);
    }

    /// Ends the flight of a claim whose allocation was not written.
    pub fn release(&self, claim: &ResourceClaim) {
        let mut tracked = self.tracked.lock();
        if tracked.in_flight.remove(claim.uid()).is_some() {
            self.restore(&mut tracked, claim.uid(), &claim.key());
        }
    }

    /// Takes the allocation from the cache or from an assumption.
    fn restore(&self, tracked: &mut Tracked, uid: &str, key: &str) {
        let assumed = tracked.assumed.get(key).filter(|claim| claim.uid() == uid).cloned();
        let known = assumed.or_else(|| self.cached.by_key(key).filter(|claim| claim.uid() == uid));
        tracked.allocations.set(uid, known.as_deref().and_then(allocation));
    }
}

impl Tracked {
    fn observe(&mut self, claim: &Arc<ResourceClaim>) {
        let key = claim.key();
        match self.assumed.get(&key) {
            Some(assumed) if is_newer(assumed, claim) => return,
            _ => drop(self.assumed.remove(&key)),
        }
        if !self.in_flight.contains_key(claim.uid()) {
            self.allocations.set(claim.uid(), allocation(claim));
        }
    }

    fn forget(&mut self, claim: &Arc<ResourceClaim>) {
        let key = claim.key();
        if self.assumed.get(&key).is_some_and(|assumed| assumed.uid() == claim.uid()) {
            self.assumed.remove(&key);
        }
        if !self.in_flight.contains_key(claim.uid()) {
            self.allocations.set(claim.uid(), None);
        }
    }
}

/// Returns true if `claim` is a newer version than `other` of the same object.
fn is_newer(claim: &ResourceClaim, other: &ResourceClaim) -> bool {
    let version = |claim: &ResourceClaim| claim.resource_version().parse::<u64>().unwrap_or(0);
    claim.uid() == other.uid() && version(claim) > version(other)
}
