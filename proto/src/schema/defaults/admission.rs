//! Defaults of webhooks and admission policies.
//!
//! Corresponds to pkg/apis/admissionregistration/v1.

use super::DefaultValue::{Empty, Int, Text};
use super::Row::{self, Each, In, Set};
use super::cluster::SERVICE_PORT;

pub const VALIDATING_WEBHOOKS: &[Row] = &[Each("webhooks", WEBHOOK)];

pub const MUTATING_WEBHOOKS: &[Row] =
    &[Each("webhooks", WEBHOOK), Each("webhooks", &[Set("reinvocationPolicy", Text("Never"))])];

const WEBHOOK: &[Row] = &[
    Set("failurePolicy", Text("Fail")),
    Set("matchPolicy", Text("Equivalent")),
    Set("namespaceSelector", Empty),
    Set("objectSelector", Empty),
    Set("timeoutSeconds", Int(10)),
    In("clientConfig.service", SERVICE_PORT),
    Each("rules", RULE),
];

const RULE: &[Row] = &[Set("scope", Text("*"))];

pub const POLICY: &[Row] = &[In("spec", &[Set("failurePolicy", Text("Fail")), In("matchConstraints", MATCH)])];

pub const POLICY_BINDING: &[Row] = &[In("spec.matchResources", MATCH)];

const MATCH: &[Row] = &[
    Set("matchPolicy", Text("Equivalent")),
    Set("namespaceSelector", Empty),
    Set("objectSelector", Empty),
    Each("resourceRules", RULE),
    Each("excludeResourceRules", RULE),
];
