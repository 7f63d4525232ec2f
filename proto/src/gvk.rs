//! Group, version and kind or resource: how the API names types and collections.
//!
//! Corresponds to k8s.io/apimachinery/pkg/runtime/schema.

use std::cmp::Ordering;
use std::fmt;

/// The full name of a type, as `apiVersion` and `kind` of an object give it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Gvk {
    /// Empty for the core group.
    pub group: String,
    pub version: String,
    pub kind: String,
}

/// The full name of a collection, as a URL gives it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Gvr {
    /// Empty for the core group.
    pub group: String,
    pub version: String,
    /// Plural, lower case.
    pub resource: String,
}

/// Returns `v1` for the core group, else `group/version`.
pub fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

/// Splits an `apiVersion` into group and version. The core group is empty.
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

    /// Returns `pods` or `deployments.apps`, the form of RBAC denials and error details.
    pub fn qualified_resource(&self) -> String {
        if self.group.is_empty() { self.resource.clone() } else { format!("{}.{}", self.resource, self.group) }
    }

    /// Returns the URL path of the collection: `/apis/apps/v1/namespaces/shop/deployments`.
    pub fn path(&self, namespace: Option<&str>) -> String {
        let mut path = match &*self.group {
            "" => ["/api/", &self.version].concat(),
            group => ["/apis/", group, "/", &self.version].concat(),
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

/// Orders versions by preference: stable before beta before alpha, and higher numbers first. Names of any other form
/// come last, in alphabetical order. Corresponds to k8s.io/apimachinery/pkg/version.CompareKubeAwareVersionStrings.
pub fn compare_versions(a: &str, b: &str) -> Ordering {
    match (KubeVersion::parse(a), KubeVersion::parse(b)) {
        (Some(left), Some(right)) => right.cmp(&left),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => a.cmp(b),
    }
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Maturity {
    Alpha,
    Beta,
    Stable,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct KubeVersion {
    maturity: Maturity,
    major: u32,
    minor: u32,
}

impl KubeVersion {
    /// Parses `v1`, `v2beta3` or `v1alpha1`. Returns `None` for any other form.
    fn parse(text: &str) -> Option<Self> {
        let rest = text.strip_prefix('v')?;
        let split = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let (major, rest) = rest.split_at(split);
        let number = |digits: &str| digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok()).flatten();
        let (maturity, minor) = if rest.is_empty() {
            (Maturity::Stable, 0)
        } else if let Some(minor) = rest.strip_prefix("beta") {
            (Maturity::Beta, number(minor)?)
        } else {
            (Maturity::Alpha, number(rest.strip_prefix("alpha")?)?)
        };
        Some(Self { maturity, major: number(major)?, minor })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_by_preference() {
        let mut versions =
            ["foo10", "v3beta1", "v12alpha1", "v2", "v11beta2", "v1", "v10beta3", "v11alpha2", "foo1", "v10"];
        versions.sort_by(|a, b| compare_versions(a, b));
        let expected =
            ["v10", "v2", "v1", "v11beta2", "v10beta3", "v3beta1", "v12alpha1", "v11alpha2", "foo1", "foo10"];
        assert_eq!(versions, expected);
    }

    #[test]
    fn paths_name_the_collection() {
        assert_eq!(Gvr::new("", "v1", "pods").path(Some("shop")), "/api/v1/namespaces/shop/pods");
        assert_eq!(Gvr::new("apps", "v1", "deployments").path(None), "/apis/apps/v1/deployments");
    }
}
