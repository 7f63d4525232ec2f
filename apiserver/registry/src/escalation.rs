//! Escalation checks: a user without `escalate` or `bind` cannot grant permissions that they do not hold, a user without
//! `sign` cannot issue the certificate of a pod, and a user without `create` cannot create an object by an update.
//!
//! Corresponds to pkg/registry/rbac/{clusterrole,role,clusterrolebinding,rolebinding}/policybased, and to the status strategy
//! of pkg/registry/certificates/podcertificaterequest.

use super::Result;
use super::mutation::Mutation;
use access::authz::rules::{Rule, uncovered};
use access::authz::{Attributes, Authorization, Decision};
use proto::Status;
use proto::meta::status::FieldError;
use request::UserInfo;
use serde_json::Value;

const GROUP: &str = "rbac.authorization.k8s.io";
const CERTIFICATES: &str = "certificates.k8s.io";

/// Authorizes the content of a role or binding, which may not grant permissions that its writer lacks, and the certificate of
/// a pod, which only those who may sign for the signer issue.
pub async fn authorize(
    authorization: &Authorization,
    mutation: &Mutation<'_>,
    object: &Value,
    old: Option<&Value>,
) -> Result<()> {
    let served = mutation.served();
    if (served.group.as_ref(), served.resource.as_ref()) == (CERTIFICATES, "podcertificaterequests") {
        return authorize_certificate(authorization, mutation, object, old).await;
    }
    if served.group != GROUP || mutation.user.in_group(request::user_info::MASTERS) {
        return Ok(());
    }
    if old.is_some_and(|old| grants_are_equal(old, object)) {
        return Ok(());
    }
    let granted = match served.resource.as_ref() {
        "roles" | "clusterroles" => {
            if may(authorization, mutation.user, "escalate", &served.resource, mutation.namespace, name_of(object))
                .await
            {
                return Ok(());
            }
            Rule::all_of(object)
        }
        "rolebindings" | "clusterrolebindings" => {
            let (kind, name) = (text(object, "/roleRef/kind"), text(object, "/roleRef/name"));
            let resource = if kind == "ClusterRole" { "clusterroles" } else { "roles" };
            let namespace = mutation.namespace;
            if may(authorization, mutation.user, "bind", resource, namespace, name).await {
                return Ok(());
            }
            let index = authorization.objects().index();
            index.rules_of_role(namespace, kind, name).ok_or_else(|| Status::not_found(GROUP, resource, name))?
        }
        _ => return Ok(()),
    };
    confirm(authorization, mutation, object, &granted)
}

async fn authorize_certificate(
    authorization: &Authorization,
    mutation: &Mutation<'_>,
    object: &Value,
    old: Option<&Value>,
) -> Result<()> {
    let chain = |object: &Value| text(object, "/status/certificateChain").to_owned();
    let Some(old) = old.filter(|old| mutation.subresource == "status" && chain(old) != chain(object)) else {
        return Ok(());
    };
    let signer = text(old, "/spec/signerName");
    let domain = format!("{}/*", signer.split('/').next().unwrap_or_default());
    for name in [signer, &domain] {
        let signers = Attributes::of_resource(mutation.user, "sign", CERTIFICATES, "signers");
        if authorization.allows(&Attributes { name, ..signers }).await {
            return Ok(());
        }
    }
    let user = &mutation.user.name;
    let why = format!("User {user:?} is not permitted to \"sign\" for signer {signer:?}");
    let error = FieldError::forbidden("spec.signerName", why);
    Err(Status::invalid(CERTIFICATES, &mutation.served().kind, name_of(old), &[error]).into())
}

/// Authorizes the verb `create` for an update that creates its object.
///
/// Corresponds to withAuthorization of k8s.io/apiserver/pkg/endpoints/handlers/update.go. As there, the message of the
/// refusal names no verb.
pub async fn authorize_creation(authorization: &Authorization, mutation: &Mutation<'_>, name: &str) -> Result<()> {
    let served = mutation.served();
    let attributes = Attributes {
        version: &served.version,
        subresource: mutation.subresource,
        namespace: mutation.namespace,
        name,
        ..Attributes::of_resource(mutation.user, "create", &served.group, &served.resource)
    };
    let verdict = authorization.decide(&attributes).await;
    match verdict.decision {
        Decision::Allow(_) => Ok(()),
        _ if !verdict.error.is_empty() => Err(Status::internal(verdict.error).into()),
        Decision::NoOpinion(reason) | Decision::Deny(reason) => {
            Err(Status::forbidden(&served.group, &served.resource, name, reason).into())
        }
    }
}

async fn may(
    authorization: &Authorization,
    user: &UserInfo,
    verb: &str,
    resource: &str,
    namespace: &str,
    name: &str,
) -> bool {
    authorization.allows(&Attributes { namespace, name, ..Attributes::of_resource(user, verb, GROUP, resource) }).await
}

/// Checks that the writer holds the granted permissions. The 403 lists every permission that the writer lacks.
fn confirm(authorization: &Authorization, mutation: &Mutation<'_>, object: &Value, granted: &[Rule]) -> Result<()> {
    let (held, errors) = authorization.rules_for(mutation.user, mutation.namespace);
    let mut missing = uncovered(&held, granted);
    if missing.is_empty() {
        return Ok(());
    }
    missing.sort();
    let user = mutation.user;
    let groups: Vec<String> = user.groups.iter().map(|g| format!("{g:?}")).collect();
    let rules: Vec<String> = missing.iter().map(ToString::to_string).collect();
    let mut why = format!(
        "user {:?} (groups=[{}]) is attempting to grant RBAC permissions not currently held:\n{}",
        user.name,
        groups.join(" "),
        rules.join("\n")
    );
    if !errors.is_empty() {
        why.push_str(&format!("; resolution errors: {errors:?}"));
    }
    let served = mutation.served();
    Err(Status::forbidden(&served.group, &served.resource, name_of(object), why).into())
}

/// Tells whether both objects grant the same permissions to the same subjects.
fn grants_are_equal(old: &Value, new: &Value) -> bool {
    ["rules", "roleRef", "subjects", "aggregationRule"].iter().all(|key| {
        let part = |object: &Value| object.get(key).filter(|v| !v.is_null()).cloned();
        part(old) == part(new)
    })
}

fn name_of(object: &Value) -> &str {
    text(object, "/metadata/name")
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}
