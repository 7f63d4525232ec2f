//! `Grant`: one subject of one binding, in the order in which an index keeps them.

use super::text;
use request::user_info::SERVICE_ACCOUNT_PREFIX;
use serde_json::Value;
use std::fmt;
use std::sync::Arc;

/// The user of a request, or one of its groups. A service account is the user `system:serviceaccount:…`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    User(Arc<str>),
    Group(Arc<str>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RoleKind {
    ClusterRole,
    Role,
}

/// `roleRef` of a binding. A Role is in the binding's namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RoleRef {
    pub kind: RoleKind,
    pub name: Arc<str>,
}

/// `kind` of the subject in the binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum SubjectKind {
    User,
    Group,
    ServiceAccount,
}

/// One subject of one binding. Grants are sorted by subject, namespace and role, so that all grants of one role to one
/// subject are adjacent.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Grant {
    pub subject: Subject,
    /// Namespace of the RoleBinding; empty for a ClusterRoleBinding.
    pub namespace: Arc<str>,
    pub role: RoleRef,
    binding: Arc<str>,
    subject_kind: SubjectKind,
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
    /// Returns the error for a role that does not exist.
    pub fn not_found(&self) -> String {
        format!("{}.rbac.authorization.k8s.io \"{}\" not found", self.kind.to_string().to_lowercase(), self.name)
    }
}

impl Grant {
    /// Returns one grant for each subject of a binding.
    pub fn all_of(binding: &Value) -> impl Iterator<Item = Self> {
        let namespace: Arc<str> = text(binding, "/metadata/namespace").into();
        let name: Arc<str> = text(binding, "/metadata/name").into();
        let kind = RoleKind::of(text(binding, "/roleRef/kind"));
        let role = RoleRef { kind, name: text(binding, "/roleRef/name").into() };
        let subjects = binding.get("subjects").and_then(Value::as_array).into_iter().flatten();
        subjects.filter_map(move |subject| {
            let named = text(subject, "/name");
            let (subject_kind, subject) = match text(subject, "/kind") {
                "User" => (SubjectKind::User, Subject::User(named.into())),
                "Group" => (SubjectKind::Group, Subject::Group(named.into())),
                "ServiceAccount" => {
                    let of = Some(text(subject, "/namespace")).filter(|of| !of.is_empty()).unwrap_or(&namespace);
                    let user = format!("{SERVICE_ACCOUNT_PREFIX}{of}:{named}");
                    (SubjectKind::ServiceAccount, Subject::User(user.into()))
                }
                _ => return None,
            };
            Some(Self {
                subject,
                namespace: namespace.clone(),
                role: role.clone(),
                binding: name.clone(),
                subject_kind,
            })
        })
    }

    /// Returns a key that sorts before all grants to this subject in this namespace.
    pub fn before_grants_to(subject: Subject, namespace: Arc<str>) -> Self {
        let role = RoleRef { kind: RoleKind::ClusterRole, name: Arc::default() };
        Self { subject, namespace, role, binding: Arc::default(), subject_kind: SubjectKind::User }
    }

    /// Returns a key that sorts after all grants of this role to this subject in this namespace, and before the next role.
    pub fn after_role(&self) -> Self {
        // No text sorts between a text and the same text with `\0` appended.
        let role = RoleRef { kind: self.role.kind, name: format!("{}\0", self.role.name).into() };
        Self { role, ..Self::before_grants_to(self.subject.clone(), self.namespace.clone()) }
    }

    /// Tells whether both grant to the same subject in the same namespace.
    pub fn has_same_subject_and_namespace(&self, other: &Self) -> bool {
        self.subject == other.subject && self.namespace == other.namespace
    }
}

/// Formats a grant as `ClusterRoleBinding "admins" of ClusterRole "admin" to Group "ops"`, with the namespace if there is
/// one.
impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { subject, namespace, role, binding, subject_kind } = self;
        match namespace.as_ref() {
            "" => write!(f, "ClusterRoleBinding \"{binding}\"")?,
            namespace => write!(f, "RoleBinding \"{binding}/{namespace}\"")?,
        }
        write!(f, " of {} \"{}\" to {subject_kind:?} ", role.kind, role.name)?;
        let (Subject::User(name) | Subject::Group(name)) = subject;
        match (subject_kind, name.strip_prefix(SERVICE_ACCOUNT_PREFIX).and_then(|account| account.split_once(':'))) {
            (SubjectKind::ServiceAccount, Some((of, account))) => write!(f, "\"{account}/{of}\""),
            _ => write!(f, "\"{name}\""),
        }
    }
}
