//! `MatchResources`: the rules and selectors of one webhook, policy or binding; finds the version that a write matches.
//!
//! Corresponds to ShouldCallHook of k8s.io/apiserver/pkg/admission/plugin/webhook/generic and to
//! k8s.io/apiserver/pkg/admission/plugin/policy/matching.

use super::rule::{Requested, Rule};
use super::selectors::Selectors;
use crate::Attributes;
use proto::Status;
use serde_json::Value;

#[derive(Debug)]
pub struct MatchResources {
    rules: Vec<Rule>,
    excluded: Vec<Rule>,
    /// True for policies and bindings: without rules, these match every resource, while a webhook matches none.
    all_without_rules: bool,
    /// `matchPolicy: Equivalent`: rules match the resource in every version.
    equivalent: bool,
    selectors: Selectors,
}

fn rules(value: &Value) -> Vec<Rule> {
    value.as_array().into_iter().flatten().map(Rule::read).collect()
}

impl MatchResources {
    /// Reads `webhooks[*]` of a configuration.
    pub fn of_webhook(webhook: &Value) -> Self {
        Self { rules: rules(&webhook["rules"]), excluded: Vec::new(), all_without_rules: false, ..Self::read(webhook) }
    }

    /// Reads `matchConstraints` of a policy, or `matchResources` of a binding.
    pub fn of_policy(constraints: &Value) -> Self {
        Self::read(constraints)
    }

    fn read(value: &Value) -> Self {
        Self {
            rules: rules(&value["resourceRules"]),
            excluded: rules(&value["excludeResourceRules"]),
            all_without_rules: true,
            equivalent: value["matchPolicy"] == "Equivalent",
            selectors: Selectors::read(value),
        }
    }

    /// Returns the matched version, as an index in [`crate::Versions::all`]; `None` if the write does not match.
    pub async fn matched(&self, attributes: &Attributes<'_>) -> Result<Option<usize>, Status> {
        let Some(version) = self.version(attributes) else { return Ok(None) };
        Ok(self.selectors.select(attributes).await?.then_some(version))
    }

    /// Returns the version that the rules match, without the selectors.
    fn version(&self, attributes: &Attributes<'_>) -> Option<usize> {
        if self.of_rules(&self.excluded, attributes).is_some() {
            return None;
        }
        if self.rules.is_empty() && self.all_without_rules {
            return Some(attributes.versions.requested());
        }
        self.of_rules(&self.rules, attributes)
    }

    /// Returns the request's own version if a rule matches it, otherwise the first other version that a rule matches.
    fn of_rules(&self, rules: &[Rule], attributes: &Attributes<'_>) -> Option<usize> {
        let versions = attributes.versions;
        let names = |rule: &Rule, place: usize| rule.matches(&Requested::of(attributes, &versions.all()[place]));
        let own = versions.requested();
        if rules.iter().any(|rule| names(rule, own)) {
            return Some(own);
        }
        if !self.equivalent {
            return None;
        }
        rules.iter().find_map(|rule| versions.others(attributes.subresource).find(|place| names(rule, *place)))
    }
}
