//! Builds the pods of a StatefulSet, and corrects what a user changed about them.
//!
//! Corresponds to newStatefulSetPod and UpdateStatefulPod in pkg/controller/statefulset.

use super::spec::{first_updated, is_rolling, ordinals, rolling_update, spec};
use super::{claims, identity};
use crate::controller_revision::CONTROLLER_REVISION_HASH;
use controller_base::pod;
use controller_base::pod_template::pod_from_template;
use jiff::Timestamp;
use proto::Kind;
use proto::kinds::api::apps::v1::StatefulSet;
use proto::kinds::api::core::v1::{Pod, PodTemplateSpec};

/// A revision's name, and the template that it restores.
#[derive(Clone, Debug)]
pub struct Revision {
    pub name: String,
    pub template: PodTemplateSpec,
}

/// Returns the pod of an ordinal, to be created at a revision.
pub fn new_pod(set: &StatefulSet, revision: &Revision, ordinal: i64) -> Pod {
    let mut pod = pod_from_template(&revision.template, set);
    let name = identity::pod_name(set, ordinal);
    pod.metadata.name = Some(name.clone());
    identity::label(&mut pod, ordinal);
    let labels = pod.metadata.labels.get_or_insert_default();
    labels.insert(CONTROLLER_REVISION_HASH.to_owned(), revision.name.clone());
    let spec_of_pod = pod.spec.get_or_insert_default();
    spec_of_pod.hostname = Some(name);
    spec_of_pod.subdomain = spec(set).service_name.clone().filter(|service| !service.is_empty());
    claims::mount(set, spec_of_pod, ordinal);
    pod
}

/// Returns true if a new pod of this ordinal has the current revision: an update leaves it as it is, or has not come to
/// it yet.
pub fn needs_current_revision(set: &StatefulSet, ordinal: i64) -> bool {
    if rolling_update(set).is_some() {
        return ordinal < first_updated(set);
    }
    let current = set.status.as_ref().and_then(|status| status.current_replicas).unwrap_or(0);
    is_rolling(set) && ordinal < ordinals(set).start + i64::from(current)
}

/// Returns a pod with the labels and volumes that it should have; `None` if it has them.
pub fn corrected(set: &StatefulSet, pod: &Pod, ordinal: i64) -> Option<Pod> {
    if identity::is_labelled(pod) && claims::are_mounted(set, pod, ordinal) {
        return None;
    }
    let mut pod = pod.clone();
    identity::label(&mut pod, ordinal);
    claims::mount(set, pod.spec.get_or_insert_default(), ordinal);
    Some(pod)
}

/// Returns the name of the revision at which a pod was created.
pub fn revision_of(pod: &Pod) -> &str {
    let labels = pod.metadata.labels.as_ref();
    labels.and_then(|labels| labels.get(CONTROLLER_REVISION_HASH)).map_or("", String::as_str)
}

pub fn is_running_and_ready(pod: &Pod) -> bool {
    pod::phase(pod) == "Running" && pod::is_ready(pod)
}

/// Returns true if a pod does not serve, or will soon not.
pub fn is_unavailable(pod: &Pod, min_ready_seconds: i32, now: Timestamp) -> bool {
    !is_running_and_ready(pod) || pod.is_deleting() || !pod::is_available(pod, min_ready_seconds, now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statefulset::sample;
    use controller_base::fixture;
    use proto::kinds::api::core::v1::PodSpec;

    fn revision() -> Revision {
        Revision { name: "web-abc".to_owned(), template: fixture::template("nginx:1") }
    }

    #[test]
    fn a_new_pod_has_its_identity() {
        let set = sample::set_with_claims(3, &["www"]);
        let pod = new_pod(&set, &revision(), 2);
        assert_eq!(pod.key(), "default/web-2");
        assert_eq!(pod.metadata.generate_name.as_deref(), Some("web-"));
        let labels = [
            ("app", "web"),
            ("apps.kubernetes.io/pod-index", "2"),
            ("controller-revision-hash", "web-abc"),
            ("statefulset.kubernetes.io/pod-name", "web-2"),
        ];
        assert_eq!(pod.metadata.labels, Some(fixture::labels(&labels)));
        let owner = fixture::owner("apps/v1", "StatefulSet", "web", true);
        assert_eq!(pod.metadata.owner_references, Some(vec![owner]));
        let PodSpec { hostname, subdomain, volumes, .. } = pod.spec.clone().unwrap();
        assert_eq!((hostname.as_deref(), subdomain.as_deref()), (Some("web-2"), Some("nginx")));
        let claim = volumes.unwrap()[0].persistent_volume_claim.clone().unwrap();
        assert_eq!(claim.claim_name, "www-web-2");
        assert_eq!(corrected(&set, &pod, 2), None);
    }

    #[test]
    fn changed_labels_are_corrected() {
        let set = sample::set(3);
        let whole = new_pod(&set, &revision(), 0);
        let mut pod = whole.clone();
        pod.metadata.labels.as_mut().unwrap().insert(identity::POD_NAME.to_owned(), "web-1".to_owned());
        assert_eq!(corrected(&set, &pod, 0), Some(whole));
    }

    #[test]
    fn the_partition_decides_about_the_revision() {
        let cases = [
            // partition, status.currentReplicas, first ordinal => ordinals at the current revision
            (Some(0), 3, 0, 0),
            (Some(2), 0, 0, 2),
            (Some(2), 0, 5, 2),
            (None, 2, 0, 2),
            (None, 1, 5, 1),
        ];
        for (partition, current, start, expected) in cases {
            let mut set = sample::set(3);
            set.spec.as_mut().unwrap().ordinals.get_or_insert_default().start = Some(start);
            set.status.get_or_insert_default().current_replicas = Some(current);
            let strategy = set.spec.as_mut().unwrap().update_strategy.as_mut().unwrap();
            strategy.rolling_update =
                partition.map(|partition| proto::kinds::api::apps::v1::RollingUpdateStatefulSetStrategy {
                    partition: Some(partition),
                    max_unavailable: None,
                });
            let at_current = ordinals(&set).filter(|ordinal| needs_current_revision(&set, *ordinal)).count();
            assert_eq!(at_current, expected, "partition {partition:?}, {current} current");
            set.spec.as_mut().unwrap().update_strategy = Some(sample::on_delete());
            assert!(!needs_current_revision(&set, i64::from(start)), "the user decides when to delete");
        }
    }
}
