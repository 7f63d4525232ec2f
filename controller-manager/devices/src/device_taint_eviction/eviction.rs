//! Decides whether and when a pod is evicted because of the devices that it uses, and which rules have a part in it.
//!
//! Corresponds to claimEvictionTime and podEvictionTime in pkg/controller/devicetainteviction/device_taint_eviction.go.
//!
//! Deviation: a toleration without an effect tolerates NoExecute taints too, as the API's documentation says. Kubernetes v1.36
//! evicts such pods.

use crate::pod_claims::{ClaimName, claim_name, devices, entries, is_for_pod, is_reserved_for};
use component_helpers::scheduling::tolerations::tolerates_device;
use controller_base::eviction::Eviction;
use controller_base::{clock, pod};
use jiff::Timestamp;
use proto::Kind;
use proto::kinds::api::core::v1::Pod;
use proto::kinds::api::resource::v1::{
    DeviceRequestAllocationResult, DeviceTaint, DeviceToleration, ResourceClaim, ResourceSlice,
};
use proto::kinds::api::resource::v1beta2::DeviceTaintRule;
use std::collections::BTreeMap;
use std::sync::Arc;

pub const NO_EXECUTE: &str = "NoExecute";

#[derive(Clone, Debug)]
pub struct Observed {
    pub pod: Arc<Pod>,
    /// The claims that the pod names, by name.
    pub claims: BTreeMap<String, Arc<ResourceClaim>>,
    /// The slices of the pools of these claims, by the pool's key.
    pub slices: BTreeMap<String, Vec<Arc<ResourceSlice>>>,
    pub rules: Vec<Arc<DeviceTaintRule>>,
    /// True if an earlier round scheduled the pod's eviction.
    pub was_scheduled: bool,
}

/// Returns the key of a driver's pool.
pub fn pool_key(driver: &str, pool: &str) -> String {
    format!("{driver}/{pool}")
}

pub fn eviction(observed: &Observed) -> Eviction {
    let of_slices = used_devices(observed).filter_map(|device| slice_end(device, &observed.slices));
    let of_rules = observed.rules.iter().filter_map(|rule| rule_end(rule, observed));
    of_slices.chain(of_rules).min().map_or(Eviction::Never, Eviction::At)
}

/// Returns the rules that evict the pod, now or later.
pub fn evicting_rules(observed: &Observed) -> impl Iterator<Item = &Arc<DeviceTaintRule>> {
    observed.rules.iter().filter(move |rule| rule_end(rule, observed).is_some())
}

/// Returns whether a rule is about a device.
pub fn selects(rule: &DeviceTaintRule, driver: &str, pool: &str, device: &str) -> bool {
    let fits = |wanted: &Option<String>, name: &str| wanted.as_ref().is_none_or(|wanted| wanted == name);
    rule.spec.device_selector.as_ref().is_some_and(|selector| {
        fits(&selector.driver, driver) && fits(&selector.pool, pool) && fits(&selector.device, device)
    })
}

/// Returns the devices that a pod with a node uses.
fn used_devices(observed: &Observed) -> impl Iterator<Item = &DeviceRequestAllocationResult> {
    let pod = &*observed.pod;
    let has_node = !pod::node_name(pod).is_empty();
    let claims = entries(pod).filter_map(move |entry| match claim_name(pod, entry) {
        ClaimName::Shared(name) => observed.claims.get(name),
        ClaimName::Own(name) => observed.claims.get(name).filter(|claim| is_for_pod(claim, pod)),
        ClaimName::NotNeeded | ClaimName::NotMade => None,
    });
    let used = claims.filter(move |claim| has_node && is_reserved_for(claim, pod));
    used.flat_map(|claim| devices(claim))
}

/// Returns the time at which the taint of a rule evicts the pod; `None` if it does not.
fn rule_end(rule: &DeviceTaintRule, observed: &Observed) -> Option<Timestamp> {
    let taint = DeviceTaint {
        key: rule.spec.taint.key.clone(),
        value: rule.spec.taint.value.clone(),
        effect: rule.spec.taint.effect.clone(),
        time_added: rule.spec.taint.time_added.clone(),
    };
    let selected = used_devices(observed).filter(|used| selects(rule, &used.driver, &used.pool, &used.device));
    selected.filter_map(|used| taint_end(&taint, tolerations(used), created(rule))).min()
}

fn tolerations(allocated: &DeviceRequestAllocationResult) -> &[DeviceToleration] {
    allocated.tolerations.as_deref().unwrap_or_default()
}

/// Returns the time at which the taints of an allocated device in its slice evict its users; `None` if all are tolerated for
/// ever.
fn slice_end(
    allocated: &DeviceRequestAllocationResult,
    slices: &BTreeMap<String, Vec<Arc<ResourceSlice>>>,
) -> Option<Timestamp> {
    let pool = slices.get(&pool_key(&allocated.driver, &allocated.pool))?;
    // Slices of an older generation of the pool are outdated.
    let generation = pool.iter().map(|slice| slice.spec.pool.generation).max();
    let present = pool.iter().filter(|slice| Some(slice.spec.pool.generation) == generation);
    let ends = present.flat_map(|slice| {
        let devices = slice.spec.devices.iter().flatten().filter(|device| device.name == allocated.device);
        let taints = devices.flat_map(|device| device.taints.iter().flatten());
        taints.filter_map(|taint| taint_end(taint, tolerations(allocated), created(&**slice)))
    });
    ends.min()
}

/// Returns the time at which one taint evicts; `None` if it does not. Of several tolerations for it the shortest counts. A
/// taint without a time counts from `created`.
fn taint_end(taint: &DeviceTaint, tolerations: &[DeviceToleration], created: Timestamp) -> Option<Timestamp> {
    if taint.effect != NO_EXECUTE {
        return None;
    }
    let added = taint.time_added.as_ref().map_or(created, |time| time.0);
    let tolerated = || tolerations.iter().filter(|toleration| tolerates_device(toleration, taint));
    if tolerated().any(|toleration| toleration.toleration_seconds.is_none()) {
        return None;
    }
    let seconds = tolerated().filter_map(|toleration| toleration.toleration_seconds).min().unwrap_or(0);
    Some(clock::after(added, seconds.max(0)))
}

fn created<K: Kind>(object: &K) -> Timestamp {
    object.metadata().creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{allocate_as, claim, entry, own_claim, own_entry, pod_with, set_node, with_status};
    use controller_base::fixture::at;
    use serde_json::{Value, json};

    /// Returns a slice of the pool `node-1`.
    fn slice(name: &str, generation: i64, taints: &Value) -> Arc<ResourceSlice> {
        let pool = json!({"name": "node-1", "generation": generation, "resourceSliceCount": 1});
        let slice = json!({
            "metadata": {"name": name, "creationTimestamp": at(5).to_string()},
            "spec": {"driver": "gpu.example.com", "pool": pool, "devices": [{"name": "gpu-0", "taints": taints}, {"name": "gpu-1"}]},
        });
        Arc::new(ResourceSlice::decode_value(slice).unwrap())
    }

    fn taint(key: &str, effect: &str, added: Option<i64>) -> Value {
        json!({"key": key, "value": "yes", "effect": effect, "timeAdded": added.map(|second| at(second).to_string())})
    }

    fn observed(tolerations: &Value, slices: Vec<Arc<ResourceSlice>>) -> Observed {
        let mut pod = pod_with(vec![entry("gpu", "one")]);
        set_node(&mut pod, "node-1");
        let mut one = claim("one");
        allocate_as(&mut one, tolerations, &["web"]);
        Observed {
            pod: Arc::new(pod),
            claims: BTreeMap::from([("one".to_owned(), Arc::new(one))]),
            slices: BTreeMap::from([("gpu.example.com/node-1".to_owned(), slices)]),
            rules: Vec::new(),
            was_scheduled: false,
        }
    }

    fn rule(name: &str, selector: &Value, taint: &Value) -> Arc<DeviceTaintRule> {
        let metadata = json!({"name": name, "creationTimestamp": at(5).to_string()});
        let rule = json!({"metadata": metadata, "spec": {"deviceSelector": selector, "taint": taint}});
        Arc::new(DeviceTaintRule::decode_value(rule).unwrap())
    }

    #[test]
    fn the_taint_of_a_rule_counts_like_that_of_a_slice() {
        let execute = taint("a", "NoExecute", Some(10));
        let own = json!({"driver": "gpu.example.com", "pool": "node-1", "device": "gpu-0"});
        let forever = json!([{"key": "a", "operator": "Exists"}]);
        for (what, selector, taint, tolerations, expected) in [
            ("every device", json!({}), &execute, json!([]), Some(10)),
            ("this device", own.clone(), &execute, json!([]), Some(10)),
            ("another device", json!({"device": "gpu-1"}), &execute, json!([]), None),
            ("no selector", json!(null), &execute, json!([]), None),
            ("tolerated", own.clone(), &execute, forever, None),
            ("no effect", own, &taint("a", "None", Some(10)), json!([]), None),
        ] {
            // No slice shows the device.
            let mut observed = observed(&tolerations, Vec::new());
            observed.rules = vec![rule("r", &selector, taint)];
            assert_eq!(
                eviction(&observed),
                expected.map_or(Eviction::Never, |second| Eviction::At(at(second))),
                "{what}"
            );
            assert_eq!(evicting_rules(&observed).count(), usize::from(expected.is_some()), "{what}");
        }
        let mut both = observed(&json!([]), vec![slice("s", 1, &json!([taint("b", "NoExecute", Some(7))]))]);
        both.rules = vec![rule("r", &json!({}), &execute)];
        assert_eq!(eviction(&both), Eviction::At(at(7)));
        assert_eq!(evicting_rules(&both).count(), 1);
    }

    #[test]
    fn tolerations_decide_when_a_pod_leaves() {
        let at = |second: i64| Eviction::At(at(second));
        let exists = |seconds: Option<i64>| json!({"key": "a", "operator": "Exists", "tolerationSeconds": seconds});
        let execute = taint("a", "NoExecute", Some(10));
        let cases = [
            ("no taint", json!([]), json!([]), Eviction::Never),
            (
                "a taint for the scheduler alone",
                json!([taint("a", "NoSchedule", Some(10))]),
                json!([]),
                Eviction::Never,
            ),
            ("a taint that only informs", json!([taint("a", "None", Some(10))]), json!([]), Eviction::Never),
            ("not tolerated", json!([execute]), json!([]), at(10)),
            ("tolerated for ever", json!([execute]), json!([exists(None)]), Eviction::Never),
            ("tolerated for a time", json!([execute]), json!([exists(Some(300))]), at(310)),
            ("a time before none", json!([execute]), json!([exists(Some(-5))]), at(10)),
            ("another key", json!([execute]), json!([{"key": "b", "operator": "Exists"}]), at(10)),
            ("every key", json!([execute]), json!([{"operator": "Exists"}]), Eviction::Never),
            ("the value", json!([execute]), json!([{"key": "a", "value": "yes"}]), Eviction::Never),
            ("another value", json!([execute]), json!([{"key": "a", "operator": "Equal", "value": "no"}]), at(10)),
            (
                "an unknown operator",
                json!([execute]),
                json!([{"key": "a", "operator": "Like", "value": "yes"}]),
                at(10),
            ),
            (
                "another effect",
                json!([execute]),
                json!([{"key": "a", "operator": "Exists", "effect": "NoSchedule"}]),
                at(10),
            ),
            ("the shortest of several", json!([execute]), json!([exists(Some(300)), exists(Some(60))]), at(70)),
            ("one of several for ever", json!([execute]), json!([exists(Some(300)), exists(None)]), Eviction::Never),
            ("the earliest of two", json!([execute, taint("b", "NoExecute", Some(7))]), json!([]), at(7)),
            ("a taint without a time", json!([taint("a", "NoExecute", None)]), json!([exists(Some(30))]), at(35)),
        ];
        for (what, taints, tolerations, expected) in cases {
            assert_eq!(eviction(&observed(&tolerations, vec![slice("s", 1, &taints)])), expected, "{what}");
        }
    }

    #[test]
    fn only_the_newest_generation_of_a_pool_counts() {
        let execute = json!([taint("a", "NoExecute", Some(10))]);
        let both = |old: &Value, new: &Value| {
            eviction(&observed(&json!([]), vec![slice("s-1", 1, old), slice("s-2", 2, new)]))
        };
        assert_eq!(both(&execute, &json!([])), Eviction::Never);
        assert_eq!(both(&json!([]), &execute), Eviction::At(at(10)));
    }

    #[test]
    fn only_a_pod_that_uses_the_device_is_evicted() {
        let execute = vec![slice("s", 1, &json!([taint("a", "NoExecute", Some(10))]))];
        let users = |change: fn(&mut Observed)| {
            let mut observed = observed(&json!([]), execute.clone());
            change(&mut observed);
            eviction(&observed)
        };
        assert_eq!(users(|_| ()), Eviction::At(at(10)));
        let unbound = |observed: &mut Observed| set_node(Arc::make_mut(&mut observed.pod), "");
        assert_eq!(users(unbound), Eviction::Never, "it has no node");
        let not_reserved = |observed: &mut Observed| {
            let mut one = claim("one");
            allocate_as(&mut one, &json!([]), &["other"]);
            observed.claims.insert("one".to_owned(), Arc::new(one));
        };
        assert_eq!(users(not_reserved), Eviction::Never, "another pod's");
        let foreign = |observed: &mut Observed| {
            let pod = Arc::make_mut(&mut observed.pod);
            pod.spec.get_or_insert_default().resource_claims = Some(vec![own_entry("gpu", "t")]);
            with_status(pod, "gpu", Some("one"));
        };
        assert_eq!(users(foreign), Eviction::Never, "not made for this pod");
        let own = |observed: &mut Observed| {
            let pod = Arc::make_mut(&mut observed.pod);
            pod.spec.get_or_insert_default().resource_claims = Some(vec![own_entry("gpu", "t")]);
            with_status(pod, "gpu", Some("one"));
            let mut one = own_claim("one", pod, "gpu");
            allocate_as(&mut one, &json!([]), &["web"]);
            observed.claims.insert("one".to_owned(), Arc::new(one));
        };
        assert_eq!(users(own), Eviction::At(at(10)));
    }
}
