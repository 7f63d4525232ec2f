//! admissionregistration.k8s.io: webhooks and policies that change or refuse requests.
//!
//! Corresponds to pkg/registry/admissionregistration/rest.

use super::columns::read::{items, str_at};
use super::columns::{age, integer, name, read, string, text};
use super::row::Group;
use super::{Column, Resource};
use serde_json::{Value, json};

const ADMISSION: Group =
    Group { name: "admissionregistration.k8s.io", version: "v1", package: "io.k8s.api.admissionregistration.v1" };

pub(super) fn rows() -> Vec<Resource> {
    let row = |resource, kind| ADMISSION.cluster(resource, kind).category("api-extensions");
    let mutations = integer("Mutations", "How many changes it makes.", |o, _| json!(read::count(o, "/spec/mutations")));
    let validations =
        integer("Validations", "How many checks it makes.", |o, _| json!(read::count(o, "/spec/validations")));
    vec![
        row("mutatingadmissionpolicies", "MutatingAdmissionPolicy")
            .followed_by_server()
            .columns(policy_columns(mutations)),
        row("mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding")
            .followed_by_server()
            .columns(binding_columns()),
        row("mutatingwebhookconfigurations", "MutatingWebhookConfiguration")
            .followed_by_server()
            .columns(webhook_columns()),
        row("validatingadmissionpolicies", "ValidatingAdmissionPolicy")
            .followed_by_server()
            .status()
            .columns(policy_columns(validations)),
        row("validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding")
            .followed_by_server()
            .columns(binding_columns()),
        row("validatingwebhookconfigurations", "ValidatingWebhookConfiguration")
            .followed_by_server()
            .columns(webhook_columns()),
    ]
}

fn webhook_columns() -> Vec<Column> {
    let webhooks = integer("Webhooks", "How many webhooks it has.", |o, _| json!(read::count(o, "/webhooks")));
    vec![name(), webhooks, age()]
}

fn policy_columns(rules: Column) -> Vec<Column> {
    let param_kind = string("ParamKind", "Which kind its parameters have.", |o, _| {
        json!(match o.pointer("/spec/paramKind").filter(|kind| kind.is_object()) {
            Some(kind) => format!("{}/{}", str_at(kind, "/apiVersion"), str_at(kind, "/kind")),
            None => "<unset>".to_owned(),
        })
    });
    vec![name(), rules, param_kind, age()]
}

fn binding_columns() -> Vec<Column> {
    vec![
        name(),
        text("PolicyName", "Which policy it puts to use.", "/spec/policyName"),
        string("ParamRef", "Which parameters it uses.", |o, _| json!(param(o))),
        age(),
    ]
}

fn param(binding: &Value) -> String {
    let Some(reference) = binding.pointer("/spec/paramRef").filter(|r| r.is_object()) else {
        return "<unset>".to_owned();
    };
    match (str_at(reference, "/namespace"), str_at(reference, "/name"), reference.get("selector")) {
        // The table does not know whether the kind of the parameters is namespaced.
        ("", name, _) if !name.is_empty() => format!("*/{name}"),
        (namespace, name, _) if !name.is_empty() => format!("{namespace}/{name}"),
        (_, _, Some(selector)) => go_selector(selector),
        _ => "<unset>".to_owned(),
    }
}

/// Prints a selector as Go's generated code does, which is the text that Kubernetes shows.
fn go_selector(selector: &Value) -> String {
    let labels = selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten();
    let labels: String = labels.map(|(k, v)| format!("{k}: {},", v.as_str().unwrap_or_default())).collect();
    let expression = |e: &Value| {
        let values = read::joined(items(e, "/values").iter().filter_map(Value::as_str), " ");
        let (key, operator) = (str_at(e, "/key"), str_at(e, "/operator"));
        format!("LabelSelectorRequirement{{Key:{key},Operator:{operator},Values:[{values}],}},")
    };
    let expressions: String = items(selector, "/matchExpressions").iter().map(expression).collect();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
}
