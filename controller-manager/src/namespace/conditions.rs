//! The conditions of a namespace that is being deleted.
//!
//! Corresponds to pkg/controller/namespace/deletion/status_condition_utils.go.

use super::content::RemainingContent;
use controller_base::clock;
use jiff::Timestamp;
use proto::kinds::api::core::v1::NamespaceCondition;
use std::collections::BTreeMap;

/// Each condition with its reason and message while it is false, and its reason while it is true.
const CONDITIONS: [(&str, &str, &str, &str); 5] = [
    (
        "NamespaceDeletionDiscoveryFailure",
        "ResourcesDiscovered",
        "All resources successfully discovered",
        "DiscoveryFailed",
    ),
    (
        "NamespaceDeletionGroupVersionParsingFailure",
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
        "GroupVersionParsingFailed",
    ),
    (
        "NamespaceDeletionContentFailure",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
        "ContentDeletionFailed",
    ),
    ("NamespaceContentRemaining", "ContentRemoved", "All content successfully removed", "SomeResourcesRemain"),
    (
        "NamespaceFinalizersRemaining",
        "ContentHasNoFinalizers",
        "All content-preserving finalizers finished",
        "SomeFinalizersRemain",
    ),
];

/// The result of one pass over a namespace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Findings {
    /// The reason for which not all resources are known.
    pub discovery_failure: Option<String>,
    pub remaining: Vec<RemainingContent>,
}

impl Findings {
    pub fn is_empty(&self) -> bool {
        self.discovery_failure.is_none()
            && self.remaining.iter().all(|content| content.count == 0 && content.error.is_none())
    }

    /// Returns the message of each condition that is true.
    fn messages(&self) -> BTreeMap<&'static str, String> {
        let mut messages = BTreeMap::new();
        if let Some(failure) = &self.discovery_failure {
            messages.insert("NamespaceDeletionDiscoveryFailure", failure.clone());
        }
        let mut errors: Vec<&str> = self.remaining.iter().filter_map(|content| content.error.as_deref()).collect();
        errors.sort_unstable();
        if !errors.is_empty() {
            let message =
                format!("Failed to delete all resource types, {} remaining: {}", errors.len(), errors.join(", "));
            messages.insert("NamespaceDeletionContentFailure", message);
        }
        let left = self.remaining.iter().filter(|content| content.count > 0);
        let mut left: Vec<String> = left
            .map(|RemainingContent { gvr, count, .. }| {
                format!("{}.{} has {count} resource instances", gvr.resource, gvr.group)
            })
            .collect();
        left.sort();
        if !left.is_empty() {
            messages.insert("NamespaceContentRemaining", format!("Some resources are remaining: {}", left.join(", ")));
        }
        let mut finalizers: BTreeMap<&str, usize> = BTreeMap::new();
        for (finalizer, count) in self.remaining.iter().flat_map(|content| &content.finalizers) {
            *finalizers.entry(finalizer).or_default() += count;
        }
        let finalizers: Vec<String> =
            finalizers.iter().map(|(finalizer, count)| format!("{finalizer} in {count} resource instances")).collect();
        if !finalizers.is_empty() {
            let message = format!("Some content in the namespace has finalizers remaining: {}", finalizers.join(", "));
            messages.insert("NamespaceFinalizersRemaining", message);
        }
        messages
    }
}

/// Returns the conditions after a pass. A condition whose status has not changed keeps its time.
pub fn after(before: &[NamespaceCondition], findings: &Findings, now: Timestamp) -> Vec<NamespaceCondition> {
    let mut messages = findings.messages();
    let mut after = before.to_vec();
    for (type_, false_reason, false_message, true_reason) in CONDITIONS {
        let (status, reason, message) = match messages.remove(type_) {
            Some(message) => ("True", true_reason, message),
            None => ("False", false_reason, false_message.to_owned()),
        };
        let condition = NamespaceCondition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message),
            last_transition_time: Some(clock::stamp(now)),
        };
        match after.iter_mut().find(|present| present.type_ == type_) {
            None => after.push(condition),
            Some(present) if present.status == condition.status => {
                present.reason = condition.reason;
                present.message = condition.message;
            }
            Some(present) => *present = condition,
        }
    }
    after
}

#[cfg(test)]
mod tests {
    use super::*;
    use controller_base::fixture;
    use proto::Gvr;

    fn remaining(resource: &str, count: usize, finalizers: &[(&str, usize)], error: Option<&str>) -> RemainingContent {
        RemainingContent {
            gvr: Gvr::new(if resource == "deployments" { "apps" } else { "" }, "v1", resource),
            count,
            finalizers: finalizers.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect(),
            estimate_s: 0,
            error: error.map(str::to_owned),
        }
    }

    fn messages(conditions: &[NamespaceCondition]) -> Vec<String> {
        let shown = conditions.iter().filter(|condition| condition.status == "True");
        shown
            .map(|condition| format!("{}: {}", condition.reason.as_ref().unwrap(), condition.message.as_ref().unwrap()))
            .collect()
    }

    #[test]
    fn true_conditions_have_messages() {
        let clean = Findings::default();
        let conditions = after(&[], &clean, fixture::at(1));
        assert_eq!(conditions.len(), 5);
        assert_eq!(messages(&conditions), [] as [String; 0]);
        assert!(clean.is_empty());
        let findings = Findings {
            discovery_failure: Some("the server is away".to_owned()),
            remaining: vec![
                remaining("pods", 2, &[], None),
                remaining("deployments", 1, &[("foregroundDeletion", 1)], None),
                remaining("configmaps", 0, &[], Some("etcd is away")),
                remaining("services", 0, &[], Some("a webhook is away")),
                remaining("secrets", 2, &[("example.com/hold", 2), ("foregroundDeletion", 1)], None),
            ],
        };
        assert!(!findings.is_empty());
        let expected = [
            "DiscoveryFailed: the server is away",
            "ContentDeletionFailed: Failed to delete all resource types, 2 remaining: a webhook is away, etcd is away",
            "SomeResourcesRemain: Some resources are remaining: deployments.apps has 1 resource instances, pods. has 2 resource instances, secrets. has 2 resource instances",
            "SomeFinalizersRemain: Some content in the namespace has finalizers remaining: example.com/hold in 2 resource instances, foregroundDeletion in 2 resource instances",
        ];
        assert_eq!(messages(&after(&conditions, &findings, fixture::at(2))), expected);
    }

    #[test]
    fn a_condition_keeps_its_time_until_its_status_changes() {
        let (clean, one) = (Findings::default(), remaining("pods", 1, &[], None));
        let content = |before: &[NamespaceCondition], count: usize, second: i64| {
            let findings =
                Findings { discovery_failure: None, remaining: vec![RemainingContent { count, ..one.clone() }] };
            let conditions = after(before, &findings, fixture::at(second));
            let content = conditions.iter().find(|condition| condition.type_ == "NamespaceContentRemaining").unwrap();
            (conditions.clone(), content.last_transition_time.clone().unwrap())
        };
        let first = after(&[], &clean, fixture::at(1));
        assert_eq!(after(&first, &clean, fixture::at(9)), first);
        let (two_left, began) = content(&first, 2, 3);
        assert_eq!(began, fixture::time(3));
        let (one_left, since) = content(&two_left, 1, 7);
        assert_eq!(since, fixture::time(3), "still something left");
        assert_eq!(content(&one_left, 0, 9).1, fixture::time(9));
    }
}
