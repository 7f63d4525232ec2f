//! Permissions that the content of a write needs: nobody gives away what they do not hold without `escalate` or `bind`, and
//! nobody creates by an update without `create`.
//!
//! Corresponds to pkg/registry/rbac/{clusterrole,role,clusterrolebinding,rolebinding}/policybased.

use super::Result;
use super::mutation::Mutation;
use access::authz::rules::{Rule, uncovered};
use access::authz::{Attributes, Authorization, Decision};
use proto::Status;
use request::UserInfo;
use serde_json::Value;

const GROUP: &str = "rbac.authorization.k8s.io";

/// Roles and bindings may not give away what their writer lacks.
pub async fn authorize(
    authorization: &Authorization,
    mutation: &Mutation<'_>,
    object: &Value,
    old: Option<&Value>,
) -> Result<()> {
    let served = mutation.served();
    if served.group != GROUP || mutation.user.in_group(request::user_info::MASTERS) {
        return Ok(());
    }
    if old.is_some_and(|old| grants_are_equal(old, object)) {
        return Ok(());
    }
    let wanted = match served.resource.as_ref() {
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
            let index = authorization.source().index();
            index.rules_of_role(namespace, kind, name).ok_or_else(|| Status::not_found(GROUP, resource, name))?
        }
        _ => return Ok(()),
    };
    confirm(authorization, mutation, object, &wanted)
}

/// An update that creates its object needs the permission to create it, too.
///
/// Corresponds to withAuthorization of k8s.io/apiserver/pkg/endpoints/handlers/update.go, which names no verb.
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

/// 403 naming every permission that the writer lacks.
fn confirm(authorization: &Authorization, mutation: &Mutation<'_>, object: &Value, wanted: &[Rule]) -> Result<()> {
    let (held, errors) = authorization.rules_for(mutation.user, mutation.namespace);
    let mut missing = uncovered(&held, wanted);
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

/// What is granted, and to whom, has not changed.
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
