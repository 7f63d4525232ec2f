//! `Grant`: one subject of one binding, in the order in which an index keeps them.

use super::text;
use request::user_info::SERVICE_ACCOUNT_PREFIX;
use serde_json::Value;
use std::fmt;
use std::sync::Arc;

/// Whom a request comes from, or a group that he is in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Holder {
    User(Arc<str>),
    Group(Arc<str>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RoleKind {
    ClusterRole,
    Role,
}

/// What a binding refers to. A Role is one of the binding's namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RoleRef {
    pub kind: RoleKind,
    pub name: Arc<str>,
}

/// How the binding calls its subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum SubjectKind {
    User,
    Group,
    ServiceAccount,
}

/// Sorted by holder, place and role, so that all bindings of one of them to one role stand together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Grant {
    pub holder: Holder,
    /// Empty: everywhere.
    pub namespace: Arc<str>,
    pub role: RoleRef,
    binding: Arc<str>,
    subject: SubjectKind,
}

impl RoleKind {
    pub fn of(name: &str) -> Self {
        if name == "ClusterRole" { Self::ClusterRole } else { Self::Role }
    }
}

impl fmt::Display for RoleKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ClusterRole => "ClusterRole",
            Self::Role => "Role",
        })
    }
}

impl RoleRef {
    /// What is said of a role that does not exist.
    pub fn not_found(&self) -> String {
        format!("{}.rbac.authorization.k8s.io \"{}\" not found", self.kind.to_string().to_lowercase(), self.name)
    }
}

impl Grant {
    /// What a binding grants: one for each of its subjects.
    pub fn all_of(binding: &Value) -> impl Iterator<Item = Self> {
        let namespace: Arc<str> = text(binding, "/metadata/namespace").into();
        let name: Arc<str> = text(binding, "/metadata/name").into();
        let kind = RoleKind::of(text(binding, "/roleRef/kind"));
        let role = RoleRef { kind, name: text(binding, "/roleRef/name").into() };
        let subjects = binding.get("subjects").and_then(Value::as_array).into_iter().flatten();
        subjects.filter_map(move |subject| {
            let named = text(subject, "/name");
            let (subject, holder) = match text(subject, "/kind") {
                "User" => (SubjectKind::User, Holder::User(named.into())),
                "Group" => (SubjectKind::Group, Holder::Group(named.into())),
                "ServiceAccount" => {
                    let of = Some(text(subject, "/namespace")).filter(|of| !of.is_empty()).unwrap_or(&namespace);
                    let user = format!("{SERVICE_ACCOUNT_PREFIX}{of}:{named}");
                    (SubjectKind::ServiceAccount, Holder::User(user.into()))
                }
                _ => return None,
            };
            Some(Self { holder, namespace: namespace.clone(), role: role.clone(), binding: name.clone(), subject })
        })
    }

    /// Stands before every grant to this holder in this place.
    pub fn before_all(holder: Holder, namespace: Arc<str>) -> Self {
        let role = RoleRef { kind: RoleKind::ClusterRole, name: Arc::default() };
        Self { holder, namespace, role, binding: Arc::default(), subject: SubjectKind::User }
    }

    /// Stands behind every grant of this role to this holder in this place, and before those of the next role.
    pub fn behind_role(&self) -> Self {
        // No text stands between a text and the same with the least character behind it.
        let role = RoleRef { kind: self.role.kind, name: format!("{}\0", self.role.name).into() };
        Self { role, ..Self::before_all(self.holder.clone(), self.namespace.clone()) }
    }

    /// Of the same holder in the same place.
    pub fn is_beside(&self, other: &Self) -> bool {
        self.holder == other.holder && self.namespace == other.namespace
    }
}

/// `ClusterRoleBinding "admins" of ClusterRole "admin" to Group "ops"`, with the namespace where there is one.
impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { holder, namespace, role, binding, subject } = self;
        match namespace.as_ref() {
            "" => write!(f, "ClusterRoleBinding \"{binding}\"")?,
            namespace => write!(f, "RoleBinding \"{binding}/{namespace}\"")?,
        }
        write!(f, " of {} \"{}\" to {subject:?} ", role.kind, role.name)?;
        let (Holder::User(name) | Holder::Group(name)) = holder;
        match (subject, name.strip_prefix(SERVICE_ACCOUNT_PREFIX).and_then(|account| account.split_once(':'))) {
            (SubjectKind::ServiceAccount, Some((of, account))) => write!(f, "\"{account}/{of}\""),
            _ => write!(f, "\"{name}\""),
        }
    }
}
