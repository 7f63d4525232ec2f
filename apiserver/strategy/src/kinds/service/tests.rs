//! Updates of Services: the allocated values that are kept, and the fields that are dropped when the type changes.

use super::{drop_type_dependent_fields, keep_allocated};
use serde_json::{Value, json};

fn service(kind: &str, ports: Value, more: Value) -> Value {
    let mut service =
        json!({"spec": {"type": kind, "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "ports": ports}});
    service["spec"].as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    service
}

#[test]
fn a_port_keeps_the_node_port_of_its_name() {
    let old = json!([
        {"name": "a", "port": 80, "nodePort": 30001}, {"name": "b", "port": 81, "nodePort": 30002},
    ]);
    for (what, new, expected) in [
        ("its number may change", json!([{"name": "a", "port": 90}, {"name": "b", "port": 81}]), [30001, 30002]),
        ("ports may change places", json!([{"name": "b", "port": 81}, {"name": "a", "port": 80}]), [30002, 30001]),
        ("another name is another port", json!([{"name": "c", "port": 80}, {"name": "b", "port": 81}]), [0, 30002]),
        (
            "a port that another one requests is not given twice",
            json!([{"name": "a", "port": 80}, {"name": "b", "port": 81, "nodePort": 30001}]),
            [0, 30001],
        ),
    ] {
        let mut service_now = service("NodePort", new, json!({}));
        keep_allocated(&mut service_now, &service("NodePort", old.clone(), json!({})));
        let ports = service_now["spec"]["ports"].as_array().unwrap();
        let found: Vec<u64> = ports.iter().map(|port| port["nodePort"].as_u64().unwrap_or(0)).collect();
        assert_eq!(found, expected, "{what}");
    }
    let without_allocation = json!({"allocateLoadBalancerNodePorts": false});
    let mut balancer = service("LoadBalancer", json!([{"name": "a", "port": 80}]), without_allocation.clone());
    keep_allocated(
        &mut balancer,
        &service("LoadBalancer", json!([{"name": "a", "port": 80, "nodePort": 30001}]), without_allocation),
    );
    assert_eq!(balancer["spec"]["ports"][0]["nodePort"], 30001, "a requested node port is kept");
}

#[test]
fn a_change_of_type_drops_the_fields_of_the_old_type() {
    let ports = json!([{"name": "a", "port": 80, "nodePort": 30001}]);
    let more = json!({
        "allocateLoadBalancerNodePorts": true, "loadBalancerClass": "x.test/a", "externalTrafficPolicy": "Local",
        "healthCheckNodePort": 30002, "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack",
    });
    let mut old = service("LoadBalancer", ports.clone(), more);
    old["status"] = json!({"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}});
    let changed_to = |kind: &str, change: &dyn Fn(&mut Value)| {
        let mut new = old.clone();
        new["spec"]["type"] = json!(kind);
        change(&mut new);
        drop_type_dependent_fields(&mut new, &old);
        new
    };
    let plain = changed_to("ClusterIP", &|_| {});
    let families = json!({"ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack"});
    let mut expected = service("ClusterIP", json!([{"name": "a", "port": 80}]), families);
    expected["status"] = json!({"loadBalancer": {}});
    assert_eq!(plain, expected);
    let by_port = changed_to("NodePort", &|_| {});
    assert_eq!(by_port["spec"]["ports"], ports);
    assert_eq!(by_port["spec"]["externalTrafficPolicy"], "Local", "it is still reached from outside");
    let named = changed_to("ExternalName", &|_| {});
    assert_eq!(
        ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"].map(|field| named["spec"].get(field)),
        [None; 4]
    );
    let changed = changed_to("ClusterIP", &|new| {
        new["spec"]["loadBalancerClass"] = json!("x.test/b");
        new["spec"]["ports"][0]["nodePort"] = json!(30009);
    });
    assert_eq!(changed["spec"]["loadBalancerClass"], "x.test/b", "validation refuses the change");
    assert_eq!(changed["spec"]["ports"][0]["nodePort"], 30009);
}
