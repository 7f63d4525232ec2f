//! Tests the errors of Services on create and update, in Kubernetes' order.

use crate::testing::{create, update, update_of};
use serde_json::{Value, json};

fn service(spec: Value) -> Value {
    let mut service = json!({"apiVersion": "v1", "kind": "Service", "spec": {"ports": [{"port": 80}]}});
    service["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    service
}

/// Returns a Service to which addresses have been allocated.
fn allocated(spec: Value) -> Value {
    let mut whole = json!({
        "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack",
    });
    whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    service(whole)
}

#[test]
fn a_name_may_begin_with_a_digit() {
    let named = |name: &str| {
        let mut service = service(json!({}));
        service["metadata"] = json!({"name": name});
        create(service)
    };
    assert_eq!(named("1-web"), [""; 0]);
    assert_eq!(named("a.b"), ["metadata.name: Invalid value: \"a.b\": must not contain dots"]);
}

#[test]
fn the_kubelets_port_is_no_exception() {
    assert_eq!(create(service(json!({"type": "LoadBalancer", "ports": [{"port": 10250}]}))), [""; 0]);
}

#[test]
fn ranges_for_load_balancers_are_in_a_field_or_an_annotation() {
    let ranges = json!({"loadBalancerSourceRanges": [" 10.0.0.0/8 ", "10.0.0.1/8"]});
    assert_eq!(
        create(service(ranges)),
        [
            "spec.LoadBalancerSourceRanges: Forbidden: may only be used when `type` is 'LoadBalancer'",
            "spec.LoadBalancerSourceRanges[1]: Invalid value: \"10.0.0.1/8\": must not have bits set beyond the prefix length",
        ]
    );
    let annotated = |text: &str| {
        let mut service = service(json!({"type": "LoadBalancer"}));
        service["metadata"] = json!({"annotations": {"service.beta.kubernetes.io/load-balancer-source-ranges": text}});
        create(service)
    };
    assert_eq!(annotated(" "), [""; 0]);
    assert_eq!(
        annotated("10.0.0.0/8, odd"),
        ["metadata.annotations[service.beta.kubernetes.io/load-balancer-source-ranges]: Invalid value: \"odd\": must \
             be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"]
    );
}

#[test]
fn both_annotations_about_topology_agree() {
    let mut service = service(json!({}));
    service["metadata"] = json!({"annotations": {
        "service.kubernetes.io/topology-aware-hints": "auto", "service.kubernetes.io/topology-mode": "disabled",
    }});
    assert_eq!(
        create(service),
        ["metadata.annotations[service.kubernetes.io/topology-mode]: Invalid value: \"disabled\": must match \
             annotations[service.kubernetes.io/topology-aware-hints] when both are specified"]
    );
}

#[test]
fn addresses_are_compared_with_their_families_whatever_else_is_wrong() {
    let errors = create(service(json!({
        "clusterIP": "fd00::1", "clusterIPs": ["fd00::1"], "ipFamilies": ["IPv4", "IPv4"],
        "externalIPs": ["10.0.0.01", "0.0.0.0"],
    })));
    assert_eq!(
        errors,
        [
            "spec.ipFamilies[1]: Duplicate value: \"IPv4\"",
            "spec.clusterIPs[0]: Invalid value: \"fd00::1\": expected an IPv4 value as indicated by `ipFamilies[0]`",
            "spec.externalIPs[0]: Invalid value: \"10.0.0.01\": must not have leading 0s",
            "spec.externalIPs[1]: Invalid value: \"0.0.0.0\": may not be unspecified (0.0.0.0)",
        ]
    );
}

#[test]
fn addresses_and_families_are_immutable() {
    let other = allocated(json!({"clusterIP": "10.0.0.2", "clusterIPs": ["10.0.0.2"]}));
    assert_eq!(
        update(allocated(json!({})), other),
        ["spec.clusterIPs[0]: Invalid value: [\"10.0.0.2\"]: may not change once set"]
    );
    let none = allocated(json!({"clusterIP": "", "clusterIPs": [], "ipFamilies": []}));
    assert_eq!(update(allocated(json!({})), none), [""; 0], "what is left out is as it was");
    let two = allocated(json!({
        "clusterIPs": ["10.0.0.1", "fd00::1"], "ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "PreferDualStack",
    }));
    assert_eq!(
        update(two.clone(), allocated(json!({"ipFamilyPolicy": "PreferDualStack"}))),
        [
            "spec.ipFamilyPolicy: Invalid value: \"PreferDualStack\": must be set to 'SingleStack' when releasing the \
             secondary clusterIP",
            "spec.ipFamilyPolicy: Invalid value: \"PreferDualStack\": must be set to 'SingleStack' when releasing the \
             secondary ipFamily",
        ]
    );
    let second = allocated(json!({
        "clusterIPs": ["10.0.0.1", "fd00::2"], "ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "PreferDualStack",
    }));
    assert_eq!(
        update(two, second),
        ["spec.clusterIPs[1]: Invalid value: [\"10.0.0.1\",\"fd00::2\"]: may not change once set"]
    );
}

#[test]
fn errors_of_changes_come_before_errors_of_values() {
    let balancer = |class: &str, port: i64| {
        allocated(json!({
            "type": "LoadBalancer", "loadBalancerClass": class, "ports": [{"port": port}],
            "externalTrafficPolicy": "Local", "healthCheckNodePort": 30000 + port,
        }))
    };
    assert_eq!(
        update(balancer("x.test/a", 80), balancer("x.test/b", 0)),
        [
            "spec.loadBalancerClass: Invalid value: \"x.test/b\": may not change once set",
            "spec.healthCheckNodePort: Forbidden: field is immutable",
            "spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive",
            "spec.ports[0].targetPort: Invalid value: 0: must be between 1 and 65535, inclusive",
        ]
    );
    let classed = allocated(json!({"loadBalancerClass": "a"}));
    let only = "spec.loadBalancerClass: Forbidden: may only be used when `type` is 'LoadBalancer'";
    assert_eq!(update(allocated(json!({})), classed), [only, only], "once with the change, once with the whole");
}

#[test]
fn an_ingress_point_has_an_address_or_a_name() {
    let mut balancer = allocated(json!({"type": "LoadBalancer"}));
    let old = balancer.clone();
    balancer["status"] = json!({"loadBalancer": {"ingress": [
        {"hostname": "x.test", "ipMode": "Odd"}, {"ip": "10.0.0.01", "ipMode": "Odd"},
    ]}});
    assert_eq!(
        update_of("status", old, balancer),
        [
            "status.loadBalancer.ingress[0].ipMode: Forbidden: may not be specified when `ip` is not set",
            "status.loadBalancer.ingress[1].ip: Invalid value: \"10.0.0.01\": must not have leading 0s",
            "status.loadBalancer.ingress[1].ipMode: Unsupported value: \"Odd\": supported values: \"Proxy\", \"VIP\"",
        ]
    );
}

#[test]
fn an_invalid_address_of_the_old_status_may_stay() {
    let with = |ips: &[&str]| {
        let mut balancer = allocated(json!({"type": "LoadBalancer"}));
        let ingress: Vec<Value> = ips.iter().map(|ip| json!({"ip": ip, "ipMode": "VIP"})).collect();
        balancer["status"] = json!({"loadBalancer": {"ingress": ingress}});
        balancer
    };
    assert_eq!(
        update_of("status", with(&["010.0.0.1"]), with(&["010.0.0.2", "010.0.0.1"])),
        ["status.loadBalancer.ingress[0].ip: Invalid value: \"010.0.0.2\": must not have leading 0s"]
    );
    let named = |host: &str| {
        let mut balancer = allocated(json!({"type": "LoadBalancer"}));
        balancer["status"] = json!({"loadBalancer": {"ingress": [{"hostname": host}]}});
        balancer
    };
    assert_eq!(
        update_of("status", with(&[]), named("010.0.0.1")),
        [
            "status.loadBalancer.ingress[0].hostname: Invalid value: \"010.0.0.1\": must be a DNS name, not an IP address"
        ]
    );
    let ingress = |ip: &str| {
        json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
            "spec": {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}},
            "status": {"loadBalancer": {"ingress": [{"ip": ip}]}}})
    };
    assert_eq!(update_of("status", ingress("010.0.0.1"), ingress("010.0.0.1")), [""; 0]);
}
