//! The library of `authorizer`: expressions that check permissions of the caller or of a service account.
//!
//! Corresponds to k8s.io/apiserver/pkg/cel/library/authz.go.

use crate::Library;
use std::sync::LazyLock;

pub const AUTHORIZER: &str = "kubernetes.authorization.Authorizer";
pub const PATH_CHECK: &str = "kubernetes.authorization.PathCheck";
pub const GROUP_CHECK: &str = "kubernetes.authorization.GroupCheck";
pub const RESOURCE_CHECK: &str = "kubernetes.authorization.ResourceCheck";
pub const DECISION: &str = "kubernetes.authorization.Decision";

const DECLARED: &str = "
    authorizer.path(string) pathCheck
    authorizer.group(string) groupCheck
    authorizer.serviceAccount(string, string) authorizer
    groupCheck.resource(string) resourceCheck
    resourceCheck.subresource(string) resourceCheck
    resourceCheck.namespace(string) resourceCheck
    resourceCheck.name(string) resourceCheck
    resourceCheck.fieldSelector(string) resourceCheck
    resourceCheck.labelSelector(string) resourceCheck
    pathCheck.check(string) decision
    resourceCheck.check(string) decision
    decision.errored() bool
    decision.error() string
    decision.allowed() bool
    decision.reason() string
";

pub static LIBRARY: LazyLock<Library> = LazyLock::new(|| {
    let words = [
        ("authorizer", AUTHORIZER),
        ("pathCheck", PATH_CHECK),
        ("groupCheck", GROUP_CHECK),
        ("resourceCheck", RESOURCE_CHECK),
        ("decision", DECISION),
    ];
    Library::of_methods(DECLARED, &words)
});
