//! ServiceCIDRs: the objects that say from which ranges Services get addresses.
//!
//! Corresponds to syncAllocators in pkg/registry/core/service/ipallocator/cidrallocator.go.

use super::is_too_large;
use ipnet::IpNet;
use proto::Object;
use serde_json::Value;
use std::sync::Arc;

/// Name of the ServiceCIDR that the API server creates from `--service-cluster-ip-range`.
const DEFAULT: &str = "kubernetes";

/// Returns the ranges of all ServiceCIDRs that are ready, those of the default one first; `None` if the default one does
/// not exist. A range that several of them name counts if one of them is ready.
///
/// Deviation: Kubernetes tries the ranges in a random order.
pub fn ready_ranges(service_cidrs: &[Arc<Object>]) -> Option<Vec<IpNet>> {
    ranges(service_cidrs, is_ready)
}

/// Returns the ranges of all ServiceCIDRs, also of those that are being deleted; `None` if the default one does not exist.
pub fn all_ranges(service_cidrs: &[Arc<Object>]) -> Option<Vec<IpNet>> {
    ranges(service_cidrs, |_| true)
}

fn ranges(service_cidrs: &[Arc<Object>], counts: fn(&Value) -> bool) -> Option<Vec<IpNet>> {
    let is_default = |object: &&Arc<Object>| object.index.name == DEFAULT;
    let default = service_cidrs.iter().find(is_default)?;
    let others = service_cidrs.iter().filter(|object| !is_default(object));
    let mut ranges = Vec::new();
    for object in std::iter::once(default).chain(others) {
        let object = object.peek();
        if counts(&object) {
            ranges.extend(cidrs(&object).filter(|range| !is_too_large(*range)));
        }
    }
    Some(ranges)
}

fn cidrs(service_cidr: &Value) -> impl Iterator<Item = IpNet> {
    let texts = service_cidr["spec"]["cidrs"].as_array().into_iter().flatten().filter_map(Value::as_str);
    // Validation has refused a text that is no range.
    texts.filter_map(|text| text.parse().ok())
}

/// A ServiceCIDR without a condition is ready, so that addresses can be given out before its controller runs.
fn is_ready(service_cidr: &Value) -> bool {
    let conditions = service_cidr["status"]["conditions"].as_array();
    let ready = conditions.into_iter().flatten().find(|condition| condition["type"] == "Ready");
    service_cidr["metadata"]["deletionTimestamp"].is_null() && ready.is_none_or(|ready| ready["status"] == "True")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::collections::BTreeMap;

    fn service_cidr(name: &str, ranges: &[&str], rest: Value) -> Arc<Object> {
        let mut value = json!({
            "apiVersion": "networking.k8s.io/v1",
            "kind": "ServiceCIDR",
            "metadata": {"name": name, "uid": "u"},
            "spec": {"cidrs": ranges},
        });
        json_merge(&mut value, rest);
        Arc::new(Object::from_value(value, 1, BTreeMap::new()))
    }

    fn json_merge(value: &mut Value, rest: Value) {
        for (key, part) in rest.as_object().unwrap() {
            match part.as_object().filter(|_| value[key].is_object()) {
                Some(_) => json_merge(&mut value[key], part.clone()),
                None => value[key] = part.clone(),
            }
        }
    }

    fn ready(status: &str) -> Value {
        json!({"status": {"conditions": [{"type": "Other", "status": "False"}, {"type": "Ready", "status": status}]}})
    }

    #[test]
    fn only_ready_ranges_count_and_the_default_ones_come_first() {
        let deleted = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
        let nothing = || json!({});
        let own = service_cidr(DEFAULT, &["10.96.0.0/16", "fd00::/112"], nothing());
        for (others, expected) in [
            (vec![], &["10.96.0.0/16", "fd00::/112"][..]),
            (vec![("a", "10.9.0.0/24", nothing())], &["10.96.0.0/16", "fd00::/112", "10.9.0.0/24"]),
            (vec![("a", "10.9.0.0/24", ready("True"))], &["10.96.0.0/16", "fd00::/112", "10.9.0.0/24"]),
            (vec![("a", "10.9.0.0/24", ready("False"))], &["10.96.0.0/16", "fd00::/112"]),
            (vec![("a", "10.9.0.0/24", ready("Unknown"))], &["10.96.0.0/16", "fd00::/112"]),
            (vec![("a", "10.9.0.0/24", deleted.clone())], &["10.96.0.0/16", "fd00::/112"]),
            (
                vec![("a", "10.9.0.0/24", deleted.clone()), ("b", "10.9.0.0/24", nothing())],
                &["10.96.0.0/16", "fd00::/112", "10.9.0.0/24"],
            ),
            (vec![("a", "fd01::/48", nothing())], &["10.96.0.0/16", "fd00::/112"]),
        ] {
            let mut all: Vec<_> =
                others.iter().map(|(name, range, rest)| service_cidr(name, &[range], rest.clone())).collect();
            all.push(own.clone());
            let found: Vec<String> = ready_ranges(&all).unwrap().iter().map(ToString::to_string).collect();
            assert_eq!(found, expected, "{others:?}");
        }
        let gone = service_cidr(DEFAULT, &["10.96.0.0/16"], deleted);
        let other = service_cidr("a", &["10.9.0.0/24"], nothing());
        let all = all_ranges(&[other.clone(), gone.clone()]).unwrap();
        assert_eq!(all.len(), 2, "Services may still have addresses of a range that gives out no more");
        assert_eq!(ready_ranges(&[other.clone(), gone]), Some(vec!["10.9.0.0/24".parse().unwrap()]));
        assert_eq!(ready_ranges(&[other]), None, "the flags count until the default one exists");
    }
}
