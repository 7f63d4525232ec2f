//! Tests the rule about load balancers of a cloud.

use crate::safety::load_balancers::{Balancers, balancer_of};
use serde_json::json;
use simulated_cloud::model::{Holdings, LoadBalancer};

const SERVICE: &str = "/registry/services/specs/default/web";

#[test]
fn load_balancers_do_not_outlive_their_services() {
    let balancer = |uid: &str| {
        let balancer = json!({"name": balancer_of(uid), "address": "10.1.0.1", "description": "web", "ports": []});
        let balancer: LoadBalancer = serde_json::from_value(balancer).unwrap();
        Holdings { load_balancers: [(balancer.name.clone(), balancer)].into(), ..Holdings::default() }
    };
    let mut balancers = Balancers::default();
    let mut record = |uid: Option<&str>, holdings: &Holdings| {
        let service = uid.map(|uid| json!({"metadata": {"uid": uid}}).to_string());
        assert!(balancers.record(SERVICE, service.as_ref().map(String::as_bytes)).is_ok());
        balancers.check(holdings).err().map_or(String::new(), |violation| violation.what)
    };
    assert_eq!(record(Some("1-2"), &Holdings::default()), "");
    assert_eq!(record(Some("1-2"), &balancer("1-2")), "");
    let left = "the load balancer a12 (web) is there, and its Service is gone";
    assert_eq!(record(None, &balancer("1-2")), left);
    assert_eq!(record(Some("3-4"), &balancer("1-2")), left, "another Service of that name");
    assert_eq!(record(None, &Holdings::default()), "");
}
