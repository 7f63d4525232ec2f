//! Kinds that are never stored: reviews of tokens and permissions, bindings and component statuses.
//!
//! Corresponds to pkg/registry/{authentication,authorization}.

use super::body::{self, RequestBody};
use super::{Call, binding, component_status, present, selectors};
use access::authn::{AuthenticationListener, TokenOutcome};
use access::authz::rules::Rule;
use access::authz::{Attributes, Decision, Verdict};
use admission::Operation;
use axum::body::Body;
use http::Response;
use patch::apply::FieldManager;
use patch::apply::fields::FieldSet;
use proto::Status;
use proto::meta::status::FieldError;
use proto::resources::Target;
use request::UserInfo;
use serde_json::{Value, json};
use strategy::object_meta;

pub async fn answer(call: &Call<'_>, target: &Target, body: Body) -> Result<Response<Body>, Status> {
    let served = target.served();
    match served.resource.as_ref() {
        "componentstatuses" => component_status::answer(call, target),
        "bindings" => {
            let (pods, _) = call.server.registry.row_of("", "pods")?;
            binding::answer(call, &pods, "", body).await
        }
        _ => review(call, target, body).await,
    }
}

async fn review(call: &Call<'_>, target: &Target, body: Body) -> Result<Response<Body>, Status> {
    let form = call.plain_form()?;
    let request = RequestBody::read(call, &target.served().schema, "CreateOptions", body).await?;
    let mut object = request.object(call, target)?;
    body::set_namespace(call, target, &mut object)?;
    let reset = FieldSet::of([["status"].as_slice()]);
    let now = call.server.env.wall();
    let manager = call.manager(&request.options.field_manager);
    FieldManager::new(&target.row, target.served(), "", &reset, now).update(None, &mut object, &manager);
    let mut mutation = call.mutation(target, &manager, request.options.dry_run, &request.options.given);
    let name = object_meta::text(&object, "name").to_owned();
    mutation.name = &name;
    call.admit_checked(Operation::Create, &mut mutation, &mut object, |object| check(target, object)).await?;
    match target.served().resource.as_ref() {
        "tokenreviews" => review_token(call, &mut object).await,
        "selfsubjectreviews" => {
            object_meta::meta_mut(&mut object).insert("creationTimestamp".into(), json!(object_meta::time(now)));
            object["status"] = json!({"userInfo": call.user.to_value()});
        }
        "selfsubjectrulesreviews" => review_rules(call, &mut object),
        "subjectaccessreviews" | "localsubjectaccessreviews" => {
            let user = subject(&object["spec"]);
            review_access(call, &mut object, &user).await;
        }
        "selfsubjectaccessreviews" => review_access(call, &mut object, call.user).await,
        _ => return Err(Status::unknown_path()),
    }
    Ok(present::unstored(&form, 201, &object))
}

/// Validates a review.
fn check(target: &Target, review: &Value) -> Result<(), Status> {
    let is_empty = |field: &str| review["spec"][field].as_str().unwrap_or_default().is_empty();
    let errors = match target.served().resource.as_ref() {
        "tokenreviews" if is_empty("token") => {
            return Err(Status::bad_request("token is required for TokenReview in authentication"));
        }
        "selfsubjectrulesreviews" if is_empty("namespace") => {
            return Err(Status::bad_request("no namespace on request"));
        }
        "subjectaccessreviews" => check_subject(review, false),
        "localsubjectaccessreviews" => check_subject(review, true),
        "selfsubjectaccessreviews" => {
            let mut errors = check_attributes(&review["spec"]);
            errors.extend(check_metadata(review, false));
            errors
        }
        _ => Vec::new(),
    };
    // Kubernetes leaves the kind and the name out of this message.
    if errors.is_empty() { Ok(()) } else { Err(Status::invalid(&target.served().group, "", "", &errors)) }
}

async fn review_token(call: &Call<'_>, review: &mut Value) {
    let token = review["spec"]["token"].as_str().unwrap_or_default().to_owned();
    let audiences = strings(&review["spec"]["audiences"]);
    let server = call.server;
    let objects: std::sync::Arc<dyn cacher::lookup::Lookup> = server.registry.clone();
    let outcome = server
        .access
        .authentication
        .authenticate_token(&token, &audiences, &server.env, &objects, &AuthenticationListener::NONE)
        .await;
    review["status"] = match outcome {
        TokenOutcome::Authenticated(user, audiences) => {
            json!({"authenticated": true, "user": user.authenticated().to_value(), "audiences": audiences})
        }
        TokenOutcome::Rejected(why) => json!({"user": {}, "error": why}),
    };
}

fn strings(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(|v| v.as_str().map(str::to_owned)).collect()
}

/// Returns the user of a SubjectAccessReview.
fn subject(spec: &Value) -> UserInfo {
    let extra = spec["extra"].as_object().into_iter().flatten().map(|(k, v)| (k.clone(), strings(v))).collect();
    UserInfo {
        name: spec["user"].as_str().unwrap_or_default().to_owned(),
        uid: spec["uid"].as_str().unwrap_or_default().to_owned(),
        groups: strings(&spec["groups"]),
        extra,
    }
}

fn check_subject(review: &Value, is_local: bool) -> Vec<FieldError> {
    let spec = &review["spec"];
    let mut errors = check_attributes(spec);
    let has_user = spec["user"].as_str().is_some_and(|user| !user.is_empty());
    if !has_user && strings(&spec["groups"]).is_empty() {
        let why = "at least one of user or group must be specified";
        errors.push(FieldError::invalid("spec.user", &json!(spec["user"].as_str().unwrap_or_default()), why));
    }
    errors.extend(check_metadata(review, is_local));
    if is_local {
        let namespace = object_meta::text(review, "namespace");
        let wanted = spec["resourceAttributes"]["namespace"].as_str().unwrap_or_default();
        if spec["resourceAttributes"].is_object() && wanted != namespace {
            let why = "must match metadata.namespace";
            errors.push(FieldError::invalid("spec.resourceAttributes.namespace", &json!(wanted), why));
        }
        if spec.get("nonResourceAttributes").is_some_and(|a| !a.is_null()) {
            let why = "disallowed on this kind of request";
            errors.push(FieldError::invalid("spec.nonResourceAttributes", &spec["nonResourceAttributes"], why));
        }
    }
    errors
}

/// Checks that a review has no metadata, except for the namespace of a local one: it is never stored.
fn check_metadata(review: &Value, is_local: bool) -> Option<FieldError> {
    let is_allowed = |key: &str| key == "managedFields" || (is_local && key == "namespace");
    let has_more = review["metadata"].as_object().into_iter().flatten().any(|(key, _)| !is_allowed(key));
    let why = if is_local { "must be empty except for namespace" } else { "must be empty" };
    has_more.then(|| FieldError::invalid("metadata", &review["metadata"], why))
}

/// Checks that a review has exactly one of the two kinds of attributes, and that its selectors are valid.
fn check_attributes(spec: &Value) -> Vec<FieldError> {
    let has = |key: &str| spec.get(key).is_some_and(|a| !a.is_null());
    let mut errors = match (has("resourceAttributes"), has("nonResourceAttributes")) {
        (true, true) => vec![FieldError::invalid(
            "spec.nonResourceAttributes",
            &spec["nonResourceAttributes"],
            "cannot be specified in combination with resourceAttributes",
        )],
        (false, false) => vec![FieldError::invalid(
            "spec.resourceAttributes",
            // Go prints a nil pointer like this.
            &json!("null"),
            "exactly one of nonResourceAttributes or resourceAttributes must be specified",
        )],
        _ => Vec::new(),
    };
    selectors::check(&spec["resourceAttributes"], "spec.resourceAttributes", &mut errors);
    errors
}

async fn review_access(call: &Call<'_>, review: &mut Value, user: &UserInfo) {
    let spec = review["spec"].clone();
    let resource = &spec["resourceAttributes"];
    let text = |part: &'static str| resource[part].as_str().unwrap_or_default();
    let path = &spec["nonResourceAttributes"];
    let fields = selectors::fields(&resource["fieldSelector"]);
    let labels = selectors::labels(&resource["labelSelector"]);
    let attributes = if resource.is_object() {
        Attributes {
            namespace: text("namespace"),
            version: text("version"),
            subresource: text("subresource"),
            name: text("name"),
            field_selector: &fields,
            label_selector: &labels,
            ..Attributes::of_resource(user, text("verb"), text("group"), text("resource"))
        }
    } else {
        let verb = path["verb"].as_str().unwrap_or_default();
        Attributes::of_path(user, verb, path["path"].as_str().unwrap_or_default())
    };
    let Verdict { decision, error } = call.server.access.authorization.decide(&attributes).await;
    review["status"] = match decision {
        Decision::Allow(reason) => verdict(true, false, &reason),
        Decision::NoOpinion(reason) => verdict(false, false, &reason),
        Decision::Deny(reason) => verdict(false, true, &reason),
    };
    if !error.is_empty() {
        review["status"]["evaluationError"] = json!(error);
    }
}

fn verdict(allowed: bool, denied: bool, reason: &str) -> Value {
    let mut status = json!({"allowed": allowed});
    if denied {
        status["denied"] = json!(true);
    }
    if !reason.is_empty() {
        status["reason"] = json!(reason);
    }
    status
}

/// Fills in what the user may do in a namespace, as far as the authorizers can list rules.
fn review_rules(call: &Call<'_>, review: &mut Value) {
    let namespace = review["spec"]["namespace"].as_str().unwrap_or_default().to_owned();
    let (rules, errors) = call.server.access.authorization.rules_for(call.user, &namespace);
    let resource: Vec<Value> = rules.iter().filter(|r| !r.resources.is_empty()).map(resource_rule).collect();
    let urls: Vec<Value> = rules
        .iter()
        .filter(|r| !r.urls.is_empty())
        .map(|r| json!({"verbs": r.verbs, "nonResourceURLs": r.urls}))
        .collect();
    let mut status = json!({"resourceRules": resource, "nonResourceRules": urls, "incomplete": !errors.is_empty()});
    if !errors.is_empty() {
        status["evaluationError"] = json!(errors.join(", "));
    }
    review["status"] = status;
}

fn resource_rule(rule: &Rule) -> Value {
    let mut value = json!({"verbs": rule.verbs, "apiGroups": rule.groups, "resources": rule.resources});
    if !rule.names.is_empty() {
        value["resourceNames"] = json!(rule.names);
    }
    value
}
