//! `Rejection`, the result of a plugin that rejects a pod for a node.
//!
//! Corresponds to framework.Status with the codes Unschedulable and UnschedulableAndUnresolvable.

use std::borrow::Cow;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    pub plugin: &'static str,
    /// True if the removal of other pods may help, so that preemption is tried.
    pub resolvable: bool,
    /// Reasons in Kubernetes' words. The message about a pod counts the nodes with each reason.
    pub reasons: Vec<Cow<'static, str>>,
}

impl Rejection {
    /// Returns a rejection because of other pods.
    pub fn unschedulable(plugin: &'static str, reason: impl Into<Cow<'static, str>>) -> Self {
        Self { plugin, resolvable: true, reasons: vec![reason.into()] }
    }

    /// Returns a rejection that does not depend on other pods.
    pub fn unresolvable(plugin: &'static str, reason: impl Into<Cow<'static, str>>) -> Self {
        Self { plugin, resolvable: false, reasons: vec![reason.into()] }
    }

    /// Returns the name of the code of framework.Status.
    pub fn code(&self) -> &'static str {
        if self.resolvable { "Unschedulable" } else { "UnschedulableAndUnresolvable" }
    }
}

/// Returns the name of the code of framework.Status for the result of a plugin.
pub fn code<T>(result: &Result<T, Rejection>) -> &'static str {
    result.as_ref().map_or_else(Rejection::code, |_| "Success")
}
