//! Tolerations: matches the tolerations of a pod against the taints of a node, and those of a claim against a device's.
//!
//! Corresponds to k8s.io/component-helpers/scheduling/corev1/helpers.go, and to ToleratesTaint of
//! k8s.io/dynamic-resource-allocation/resourceclaim.

use proto::kinds::api::core::v1::{Taint, Toleration};
use proto::kinds::api::resource::v1::{DeviceTaint, DeviceToleration};

/// Returns whether a toleration matches a taint. An empty key or effect matches all.
pub fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let Toleration { effect, key, operator, value, .. } = toleration;
    is_for(effect, &taint.effect) && is_for(key, &taint.key) && has_value(operator, value, &taint.value)
}

/// Returns whether a claim's toleration matches the taint of a device. An empty key or effect matches all.
pub fn tolerates_device(toleration: &DeviceToleration, taint: &DeviceTaint) -> bool {
    let DeviceToleration { effect, key, operator, value, .. } = toleration;
    is_for(effect, &taint.effect) && is_for(key, &taint.key) && has_value(operator, value, &taint.value)
}

fn is_for(own: &Option<String>, wanted: &str) -> bool {
    own.as_deref().is_none_or(|own| own.is_empty() || own == wanted)
}

fn has_value(operator: &Option<String>, own: &Option<String>, wanted: &Option<String>) -> bool {
    match operator.as_deref() {
        None | Some("" | "Equal") => own.as_deref().unwrap_or_default() == wanted.as_deref().unwrap_or_default(),
        Some("Exists") => true,
        _ => false,
    }
}

/// Returns the first taint that no toleration matches.
pub fn untolerated<'a>(tolerations: &[Toleration], taints: impl IntoIterator<Item = &'a Taint>) -> Option<&'a Taint> {
    taints.into_iter().find(|taint| !tolerations.iter().any(|toleration| tolerates(toleration, taint)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taint(key: &str, value: &str, effect: &str) -> Taint {
        let value = (!value.is_empty()).then(|| value.to_owned());
        Taint { key: key.to_owned(), value, effect: effect.to_owned(), time_added: None }
    }

    fn toleration(key: &str, operator: &str, value: &str, effect: &str) -> Toleration {
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        Toleration {
            key: some(key),
            operator: some(operator),
            value: some(value),
            effect: some(effect),
            toleration_seconds: None,
        }
    }

    #[test]
    fn what_a_toleration_does_not_say_matches_everything() {
        let gpu = taint("gpu", "yes", "NoSchedule");
        for (toleration, expected) in [
            (toleration("gpu", "Equal", "yes", "NoSchedule"), true),
            (toleration("gpu", "", "yes", ""), true),
            (toleration("gpu", "Equal", "no", "NoSchedule"), false),
            (toleration("gpu", "Exists", "", "NoExecute"), false),
            (toleration("gpu", "Exists", "", ""), true),
            (toleration("", "Exists", "", ""), true),
            (toleration("cpu", "Exists", "", ""), false),
            (toleration("gpu", "Like", "yes", ""), false),
        ] {
            assert_eq!(tolerates(&toleration, &gpu), expected, "{toleration:?}");
        }
    }

    #[test]
    fn the_first_taint_that_nothing_covers() {
        let taints = [taint("a", "", "NoExecute"), taint("b", "", "NoExecute")];
        let all = toleration("", "Exists", "", "");
        let a = toleration("a", "Exists", "", "");
        assert_eq!(untolerated(&[a], &taints).map(|t| t.key.as_str()), Some("b"));
        assert_eq!(untolerated(&[all], &taints), None);
    }
}
