//! Tests the rule about ResourceClaims.

use super::{A, B, check, pod};
use serde_json::{Value, json};

const CLAIM: &str = "/registry/resourceclaims/default/gpu";

fn claim(is_allocated: bool, consumers: &[&str]) -> (&'static str, Value) {
    let allocation = if is_allocated { json!({"devices": {}}) } else { Value::Null };
    let consumers: Vec<Value> = consumers.iter().map(|uid| json!({"resource": "pods", "uid": uid})).collect();
    (CLAIM, json!({"metadata": {"uid": "gpu"}, "status": {"allocation": allocation, "reservedFor": consumers}}))
}

#[test]
fn claims_are_not_taken_from_pods_that_need_them() {
    let after = |events: &[(&'static str, Value)]| {
        let pods = [(A, pod("a", "n", "1m", "")), (B, pod("b", "n", "1m", "")), claim(true, &["a", "b"])];
        check(&[&pods, events].concat()).unwrap_or_default()
    };
    let ended = |uid: &str| {
        let mut pod = pod(uid, "n", "1m", "");
        pod["status"]["phase"] = json!("Failed");
        pod
    };
    let taken = |pod: &str| format!("{CLAIM} was taken from {pod}, which still needs it");
    assert!(after(&[claim(true, &["b"])]).ends_with(&taken(A)));
    assert_eq!(after(&[(A, ended("a")), claim(true, &["b"])]), "");
    assert_eq!(after(&[(A, Value::Null), (B, ended("b")), claim(false, &[])]), "");
    assert!(after(&[(A, Value::Null), claim(false, &["b"])]).ends_with(&taken(B)), "it is reserved without devices");
    assert!(after(&[(A, Value::Null), (CLAIM, Value::Null)]).ends_with(&taken(B)), "the claim is gone");
    assert_eq!(after(&[claim(true, &["a", "b", "other"]), claim(true, &["a", "b"])]), "", "there is no such pod");
}
