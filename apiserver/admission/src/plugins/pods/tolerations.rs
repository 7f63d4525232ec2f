//! Compares and merges tolerations.
//!
//! Corresponds to pkg/util/tolerations. A toleration is JSON as in a pod's spec.

use crate::plugins::pod_parts::text;
use serde_json::Value;

/// Tells whether `outer` tolerates everything that `inner` tolerates.
pub fn covers(outer: &Value, inner: &Value) -> bool {
    if is_same(outer, inner) {
        return true;
    }
    let of = |toleration: &'static str| (text(outer, toleration), text(inner, toleration));
    let ((key, inner_key), (effect, inner_effect)) = (of("/key"), of("/effect"));
    let is_for_all_keys = key.is_empty() && text(outer, "/operator") == "Exists";
    if key != inner_key && !is_for_all_keys {
        return false;
    }
    if effect != inner_effect && !effect.is_empty() {
        return false;
    }
    if effect == "NoExecute"
        && let Some(longest) = outer["tolerationSeconds"].as_i64()
        && inner["tolerationSeconds"].as_i64().is_none_or(|seconds| seconds > longest)
    {
        return false;
    }
    match text(outer, "/operator") {
        "" | "Equal" => {
            matches!(text(inner, "/operator"), "" | "Equal") && text(outer, "/value") == text(inner, "/value")
        }
        "Exists" => true,
        _ => false,
    }
}

/// Tells whether both are equal; a missing operator means `Equal`.
fn is_same(one: &Value, other: &Value) -> bool {
    let operator = |toleration: &Value| match text(toleration, "/operator") {
        "" => "Equal".to_owned(),
        named => named.to_owned(),
    };
    let plain = ["/key", "/value", "/effect"].iter().all(|field| text(one, field) == text(other, field));
    plain && operator(one) == operator(other) && one["tolerationSeconds"] == other["tolerationSeconds"]
}

/// Merges both lists in order, and drops covered entries.
pub fn merge(first: &[Value], second: &[Value]) -> Vec<Value> {
    let all: Vec<&Value> = first.iter().chain(second).collect();
    let mut merged: Vec<Value> = Vec::new();
    for (at, toleration) in all.iter().enumerate() {
        let is_covered_before = merged.iter().any(|before| covers(before, toleration));
        let is_covered_after =
            all[at + 1..].iter().any(|after| !is_same(after, toleration) && covers(after, toleration));
        if !is_covered_before && !is_covered_after {
            merged.push((*toleration).clone());
        }
    }
    merged
}

/// Tells whether each of `tolerations` is covered by one of `allowed`; an empty list allows everything.
pub fn are_allowed(tolerations: &[Value], allowed: &[Value]) -> bool {
    allowed.is_empty() || tolerations.iter().all(|own| allowed.iter().any(|allowed| covers(allowed, own)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn toleration(said: &str) -> Value {
        let mut parts = said.split(' ');
        let mut next = || parts.next().filter(|part| *part != "-").unwrap_or_default().to_owned();
        let (key, operator, value, effect, seconds) = (next(), next(), next(), next(), next());
        let mut toleration = json!({"key": key, "operator": operator, "value": value, "effect": effect});
        if let Ok(seconds) = seconds.parse::<i64>() {
            toleration["tolerationSeconds"] = json!(seconds);
        }
        toleration
    }

    #[test]
    fn one_covers_another() {
        for (outer, inner, expected) in [
            ("a Equal x NoSchedule", "a - x NoSchedule", true),
            ("a Equal x NoSchedule", "a Equal y NoSchedule", false),
            ("a Exists - NoSchedule", "a Equal y NoSchedule", true),
            ("a Equal y NoSchedule", "a Exists - NoSchedule", false),
            ("a Exists - -", "a Equal y NoExecute 30", true),
            ("a Exists - NoSchedule", "a Exists - -", false),
            ("- Exists - -", "b Equal y NoSchedule", true),
            ("b Exists - -", "a Exists - -", false),
            ("a Exists - NoExecute 300", "a Exists - NoExecute 30", true),
            ("a Exists - NoExecute 300", "a Exists - NoExecute 301", false),
            ("a Exists - NoExecute 300", "a Exists - NoExecute", false),
            ("a Exists - NoExecute", "a Exists - NoExecute 300", true),
        ] {
            assert_eq!(covers(&toleration(outer), &toleration(inner)), expected, "{outer} / {inner}");
        }
    }

    #[test]
    fn lists_keep_what_nothing_else_covers() {
        let list = |said: &[&str]| said.iter().map(|said| toleration(said)).collect::<Vec<_>>();
        let merged =
            merge(&list(&["a Equal x -", "b Exists - -"]), &list(&["a Exists - -", "b Exists - -", "c Exists - -"]));
        assert_eq!(merged, list(&["b Exists - -", "a Exists - -", "c Exists - -"]));
        assert!(are_allowed(&merged, &[]));
        assert!(are_allowed(&merged, &list(&["- Exists - -"])));
        assert!(!are_allowed(&merged, &list(&["a Exists - -", "b Exists - -"])));
    }
}
