//! What callers may do: authorizers run in turn until one has an opinion.
//!
//! Corresponds to k8s.io/apiserver/pkg/authorization and pkg/kubeapiserver/authorizer.

pub mod abac;
pub mod attributes;
pub mod escalation;
pub mod node;
pub mod policy;
pub mod rbac;
pub mod rules;

pub use attributes::{Attributes, Decision};

use crate::authn::UserInfo;
use crate::authn::user_info::MASTERS;
use clap::ValueEnum;
use policy::PolicySource;
use proto::Status;
use rules::Rule;
use std::fmt;
use std::sync::Arc;

/// One authorizer, as `--authorization-mode` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    #[value(name = "AlwaysAllow")]
    AlwaysAllow,
    #[value(name = "AlwaysDeny")]
    AlwaysDeny,
    #[value(name = "ABAC")]
    Abac,
    #[value(name = "Node")]
    Node,
    #[value(name = "RBAC")]
    Rbac,
}

/// As on the command line.
impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.to_possible_value().expect("no mode is hidden").get_name())
    }
}

/// The authorizers, in their order, after system:masters.
pub struct Authorization {
    modes: Vec<Mode>,
    source: Arc<PolicySource>,
    node_rules: Vec<Rule>,
    abac: Vec<abac::Policy>,
}

impl Authorization {
    pub fn new(modes: &[Mode], source: Arc<PolicySource>, node_rules: Vec<Rule>) -> Self {
        Self { modes: modes.to_vec(), source, node_rules, abac: Vec::new() }
    }

    /// With the policies of `--authorization-policy-file`.
    pub fn with_policies(self, abac: Vec<abac::Policy>) -> Self {
        Self { abac, ..self }
    }

    /// The verdict of all authorizers together; what none allows is not allowed.
    pub fn decide(&self, attributes: &Attributes<'_>) -> Decision {
        if attributes.user.in_group(MASTERS) {
            return Decision::Allow(String::new());
        }
        let mut reasons = Vec::new();
        for mode in &self.modes {
            match self.ask(*mode, attributes) {
                Decision::NoOpinion(reason) if reason.is_empty() => {}
                Decision::NoOpinion(reason) => reasons.push(reason),
                verdict => return verdict,
            }
        }
        Decision::NoOpinion(reasons.join("\n"))
    }

    fn ask(&self, mode: Mode, attributes: &Attributes<'_>) -> Decision {
        match mode {
            Mode::AlwaysAllow => Decision::Allow(String::new()),
            Mode::AlwaysDeny => Decision::NoOpinion("Everything is forbidden.".to_owned()),
            Mode::Abac => abac::authorize(&self.abac, attributes),
            Mode::Node => node::authorize(attributes, &self.node_rules, self.source.as_ref()),
            Mode::Rbac => self.source.index().authorize(attributes),
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

    /// All rules that the authorizers have for a user in a namespace.
    pub fn rules_for(&self, user: &UserInfo, namespace: &str) -> (Vec<Rule>, Vec<String>) {
        let has = |mode| self.modes.contains(&mode);
        let rbac = has(Mode::Rbac).then(|| self.source.index().rules_for(user, namespace));
        let (mut rules, errors) = rbac.unwrap_or_default();
        if has(Mode::AlwaysAllow) {
            rules.extend(Rule::everything());
        }
        if has(Mode::Abac) {
            rules.extend(abac::rules_for(&self.abac, user, namespace));
        }
        if has(Mode::Node) && user.node_name().is_some() {
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
