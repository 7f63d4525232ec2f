//! Tests the errors of Ingresses, IngressClasses, NetworkPolicies, ServiceCIDRs and IPAddresses, in Kubernetes' order.

use crate::testing::{create, update};
use serde_json::{Value, json};

fn object(kind: &str, spec: Value) -> Value {
    json!({"apiVersion": "networking.k8s.io/v1", "kind": kind, "spec": spec})
}

fn backend(backend: Value) -> Vec<String> {
    create(object("Ingress", json!({"defaultBackend": backend})))
}

#[test]
fn a_backend_is_a_service_with_a_port_or_an_object() {
    let at = "spec.defaultBackend";
    let contradicts = |why: &str| [format!("{at}: Invalid value: \"\": {why}")];
    assert_eq!(backend(json!({})), contradicts("resource or service backend is required"));
    let service = json!({"name": "1-web", "port": {"number": 80}});
    assert_eq!(backend(json!({"service": service})), [""; 0], "a name may begin with a digit");
    let resource = json!({"apiGroup": "x.test", "kind": "Bucket", "name": "b"});
    assert_eq!(
        backend(json!({"service": service, "resource": resource})),
        contradicts("cannot set both resource and service backends")
    );
    let both = json!({"service": {"name": "web", "port": {"name": "http", "number": 80}}});
    assert_eq!(backend(both), contradicts("cannot set both port name & port number"));
    assert_eq!(
        backend(json!({"service": {"name": "", "port": {}}})),
        [
            format!("{at}.service.name: Required value"),
            format!("{at}: Required value: port name or number is required")
        ]
    );
    assert_eq!(
        backend(json!({"resource": {"kind": "a/b", "name": ""}})),
        [
            format!("{at}.resource.kind: Invalid value: \"a/b\": may not contain '/'"),
            format!("{at}.resource.name: Required value"),
        ]
    );
}

#[test]
fn the_annotation_and_the_field_name_the_same_ingress_class() {
    let classified = |annotation: &str| {
        let mut ingress = object("Ingress", json!({"ingressClassName": "a", "rules": [{"host": "x.test"}]}));
        ingress["metadata"] = json!({"annotations": {"kubernetes.io/ingress.class": annotation}});
        create(ingress)
    };
    assert_eq!(classified("a"), [""; 0]);
    assert_eq!(
        classified("b"),
        [
            "annotations.kubernetes.io/ingress.class: Invalid value: \"b\": must match `ingressClassName` when both are specified"
        ]
    );
}

#[test]
fn a_class_has_a_controller_and_parameters() {
    let class = |spec: Value| object("IngressClass", spec);
    let long = format!("x.test/{}", "a".repeat(250));
    assert_eq!(
        create(class(json!({"controller": long}))),
        ["spec.controller: Too long: may not be more than 250 bytes"]
    );
    let path = r"Invalid path (regex used for validation is '[A-Za-z0-9/\-._~%!$&'()*+,;=:]+')";
    assert_eq!(
        create(class(json!({"controller": "x.test/a b"}))),
        [format!("spec.controller: Invalid value: \"a b\": {path}")]
    );
    let parameters = |parameters: Value| create(class(json!({"controller": "x.test/c", "parameters": parameters})));
    assert_eq!(
        parameters(json!({"kind": "", "name": "a%b", "scope": "Namespace"})),
        [
            "spec.parameters.kind: Required value",
            "spec.parameters.name: Invalid value: \"a%b\": may not contain '%'",
            "spec.parameters.namespace: Required value: `parameters.scope` is set to 'Namespace'",
        ]
    );
    assert_eq!(
        update(class(json!({"controller": "x.test/c"})), class(json!({"controller": "nothing"}))),
        [
            "spec.controller: Invalid value: \"nothing\": field is immutable",
            "spec.controller: Invalid value: \"nothing\": must be a domain-prefixed path (such as \"acme.io/foo\")",
        ],
        "errors of changes come first"
    );
}

#[test]
fn peers_and_ports_of_a_policy_are_checked() {
    let from = |peer: Value| create(object("NetworkPolicy", json!({"podSelector": {}, "ingress": [{"from": [peer]}]})));
    let at = "spec.ingress[0].from[0].ipBlock";
    assert_eq!(
        from(json!({"ipBlock": {"cidr": "10.0.0.1/8", "except": ["10.0.0.0/016", "11.0.0.0/8"]}})),
        [
            format!("{at}.cidr: Invalid value: \"10.0.0.1/8\": must not have bits set beyond the prefix length"),
            format!("{at}.except[0]: Invalid value: \"10.0.0.0/016\": must not have leading 0s in IP or prefix length"),
            format!("{at}.except[1]: Invalid value: \"11.0.0.0/8\": must be a strict subset of `cidr`"),
        ]
    );
    let port =
        |port: Value| create(object("NetworkPolicy", json!({"podSelector": {}, "ingress": [{"ports": [port]}]})));
    let at = "spec.ingress[0].ports[0]";
    assert_eq!(
        port(json!({"port": "Web", "endPort": 90})),
        [
            format!("{at}.endPort: Invalid value: 90: may not be specified when `port` is non-numeric"),
            format!(
                "{at}.port: Invalid value: \"Web\": must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"
            ),
        ]
    );
}

#[test]
fn a_service_cidr_may_only_add_a_family() {
    let range = |cidrs: Value| object("ServiceCIDR", json!({"cidrs": cidrs}));
    assert_eq!(
        create(range(json!(["10.0.0.0/8", "fd00::/64", "10.1.0.0/16"]))),
        [
            "spec.cidrs: Invalid value: {\"CIDRs\":[\"10.0.0.0/8\",\"fd00::/64\",\"10.1.0.0/16\"]}: may only hold up to 2 values"
        ]
    );
    assert_eq!(
        create(range(json!(["10.0.0.1/8", "FD00::/64"]))),
        [
            "spec.cidrs[0]: Invalid value: \"10.0.0.1/8\": must not have bits set beyond the prefix length",
            "spec.cidrs[1]: Invalid value: \"FD00::/64\": must be in canonical form (\"fd00::/64\")",
        ]
    );
    let one = range(json!(["10.0.0.0/8"]));
    assert_eq!(update(one.clone(), range(json!(["10.0.0.0/8", "fd00::/64"]))), [""; 0]);
    assert_eq!(
        update(one.clone(), range(json!(["11.0.0.0/8"]))),
        ["spec.cidrs[0]: Invalid value: \"11.0.0.0/8\": field is immutable"]
    );
    assert_eq!(
        update(one.clone(), range(json!(["11.0.0.0/8", "12.0.0.0/8"]))),
        [
            "spec.cidrs[0]: Invalid value: \"11.0.0.0/8\": field is immutable",
            "spec.cidrs: Invalid value: [\"11.0.0.0/8\",\"12.0.0.0/8\"]: may specify no more than one IP for each IP \
             family, i.e 192.168.0.0/24 and 2001:db8::/64",
        ]
    );
    let two = range(json!(["10.0.0.0/8", "fd00::/64"]));
    assert_eq!(update(two, one), ["spec.cidrs: Invalid value: [\"10.0.0.0/8\"]: field is immutable"]);
}

#[test]
fn an_ip_address_has_a_canonical_name_and_keeps_its_parent() {
    let address = |name: &str, parent: Value| {
        let mut address = object("IPAddress", json!({"parentRef": parent}));
        address["metadata"] = json!({"name": name});
        address
    };
    let service = json!({"resource": "services", "namespace": "shop", "name": "web"});
    assert_eq!(create(address("10.0.0.1", service.clone())), [""; 0]);
    for (name, why) in [
        ("10.0.0.01", "must not have leading 0s"),
        ("FD00::1", "must be in canonical form (\"fd00::1\")"),
        ("web", "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"),
    ] {
        assert_eq!(create(address(name, service.clone())), [format!("metadata.name: Invalid value: {name:?}: {why}")]);
    }
    let moved = update(address("10.0.0.1", service), address("10.0.0.1", json!({"resource": "services", "name": ""})));
    assert_eq!(
        moved,
        ["spec.parentRef: Invalid value: {\"name\":\"\",\"resource\":\"services\"}: field is immutable"],
        "nothing else is checked"
    );
}
