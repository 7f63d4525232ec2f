//! Tests the rules about ResourceQuotas and PodDisruptionBudgets.

use super::{A, B, C, check_at, pod};
use serde_json::{Value, json};

const QUOTA: &str = "/registry/resourcequotas/default/quota";
const BUDGET: &str = "/registry/poddisruptionbudgets/default/budget";

/// Checks objects that are written at these seconds, and returns the first complaint or an empty text.
fn complaint(events: &[(i64, &str, Value)]) -> String {
    check_at(events).unwrap_or_default()
}

fn quota(hard: Value) -> Value {
    json!({"metadata": {"uid": "quota"}, "spec": {"hard": {"pods": "1"}}, "status": {"hard": hard}})
}

#[test]
fn quotas_are_not_exceeded() {
    let one = |key: &'static str| (100, key, pod(key, "", "100m", ""));
    let of_pods = |pods: &str| quota(json!({"pods": pods}));
    let with = |quotas: &[(i64, &'static str, Value)], objects: &[(i64, &'static str, Value)]| {
        complaint(&[quotas, objects].concat())
    };
    let two = || (0, QUOTA, of_pods("2"));
    assert_eq!(with(&[two()], &[one(A), one(B)]), "");
    let third = with(&[two()], &[one(A), one(B), one(C)]);
    assert!(third.ends_with(&format!("{C} exceeds {QUOTA}: pods is 3000 of 2000 thousandths")), "{third}");
    let mut ended = pod(B, "", "100m", "");
    ended["status"]["phase"] = json!("Succeeded");
    assert_eq!(with(&[two()], &[one(A), one(B), (100, B, ended), one(C)]), "", "a pod that has ended does not count");
    assert_eq!(with(&[two()], &[one(A), one(B), (100, B, Value::Null), one(C)]), "");
    let limits = |second: i64, pods: &str| (second, QUOTA, of_pods(pods));
    assert_eq!(with(&[two(), limits(50, "1")], &[one(A), one(B)]), "", "B may have been admitted under the old limit");
    assert!(with(&[two(), limits(30, "1")], &[one(A), one(B)]).contains("pods is 2000 of 1000"));
    assert_eq!(with(&[limits(50, "1")], &[one(A), one(B)]), "", "B may have been admitted before there was a quota");
    let status = |pod: &'static str| (100, pod, super::pod(pod, "n", "100m", "10.0.0.1"));
    assert_eq!(with(&[], &[one(A), one(B), limits(0, "1"), status(A)]), "", "nothing is raised");
    let cpu = with(&[(0, QUOTA, quota(json!({"requests.cpu": "150m"})))], &[one(A), one(B)]);
    assert!(cpu.contains("requests.cpu is 200 of 150 thousandths"), "{cpu}");
    let service = |ports: &[u16]| {
        let ports: Vec<Value> = ports.iter().map(|port| json!({"nodePort": port, "protocol": "TCP"})).collect();
        (100, "/registry/services/specs/default/x", json!({"metadata": {"uid": "x"}, "spec": {"ports": ports}}))
    };
    let none = (0, QUOTA, quota(json!({"services": "1", "services.nodeports": "1"})));
    assert_eq!(with(std::slice::from_ref(&none), &[service(&[30000])]), "");
    assert!(with(&[none], &[service(&[0]), service(&[30000, 30001])]).contains("services.nodeports is 2000 of 1000"));
}

fn budget(allowed: i64, disrupted: &[&str]) -> Value {
    let disrupted: Value = disrupted.iter().map(|name| ((*name).to_owned(), json!("2026-01-01T00:00:00Z"))).collect();
    json!({
        "metadata": {"uid": "budget"}, "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}},
        "status": {"disruptionsAllowed": allowed, "disruptedPods": disrupted},
    })
}

/// Returns a pod that the budget covers: `ready`, `unready`, or `evicted` and still ready.
fn covered(key: &'static str, state: &str) -> Value {
    let mut conditions = vec![json!({"type": "Ready", "status": if state == "unready" { "False" } else { "True" }})];
    if state == "evicted" {
        conditions.push(json!({"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}));
    }
    json!({"metadata": {"uid": key, "labels": {"app": "web"}}, "status": {"conditions": conditions}})
}

#[test]
fn budgets_are_not_exceeded() {
    let after = |events: &[(i64, &'static str, Value)]| {
        let begin = [A, B, C].map(|key| (0, key, covered(key, "ready")));
        complaint(&[&begin[..], &[(0, BUDGET, budget(1, &[]))], events].concat())
    };
    let grant = |second: i64, allowed: i64, pods: &[&str]| (second, BUDGET, budget(allowed, pods));
    let evicted = |second: i64, key: &'static str| (second, key, covered(key, "evicted"));
    assert_eq!(after(&[grant(90, 0, &["a"]), evicted(90, A), (91, A, Value::Null), grant(92, 0, &[])]), "");
    let uncounted = after(&[grant(90, 1, &["a"])]);
    assert!(uncounted.ends_with("pods/default/a, and goes from 1 disruptions to 1"), "{uncounted}");
    assert!(after(&[grant(90, -1, &["a", "b"])]).ends_with("and goes from 1 disruptions to -1"));
    let of_nobody = after(&[evicted(90, A)]);
    assert!(of_nobody.ends_with(&format!("{A} is evicted, and {BUDGET} has not counted it")), "{of_nobody}");
    assert_eq!(after(&[evicted(50, A)]), "", "the eviction may have begun before there was a budget");
    assert_eq!(
        after(&[(80, A, covered(A, "unready")), evicted(90, A)]),
        "",
        "a pod that is not ready is spared nothing"
    );
    // The controller allows more than it should.
    let wrong = [grant(200, 2, &[]), grant(201, 1, &["a"]), grant(202, 0, &["a", "b"])];
    let few = after(&wrong);
    assert!(few.ends_with("pods/default/b, and 1 healthy pods are left, where 2 are kept"), "{few}");
    // It need not know of a pod that has just become unready.
    let lost = (60, C, covered(C, "unready"));
    assert_eq!(after(&[lost.clone(), grant(100, 0, &["a"])]), "");
    assert!(after(&[lost, grant(200, 0, &["a"])]).contains("1 healthy pods are left"));
}
