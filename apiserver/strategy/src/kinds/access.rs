//! Kinds that control access: roles, flow control, signing requests, admission policies and webhooks.
//!
//! Corresponds to pkg/registry/rbac, flowcontrol, certificates and admissionregistration.

use super::rules::{Generation, Rules, STATUS_METADATA};
use crate::validation::restore::restore;
use crate::validation::{
    access, flow_control, object_meta, pod_certificates, policies, signing_requests, trust_bundles, webhooks,
};
use crate::write_context::WriteContext;
use serde_json::{Value, json};

const SPEC: Generation = Generation::Of(&["spec"]);

const RBAC: Rules = Rules {
    group: "rbac.authorization.k8s.io",
    name: object_meta::path_segment,
    create_on_update: true,
    ..Rules::DEFAULT
};

const FLOW_CONTROL: Rules = Rules {
    group: "flowcontrol.apiserver.k8s.io",
    generation: SPEC,
    validate_status: flow_control::status,
    ..Rules::DEFAULT
};

const POLICIES: Rules =
    Rules { group: "admissionregistration.k8s.io", generation: SPEC, unconditional_update: false, ..Rules::DEFAULT };

const WEBHOOKS: Rules = Rules {
    generation: Generation::Of(&["webhooks"]),
    validate: webhooks::configuration,
    revalidates: false,
    validate_update: webhooks::configuration_update,
    ..POLICIES
};

pub const ROWS: &[Rules] = &[
    Rules { resource: "clusterroles", validate: access::role, ..RBAC },
    Rules {
        resource: "clusterrolebindings",
        validate: access::binding,
        validate_update: access::binding_update,
        ..RBAC
    },
    Rules { resource: "roles", validate: access::role, ..RBAC },
    Rules { resource: "rolebindings", validate: access::binding, validate_update: access::binding_update, ..RBAC },
    Rules { resource: "flowschemas", validate: flow_control::flow_schema, ..FLOW_CONTROL },
    Rules { resource: "prioritylevelconfigurations", validate: flow_control::priority_level, ..FLOW_CONTROL },
    Rules {
        group: "certificates.k8s.io",
        resource: "certificatesigningrequests",
        // Any name is valid.
        name: |_, _| Vec::new(),
        create: create_signing_request,
        update: update_signing_request,
        update_status: update_signing_request_status,
        validate: signing_requests::create,
        revalidates: false,
        validate_update: signing_requests::update,
        validate_status: signing_requests::status,
        ..Rules::DEFAULT
    },
    Rules {
        group: "certificates.k8s.io",
        resource: "clustertrustbundles",
        // The validation of the kind checks the name, which depends on the signer.
        name: |_, _| Vec::new(),
        unconditional_update: false,
        validate: trust_bundles::create,
        revalidates: false,
        revalidates_metadata: false,
        validate_update: trust_bundles::update,
        ..Rules::DEFAULT
    },
    Rules {
        group: "certificates.k8s.io",
        resource: "podcertificaterequests",
        unconditional_update: false,
        update_status: update_pod_certificate_status,
        validate: pod_certificates::create,
        revalidates: false,
        revalidates_metadata: false,
        validate_update: pod_certificates::update,
        validate_status: pod_certificates::status::update,
        status_resets: STATUS_METADATA,
        ..Rules::DEFAULT
    },
    Rules { resource: "validatingwebhookconfigurations", ..WEBHOOKS },
    Rules { resource: "mutatingwebhookconfigurations", ..WEBHOOKS },
    Rules {
        resource: "validatingadmissionpolicies",
        validate: policies::validating,
        revalidates: false,
        validate_update: policies::validating_update,
        validate_status: policies::validating_status,
        ..POLICIES
    },
    Rules { resource: "validatingadmissionpolicybindings", validate: policies::validating_binding, ..POLICIES },
    Rules {
        resource: "mutatingadmissionpolicies",
        validate: policies::mutating,
        revalidates: false,
        validate_update: policies::mutating_update,
        ..POLICIES
    },
    Rules { resource: "mutatingadmissionpolicybindings", validate: policies::binding, ..POLICIES },
];

/// Fills in the user who makes the request. The body cannot name another user.
fn create_signing_request(context: &WriteContext<'_>, request: &mut Value) {
    let user = context.user;
    let Some(spec) = request["spec"].as_object_mut() else { return };
    for (field, text) in [("username", &user.name), ("uid", &user.uid)] {
        match text.is_empty() {
            true => drop(spec.remove(field)),
            false => drop(spec.insert(field.to_owned(), json!(text))),
        }
    }
    spec.insert("groups".to_owned(), json!(user.groups));
    match user.extra.is_empty() {
        true => drop(spec.remove("extra")),
        false => drop(spec.insert("extra".to_owned(), json!(user.extra))),
    }
}

/// Restores the spec, which never changes. The subresource `approval` changes only conditions.
fn update_signing_request(context: &WriteContext<'_>, request: &mut Value, old: &Value) {
    restore(request, old, &["spec"]);
    if context.subresource == "approval" {
        restore(request, old, &["status", "certificate"]);
        stamp_conditions(context, request, old);
    }
}

/// Restores the conditions Approved and Denied, which a signer may not change.
fn update_signing_request_status(context: &WriteContext<'_>, request: &mut Value, old: &Value) {
    keep_conditions(&["Approved", "Denied"], request, old);
    stamp_conditions(context, request, old);
}

/// Restores the conditions that end a request, and dates those that are new.
fn update_pod_certificate_status(context: &WriteContext<'_>, request: &mut Value, old: &Value) {
    keep_conditions(&["Issued", "Denied", "Failed"], request, old);
    let now = json!(proto::meta::time::format(context.now));
    date_transitions(&now, request, old);
}

/// Restores conditions of these types. When their number differs, they stay as they are, for validation to refuse.
fn keep_conditions(types: &[&str], request: &mut Value, old: &Value) {
    for decision in types {
        let before: Vec<&Value> = conditions_of(old).filter(|condition| condition["type"] == *decision).collect();
        let list = request.pointer_mut("/status/conditions").and_then(Value::as_array_mut).into_iter().flatten();
        let now: Vec<&mut Value> = list.filter(|condition| condition["type"] == *decision).collect();
        if now.len() == before.len() {
            now.into_iter().zip(before).for_each(|(now, before)| now.clone_from(before));
        }
    }
}

fn conditions_of(request: &Value) -> impl Iterator<Item = &Value> {
    request.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten()
}

/// Sets the times of conditions that have none: of the last update, and of the last change of `status`.
fn stamp_conditions(context: &WriteContext<'_>, request: &mut Value, old: &Value) {
    let now = json!(proto::meta::time::format(context.now));
    let conditions = request.pointer_mut("/status/conditions").and_then(Value::as_array_mut);
    for condition in conditions.into_iter().flatten().filter(|condition| condition["lastUpdateTime"].is_null()) {
        condition["lastUpdateTime"] = now.clone();
    }
    date_transitions(&now, request, old);
}

/// Sets the times of the last change of `status` where there is none.
fn date_transitions(now: &Value, request: &mut Value, old: &Value) {
    let conditions = request.pointer_mut("/status/conditions").and_then(Value::as_array_mut);
    for condition in conditions.into_iter().flatten() {
        if condition["lastTransitionTime"].is_null() {
            let same = |was: &&Value| was["type"] == condition["type"] && was["status"] == condition["status"];
            let mut times = conditions_of(old).filter(same).map(|was| &was["lastTransitionTime"]);
            condition["lastTransitionTime"] = times.find(|time| !time.is_null()).unwrap_or(now).clone();
        }
    }
}
