//! Plans what to write about a namespace after a pass over its content.
//!
//! Corresponds to Delete in pkg/controller/namespace/deletion/namespaced_resources_deleter.go.

use super::conditions::{Findings, after};
use super::content::RemainingContent;
use client::{Action, Plan};
use jiff::Timestamp;
use proto::Kind;
use proto::kinds::api::core::v1::Namespace;
use serde_json::Value;
use std::time::Duration;

/// The finalizer in `spec` that stands for the namespace's content.
pub const FINALIZER: &str = "kubernetes";

/// Estimated time for a resource that could not be deleted.
const RETRY_ESTIMATE_S: i64 = 15;

/// Returns true if the namespace is being deleted and still has this controller's finalizer.
pub fn has_content_to_delete(namespace: &Namespace) -> bool {
    namespace.is_deleting() && finalizers(namespace).any(|finalizer| finalizer == FINALIZER)
}

fn finalizers(namespace: &Namespace) -> impl Iterator<Item = &str> {
    namespace.spec.iter().flat_map(|spec| spec.finalizers.iter().flatten()).map(String::as_str)
}

/// A namespace on the server, and the findings of a pass over its content.
#[derive(Debug)]
pub struct Observed {
    pub namespace: Namespace,
    pub findings: Findings,
    /// True if the pass reached all resources. While pods remain, it does not.
    pub is_complete: bool,
}

/// Writes the findings into the status, and requeues while content remains. Finalizes an empty namespace.
pub fn plan(observed: &Observed, now: Timestamp) -> Plan {
    let Observed { namespace, findings, is_complete } = observed;
    let mut reported = namespace.clone();
    let status = reported.status.get_or_insert_default();
    status.phase = Some("Terminating".to_owned());
    status.conditions = Some(after(status.conditions.as_deref().unwrap_or_default(), findings, now));
    let is_changed = reported.status != namespace.status;
    let mut plan = Plan::default();
    if *is_complete && findings.is_empty() {
        if is_changed && has_other_finalizers(namespace) {
            // The status tells the owners of the other finalizers that the namespace is empty. The next round
            // finalizes.
            plan.push(Action::update_status(&reported));
            plan.requeue_after = Some(Duration::ZERO);
        } else {
            plan.push(finalize(namespace));
        }
        return plan;
    }
    if is_changed {
        plan.push(Action::update_status(&reported));
    }
    let estimate =
        |content: &RemainingContent| if content.error.is_some() { RETRY_ESTIMATE_S } else { content.estimate_s };
    let estimate_s = findings.remaining.iter().map(estimate).max().unwrap_or(0).max(0);
    plan.requeue_after = Some(Duration::from_secs(estimate_s.unsigned_abs() / 2 + 1));
    plan
}

/// Returns true if another finalizer keeps the namespace after this controller has removed its own.
fn has_other_finalizers(namespace: &Namespace) -> bool {
    let of_others = finalizers(namespace).any(|finalizer| finalizer != FINALIZER);
    of_others || namespace.metadata.finalizers.as_ref().is_some_and(|finalizers| !finalizers.is_empty())
}

/// Removes this controller's finalizer. The server deletes a namespace without finalizers.
fn finalize(namespace: &Namespace) -> Action {
    let mut finalized = namespace.clone();
    let left: Vec<String> =
        finalizers(namespace).filter(|finalizer| *finalizer != FINALIZER).map(str::to_owned).collect();
    finalized.spec.get_or_insert_default().finalizers = (!left.is_empty()).then_some(left);
    let body: Value = finalized.encode();
    Action::UpdateSubresource {
        gvr: Namespace::gvr(),
        namespace: String::new(),
        name: namespace.name().to_owned(),
        subresource: "finalize".to_owned(),
        body,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use controller_base::fixture;
    use proto::kinds::api::core::v1::NamespaceSpec;

    fn namespace(finalizers: &[&str]) -> Namespace {
        let mut namespace = Namespace { metadata: fixture::meta("shop"), ..Namespace::default() };
        namespace.metadata.namespace = None;
        namespace.metadata.deletion_timestamp = Some(fixture::time(0));
        let finalizers = finalizers.iter().map(|finalizer| (*finalizer).to_owned()).collect();
        namespace.spec = Some(NamespaceSpec { finalizers: Some(finalizers) });
        namespace
    }

    fn left(count: usize, estimate_s: i64, error: Option<&str>) -> Findings {
        let content =
            RemainingContent { count, estimate_s, error: error.map(str::to_owned), ..RemainingContent::default() };
        Findings { discovery_failure: None, remaining: vec![content] }
    }

    #[test]
    fn only_deleted_namespaces_with_our_finalizer_are_emptied() {
        assert!(has_content_to_delete(&namespace(&["kubernetes"])));
        assert!(!has_content_to_delete(&namespace(&["example.com/hold"])));
        let mut alive = namespace(&["kubernetes"]);
        alive.metadata.deletion_timestamp = None;
        assert!(!has_content_to_delete(&alive));
    }

    #[test]
    fn content_is_waited_for_and_then_the_namespace_goes() {
        let cases = [
            // findings, whole pass => actions, next look in seconds
            (Findings::default(), true, "put", None),
            (Findings::default(), false, "update", Some(1)),
            (left(1, 0, None), true, "update", Some(1)),
            (left(2, 30, None), true, "update", Some(16)),
            (left(0, 0, Some("away")), true, "update", Some(8)),
        ];
        for (findings, is_complete, verb, after_s) in cases {
            let observed = Observed { namespace: namespace(&["kubernetes"]), findings, is_complete };
            let plan = plan(&observed, fixture::at(5));
            let verbs: Vec<String> =
                plan.actions.iter().map(|action| action.to_string().split(' ').next().unwrap().to_owned()).collect();
            assert_eq!(verbs, [verb], "{observed:?}");
            assert_eq!(plan.requeue_after.map(|after| after.as_secs()), after_s, "{observed:?}");
        }
    }

    #[test]
    fn other_finalizers_stay_and_the_status_reports_the_empty_namespace() {
        let namespace = namespace(&["kubernetes", "example.com/hold"]);
        let mut observed = Observed { namespace, findings: Findings::default(), is_complete: true };
        let reported = plan(&observed, fixture::at(5));
        let [Action::UpdateStatus { object, .. }] = reported.actions.as_slice() else { panic!("{reported}") };
        assert_eq!(object["status"]["conditions"][3]["message"], "All content successfully removed");
        assert_eq!(reported.requeue_after, Some(Duration::ZERO));
        observed.namespace = Namespace::decode_value(object.clone()).unwrap();
        let finalized = plan(&observed, fixture::at(6));
        let [Action::UpdateSubresource { subresource, body, .. }] = finalized.actions.as_slice() else {
            panic!("{finalized}")
        };
        assert_eq!(subresource, "finalize");
        assert_eq!(body["spec"]["finalizers"], serde_json::json!(["example.com/hold"]));
    }
}
