//! What to do about a namespace, before and after a pass over its content.
//!
//! Corresponds to Delete in pkg/controller/namespace/deletion/namespaced_resources_deleter.go.

use super::conditions::{Findings, after};
use super::content::Remains;
use client::{Action, Plan};
use jiff::Timestamp;
use proto::Kind;
use proto::kinds::api::core::v1::Namespace;
use serde_json::Value;
use std::time::Duration;

/// The finalizer in `spec` that stands for the namespace's content.
pub const FINALIZER: &str = "kubernetes";

/// How long a resource that could not be deleted is given before the next try.
const RETRY_ESTIMATE_S: i64 = 15;

/// Whether this namespace's content is this controller's to delete.
pub fn needs_emptying(namespace: &Namespace) -> bool {
    namespace.is_deleting() && finalizers(namespace).any(|finalizer| finalizer == FINALIZER)
}

fn finalizers(namespace: &Namespace) -> impl Iterator<Item = &str> {
    namespace.spec.iter().flat_map(|spec| spec.finalizers.iter().flatten()).map(String::as_str)
}

/// A namespace as the server has it, after a pass over its content.
#[derive(Debug)]
pub struct Observed {
    pub namespace: Namespace,
    pub findings: Findings,
    /// Whether the pass reached everything: pods go first, and the rest waits for them.
    pub is_whole: bool,
}

/// Reports what is left, and comes back for it; with nothing left, lets the namespace go.
pub fn plan(observed: &Observed, now: Timestamp) -> Plan {
    let Observed { namespace, findings, is_whole } = observed;
    let mut reported = namespace.clone();
    let status = reported.status.get_or_insert_default();
    status.phase = Some("Terminating".to_owned());
    status.conditions = Some(after(status.conditions.as_deref().unwrap_or_default(), findings, now));
    let is_news = reported.status != namespace.status;
    let mut plan = Plan::default();
    if *is_whole && findings.is_empty() {
        if is_news && outlives_its_content(namespace) {
            // Whoever waits for it is told that it is empty. The next round lets go of what was written here.
            plan.push(Action::update_status(&reported));
            plan.requeue_after = Some(Duration::ZERO);
        } else {
            plan.push(finalize(namespace));
        }
        return plan;
    }
    if is_news {
        plan.push(Action::update_status(&reported));
    }
    let estimate = |remains: &Remains| if remains.error.is_some() { RETRY_ESTIMATE_S } else { remains.estimate_s };
    let estimate_s = findings.remains.iter().map(estimate).max().unwrap_or(0).max(0);
    plan.requeue_after = Some(Duration::from_secs(estimate_s.unsigned_abs() / 2 + 1));
    plan
}

/// Somebody else's finalizer keeps it when this controller's is off.
fn outlives_its_content(namespace: &Namespace) -> bool {
    let of_others = finalizers(namespace).any(|finalizer| finalizer != FINALIZER);
    of_others || namespace.metadata.finalizers.as_ref().is_some_and(|finalizers| !finalizers.is_empty())
}

/// Takes this controller's finalizer off; the server removes a namespace that has none left.
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
    use crate::fixture;
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
        let remains = Remains { count, estimate_s, error: error.map(str::to_owned), ..Remains::default() };
        Findings { discovery_failure: None, remains: vec![remains] }
    }

    #[test]
    fn only_deleted_namespaces_with_our_finalizer_are_emptied() {
        assert!(needs_emptying(&namespace(&["kubernetes"])));
        assert!(!needs_emptying(&namespace(&["example.com/hold"])));
        let mut alive = namespace(&["kubernetes"]);
        alive.metadata.deletion_timestamp = None;
        assert!(!needs_emptying(&alive));
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
        for (findings, is_whole, verb, after_s) in cases {
            let observed = Observed { namespace: namespace(&["kubernetes"]), findings, is_whole };
            let plan = plan(&observed, fixture::at(5));
            let verbs: Vec<String> =
                plan.actions.iter().map(|action| action.to_string().split(' ').next().unwrap().to_owned()).collect();
            assert_eq!(verbs, [verb], "{observed:?}");
            assert_eq!(plan.requeue_after.map(|after| after.as_secs()), after_s, "{observed:?}");
        }
    }

    #[test]
    fn other_finalizers_stay_and_whoever_set_them_is_told() {
        let namespace = namespace(&["kubernetes", "example.com/hold"]);
        let mut observed = Observed { namespace, findings: Findings::default(), is_whole: true };
        let told = plan(&observed, fixture::at(5));
        let [Action::UpdateStatus { object, .. }] = told.actions.as_slice() else { panic!("{told}") };
        assert_eq!(object["status"]["conditions"][3]["message"], "All content successfully removed");
        assert_eq!(told.requeue_after, Some(Duration::ZERO));
        observed.namespace = Namespace::decode_value(object.clone()).unwrap();
        let finalized = plan(&observed, fixture::at(6));
        let [Action::UpdateSubresource { subresource, body, .. }] = finalized.actions.as_slice() else {
            panic!("{finalized}")
        };
        assert_eq!(subresource, "finalize");
        assert_eq!(body["spec"]["finalizers"], serde_json::json!(["example.com/hold"]));
    }
}
