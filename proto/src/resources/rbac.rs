//! rbac.authorization.k8s.io: roles and their bindings.
//!
//! Corresponds to pkg/registry/rbac/rest.

use super::columns::read::{items, str_at};
use super::columns::{age, name, read, string};
use super::row::Group;
use super::{Column, Resource};
use serde_json::{Value, json};

const RBAC: Group = Group { name: "rbac.authorization.k8s.io", version: "v1", package: "io.k8s.api.rbac.v1" };

pub(super) fn rows() -> Vec<Resource> {
    vec![
        RBAC.cluster("clusterrolebindings", "ClusterRoleBinding").followed_by_server().columns(binding_columns()),
        RBAC.cluster("clusterroles", "ClusterRole").followed_by_server(),
        RBAC.namespaced("rolebindings", "RoleBinding").followed_by_server().columns(binding_columns()),
        RBAC.namespaced("roles", "Role").followed_by_server(),
    ]
}

fn binding_columns() -> Vec<Column> {
    vec![
        name(),
        string("Role", "The role that is given.", |o, _| {
            json!(format!("{}/{}", str_at(o, "/roleRef/kind"), str_at(o, "/roleRef/name")))
        }),
        age(),
        string("Users", "The users who have it.", |o, _| subjects(o, "User")).wide(),
        string("Groups", "The groups that have it.", |o, _| subjects(o, "Group")).wide(),
        string("ServiceAccounts", "The service accounts that have it.", |o, _| subjects(o, "ServiceAccount")).wide(),
    ]
}

fn subjects(binding: &Value, kind: &str) -> Value {
    let shown = |subject: &Value| match kind {
        "ServiceAccount" => format!("{}/{}", str_at(subject, "/namespace"), str_at(subject, "/name")),
        _ => str_at(subject, "/name").to_owned(),
    };
    let names: Vec<String> = items(binding, "/subjects").iter().filter(|s| s["kind"] == kind).map(shown).collect();
    json!(read::joined(names.iter().map(String::as_str), ", "))
}
