//! `NodeResourcesFitArgs` and `NodeResourcesBalancedAllocationArgs`: the resources that count, and how.
//!
//! Corresponds to these types of k8s.io/kube-scheduler/config/v1, with ScoringStrategy.

use super::Args;
use super::function_shape::FunctionShape;
use proto::meta::names;
use proto::meta::status::FieldError;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeSet;

pub const LEAST_ALLOCATED: &str = "LeastAllocated";
pub const MOST_ALLOCATED: &str = "MostAllocated";
pub const REQUESTED_TO_CAPACITY_RATIO: &str = "RequestedToCapacityRatio";

/// A resource with the weight of its part of a score.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResourceSpec {
    pub name: String,
    /// 0 stands for 1.
    pub weight: i64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ScoringStrategy {
    #[serde(rename = "type")]
    pub kind: String,
    pub resources: Vec<ResourceSpec>,
    pub requested_to_capacity_ratio: Option<RequestedToCapacityRatio>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RequestedToCapacityRatio {
    pub shape: FunctionShape,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeResourcesFitArgs {
    /// Extended resources that the filter ignores.
    pub ignored_resources: Vec<String>,
    /// Groups of extended resources that the filter ignores: `example.com` for `example.com/gpu`.
    pub ignored_resource_groups: Vec<String>,
    pub scoring_strategy: ScoringStrategy,
}

impl Default for NodeResourcesFitArgs {
    fn default() -> Self {
        let scoring_strategy = ScoringStrategy { kind: LEAST_ALLOCATED.to_owned(), ..ScoringStrategy::default() };
        Self { ignored_resources: Vec::new(), ignored_resource_groups: Vec::new(), scoring_strategy }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeResourcesBalancedAllocationArgs {
    pub resources: Vec<ResourceSpec>,
}

/// Sets CPU and memory where no resources are given, and a weight of 1 where none is.
fn complete(resources: &mut Vec<ResourceSpec>) {
    if resources.is_empty() {
        resources.extend(["cpu", "memory"].map(|name| ResourceSpec { name: name.to_owned(), weight: 1 }));
    }
    for resource in resources.iter_mut().filter(|resource| resource.weight == 0) {
        resource.weight = 1;
    }
}

impl Args for NodeResourcesFitArgs {
    fn complete(&mut self) {
        complete(&mut self.scoring_strategy.resources);
    }

    fn validate(&self, path: &str, errors: &mut Vec<FieldError>) {
        let complain = |path: &str, name: &str, errors: &mut Vec<FieldError>| {
            let complaints = names::label_key(name).into_iter();
            errors.extend(complaints.map(|why| FieldError::invalid(path, &json!(name), why)));
        };
        for (at, name) in self.ignored_resources.iter().enumerate() {
            complain(&format!("{path}.ignoredResources[{at}]"), name, errors);
        }
        for (at, group) in self.ignored_resource_groups.iter().enumerate() {
            let path = format!("{path}.ignoredResourceGroups[{at}]");
            if group.contains('/') {
                errors.push(FieldError::invalid(&path, &json!(group), "resource group name can't contain '/'"));
            }
            complain(&path, group, errors);
        }
        self.scoring_strategy.validate(&format!("{path}.scoringStrategy"), errors);
    }
}

impl ScoringStrategy {
    fn validate(&self, path: &str, errors: &mut Vec<FieldError>) {
        const ALL: &[&str] = &[LEAST_ALLOCATED, MOST_ALLOCATED, REQUESTED_TO_CAPACITY_RATIO];
        if !ALL.contains(&self.kind.as_str()) {
            errors.push(FieldError::not_supported(format!("{path}.type"), &json!(self.kind), ALL));
        }
        for (at, resource) in self.resources.iter().enumerate() {
            if !(1..=100).contains(&resource.weight) {
                let path = format!("{path}.resources[{at}].weight");
                let why = format!("resource weight of {} not in valid range (0, 100]", resource.name);
                errors.push(FieldError::invalid(path, &json!(resource.weight), why));
            }
        }
        // Deviation: `RequestedToCapacityRatio` without a shape is refused. Kubernetes lets it pass and then crashes.
        match &self.requested_to_capacity_ratio {
            Some(ratio) => ratio.shape.validate(&format!("{path}.shape"), errors),
            None if self.kind == REQUESTED_TO_CAPACITY_RATIO => {
                errors.push(FieldError::required(format!("{path}.requestedToCapacityRatio"), ""));
            }
            None => {}
        }
    }
}

impl Args for NodeResourcesBalancedAllocationArgs {
    fn complete(&mut self) {
        complete(&mut self.resources);
    }

    fn validate(&self, path: &str, errors: &mut Vec<FieldError>) {
        let mut seen = BTreeSet::new();
        for (at, resource) in self.resources.iter().enumerate() {
            let path = format!("{path}.resources[{at}]");
            if !seen.insert(&resource.name) {
                errors.push(FieldError::duplicate(format!("{path}.name"), &json!(resource.name)));
            }
            if resource.weight != 1 {
                errors.push(FieldError::invalid(format!("{path}.weight"), &json!(resource.weight), "must be 1"));
            }
        }
    }
}
