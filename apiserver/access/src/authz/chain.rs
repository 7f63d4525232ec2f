//! `Chain`: the authorizers of a server in their order, each with its decision counters.

use super::attributes::{Decision, Verdict};
use super::configuration::Authorizer;
use super::mode::Mode;
use super::webhook::Webhook;
use component_base::env::Env;
use prometheus_client::metrics::counter::Counter;
use std::collections::BTreeSet;

#[derive(Debug, Default)]
pub struct Chain(pub Vec<Link>);

/// One authorizer.
#[derive(Debug)]
pub struct Link {
    pub mode: Mode,
    pub name: String,
    /// Set exactly for `Mode::Webhook`.
    pub webhook: Option<Webhook>,
    allowed: Counter,
    denied: Counter,
}

impl Chain {
    pub fn new(env: &Env, authorizers: Vec<Authorizer>) -> Result<Self, String> {
        let decisions = env.metrics().counters(
            "apiserver_authorization_decisions_total",
            "Terminal decisions made by an authorizer, by its type, its name and the decision",
        );
        let link = |one: Authorizer| {
            let counter = |decision: &str| {
                let labels = [("decision", decision), ("name", &one.name), ("type", &one.mode.to_string())];
                decisions.get_or_create(&labels.map(|(label, value)| (label, value.to_owned())).into()).clone()
            };
            let (allowed, denied) = (counter("allowed"), counter("denied"));
            let webhook = one.webhook.map(|settings| Webhook::new(env, &one.name, settings)).transpose()?;
            Ok(Link { mode: one.mode, name: one.name, webhook, allowed, denied })
        };
        authorizers.into_iter().map(link).collect::<Result<_, _>>().map(Self)
    }

    pub fn has(&self, mode: Mode) -> bool {
        self.0.iter().any(|link| link.mode == mode)
    }

    /// Returns the modes other than `Webhook`. A reload may reorder these, but neither add nor remove one.
    pub fn own_modes(&self) -> BTreeSet<Mode> {
        self.0.iter().map(|link| link.mode).filter(|mode| *mode != Mode::Webhook).collect()
    }
}

impl Link {
    pub fn count(&self, verdict: &Verdict) {
        match verdict.decision {
            Decision::Allow(_) => drop(self.allowed.inc()),
            Decision::Deny(_) => drop(self.denied.inc()),
            Decision::NoOpinion(_) => {}
        }
    }
}
