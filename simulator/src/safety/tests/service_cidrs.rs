//! Tests the rule about the ranges of Services.

use super::check;
use serde_json::{Value, json};

const DEFAULT: &str = "/registry/servicecidrs/kubernetes";
const MORE: &str = "/registry/servicecidrs/more";
const SERVICE: &str = "/registry/services/specs/default/web";

fn range(name: &'static str, cidr: &str) -> (&'static str, Value) {
    let finalizers = json!(["networking.k8s.io/service-cidr-finalizer"]);
    (name, json!({"metadata": {"uid": name, "finalizers": finalizers}, "spec": {"cidrs": [cidr]}}))
}

fn service(address: &str) -> (&'static str, Value) {
    (SERVICE, json!({"metadata": {"uid": "web"}, "spec": {"clusterIPs": [address]}}))
}

#[test]
fn addresses_lie_in_ranges_that_exist() {
    let complaint = |events: &[(&str, Value)]| check(events).unwrap_or_default();
    let ranges = [range(DEFAULT, "10.96.0.0/16"), range(MORE, "10.9.0.0/28")];
    let after = |events: &[(&'static str, Value)]| complaint(&[&ranges, events].concat());
    assert_eq!(complaint(&[service("10.96.0.1"), range(DEFAULT, "10.96.0.0/16")]), "", "there was no range yet");
    assert_eq!(after(&[service("10.9.0.3"), (SERVICE, Value::Null), (MORE, Value::Null)]), "");
    assert_eq!(after(&[service("None"), service("10.96.3.4"), (MORE, Value::Null)]), "");
    let outside = after(&[service("10.9.0.16")]);
    assert!(outside.ends_with(&format!("{SERVICE} has 10.9.0.16, which is in no ServiceCIDR")), "{outside}");
    assert!(after(&[(MORE, Value::Null), service("10.9.0.3")]).ends_with("in no ServiceCIDR"));
    let early = after(&[service("10.9.0.3"), (MORE, Value::Null)]);
    assert!(early.ends_with(&format!("{MORE} is gone, and {SERVICE} still has 10.9.0.3")), "{early}");
    let wider = range("/registry/servicecidrs/wider", "10.9.0.0/24");
    assert_eq!(after(&[wider, service("10.9.0.3"), (MORE, Value::Null)]), "", "another range contains it");
    let (_, mut new) = range(MORE, "10.9.0.0/28");
    new["metadata"] = json!({"uid": "more"});
    let unprotected = [range(DEFAULT, "10.96.0.0/16"), (MORE, new), service("10.9.0.3"), (MORE, Value::Null)];
    assert_eq!(complaint(&unprotected), "", "no controller was there");
}
