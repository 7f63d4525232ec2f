//! Defaults of the kinds that manage the cluster: namespaces, nodes, secrets, access, flow control, extensions.
//!
//! Corresponds to pkg/apis/core/v1, rbac, scheduling, authentication, flowcontrol, apiregistration and apiextensions.

use super::DefaultValue::{Empty, Int, Of, Text};
use super::Row::{self, Each, Fix, In, InNew, Set, SetEmpty, SetIf};
use super::{Members, addresses, is_unset, list_at, map_in, resources, text};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

pub const SECRET: &[Row] = &[Set("type", Text("Opaque")), Fix(string_data)];

/// Moves `stringData`, which no answer shows, into `data`.
fn string_data(secret: &mut Members) {
    let Some(Value::Object(strings)) = secret.remove("stringData") else { return };
    let Some(data) = map_in(secret, "data") else { return };
    for (name, text) in strings {
        data.insert(name, Value::from(STANDARD.encode(text.as_str().unwrap_or_default())));
    }
}

pub const NAMESPACE: &[Row] = &[In("status", &[Set("phase", Text("Active"))]), Fix(name_as_label)];

/// Sets the label by which selectors can name a namespace.
fn name_as_label(namespace: &mut Members) {
    let Some(Value::Object(metadata)) = namespace.get_mut("metadata") else { return };
    let name = text(metadata, "name").to_owned();
    if name.is_empty() {
        return;
    }
    if let Some(labels) = map_in(metadata, "labels") {
        labels.insert("kubernetes.io/metadata.name".into(), Value::from(name));
    }
}

pub const NODE: &[Row] = &[
    In("spec", &[Fix(addresses::of_node)]),
    In(
        "status",
        &[
            Fix(|status| resources::round_up(status, "capacity")),
            Fix(|status| resources::round_up(status, "allocatable")),
            Set("allocatable", Of(|status| status.get("capacity").cloned())),
        ],
    ),
];

const RBAC: &str = "rbac.authorization.k8s.io";

pub const ROLE_BINDING: &[Row] = &[
    In("roleRef", &[SetEmpty("apiGroup", Text(RBAC))]),
    Each("subjects", &[SetIf(|subject| matches!(text(subject, "kind"), "User" | "Group"), "apiGroup", Text(RBAC))]),
];

pub const PRIORITY_CLASS: &[Row] = &[Set("preemptionPolicy", Text("PreemptLowerPriority"))];

/// A certificate lives a day.
pub const POD_CERTIFICATE_REQUEST: &[Row] = &[In("spec", &[Set("maxExpirationSeconds", Int(24 * 60 * 60))])];

pub const TOKEN_REQUEST: &[Row] = &[In("spec", &[Set("expirationSeconds", Int(60 * 60))])];

pub const RUNTIME_CLASS: &[Row] = &[In("overhead", &[Fix(|overhead| resources::round_up(overhead, "podFixed"))])];

pub const API_SERVICE: &[Row] = &[In("spec.service", SERVICE_PORT)];

/// The port of a service that a webhook or an aggregated server names.
pub const SERVICE_PORT: &[Row] = &[Set("port", Int(443))];

pub const CUSTOM_RESOURCE_DEFINITION: &[Row] = &[
    In(
        "spec",
        &[
            In(
                "names",
                &[
                    Set("singular", Of(|names| Some(text(names, "kind").to_lowercase().into()))),
                    Set("listKind", Of(list_kind)),
                ],
            ),
            InNew("conversion", &[Set("strategy", Text("None"))]),
            In("conversion.webhook.clientConfig.service", SERVICE_PORT),
        ],
    ),
    Fix(stored_versions),
];

/// Sets `status.storedVersions` to the storage version, if it is empty.
fn stored_versions(definition: &mut Members) {
    let versions = list_at(definition, "spec.versions");
    let Some(storage) = versions.iter().find(|version| version["storage"] == true) else { return };
    let storage = storage["name"].clone();
    let status = definition.entry("status").or_insert(Value::Null);
    if status["storedVersions"].as_array().is_none_or(Vec::is_empty) {
        status["storedVersions"] = Value::Array(vec![storage]);
    }
}

fn list_kind(names: &Members) -> Option<Value> {
    let kind = text(names, "kind");
    (!kind.is_empty()).then(|| Value::from(format!("{kind}List")))
}

pub const FLOW_SCHEMA: &[Row] = &[In("spec", &[Fix(matching_precedence)])];

/// Replaces a precedence of zero, too.
fn matching_precedence(spec: &mut Members) {
    if is_unset(spec, "matchingPrecedence") || spec["matchingPrecedence"] == 0 {
        spec.insert("matchingPrecedence".into(), Value::from(1000));
    }
}

pub const PRIORITY_LEVEL: &[Row] = &[In(
    "spec",
    &[
        SetIf(|spec| text(spec, "type") == "Exempt", "exempt", Empty),
        In("exempt", &[Set("nominalConcurrencyShares", Int(0)), Set("lendablePercent", Int(0))]),
        In(
            "limited",
            &[
                Set("nominalConcurrencyShares", Int(30)),
                Set("lendablePercent", Int(0)),
                In("limitResponse.queuing", &[Fix(queues)]),
            ],
        ),
    ],
)];

/// Sets the numbers of queues, which are always written. Zero counts as absent.
fn queues(queuing: &mut Members) {
    for (field, usual) in [("queues", 64), ("handSize", 8), ("queueLengthLimit", 50)] {
        if is_unset(queuing, field) || queuing[field] == 0 {
            queuing.insert(field.into(), Value::from(usual));
        }
    }
}
