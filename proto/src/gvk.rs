//! Group, version and kind or resource: how the API names types and collections.
//!
//! Corresponds to k8s.io/apimachinery/pkg/runtime/schema.

use std::fmt;

/// A type's full name, as an object's `apiVersion` and `kind` say it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Gvk {
    /// Empty for the core group.
    pub group: String,
    pub version: String,
    pub kind: String,
}

/// A collection's full name, as a URL says it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Gvr {
    /// Empty for the core group.
    pub group: String,
    pub version: String,
    /// Plural, lower case.
    pub resource: String,
}

/// `v1` for the core group, else `group/version`.
pub fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

/// The two halves of an `apiVersion`; the core group is empty.
pub fn split_api_version(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}

impl Gvk {
    pub fn new(group: impl Into<String>, version: impl Into<String>, kind: impl Into<String>) -> Self {
        Self { group: group.into(), version: version.into(), kind: kind.into() }
    }

    pub fn api_version(&self) -> String {
        api_version(&self.group, &self.version)
    }
}

impl Gvr {
    pub fn new(group: impl Into<String>, version: impl Into<String>, resource: impl Into<String>) -> Self {
        Self { group: group.into(), version: version.into(), resource: resource.into() }
    }

    pub fn api_version(&self) -> String {
        api_version(&self.group, &self.version)
    }

    /// `pods` or `deployments.apps`, the form of RBAC denials and error details.
    pub fn qualified_resource(&self) -> String {
        if self.group.is_empty() { self.resource.clone() } else { format!("{}.{}", self.resource, self.group) }
    }

    /// The URL path of the collection: `/apis/apps/v1/namespaces/shop/deployments`.
    pub fn path(&self, namespace: Option<&str>) -> String {
        let mut path = if self.group.is_empty() {
            format!("/api/{}", self.version)
        } else {
            format!("/apis/{}/{}", self.group, self.version)
        };
        if let Some(namespace) = namespace {
            path.push_str("/namespaces/");
            path.push_str(namespace);
        }
        path.push('/');
        path.push_str(&self.resource);
        path
    }
}

impl fmt::Display for Gvk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, Kind={}", self.api_version(), self.kind)
    }
}

impl fmt::Display for Gvr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, Resource={}", self.api_version(), self.resource)
    }
}
