//! Objects that are generated from the type of a kind, with as many of its fields as chance gives them.
//!
//! They show that validation reads only fields that the type defines: `At::field` panics at others in debug builds.

use super::StrategyOf;
use crate::gates::Gates;
use crate::write_context::WriteContext;
use component_base::env::Env;
use component_base::rng::Random;
use proto::resources::Resource;
use proto::schema::{Schema, Shape};
use request::UserInfo;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Texts of generated objects. Most of them make validation take a certain branch.
const WORDS: &[&str] = &[
    "",
    "a",
    "a/b",
    "/a",
    "10.0.0.1",
    "10.0.0.0/8",
    "fd00::1",
    "IPv4",
    "IPv6",
    "FQDN",
    "TCP",
    "Pod",
    "Container",
    "cpu",
    "PersistentVolumeClaim",
    "Service",
    "User",
    "Group",
    "ServiceAccount",
    "True",
    "Always",
    "Never",
    "OnFailure",
    "In",
    "Exists",
    "DoesNotExist",
    "Equal",
    "NoExecute",
    "ClusterIP",
    "LoadBalancer",
    "NodePort",
    "ExternalName",
    "None",
    "Local",
    "Cluster",
    "Resource",
    "Pods",
    "Object",
    "External",
    "ContainerResource",
    "Utilization",
    "Value",
    "Queue",
    "Limited",
    "Exempt",
    "RollingUpdate",
    "Recreate",
    "OnDelete",
    "Indexed",
    "NonIndexed",
    "Localhost",
    "Unconfined",
    "RuntimeDefault",
    "Bidirectional",
    "Recursive",
    "hostname",
    "linux",
    "windows",
    "kubernetes.io/tls",
    "*",
    "kubernetes.io/service-account-token",
    "FailJob",
    "Approved",
    "JSONPatch",
    "ApplyConfiguration",
    "metadata.name",
    "limits.cpu",
    "status.podIP",
    "rbac.authorization.k8s.io",
    "* * * * *",
    "Retain",
    "Delete",
    "Recycle",
    "Block",
    "Webhook",
    "array",
    "map",
    "set",
    "object",
];

/// Returns a random value of the type, with about three in four of its fields. Objects below `depth` are left out.
pub fn generated(schema: &Schema, depth: u32, random: &Random) -> Value {
    let word = || WORDS[random.below(WORDS.len())];
    match &schema.resolve().shape {
        Shape::Object(properties) if depth > 0 => {
            let fields = properties.fields.iter().filter(|_| random.below(4) > 0);
            let values = fields.map(|(name, field)| (name.to_string(), generated(field, depth - 1, random)));
            Value::Object(values.filter(|(_, value)| !value.is_null()).collect())
        }
        Shape::Map(values) => {
            Value::Object(Map::from_iter([(word().to_owned(), generated(values, depth.saturating_sub(1), random))]))
        }
        Shape::List(items) => (0..random.below(3)).map(|_| generated(items, depth.saturating_sub(1), random)).collect(),
        Shape::String => json!(word()),
        Shape::Integer | Shape::IntOrString => json!(random.below(5)),
        Shape::Number => json!(1.5),
        Shape::Boolean => json!(random.below(2) == 0),
        Shape::Quantity => json!("1Gi"),
        Shape::Time => json!("2026-01-01T00:00:00Z"),
        Shape::MicroTime => json!("2026-01-01T00:00:00.000000Z"),
        _ => Value::Null,
    }
}

/// Validates creations and updates of generated objects of a row, in all its versions, and of their status.
pub fn validate_generated(strategy_of: StrategyOf, row: &Arc<Resource>, depth: u32, rounds: u64) {
    let env = Env::simulated(1);
    let (random, gates) = (env.random("objects"), Gates::default());
    let (strategy, schema) = (strategy_of(row), row.storage_version().schema.schema());
    for round in 0..rounds {
        let (object, old) = (generated(schema, depth, &random), generated(schema, depth, &random));
        for (served, subresource) in row.served.iter().flat_map(|served| ["", "status"].map(|part| (served, part))) {
            let context = WriteContext {
                user: &UserInfo::new("ann", &[]),
                row,
                served,
                namespace: "shop",
                name: "a",
                subresource,
                dry_run: false,
                now: env.wall(),
                random: &random,
                gates: &gates,
                warnings: Vec::new(),
            };
            strategy.validate(&context, &object);
            strategy.warnings_on_create(&context, &object);
            for old in [&old, &object].into_iter().take(if round % 2 == 0 { 2 } else { 1 }) {
                strategy.validate_update(&context, &object, old);
                strategy.warnings_on_update(&context, &object, old);
            }
        }
    }
}
