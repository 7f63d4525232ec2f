//! `LimitedResource`: resources that may be used only if a quota of the namespace covers them.
//!
//! Corresponds to k8s.io/apiserver/pkg/admission/plugin/resourcequota/apis/resourcequota.

use super::claim::Claim;
use proto::Status;
use proto::quota::scope::{Selector, selectors};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeSet;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct LimitedResource {
    api_group: String,
    resource: String,
    /// Parts of resource names.
    match_contains: Vec<String>,
    /// Scopes of pods.
    match_scopes: Vec<Scope>,
}

/// A scope selector requirement, as JSON like those of quotas.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "Written")]
struct Scope(Value);

#[derive(Debug, Deserialize, serde::Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Written {
    scope_name: String,
    operator: String,
    #[serde(default)]
    values: Vec<String>,
}

impl TryFrom<Written> for Scope {
    type Error = serde_json::Error;

    fn try_from(written: Written) -> Result<Self, Self::Error> {
        serde_json::to_value(written).map(Self)
    }
}

impl LimitedResource {
    pub fn matches(&self, group: &str, resource: &str) -> bool {
        self.api_group == group && self.resource == resource
    }

    fn limits(&self, name: &str) -> bool {
        self.match_contains.iter().any(|part| name.contains(part.as_str()))
    }
}

/// Returns 403 if a write raises the usage of a limited resource that no quota covers. `limited` are those that match the
/// written resource.
pub fn must_be_covered(
    limited: &[&LimitedResource],
    claim: &Claim,
    object: &Value,
    quotas: &[&Value],
) -> Result<(), Status> {
    let covered = claim.covered(quotas);
    let taken: BTreeSet<&str> = claim.names().filter(|name| limited.iter().any(|l| l.limits(name))).collect();
    let uncovered: Vec<&str> = taken.into_iter().filter(|name| !covered.contains(*name)).collect();
    if !uncovered.is_empty() {
        return Err(claim.forbidden(format_args!("insufficient quota to consume: {}", uncovered.join(","))));
    }
    let spec = &object["spec"];
    let matching: BTreeSet<&str> = quotas
        .iter()
        .flat_map(|quota| selectors(quota))
        .filter(|selector| selector.selects(spec))
        .map(|selector| selector.scope)
        .collect();
    let limited = limited.iter().flat_map(|limited| &limited.match_scopes).map(|scope| Selector::read(&scope.0));
    let uncovered: Vec<String> = limited
        .filter(|selector| selector.selects(spec) && !matching.contains(selector.scope))
        .map(|selector| {
            let values: Vec<&str> = selector.values().collect();
            format!("{{{} {} [{}]}}", selector.scope, selector.operator, values.join(" "))
        })
        .collect();
    if !uncovered.is_empty() {
        let why = format!("insufficient quota to match these scopes: [{}]", uncovered.join(" "));
        return Err(claim.forbidden(why));
    }
    Ok(())
}
