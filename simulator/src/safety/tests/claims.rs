//! Tests the rule about ResourceClaims.

use super::{A, B, check, check_without_controllers, pod};
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

/// A binding fails, or only its answer is lost.
#[test]
fn the_scheduler_takes_back_what_it_reserved() {
    let after = |node: &str, events: &[(&'static str, Value)]| {
        let first = [(A, pod("a", node, "1m", "")), claim(true, &["a"])];
        check_without_controllers(&[&first, events].concat()).unwrap_or_default()
    };
    assert_eq!(after("", &[claim(true, &[]), claim(false, &[])]), "");
    assert_eq!(after("", &[claim(false, &[])]), "", "a failed attempt frees the devices");
    let bound = (A, pod("a", "n", "1m", ""));
    assert_eq!(after("", &[bound.clone(), claim(true, &[]), claim(true, &["a"])]), "");
    let taken = format!("{CLAIM} was taken from {A}, which still needs it");
    assert!(after("", &[bound.clone(), claim(true, &[]), claim(false, &[])]).ends_with(&taken));
    assert!(after("", &[claim(true, &[]), bound, claim(false, &[])]).ends_with(&taken));
    assert!(after("n", &[claim(false, &["a"])]).ends_with(&taken));
}
