//! `Safety`: checks the invariants of the store at every revision, when it is written.
//!
//! Each invariant is a rule. A rule keeps the state that it needs, and reports a violation in one sentence.

mod addresses;
mod service_cidrs;
mod identity;
mod identities;
mod nodes;
mod rollouts;
mod daemons;
pub mod lives;
mod volumes;
mod attachments;
mod autoscalers;
mod jobs;
mod quotas;
mod budgets;
pub mod load_balancers;
mod claims;
mod devices;
mod fields;

use super::controller_caches::ControllerState;
use super::violations::Violations;
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use simulated_cloud::running::RunningCloud;
use std::sync::Arc;
use storage::Event;

/// One invariant of the store.
trait Rule: Send {
    /// Returns the prefixes of the keys that the rule checks.
    fn prefixes(&self) -> &'static [&'static str];

    /// Checks a revision; `value` is the new object, or `None` for a deletion.
    fn check(&mut self, key: &str, value: Option<&[u8]>, context: WriteContext<'_>) -> Result<(), RuleViolation>;
}

/// The circumstances of the checked write.
#[derive(Clone, Copy)]
struct WriteContext<'a> {
    at: Timestamp,
    revision: u64,
    /// State of the controllers if one of them is known to be the writer.
    writer: Option<&'a ControllerState>,
}

/// A violation of a rule, with the keys of further objects besides the written one.
struct RuleViolation {
    what: String,
    concerned: Vec<String>,
}

impl RuleViolation {
    fn new(what: String) -> Self {
        Self { what, concerned: Vec::new() }
    }

    fn about(what: String, concerned: impl IntoIterator<Item = String>) -> Self {
        Self { what, concerned: concerned.into_iter().collect() }
    }
}

/// Reads the fields of an object that a rule checks; `None` for a deletion.
fn read<T: DeserializeOwned>(key: &str, value: Option<&[u8]>) -> Result<Option<T>, RuleViolation> {
    let read = value.map(serde_json::from_slice).transpose();
    read.map_err(|error| RuleViolation::new(format!("{key} cannot be read: {error}")))
}

pub struct Safety {
    violations: Violations,
    rules: Vec<(&'static str, Box<dyn Rule>)>,
}

impl Safety {
    /// Makes all rules. `cloud` is the cloud beside the cluster, if there is one.
    pub fn new(violations: &Violations, cloud: Option<&RunningCloud>) -> Self {
        let of_cloud =
            cloud.map(|cloud| ("load-balancers", Box::new(load_balancers::LoadBalancers::new(cloud)) as Box<dyn Rule>));
        let mut rules: Vec<(&'static str, Box<dyn Rule>)> = vec![
            ("identity", Box::<identity::Identity>::default()),
            ("nodes", Box::<nodes::Nodes>::default()),
            ("addresses", Box::<addresses::Addresses>::default()),
            ("service-cidrs", Box::<service_cidrs::ServiceCidrs>::default()),
            ("rollouts", Box::<rollouts::Rollouts>::default()),
            ("identities", Box::<identities::Identities>::default()),
            ("daemons", Box::<daemons::Daemons>::default()),
            ("lives", Box::<lives::Lives>::default()),
            ("volumes", Box::<volumes::Volumes>::default()),
            ("attachments", Box::<attachments::Attachments>::default()),
            ("autoscalers", Box::<autoscalers::Autoscalers>::default()),
            ("jobs", Box::<jobs::Jobs>::default()),
            ("quotas", Box::<quotas::Quotas>::default()),
            ("budgets", Box::<budgets::Budgets>::default()),
            ("claims", Box::<claims::Claims>::default()),
            ("devices", Box::<devices::Devices>::default()),
        ];
        rules.extend(of_cloud);
        Self { violations: violations.clone(), rules }
    }

    pub fn check(&mut self, event: &Arc<Event>, now: Timestamp, writer: Option<&ControllerState>) {
        let context = WriteContext { at: now, revision: event.revision, writer };
        let key = &*event.key;
        let value = event.current.as_ref().map(|entry| &*entry.value);
        for (name, rule) in &mut self.rules {
            if !rule.prefixes().iter().any(|prefix| key.starts_with(prefix)) {
                continue;
            }
            if let Err(RuleViolation { what, concerned }) = rule.check(key, value, context) {
                let concerned = std::iter::once(key.to_owned()).chain(concerned);
                let what = format!("{now} revision {}: {what}", event.revision);
                self.violations.record(format!("safety/{name}"), what, concerned);
            }
        }
    }
}

#[cfg(test)]
mod tests;
