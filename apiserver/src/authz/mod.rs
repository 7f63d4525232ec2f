//! What callers may do: authorizers run in turn until one has an opinion.
//!
//! Corresponds to k8s.io/apiserver/pkg/authorization and pkg/kubeapiserver/authorizer.

pub mod attributes;
pub mod escalation;
pub mod node;
pub mod policy;
pub mod rbac;
pub mod rules;

pub use attributes::{Attributes, Decision};

use crate::authn::UserInfo;
use crate::authn::user_info::MASTERS;
use policy::PolicySource;
use proto::Status;
use rules::Rule;
use std::sync::Arc;

/// The authorizers, in their order: system:masters, Node, RBAC.
pub struct Authorization {
    source: Arc<PolicySource>,
    node_rules: Vec<Rule>,
}

impl Authorization {
    pub fn new(source: Arc<PolicySource>, node_rules: Vec<Rule>) -> Self {
        Self { source, node_rules }
    }

    /// The verdict of all authorizers together; what none allows is not allowed.
    pub fn decide(&self, attributes: &Attributes<'_>) -> Decision {
        if attributes.user.in_group(MASTERS) {
            return Decision::Allow(String::new());
        }
        let node = match node::authorize(attributes, &self.node_rules, self.source.as_ref()) {
            Decision::NoOpinion(reason) => reason,
            verdict => return verdict,
        };
        match self.source.index().authorize(attributes) {
            Decision::NoOpinion(rbac) => {
                let reasons: Vec<String> = [node, rbac].into_iter().filter(|reason| !reason.is_empty()).collect();
                Decision::NoOpinion(reasons.join("\n"))
            }
            verdict => verdict,
        }
    }

    pub fn allows(&self, attributes: &Attributes<'_>) -> bool {
        matches!(self.decide(attributes), Decision::Allow(_))
    }

    /// 403 unless the action is allowed.
    pub fn authorize(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        match self.decide(attributes) {
            Decision::Allow(_) => Ok(()),
            Decision::NoOpinion(reason) | Decision::Deny(reason) => Err(attributes.forbidden(&reason)),
        }
    }

    /// All rules that RBAC has for a user in a namespace.
    pub fn rules_for(&self, user: &UserInfo, namespace: &str) -> (Vec<Rule>, Vec<String>) {
        let (mut rules, errors) = self.source.index().rules_for(user, namespace);
        if user.node_name().is_some() {
            rules.extend(self.node_rules.iter().cloned());
        }
        (rules, errors)
    }

    /// Whether any cluster-wide rule gives the user this very verb, on whatever.
    pub fn holds_verb(&self, user: &UserInfo, verb: &str) -> bool {
        let (rules, _) = self.rules_for(user, "");
        rules.iter().any(|rule| rule.verbs.iter().any(|v| v == verb || v == "*"))
    }

    pub fn source(&self) -> &PolicySource {
        &self.source
    }
}
