//! Why a plugin does not let a pod onto a node.
//!
//! Corresponds to framework.Status with the codes Unschedulable and UnschedulableAndUnresolvable.

use std::borrow::Cow;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    pub plugin: &'static str,
    /// Removing other pods could change it, so preemption is worth a try.
    pub resolvable: bool,
    /// As Kubernetes words them; counted over all nodes in the message that people see.
    pub reasons: Vec<Cow<'static, str>>,
}

impl Rejection {
    /// Other pods are in the way.
    pub fn unschedulable(plugin: &'static str, reason: impl Into<Cow<'static, str>>) -> Self {
        Self { plugin, resolvable: true, reasons: vec![reason.into()] }
    }

    /// The node and the pod do not go together, whatever other pods do.
    pub fn unresolvable(plugin: &'static str, reason: impl Into<Cow<'static, str>>) -> Self {
        Self { plugin, resolvable: false, reasons: vec![reason.into()] }
    }
}
