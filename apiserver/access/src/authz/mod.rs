//! What callers may do: authorizers run in turn until one has an opinion.
//!
//! Corresponds to k8s.io/apiserver/pkg/authorization and pkg/kubeapiserver/authorizer.

pub mod mode;
pub mod attributes;
pub mod node;
pub mod rules;
pub mod rbac;
pub mod abac;
pub mod review_spec;
pub mod match_conditions;
pub mod configuration;
pub mod webhook;
pub mod chain;
pub mod listener;
pub mod options;
pub mod policy;
pub mod reload;

pub use attributes::Listener;
pub use attributes::{Attributes, Decision, Verdict};
pub use mode::Mode;

use arc_swap::ArcSwap;
use chain::Chain;
use listener::Explained;
use policy::PolicySource;
use proto::Status;
use request::UserInfo;
use request::user_info::MASTERS;
use rules::Rule;
use std::sync::Arc;

/// Those who had no opinion so far.
#[derive(Default)]
struct Silent {
    reasons: Vec<String>,
    errors: Vec<String>,
}

impl Silent {
    /// A verdict that ends the question.
    fn heard(&mut self, verdict: Verdict) -> Option<Verdict> {
        let Decision::NoOpinion(reason) = verdict.decision else { return Some(verdict) };
        self.reasons.extend((!reason.is_empty()).then_some(reason));
        self.errors.extend((!verdict.error.is_empty()).then_some(verdict.error));
        None
    }

    fn verdict(self) -> Verdict {
        Verdict { decision: Decision::NoOpinion(self.reasons.join("\n")), error: self.errors.join(", ") }
    }
}

/// The authorizers, in their order, after system:masters.
pub struct Authorization {
    chain: ArcSwap<Chain>,
    source: Arc<PolicySource>,
    node_rules: Vec<Rule>,
    abac: Vec<abac::Policy>,
}

impl Authorization {
    pub fn new(chain: Chain, source: Arc<PolicySource>, node_rules: Vec<Rule>) -> Self {
        Self { chain: ArcSwap::from_pointee(chain), source, node_rules, abac: Vec::new() }
    }

    /// With the policies of `--authorization-policy-file`.
    pub fn with_policies(self, abac: Vec<abac::Policy>) -> Self {
        Self { abac, ..self }
    }

    /// The authorizers as they are now.
    pub fn chain(&self) -> Arc<Chain> {
        self.chain.load_full()
    }

    /// Other authorizers from now on.
    pub fn replace(&self, chain: Chain) {
        self.chain.store(Arc::new(chain));
    }

    /// The verdict of all authorizers together; what none allows is not allowed. Only a webhook takes a wait.
    pub async fn decide(&self, attributes: &Attributes<'_>) -> Verdict {
        if attributes.user.in_group(MASTERS) {
            if let Some(listener) = attributes.listener {
                listener.hears_of_master(attributes);
            }
            return Verdict::of(Decision::Allow(String::new()));
        }
        let chain = self.chain();
        let mut silent = Silent::default();
        for link in &chain.0 {
            let verdict = match &link.webhook {
                Some(webhook) => Box::pin(webhook.authorize(attributes)).await,
                None => Verdict::of(self.ask(link.mode, attributes)),
            };
            link.count(&verdict);
            if let Some(listener) = attributes.listener {
                listener.hears(link, attributes, &verdict, || self.explain(link.mode, attributes, &verdict));
            }
            if let Some(verdict) = silent.heard(verdict) {
                return verdict;
            }
        }
        silent.verdict()
    }

    /// The same for those who cannot wait, as expressions.
    ///
    /// Deviation: an expression that asks for rights hears from a webhook authorizer what is remembered of it, and nothing
    /// else.
    pub fn decide_at_once(&self, attributes: &Attributes<'_>) -> Verdict {
        if attributes.user.in_group(MASTERS) {
            return Verdict::of(Decision::Allow(String::new()));
        }
        let mut silent = Silent::default();
        for link in &self.chain().0 {
            let verdict = match &link.webhook {
                Some(webhook) => webhook.remembered(attributes),
                None => Verdict::of(self.ask(link.mode, attributes)),
            };
            if let Some(verdict) = silent.heard(verdict) {
                return verdict;
            }
        }
        silent.verdict()
    }

    fn ask(&self, mode: Mode, attributes: &Attributes<'_>) -> Decision {
        match mode {
            Mode::AlwaysAllow => Decision::Allow(String::new()),
            Mode::AlwaysDeny => Decision::NoOpinion("Everything is forbidden.".to_owned()),
            Mode::Abac => abac::authorize(&self.abac, attributes),
            Mode::Node => node::authorize(attributes, &self.node_rules, self.source.as_ref()),
            Mode::Rbac => self.source.index().authorize(attributes),
            Mode::Webhook => Decision::NoOpinion(String::new()),
        }
    }

    /// What a verdict of an authorizer comes from: the rule that allows it, or what there is that does not.
    fn explain(&self, mode: Mode, attributes: &Attributes<'_>, verdict: &Verdict) -> Explained {
        match (mode, &verdict.decision) {
            (Mode::Rbac, decision) => {
                let index = self.source.index();
                match decision {
                    Decision::Allow(_) => Explained::of(index.allowing_rule(attributes)),
                    _ => Explained {
                        why: "no rule of what is bound to the user or its groups allows it",
                        details: index.bound_to(attributes.user, attributes.namespace),
                    },
                }
            }
            (Mode::Node, Decision::NoOpinion(_)) if attributes.user.node_name().is_none() => {
                Explained { why: "the user is no node", ..Explained::default() }
            }
            (Mode::Node, Decision::NoOpinion(_)) => {
                Explained { why: "no rule for nodes allows it", ..Explained::default() }
            }
            (Mode::Node, _) => Explained { why: "a rule for nodes allows it", ..Explained::default() },
            _ => Explained::default(),
        }
    }

    pub async fn allows(&self, attributes: &Attributes<'_>) -> bool {
        self.decide(attributes).await.allows()
    }

    /// 403 unless the action is allowed.
    pub async fn authorize(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        self.decide(attributes).await.into_result(attributes)
    }

    /// All rules that the authorizers have for a user in a namespace.
    pub fn rules_for(&self, user: &UserInfo, namespace: &str) -> (Vec<Rule>, Vec<String>) {
        let chain = self.chain();
        let has = |mode| chain.has(mode);
        let rbac = has(Mode::Rbac).then(|| self.source.index().rules_for(user, namespace));
        let (mut rules, mut errors) = rbac.unwrap_or_default();
        if has(Mode::Webhook) {
            errors.push("webhook authorizer does not support user rule resolution".to_owned());
        }
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
