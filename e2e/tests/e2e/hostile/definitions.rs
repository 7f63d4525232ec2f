//! Makes random CustomResourceDefinitions: schemas of every form, and rules in CEL.

use component_base_testing::cel_pieces::CEL_PIECES;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value, json};

/// API group of all definitions.
pub const GROUP: &str = "hostile.example";

/// Rules with correct syntax, most of which fail or cost much when they run.
const RULES: &[&str] = &[
    "self == oldSelf",
    "self.a > self.b",
    "size(self) > 1000000",
    "self.all(x, self.all(y, self.all(z, x == y || y == z)))",
    "self.map(x, x + x).map(x, x + x).size() >= 0",
    "self.matches(self)",
    "self.split('').map(c, self.split('')).size() > 0",
    "1 / int(self.a) > 0",
    "self[0] == self[100]",
    "dyn(self).a.b.c == 1",
    "has(self.a) && self.a.startsWith('x')",
    "oldSelf.hasValue()",
    "self.?a.?b.orValue('') != ''",
    "quantity(self.a).isGreaterThan(quantity('1'))",
    "",
    " ",
];

fn expression() -> impl Strategy<Value = String> {
    prop_oneof![
        2 => select(RULES.to_vec()).prop_map(str::to_owned),
        3 => vec(select(CEL_PIECES.to_vec()), 1..12).prop_map(|pieces| pieces.concat()),
        1 => (select(CEL_PIECES.to_vec()), 1..400_usize).prop_map(|(piece, times)| piece.repeat(times)),
        1 => (select(RULES.to_vec()), vec(select(CEL_PIECES.to_vec()), 1..3)).prop_map(|(rule, more)| format!("{rule}{}", more.concat())),
    ]
}

fn rule() -> impl Strategy<Value = Value> {
    let more = select(vec![
        json!({}),
        json!({"message": " "}),
        json!({"message": "a\nb"}),
        json!({"messageExpression": "self"}),
        json!({"messageExpression": "'a' + string(self)"}),
        json!({"messageExpression": "string(self.a) + self.b"}),
        json!({"reason": "FieldValueDuplicate"}),
        json!({"reason": "Odd"}),
        json!({"fieldPath": ".a"}),
        json!({"fieldPath": ".a['b'].."}),
        json!({"optionalOldSelf": true}),
        json!({"optionalOldSelf": "yes"}),
    ]);
    (expression(), more).prop_map(|(rule, mut more)| {
        more["rule"] = json!(rule);
        more
    })
}

/// Makes a further field of a schema, beside its type.
fn companion() -> impl Strategy<Value = (&'static str, Value)> {
    let keys = vec![
        "format",
        "default",
        "enum",
        "maximum",
        "minLength",
        "pattern",
        "maxItems",
        "maxProperties",
        "multipleOf",
        "uniqueItems",
        "nullable",
        "required",
        "items",
        "additionalProperties",
        "properties",
        "anyOf",
        "allOf",
        "not",
        "x-kubernetes-list-type",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-map-type",
        "x-kubernetes-int-or-string",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-embedded-resource",
        "$ref",
        "odd",
    ];
    let values = vec![
        Value::Null,
        json!(true),
        json!(false),
        json!(0),
        json!(-1),
        json!(1e300),
        json!(""),
        json!("date-time"),
        json!("int32"),
        json!("(a+)+$"),
        json!("("),
        json!("set"),
        json!("map"),
        json!("atomic"),
        json!(["a"]),
        json!(["a", "a"]),
        json!([]),
        json!({}),
        json!({"type": "string"}),
        json!([{"type": "string"}, {"minimum": 1}]),
        json!([{"required": ["a"]}, {"properties": {"a": {"enum": ["x"]}}}]),
    ];
    (select(keys), select(values))
}

fn schema() -> impl Strategy<Value = Value> {
    let types = || select(vec!["string", "integer", "number", "boolean", "object", "array", "null", ""]);
    let finished = |kind: &str, companions: Vec<(&str, Value)>, rules: Vec<Value>| {
        let mut node: Map<String, Value> = companions.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        if !kind.is_empty() {
            node.insert("type".to_owned(), json!(kind));
        }
        if !rules.is_empty() {
            node.insert("x-kubernetes-validations".to_owned(), json!(rules));
        }
        node
    };
    let leaf = (types(), vec(companion(), 0..2), vec(rule(), 0..2))
        .prop_map(move |(kind, companions, rules)| Value::Object(finished(kind, companions, rules)));
    leaf.prop_recursive(4, 24, 3, move |inner| {
        let parts = (vec(inner, 1..3), vec(companion(), 0..2), vec(rule(), 0..2), 0..3_u8);
        parts.prop_map(move |(inner, companions, rules, form)| {
            let first = inner[0].clone();
            let (kind, key, value) = match form {
                0 => ("array", "items", first),
                1 => ("object", "additionalProperties", first),
                _ => {
                    let named = ["a", "b", "c-d"].into_iter().map(str::to_owned).zip(inner);
                    ("object", "properties", Value::Object(named.collect()))
                }
            };
            let mut node = finished(kind, companions, rules);
            node.insert(key.to_owned(), value);
            Value::Object(node)
        })
    })
}

/// Makes the `spec` of an object, which does not follow the schema.
fn content() -> impl Strategy<Value = Value> {
    let leaf = select(vec![
        Value::Null,
        json!(true),
        json!(0),
        json!(-5),
        json!(1.5),
        json!(i64::MAX),
        json!(""),
        json!("a"),
        json!("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!"),
        json!("2026-01-01T00:00:00Z"),
        json!(vec![1; 300]),
        json!("x".repeat(20_000)),
    ]);
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(Value::Array),
            vec(inner, 0..3).prop_map(|inner| {
                Value::Object(["a", "b", "c-d"].into_iter().map(str::to_owned).zip(inner).collect())
            }),
        ]
    })
}

/// A definition, and objects of its kind.
#[derive(Clone, Debug)]
pub struct Case {
    schema: Value,
    /// The `spec` of each object.
    pub contents: Vec<Value>,
}

pub fn cases() -> impl Strategy<Value = Case> {
    (schema(), vec(content(), 1..4)).prop_map(|(schema, contents)| Case { schema, contents })
}

impl Case {
    /// Returns the definition. Each case has its own kind, since a deletion takes time.
    pub fn definition(&self, plural: &str) -> Value {
        let root = json!({"type": "object", "properties": {"spec": self.schema}});
        let version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": root}});
        json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.{GROUP}")},
            "spec": {"group": GROUP, "scope": "Cluster", "names": {"plural": plural, "kind": plural}, "versions": [version]},
        })
    }
}
