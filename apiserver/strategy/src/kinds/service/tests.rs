//! Updates of Services: what is kept where the client says nothing, and what goes with the type.

use super::{carry_over, drop_unneeded};
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
            "what another asks for is not given twice",
            json!([{"name": "a", "port": 80}, {"name": "b", "port": 81, "nodePort": 30001}]),
            [0, 30001],
        ),
    ] {
        let mut service_now = service("NodePort", new, json!({}));
        carry_over(&mut service_now, &service("NodePort", old.clone(), json!({})));
        let ports = service_now["spec"]["ports"].as_array().unwrap();
        let found: Vec<u64> = ports.iter().map(|port| port["nodePort"].as_u64().unwrap_or(0)).collect();
        assert_eq!(found, expected, "{what}");
    }
    let unasked = json!({"allocateLoadBalancerNodePorts": false});
    let mut balancer = service("LoadBalancer", json!([{"name": "a", "port": 80}]), unasked.clone());
    carry_over(&mut balancer, &service("LoadBalancer", json!([{"name": "a", "port": 80, "nodePort": 30001}]), unasked));
    assert_eq!(balancer["spec"]["ports"][0]["nodePort"], 30001, "what was asked for once is kept");
}

#[test]
fn what_belongs_to_a_type_goes_with_it() {
    let ports = json!([{"name": "a", "port": 80, "nodePort": 30001}]);
    let more = json!({
        "allocateLoadBalancerNodePorts": true, "loadBalancerClass": "x.test/a", "externalTrafficPolicy": "Local",
        "healthCheckNodePort": 30002, "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack",
    });
    let mut old = service("LoadBalancer", ports.clone(), more);
    old["status"] = json!({"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}});
    let turned_into = |kind: &str, change: &dyn Fn(&mut Value)| {
        let mut new = old.clone();
        new["spec"]["type"] = json!(kind);
        change(&mut new);
        drop_unneeded(&mut new, &old);
        new
    };
    let plain = turned_into("ClusterIP", &|_| {});
    let families = json!({"ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack"});
    let mut expected = service("ClusterIP", json!([{"name": "a", "port": 80}]), families);
    expected["status"] = json!({"loadBalancer": {}});
    assert_eq!(plain, expected);
    let by_port = turned_into("NodePort", &|_| {});
    assert_eq!(by_port["spec"]["ports"], ports);
    assert_eq!(by_port["spec"]["externalTrafficPolicy"], "Local", "it is still reached from outside");
    let named = turned_into("ExternalName", &|_| {});
    assert_eq!(
        ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"].map(|field| named["spec"].get(field)),
        [None; 4]
    );
    let changed = turned_into("ClusterIP", &|new| {
        new["spec"]["loadBalancerClass"] = json!("x.test/b");
        new["spec"]["ports"][0]["nodePort"] = json!(30009);
    });
    assert_eq!(changed["spec"]["loadBalancerClass"], "x.test/b", "a change is for validation to refuse");
    assert_eq!(changed["spec"]["ports"][0]["nodePort"], 30009);
}
