//! Label selectors, read from the object at each use.

use crate::Labels;
use proto::kinds::metav1::{LabelSelector, LabelSelectorRequirement};

/// Returns true if a selector selects labels. A missing one selects nothing, and an empty one everything. The API server
/// admits no invalid one.
pub fn selects(selector: Option<&LabelSelector>, labels: &Labels) -> bool {
    selector.is_some_and(|selector| {
        selector.match_labels.iter().flatten().all(|(key, value)| labels.get(key) == Some(value))
            && selector.match_expressions.iter().flatten().all(|requirement| holds(requirement, labels))
    })
}

fn holds(requirement: &LabelSelectorRequirement, labels: &Labels) -> bool {
    let value = labels.get(&requirement.key);
    let is_listed = || value.is_some_and(|value| requirement.values.iter().flatten().any(|listed| listed == value));
    match requirement.operator.as_str() {
        "In" => is_listed(),
        "NotIn" => !is_listed(),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        _ => false,
    }
}

/// Returns true if a selector is there and selects everything.
pub fn is_empty(selector: Option<&LabelSelector>) -> bool {
    selector.is_some_and(|selector| {
        selector.match_labels.iter().flatten().next().is_none()
            && selector.match_expressions.iter().flatten().next().is_none()
    })
}

/// Returns the selector of the pods that have all of these labels.
pub fn of_labels(labels: &Labels) -> LabelSelector {
    LabelSelector { match_labels: Some(labels.clone()), match_expressions: None }
}
