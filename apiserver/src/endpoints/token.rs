//! `token`: issues a token of a service account, for the POST of a TokenRequest.
//!
//! Corresponds to TokenREST in pkg/registry/core/serviceaccount/storage/token.go.

use super::body::{ExpectedKind, RequestBody};
use super::{Call, present};
use access::authn::service_account::{Issue, Reference};
use admission::Operation;
use axum::body::Body;
use cacher::lookup::{Lookup, ObjectKey};
use http::Response;
use jiff::SignedDuration;
use patch::apply::FieldManager;
use proto::meta::status::FieldError;
use proto::resources::Target;
use proto::schema::builtin_type;
use proto::{Object, Status};
use serde_json::{Value, json};
use strategy::object_meta;

const GROUP: &str = "authentication.k8s.io";
const TOKEN_REQUEST: &str = "io.k8s.api.authentication.v1.TokenRequest";
const DEFAULT_EXPIRATION_S: i64 = 3600;
const MIN_EXPIRATION_S: i64 = 600;
const MAX_EXPIRATION_S: i64 = 1 << 32;
/// The expiration that kubelets request for the default token volume. Its clients may not reload tokens, so the token is
/// valid for [`EXTENDED_EXPIRATION_S`], and its use after this time is only warned about.
const WARN_ONLY_EXPIRATION_S: i64 = 3607;
const EXTENDED_EXPIRATION_S: i64 = 365 * 24 * 3600;

pub async fn answer(call: &Call<'_>, target: &Target, body: Body) -> Result<Response<Body>, Status> {
    let form = call.plain_form()?;
    let kind = ExpectedKind::builtin(GROUP, "v1", "TokenRequest", TOKEN_REQUEST);
    let body = RequestBody::read(call, &kind.schema, "CreateOptions", body).await?;
    let mut request = body.decode(call, &kind)?;
    set_defaults(&mut request);
    let name = call.info.name.as_str();
    let namespace = call.info.namespace.as_str();
    let invalid = |errors: &[FieldError]| Status::invalid(GROUP, "TokenRequest", name, errors);
    let mismatch = |field: &str, given: &str, what: &str| {
        let why = format!("must match the service account {what} if specified");
        invalid(&[FieldError::invalid(format!("metadata.{field}"), &json!(given), why)])
    };
    let account = call.server.registry.read_object(target, namespace, name, "").await?;
    let given = object_meta::text(&request, "name");
    if !given.is_empty() && given != name {
        return Err(mismatch("name", given, "name"));
    }
    let given = object_meta::text(&request, "namespace");
    if !given.is_empty() && given != namespace {
        return Err(mismatch("namespace", given, "namespace"));
    }
    set_managed_fields(call, target, &mut request, &call.manager(&body.options.field_manager));
    let meta = object_meta::meta_mut(&mut request);
    meta.insert("name".into(), json!(name));
    meta.insert("namespace".into(), json!(namespace));
    let mut mutation = call.mutation(target, "", body.options.dry_run, &body.options.given);
    call.admit(Operation::Create, &mut mutation, &mut request).await?;
    let errors = validate(&request);
    if !errors.is_empty() {
        return Err(Status::invalid(GROUP, "TokenRequest", "", &errors));
    }
    issue(call, &account, &mut request).await?;
    Ok(present::unstored(&form, 201, &request))
}

fn set_defaults(request: &mut Value) {
    let spec = &mut request["spec"];
    if spec.get("expirationSeconds").is_none_or(Value::is_null) {
        spec["expirationSeconds"] = json!(DEFAULT_EXPIRATION_S);
    }
}

/// Sets `managedFields` of the request, as for every object.
fn set_managed_fields(call: &Call<'_>, target: &Target, request: &mut Value, manager: &str) {
    let Some(served) = request_kind() else { return };
    let nothing = patch::apply::fields::FieldSet::default();
    let now = call.server.env.wall();
    let mut described = served;
    described.kind = "TokenRequest".into();
    FieldManager::new(&target.row, &described, &call.info.subresource, &nothing, now).update(None, request, manager);
}

/// Returns TokenRequest as a served kind. It is made from TokenReview, as it has no row of its own.
fn request_kind() -> Option<proto::resources::Served> {
    let reviews = proto::resources::Catalogue::builtin();
    let review = reviews.by_gvr(&proto::Gvr::new(GROUP, "v1", "tokenreviews"))?;
    let mut served = review.served().clone();
    served.schema = builtin_type(TOKEN_REQUEST);
    Some(served)
}

fn validate(request: &Value) -> Vec<FieldError> {
    let seconds = request["spec"]["expirationSeconds"].as_i64().unwrap_or(0);
    let field = "spec.expirationSeconds";
    let mut errors = Vec::new();
    if seconds < MIN_EXPIRATION_S {
        errors.push(FieldError::invalid(field, &json!(seconds), "may not specify a duration less than 10 minutes"));
    }
    if seconds > MAX_EXPIRATION_S {
        errors.push(FieldError::invalid(field, &json!(seconds), "may not specify a duration larger than 2^32 seconds"));
    }
    errors
}

/// Issues the token and writes it into the status of the request.
async fn issue(call: &Call<'_>, account: &Object, request: &mut Value) -> Result<(), Status> {
    let tokens = call
        .server
        .access
        .authentication
        .service_accounts
        .as_ref()
        .ok_or_else(|| Status::not_implemented("this server has no service account signing key"))?;
    let bound = bound_objects(call, account, request).await?;
    let requested: Vec<String> = request["spec"]["audiences"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|a| a.as_str().map(str::to_owned))
        .collect();
    let audiences = if requested.is_empty() { tokens.api_audiences.clone() } else { requested };
    let expiration_s = request["spec"]["expirationSeconds"].as_i64().unwrap_or(DEFAULT_EXPIRATION_S);
    let longest_s = call.server.config.service_account_max_token_expiration.map(|longest| longest.as_secs() as i64);
    let expiration_s = match longest_s {
        Some(longest_s) if expiration_s > longest_s => {
            let shortened = format!("requested expiration of {expiration_s} seconds shortened to {longest_s} seconds");
            call.record.warn([shortened]);
            request["spec"]["expirationSeconds"] = json!(longest_s);
            longest_s
        }
        _ => expiration_s,
    };
    let extends = call.server.config.service_account_extend_token_expiration
        && bound.pod.is_some()
        && expiration_s == WARN_ONLY_EXPIRATION_S
        && audiences.iter().all(|audience| tokens.api_audiences.contains(audience));
    let now = call.server.env.wall();
    request["spec"]["audiences"] = json!(audiences);
    let token = tokens.issue(Issue {
        namespace: &call.info.namespace,
        account: reference(account),
        pod: bound.pod,
        node: bound.node,
        secret: bound.secret,
        audiences,
        // The response still shows the requested expiration, so that the client renews the token in time.
        expiration_s: if extends { EXTENDED_EXPIRATION_S } else { expiration_s },
        warn_after_s: extends.then_some(expiration_s),
        token_id: call.server.random.uid(),
        now,
    })?;
    let expires = now + SignedDuration::from_secs(expiration_s);
    request["status"] = json!({"token": token, "expirationTimestamp": object_meta::time(expires)});
    let meta = object_meta::meta_mut(request);
    meta.insert("uid".into(), json!(account.index.uid));
    meta.insert("creationTimestamp".into(), json!(object_meta::time(now)));
    if request["spec"].get("boundObjectRef").is_none() {
        request["spec"]["boundObjectRef"] = Value::Null;
    }
    Ok(())
}

/// The objects that the token names in its claims.
#[derive(Default)]
struct BoundObjects {
    pod: Option<Reference>,
    node: Option<Reference>,
    secret: Option<Reference>,
}

fn reference(object: &Object) -> Reference {
    Reference { name: object.index.name.clone(), uid: object.index.uid.clone() }
}

/// Looks up the object to which the token is bound, and for a pod its node, because the token carries their uids.
async fn bound_objects(call: &Call<'_>, account: &Object, request: &Value) -> Result<BoundObjects, Status> {
    let Some(wanted) = request["spec"].get("boundObjectRef").filter(|r| !r.is_null()) else {
        return Ok(BoundObjects::default());
    };
    let text = |key: &str| wanted.get(key).and_then(Value::as_str).unwrap_or_default();
    let (kind, name, uid) = (text("kind"), text("name"), text("uid"));
    let namespace = call.info.namespace.as_str();
    let (resource, namespace) = match (text("apiVersion"), kind) {
        ("v1", "Pod") => ("pods", namespace),
        ("v1", "Secret") => ("secrets", namespace),
        ("v1", "Node") => ("nodes", ""),
        (api_version, kind) => {
            let (group, version) = proto::gvk::split_api_version(api_version);
            return Err(Status::bad_request(format!(
                "cannot bind token to object of type {group}/{version}, Kind={kind}"
            )));
        }
    };
    let registry = &call.server.registry;
    let live = registry.get_live(ObjectKey::new("", resource, namespace, name)).await?;
    let object = live.ok_or_else(|| Status::not_found("", resource, name))?;
    let known = object.index.uid.as_str();
    if !uid.is_empty() && uid != known {
        return Err(Status::conflict(
            "",
            resource,
            name,
            format!(
                "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been deleted and then recreated ({known})"
            ),
        ));
    }
    let found = Some(reference(&object));
    match resource {
        "pods" => {
            let pod = object.peek();
            let runs_as = pod["spec"]["serviceAccountName"].as_str().unwrap_or_default();
            let account_name = account.index.name.as_str();
            if runs_as != account_name {
                return Err(Status::bad_request(format!(
                    "cannot bind token for serviceaccount {account_name:?} to pod running with different serviceaccount name."
                )));
            }
            let node = match pod["spec"]["nodeName"].as_str().filter(|n| !n.is_empty()) {
                None => None,
                Some(node) => {
                    let known = registry.get(ObjectKey::cluster("", "nodes", node))?;
                    Some(known.map_or(Reference { name: node.to_owned(), uid: String::new() }, |n| reference(&n)))
                }
            };
            Ok(BoundObjects { pod: found, node, secret: None })
        }
        "nodes" => Ok(BoundObjects { node: found, ..BoundObjects::default() }),
        _ => Ok(BoundObjects { secret: found, ..BoundObjects::default() }),
    }
}
