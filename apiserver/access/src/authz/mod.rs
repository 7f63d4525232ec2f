//! Authorization: authorizers run in order until one allows or denies the request.
//!
//! Reading order: [`attributes`] is the question and its answer; [`Authorization::decide`] below asks each authorizer of
//! the [`chain`]: [`node`], [`rbac`] over [`rules`], [`abac`], [`webhook`]. [`configuration`], [`options`] and [`reload`]
//! say which authorizers there are.
//!
//! Corresponds to k8s.io/apiserver/pkg/authorization and pkg/kubeapiserver/authorizer.

pub mod attributes;
pub mod mode;
pub mod rules;
pub mod node;
pub mod rbac;
pub mod abac;
pub mod review_spec;
pub mod match_conditions;
pub mod configuration;
pub mod webhook;
pub mod chain;
pub mod listener;
pub mod options;
pub mod objects;
pub mod reload;

pub use attributes::Listener;
pub use attributes::{Attributes, Decision, Verdict};
pub use mode::Mode;

use arc_swap::ArcSwap;
use chain::Chain;
use listener::Explanation;
use objects::AuthorizerObjects;
use proto::Status;
use request::UserInfo;
use request::user_info::MASTERS;
use rules::Rule;
use std::sync::Arc;

/// Reasons and errors of the authorizers that had no opinion so far.
#[derive(Default)]
struct NoOpinions {
    reasons: Vec<String>,
    errors: Vec<String>,
}

impl NoOpinions {
    /// Returns a verdict that allows or denies; collects one without an opinion.
    fn decisive(&mut self, verdict: Verdict) -> Option<Verdict> {
        let Decision::NoOpinion(reason) = verdict.decision else { return Some(verdict) };
        self.reasons.extend((!reason.is_empty()).then_some(reason));
        self.errors.extend((!verdict.error.is_empty()).then_some(verdict.error));
        None
    }

    fn verdict(self) -> Verdict {
        Verdict { decision: Decision::NoOpinion(self.reasons.join("\n")), error: self.errors.join(", ") }
    }
}

/// The authorizers in their order. Members of `system:masters` are allowed before any of them is asked.
pub struct Authorization {
    chain: ArcSwap<Chain>,
    objects: Arc<AuthorizerObjects>,
    node_rules: Vec<Rule>,
    abac: Vec<abac::Policy>,
}

impl Authorization {
    pub fn new(chain: Chain, objects: Arc<AuthorizerObjects>, node_rules: Vec<Rule>) -> Self {
        Self { chain: ArcSwap::from_pointee(chain), objects, node_rules, abac: Vec::new() }
    }

    /// Sets the policies of `--authorization-policy-file`.
    pub fn with_policies(self, abac: Vec<abac::Policy>) -> Self {
        Self { abac, ..self }
    }

    /// Returns the current authorizers.
    pub fn chain(&self) -> Arc<Chain> {
        self.chain.load_full()
    }

    /// Replaces the authorizers after a reload.
    pub fn replace(&self, chain: Chain) {
        self.chain.store(Arc::new(chain));
    }

    /// Returns the verdict of all authorizers together. A request that none allows is not allowed. Only webhooks are waited for.
    pub async fn decide(&self, attributes: &Attributes<'_>) -> Verdict {
        if attributes.user.in_group(MASTERS) {
            if let Some(listener) = attributes.listener {
                listener.record_master(attributes);
            }
            return Verdict::of(Decision::Allow(String::new()));
        }
        let chain = self.chain();
        let mut no_opinions = NoOpinions::default();
        for link in &chain.0 {
            let verdict = match &link.webhook {
                Some(webhook) => Box::pin(webhook.authorize(attributes)).await,
                None => Verdict::of(self.ask(link.mode, attributes)),
            };
            link.count(&verdict);
            if let Some(listener) = attributes.listener {
                listener.record(link, attributes, &verdict, || self.explain(link.mode, attributes, &verdict));
            }
            if let Some(verdict) = no_opinions.decisive(verdict) {
                return verdict;
            }
        }
        no_opinions.verdict()
    }

    /// Decides without waiting, for CEL expressions, whose evaluation is synchronous.
    ///
    /// Deviation: for an expression that checks permissions, a webhook authorizer answers from its cache only; without a cached
    /// answer it counts as failed.
    pub fn decide_without_waiting(&self, attributes: &Attributes<'_>) -> Verdict {
        if attributes.user.in_group(MASTERS) {
            return Verdict::of(Decision::Allow(String::new()));
        }
        let mut no_opinions = NoOpinions::default();
        for link in &self.chain().0 {
            let verdict = match &link.webhook {
                Some(webhook) => webhook.remembered(attributes),
                None => Verdict::of(self.ask(link.mode, attributes)),
            };
            if let Some(verdict) = no_opinions.decisive(verdict) {
                return verdict;
            }
        }
        no_opinions.verdict()
    }

    fn ask(&self, mode: Mode, attributes: &Attributes<'_>) -> Decision {
        match mode {
            Mode::AlwaysAllow => Decision::Allow(String::new()),
            Mode::AlwaysDeny => Decision::NoOpinion("Everything is forbidden.".to_owned()),
            Mode::Abac => abac::authorize(&self.abac, attributes),
            Mode::Node => node::authorize(attributes, &self.node_rules, self.objects.as_ref()),
            Mode::Rbac => self.objects.index().authorize(attributes),
            Mode::Webhook => Decision::NoOpinion(String::new()),
        }
    }

    /// Explains a verdict for a trace: the rule that allows the request, or the bindings none of whose rules does.
    fn explain(&self, mode: Mode, attributes: &Attributes<'_>, verdict: &Verdict) -> Explanation {
        match (mode, &verdict.decision) {
            (Mode::Rbac, decision) => {
                let index = self.objects.index();
                match decision {
                    Decision::Allow(_) => Explanation::of(index.allowing_rule(attributes)),
                    _ => Explanation {
                        why: "no rule of what is bound to the user or its groups allows it",
                        details: index.bindings_of(attributes.user, attributes.namespace),
                    },
                }
            }
            (Mode::Node, Decision::NoOpinion(_)) if attributes.user.node_name().is_none() => {
                Explanation { why: "the user is no node", ..Explanation::default() }
            }
            (Mode::Node, Decision::NoOpinion(_)) => {
                Explanation { why: "no rule for nodes allows it", ..Explanation::default() }
            }
            (Mode::Node, _) => Explanation { why: "a rule for nodes allows it", ..Explanation::default() },
            _ => Explanation::default(),
        }
    }

    pub async fn allows(&self, attributes: &Attributes<'_>) -> bool {
        self.decide(attributes).await.allows()
    }

    /// Returns 403 unless the action is allowed.
    pub async fn authorize(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        self.decide(attributes).await.into_result(attributes)
    }

    /// Returns all rules that apply to a user in a namespace, and errors of authorizers that cannot list theirs.
    pub fn rules_for(&self, user: &UserInfo, namespace: &str) -> (Vec<Rule>, Vec<String>) {
        let chain = self.chain();
        let has = |mode| chain.has(mode);
        let rbac = has(Mode::Rbac).then(|| self.objects.index().rules_for(user, namespace));
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

    /// Tells whether any cluster-wide rule grants the user this verb, on any resource.
    pub fn holds_verb(&self, user: &UserInfo, verb: &str) -> bool {
        let (rules, _) = self.rules_for(user, "");
        rules.iter().any(|rule| rule.verbs.iter().any(|v| v == verb || v == "*"))
    }

    pub fn objects(&self) -> &AuthorizerObjects {
        &self.objects
    }
}
