//! `ReadObjects`: the ConfigMaps and Secrets that nodes have read, and when.
//!
//! Nodes of one process share what they read (`kubelet_sim::objects`), so that a pod starts a request earlier where another
//! has just made it. All objects are taken to exist.

use pod_life::needs::freshness::is_fresh;
use pod_life::needs::references::{Reference, Source, references};
use proto::Kind;
use proto::kinds::api::core::v1::Pod;
use proto::kinds::jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// What the volume with a pod's token refers to besides the token.
const ROOT_CA_CONFIG_MAP: &str = "kube-root-ca.crt";

/// The times of the requests for each object, by namespace: of the last one that has been answered, and of those after it.
#[derive(Debug, Default)]
pub struct ReadObjects(BTreeMap<String, BTreeMap<Reference, BTreeSet<Timestamp>>>);

impl ReadObjects {
    /// Lets a node read what a pod needs, each object with a request of its own after the one before. Returns the number of
    /// requests, which take `request` each.
    pub fn read(&mut self, pod: &Pod, now: Timestamp, request: Duration) -> u32 {
        let created = pod.metadata.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |created| created.0);
        let read = self.0.entry(pod.namespace().to_owned()).or_default();
        let mut requests = 0;
        for reference in needed(pod) {
            let asked_at = now + request * requests;
            let asked = read.entry(reference).or_default();
            let answered = asked.range(..=asked_at - request).next_back().copied();
            if let Some(answered) = answered {
                asked.retain(|at| *at >= answered);
            }
            if !answered.is_some_and(|at| is_fresh(at, created, asked_at)) {
                asked.insert(asked_at);
                requests += 1;
            }
        }
        requests
    }
}

/// Returns what a pod refers to, with what admission adds to it.
fn needed(pod: &Pod) -> BTreeSet<Reference> {
    let Some(spec) = &pod.spec else { return BTreeSet::new() };
    let mut needed = references(spec);
    if spec.automount_service_account_token != Some(false) {
        needed.insert(Reference { source: Source::ConfigMap, name: ROOT_CA_CONFIG_MAP.to_owned() });
    }
    needed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::created;
    use serde_json::json;

    #[test]
    fn an_object_is_read_again_for_a_later_pod() {
        let ms = |ms| Timestamp::from_millisecond(ms).unwrap();
        let pod =
            |created_ms, spec| created(json!({"metadata": {"name": "p"}, "spec": spec}), 1, ms(created_ms)).unwrap();
        let plain = json!({"containers": []});
        let without_token = json!({"containers": [], "automountServiceAccountToken": false});
        let volumes = json!([{"name": "a", "secret": {"secretName": "a"}}, {"name": "b", "configMap": {"name": "b"}}]);
        let with_volumes = json!({"containers": [], "volumes": volumes});
        let mut objects = ReadObjects::default();
        for (created_ms, bound_ms, spec, requests) in [
            (1_200, 1_205, &plain, 1),
            // The answer is still on its way.
            (1_205, 1_209, &plain, 1),
            (1_900, 1_905, &plain, 0),
            // While a later pod asks again, an older one has what it needs.
            (2_000, 3_000, &plain, 1),
            (1_950, 3_000, &plain, 0),
            (4_000, 4_005, &plain, 1),
            (4_100, 4_105, &without_token, 0),
            (4_200, 4_205, &with_volumes, 2),
            // Pods that wait for a node are as old as their creation.
            (4_900, 63_000, &plain, 0),
            (4_900, 65_000, &plain, 1),
        ] {
            let request = Duration::from_millis(5);
            assert_eq!(objects.read(&pod(created_ms, spec.clone()), ms(bound_ms), request), requests, "{bound_ms}");
        }
    }
}
