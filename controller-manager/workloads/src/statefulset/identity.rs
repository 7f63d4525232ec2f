//! The identity of a StatefulSet's pod: its ordinal, the name made of it, and the labels that show both.
//!
//! Corresponds to getParentNameAndOrdinal, identityMatches and updateIdentity in
//! pkg/controller/statefulset/stateful_set_utils.go.

use proto::Kind;
use proto::kinds::api::apps::v1::StatefulSet;
use proto::kinds::api::core::v1::Pod;

/// Label with the pod's name, by which a Service can select one pod.
pub const POD_NAME: &str = "statefulset.kubernetes.io/pod-name";
/// Label with the pod's ordinal.
pub const POD_INDEX: &str = "apps.kubernetes.io/pod-index";

pub fn pod_name(set: &StatefulSet, ordinal: i64) -> String {
    format!("{}-{ordinal}", set.name())
}

/// Splits a pod's name into the name of a StatefulSet and an ordinal.
///
/// Deviation: a number that the controller would write differently, such as `00`, or one beyond 32 bits, is no ordinal.
/// In Kubernetes `web-0` and `web-00` are both the pod 0 of `web`.
///
/// Example: `web-db-10` is the pod 10 of `web-db`.
pub fn split(pod_name: &str) -> Option<(&str, i64)> {
    let (parent, digits) = pod_name.rsplit_once('-')?;
    let ordinal: i32 = digits.parse().ok().filter(|ordinal| *ordinal >= 0)?;
    (ordinal.to_string() == digits).then_some((parent, i64::from(ordinal)))
}

/// Returns the ordinal of a pod whose name makes it a member of the set.
pub fn ordinal(set: &StatefulSet, pod: &Pod) -> Option<i64> {
    split(pod.name()).filter(|(parent, _)| *parent == set.name()).map(|(_, ordinal)| ordinal)
}

/// Sets the labels of the identity. They are all of it that can change once the pod exists.
pub fn label(pod: &mut Pod, ordinal: i64) {
    let name = pod.name().to_owned();
    let labels = pod.metadata.labels.get_or_insert_default();
    labels.insert(POD_NAME.to_owned(), name);
    labels.insert(POD_INDEX.to_owned(), ordinal.to_string());
}

/// Returns true if a member has the label with its name. The label with its ordinal is not checked, so that pods of
/// older releases stay as they are.
pub fn is_labelled(pod: &Pod) -> bool {
    pod.metadata.labels.as_ref().and_then(|labels| labels.get(POD_NAME)).is_some_and(|name| name == pod.name())
}

#[cfg(test)]
mod tests {
    use super::*;
    use controller_base::fixture;

    #[test]
    fn names_split_into_set_and_ordinal() {
        let cases = [
            ("web-0", Some(("web", 0))),
            ("web-db-10", Some(("web-db", 10))),
            ("web-2147483647", Some(("web", 2_147_483_647))),
            ("web-2147483648", None),
            ("web-00", None),
            ("web-+1", None),
            ("web-", None),
            ("web-x", None),
            ("web", None),
        ];
        for (name, expected) in cases {
            assert_eq!(split(name), expected, "{name}");
        }
    }

    #[test]
    fn labels_show_the_identity() {
        let mut pod = fixture::pod("web-3");
        assert!(!is_labelled(&pod));
        label(&mut pod, 3);
        assert_eq!(pod.metadata.labels, Some(fixture::labels(&[(POD_NAME, "web-3"), (POD_INDEX, "3")])));
        assert!(is_labelled(&pod));
        pod.metadata.name = Some("web-4".to_owned());
        assert!(!is_labelled(&pod), "a copy of another pod");
    }
}
