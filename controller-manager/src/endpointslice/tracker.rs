//! `Tracker` records the slices that a controller wrote, to detect a stale cache.
//!
//! Corresponds to EndpointSliceTracker in k8s.io/endpointslice/util. Slices have generated names, so with a stale cache
//! the controller would create a second slice for the same endpoints without an error.

use client::{Action, ApplyError, Event, Plan, WorkQueue, apply};
use controller_base::context::Actor;
use parking_lot::Mutex;
use proto::Kind;
use proto::kinds::api::discovery::v1::EndpointSlice;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

pub const SERVICE_NAME: &str = "kubernetes.io/service-name";
pub const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";

/// Returns the key of a slice's service if `manager` manages the slice.
pub fn service_key(slice: &EndpointSlice, manager: &str) -> Option<String> {
    let labels = slice.metadata.labels.as_ref()?;
    let is_managed = labels.get(MANAGED_BY).is_some_and(|own| own == manager);
    let service = labels.get(SERVICE_NAME).filter(|_| is_managed)?;
    Some(client::cached::key(slice.namespace(), service))
}

/// The last written generation of every slice, by service key and slice uid.
#[derive(Default)]
pub struct Tracker {
    written: Mutex<BTreeMap<String, BTreeMap<String, i64>>>,
}

impl Tracker {
    /// Adds the key of the slice's service, before and after the event, if `manager` manages the slice.
    pub fn observe_event(&self, event: &Event<EndpointSlice>, manager: &str, queue: &WorkQueue<String>) {
        let slice = event.object();
        if let (Event::Deleted(_), Some(key)) = (event, service_key(slice, manager)) {
            self.forget(&key, slice.uid());
        }
        let former = match event {
            Event::Updated { old, .. } => service_key(old, manager),
            _ => None,
        };
        former.into_iter().chain(service_key(slice, manager)).for_each(|key| queue.add(key));
    }

    /// Carries out a plan about a service's slices, and records the written generations.
    pub async fn apply(&self, actor: &Actor, service: &str, plan: &Plan) -> Result<(), ApplyError> {
        for action in &plan.actions {
            let answers = apply(&actor.client, &actor.recorder, &Plan::of([action.clone()])).await?;
            answers.iter().for_each(|answer| self.record(service, answer));
            if let Action::Delete { options, .. } = action {
                self.forget(service, &options.preconditions.uid);
            }
        }
        Ok(())
    }

    /// Records the server's answer to a creation or an update. The answer to a deletion is null.
    pub fn record(&self, service: &str, answer: &Value) {
        let metadata = &answer["metadata"];
        if let Some(uid) = metadata["uid"].as_str() {
            let generation = metadata["generation"].as_i64().unwrap_or(0);
            self.written.lock().entry(service.to_owned()).or_default().insert(uid.to_owned(), generation);
        }
    }

    /// Call it when the slice is deleted.
    pub fn forget(&self, service: &str, uid: &str) {
        let mut written = self.written.lock();
        if let Some(slices) = written.get_mut(service) {
            slices.remove(uid);
            if slices.is_empty() {
                written.remove(service);
            }
        }
    }

    pub fn forget_service(&self, service: &str) {
        self.written.lock().remove(service);
    }

    /// Returns true if the cached slices of the service include all written ones, at that generation or a later one.
    pub fn is_up_to_date(&self, service: &str, cached: &[Arc<EndpointSlice>]) -> bool {
        let written = self.written.lock();
        let Some(slices) = written.get(service) else { return true };
        slices.iter().all(|(uid, generation)| {
            let slice = cached.iter().find(|slice| slice.uid() == uid);
            slice.is_some_and(|slice| slice.metadata.generation.unwrap_or(0) >= *generation)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use controller_base::fixture;
    use serde_json::json;

    fn slice(name: &str, generation: i64) -> Arc<EndpointSlice> {
        let mut slice = EndpointSlice { metadata: fixture::meta(name), ..EndpointSlice::default() };
        slice.metadata.generation = Some(generation);
        Arc::new(slice)
    }

    #[test]
    fn the_cache_has_caught_up_when_it_shows_every_write() {
        let tracker = Tracker::default();
        assert!(tracker.is_up_to_date("default/web", &[]));
        tracker.record("default/web", &json!({"metadata": {"uid": "uid-a", "generation": 2}}));
        assert!(!tracker.is_up_to_date("default/web", &[]), "not there yet");
        assert!(!tracker.is_up_to_date("default/web", &[slice("a", 1)]), "an earlier state");
        assert!(tracker.is_up_to_date("default/web", &[slice("a", 2)]));
        assert!(tracker.is_up_to_date("default/web", &[slice("a", 3), slice("b", 1)]));
        tracker.forget("default/web", "uid-a");
        assert!(tracker.is_up_to_date("default/web", &[]));
    }
}
