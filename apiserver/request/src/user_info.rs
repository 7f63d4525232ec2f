//! `UserInfo`: the user of a request, once an authenticator has recognised it.
//!
//! Corresponds to k8s.io/apiserver/pkg/authentication/user.

use serde_json::{Value, json};
use std::collections::BTreeMap;

pub const ALL_AUTHENTICATED: &str = "system:authenticated";
pub const ALL_UNAUTHENTICATED: &str = "system:unauthenticated";
pub const ANONYMOUS: &str = "system:anonymous";
pub const MASTERS: &str = "system:masters";
pub const NODES: &str = "system:nodes";
pub const NODE_USER_PREFIX: &str = "system:node:";
pub const SERVICE_ACCOUNT_PREFIX: &str = "system:serviceaccount:";
pub const ALL_SERVICE_ACCOUNTS: &str = "system:serviceaccounts";

/// The user of a request, after impersonation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserInfo {
    pub name: String,
    pub uid: String,
    pub groups: Vec<String>,
    pub extra: BTreeMap<String, Vec<String>>,
}

impl UserInfo {
    pub fn new(name: impl Into<String>, groups: &[&str]) -> Self {
        Self { name: name.into(), groups: groups.iter().map(|g| (*g).to_owned()).collect(), ..Self::default() }
    }

    /// Returns `system:apiserver` in `system:masters`: the user of the server's own writes.
    pub fn apiserver() -> Self {
        Self::new("system:apiserver", &[MASTERS, ALL_AUTHENTICATED])
    }

    pub fn anonymous() -> Self {
        Self::new(ANONYMOUS, &[ALL_UNAUTHENTICATED])
    }

    /// Returns the user of a service account.
    pub fn service_account(namespace: &str, name: &str, uid: &str) -> Self {
        Self {
            name: format!("{SERVICE_ACCOUNT_PREFIX}{namespace}:{name}"),
            uid: uid.to_owned(),
            groups: service_account_groups(namespace),
            extra: BTreeMap::new(),
        }
    }

    pub fn in_group(&self, group: &str) -> bool {
        self.groups.iter().any(|g| g == group)
    }

    /// Returns the node's name if the user is a kubelet: `system:node:<name>` in the group `system:nodes`.
    pub fn node_name(&self) -> Option<&str> {
        self.name.strip_prefix(NODE_USER_PREFIX).filter(|name| !name.is_empty() && self.in_group(NODES))
    }

    /// Adds the group `system:authenticated` of every authenticated user, once and as the last one.
    pub fn authenticated(mut self) -> Self {
        if !self.in_group(ALL_AUTHENTICATED) && !self.in_group(ALL_UNAUTHENTICATED) {
            self.groups.push(ALL_AUTHENTICATED.to_owned());
        }
        self
    }

    /// Returns the user as an authentication.k8s.io/v1 UserInfo.
    pub fn to_value(&self) -> Value {
        let mut value = json!({});
        if !self.name.is_empty() {
            value["username"] = json!(self.name);
        }
        if !self.uid.is_empty() {
            value["uid"] = json!(self.uid);
        }
        if !self.groups.is_empty() {
            value["groups"] = json!(self.groups);
        }
        if !self.extra.is_empty() {
            value["extra"] = json!(self.extra);
        }
        value
    }
}

/// Returns the groups of every service account of a namespace.
pub fn service_account_groups(namespace: &str) -> Vec<String> {
    vec![ALL_SERVICE_ACCOUNTS.to_owned(), format!("{ALL_SERVICE_ACCOUNTS}:{namespace}")]
}

/// Returns namespace and name, if the user is a service account.
pub fn split_service_account(user_name: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user_name.strip_prefix(SERVICE_ACCOUNT_PREFIX)?.split_once(':')?;
    (!namespace.is_empty() && !name.is_empty() && !name.contains(':')).then_some((namespace, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_account_names_split() {
        assert_eq!(split_service_account("system:serviceaccount:a:b"), Some(("a", "b")));
        for bad in ["system:serviceaccount:a", "system:serviceaccount::b", "a:b", "system:serviceaccount:a:b:c"] {
            assert_eq!(split_service_account(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_node_needs_its_group() {
        assert_eq!(UserInfo::new("system:node:n1", &[NODES]).node_name(), Some("n1"));
        assert_eq!(UserInfo::new("system:node:n1", &[]).node_name(), None);
    }
}
