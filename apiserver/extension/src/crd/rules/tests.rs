//! Tables of objects, and the errors that CEL rules report for them.

use super::*;
use serde_json::json;

/// Returns the errors of an object whose `spec` has this schema, as `path: message`.
fn errors(spec: Json, object: Json, old: Option<Json>) -> Vec<String> {
    let schema = json!({"type": "object", "properties": {"spec": spec}});
    let rules = Rules::of(&Structural::parse(&schema)).expect("it has rules");
    let whole = |spec: Json| json!({"apiVersion": "a/v1", "kind": "K", "metadata": {"name": "n"}, "spec": spec});
    let found = rules.check(&whole(object), old.map(whole).as_ref(), "");
    found.into_iter().map(|error| format!("{}: {}", error.field, error.message)).collect()
}

fn object(properties: Json, rules: Json) -> Json {
    json!({"type": "object", "properties": properties, "x-kubernetes-validations": rules})
}

/// Returns the errors of one rule over one property `x`.
fn rule_errors(x: Json, rule: &str, value: Json) -> Vec<String> {
    errors(object(json!({"x": x}), json!([{"rule": rule}])), json!({"x": value}), None)
}

#[test]
fn values_have_the_types_of_their_schema() {
    let none: Vec<String> = Vec::new();
    for (schema, rule, value) in [
        (
            json!({"type": "string", "format": "date-time"}),
            "self.x.getFullYear() == 2026",
            json!("2026-01-02T03:04:05Z"),
        ),
        (
            json!({"type": "string", "format": "date"}),
            "self.x == timestamp('2026-01-02T00:00:00Z')",
            json!("2026-01-02"),
        ),
        (json!({"type": "string", "format": "duration"}), "self.x > duration('59m')", json!("1h")),
        (json!({"type": "string", "format": "byte"}), "self.x == b'hi'", json!("aGk=")),
        (json!({"x-kubernetes-int-or-string": true}), "type(self.x) == int ? self.x > 1 : self.x == 'a'", json!("a")),
        (json!({"x-kubernetes-int-or-string": true}), "type(self.x) == int ? self.x > 1 : self.x == 'a'", json!(2)),
        (json!({"type": "number"}), "self.x == 2.0", json!(2)),
        (json!({"type": "integer"}), "self.x + 1 == 3", json!(2.0)),
        (
            json!({"type": "object", "additionalProperties": {"type": "integer"}}),
            "self.x['a.b'] == 1 && self.x.all(k, self.x[k] > 0)",
            json!({"a.b": 1}),
        ),
        (
            json!({"type": "object", "properties": {"a-b": {"type": "string"}, "namespace": {"type": "string"}}}),
            "self.x.a__dash__b == self.x.__namespace__",
            json!({"a-b": "c", "namespace": "c"}),
        ),
        (
            json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}),
            "self.x == ['b', 'a'] && self.x + ['a'] == ['a', 'b']",
            json!(["a", "b"]),
        ),
        (
            json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}, "v": {"type": "integer"}}}}),
            "(self.x + self.x).size() == 2 && self.x.exists(i, i.k == 'a' && i.v == 1) && !has(self.x[1].v)",
            json!([{"k": "a", "v": 1}, {"k": "b"}]),
        ),
        (
            json!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}),
            "self.x.metadata.name == 'n' && self.x.kind == 'K'",
            json!({"apiVersion": "v1", "kind": "K", "metadata": {"name": "n"}, "more": 1}),
        ),
    ] {
        assert_eq!(rule_errors(schema, rule, value), none, "{rule}");
    }
}

#[test]
fn failing_rules_report_their_messages_and_reasons() {
    let text = |rules: Json| json!({"type": "string", "x-kubernetes-validations": rules});
    let found = errors(
        json!({"type": "object", "properties": {
            "a": text(json!([{"rule": "self == 'x'"}, {"rule": "self == 'y'", "message": " not y "}])),
            "b": text(json!([{"rule": "false", "reason": "FieldValueForbidden"}, {"rule": "false", "reason": "FieldValueRequired", "message": "m"}, {"rule": "false", "reason": "FieldValueDuplicate"}])),
            "c": text(json!([{"rule": "false", "messageExpression": "'got ' + self"}, {"rule": "false", "messageExpression": "self.charAt(9)", "message": "fallback"}])),
            "l": {"type": "array", "items": {"type": "object", "additionalProperties": text(json!([{"rule": "self.startsWith('a')"}]))}},
        }, "x-kubernetes-validations": [{"rule": "false", "fieldPath": ".l"}]}),
        json!({"a": "a", "b": "b", "c": "c", "l": [{"k": "a"}, {"k.k": "b"}]}),
        None,
    );
    assert_eq!(
        found,
        [
            "spec.l: Invalid value: failed rule: false",
            "spec.a: Invalid value: \"a\": failed rule: self == 'x'",
            "spec.a: Invalid value: \"a\": not y",
            "spec.b: Forbidden: failed rule: false",
            "spec.b: Required value: m",
            "spec.b: Duplicate value: \"b\"",
            "spec.c: Invalid value: \"c\": got c",
            "spec.c: Invalid value: \"c\": fallback",
            "spec.l[1][k.k]: Invalid value: \"b\": failed rule: self.startsWith('a')",
        ]
    );
}

#[test]
fn transition_rules_need_an_old_value() {
    let shrinks = json!({"type": "integer", "x-kubernetes-validations": [{"rule": "self >= oldSelf"}]});
    let optional = json!({"type": "integer", "x-kubernetes-validations": [{"rule": "!oldSelf.hasValue() || self >= oldSelf.value()", "optionalOldSelf": true}, {"rule": "oldSelf.orValue(1) > 0", "optionalOldSelf": true}]});
    let keyed = json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": {"type": "object", "properties": {"k": {"type": "string"}, "v": shrinks.clone()}}});
    let spec = json!({"type": "object", "properties": {"n": shrinks, "o": optional, "l": keyed}});
    let run = |new: Json, old: Option<Json>| errors(spec.clone(), new, old);
    let none: Vec<String> = Vec::new();
    assert_eq!(run(json!({"n": 1, "o": 1}), None), none);
    assert_eq!(run(json!({"n": 1}), Some(json!({}))), none);
    assert_eq!(
        run(json!({"n": 1, "o": 1}), Some(json!({"n": 2, "o": 2}))),
        [
            "spec.n: Invalid value: 1: failed rule: self >= oldSelf",
            "spec.o: Invalid value: 1: failed rule: !oldSelf.hasValue() || self >= oldSelf.value()"
        ]
    );
    let before = json!({"l": [{"k": "a", "v": 5}, {"k": "b", "v": 5}]});
    assert_eq!(
        run(json!({"l": [{"k": "b", "v": 4}, {"k": "a", "v": 6}, {"k": "c", "v": 1}]}), Some(before)),
        ["spec.l[0].v: Invalid value: 4: failed rule: self >= oldSelf"]
    );
}

#[test]
fn unchanged_values_are_not_checked_again() {
    let small = json!({"type": "integer", "x-kubernetes-validations": [{"rule": "self < 10"}]});
    let spec = json!({"type": "object", "properties": {"a": small.clone(), "b": {"type": "integer"}, "l": {"type": "array", "items": small}}});
    let old = json!({"a": 50, "l": [50]});
    let run = |new: Json| errors(spec.clone(), new, Some(old.clone()));
    let none: Vec<String> = Vec::new();
    assert_eq!(run(json!({"a": 50, "b": 1, "l": [50]})), none);
    assert_eq!(run(json!({"a": 51, "l": [50]})), ["spec.a: Invalid value: 51: failed rule: self < 10"]);
    // Items of an atomic list cannot be matched with old ones.
    assert_eq!(run(json!({"a": 50, "l": [50, 1]})), ["spec.l[0]: Invalid value: 50: failed rule: self < 10"]);
}

#[test]
fn errors_while_a_rule_runs_name_it() {
    assert_eq!(
        rule_errors(json!({"type": "array", "items": {"type": "string"}}), "self.x[3] == 'a'", json!(["b"])),
        ["spec: Invalid value: index out of bounds: 3 evaluating rule: self.x[3] == 'a'"]
    );
    assert_eq!(
        rule_errors(json!({"x-kubernetes-int-or-string": true}), "self.x + 1 == 2", json!("b")),
        [
            "spec: Invalid value: 'no such overload: _+_(string, int)': call arguments did not match a supported operator, function or macro signature for rule: self.x + 1 == 2"
        ]
    );
    assert_eq!(
        rule_errors(json!({"type": "string", "format": "date"}), "self.x.getFullYear() > 1", json!("soon")),
        ["spec: Invalid value: invalid date \"soon\" evaluating rule: self.x.getFullYear() > 1"]
    );
}

#[test]
fn costs_end_evaluation() {
    let list = json!({"type": "array", "items": {"type": "integer"}});
    let many: Vec<u32> = (0..2_000).collect();
    let found = rule_errors(list.clone(), "self.x.all(a, self.x.all(b, a >= 0 || b >= 0))", json!(many));
    assert_eq!(
        found,
        [
            "spec: Invalid value: 'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to call cost exceeds limit for rule: self.x.all(a, self.x.all(b, a >= 0 || b >= 0))"
        ]
    );
    let item = json!({"type": "array", "items": {"type": "object", "properties": {"n": list}, "x-kubernetes-validations": [{"rule": "self.n.all(a, self.n.all(b, a + b >= 0))"}]}});
    let inner: Vec<u32> = (0..250).collect();
    let found = errors(item, json!(vec![json!({"n": inner}); 100]), None);
    let last = found.last().expect("the budget is not enough");
    assert!(
        found.len() == 1
            && last.contains(
                "validation failed due to running out of cost budget, no further validation rules will be run"
            ),
        "{found:?}"
    );
}
