//! The claims of a pod: one of each template of the set, with a name that only this pod uses.
//!
//! Corresponds to getPersistentVolumeClaims and updateStorage in pkg/controller/statefulset/stateful_set_utils.go.

use super::identity::pod_name;
use super::spec::{ordinals, spec};
use proto::Kind;
use proto::kinds::api::apps::v1::StatefulSet;
use proto::kinds::api::core::v1::{PersistentVolumeClaim, PersistentVolumeClaimVolumeSource, Pod, PodSpec, Volume};

fn templates(set: &StatefulSet) -> &[PersistentVolumeClaim] {
    spec(set).volume_claim_templates.as_deref().unwrap_or_default()
}

/// Returns the name of a claim, such as `www-web-0`.
fn claim_name(set: &StatefulSet, template: &PersistentVolumeClaim, ordinal: i64) -> String {
    format!("{}-{}", template.name(), pod_name(set, ordinal))
}

/// Returns the names of the claims of a pod.
pub fn names(set: &StatefulSet, ordinal: i64) -> impl Iterator<Item = String> + '_ {
    templates(set).iter().map(move |template| claim_name(set, template, ordinal))
}

/// Returns the claims of a pod as they are created. The set's selector matches them.
pub fn new_claims(set: &StatefulSet, ordinal: i64) -> impl Iterator<Item = PersistentVolumeClaim> + '_ {
    templates(set).iter().map(move |template| {
        let mut claim = PersistentVolumeClaim { status: None, ..template.clone() };
        claim.metadata.name = Some(claim_name(set, template, ordinal));
        claim.metadata.namespace = Some(set.namespace().to_owned());
        let labels = spec(set).selector.match_labels.iter().flatten();
        let labels = labels.map(|(key, value)| (key.clone(), value.clone()));
        claim.metadata.labels.get_or_insert_default().extend(labels);
        claim
    })
}

/// Returns the ordinal of the pod to which a claim of this name belongs; `None` if it is none of the set's claims.
pub fn ordinal_of(set: &StatefulSet, claim: &str) -> Option<i64> {
    let of_template = |template: &PersistentVolumeClaim| {
        let pod = claim.strip_prefix(template.name())?.strip_prefix('-')?;
        super::identity::split(pod).filter(|(parent, _)| *parent == set.name()).map(|(_, ordinal)| ordinal)
    };
    templates(set).iter().find_map(of_template)
}

/// Returns true if a pod of the set that is wanted uses a claim of this name.
pub fn are_needed(set: &StatefulSet, claim: &str) -> bool {
    ordinal_of(set, claim).is_some_and(|ordinal| ordinals(set).contains(&ordinal))
}

/// Adds a volume for each claim of the pod. It replaces a volume of that name.
pub fn mount(set: &StatefulSet, pod: &mut PodSpec, ordinal: i64) {
    if templates(set).is_empty() {
        return;
    }
    let claimed = templates(set).iter().map(|template| Volume {
        name: template.name().to_owned(),
        persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
            claim_name: claim_name(set, template, ordinal),
            read_only: None,
        }),
        ..Volume::default()
    });
    let is_replaced = |volume: &Volume| templates(set).iter().any(|template| template.name() == volume.name);
    let others = pod.volumes.take().unwrap_or_default().into_iter().filter(|volume| !is_replaced(volume));
    pod.volumes = Some(claimed.chain(others).collect());
}

/// Returns true if a pod has a volume for each of its claims.
pub fn are_mounted(set: &StatefulSet, pod: &Pod, ordinal: i64) -> bool {
    let volumes = pod.spec.as_ref().and_then(|spec| spec.volumes.as_deref()).unwrap_or_default();
    templates(set).iter().all(|template| {
        let volume = volumes.iter().find(|volume| volume.name == template.name());
        let source = volume.and_then(|volume| volume.persistent_volume_claim.as_ref());
        source.is_some_and(|source| source.claim_name == claim_name(set, template, ordinal))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statefulset::sample;
    use controller_base::fixture;

    #[test]
    fn claims_are_named_after_template_and_pod() {
        let mut set = sample::set_with_claims(3, &["www", "log"]);
        let template = &mut set.spec.as_mut().unwrap().volume_claim_templates.as_mut().unwrap()[0];
        template.metadata.labels = Some(fixture::labels(&[("app", "other"), ("disk", "fast")]));
        let claims: Vec<PersistentVolumeClaim> = new_claims(&set, 2).collect();
        assert_eq!(claims.iter().map(Kind::key).collect::<Vec<_>>(), ["default/www-web-2", "default/log-web-2"]);
        let labels = fixture::labels(&[("app", "web"), ("disk", "fast")]);
        assert_eq!(claims[0].metadata.labels, Some(labels), "the selector matches");
        assert_eq!(claims[1].spec, set.spec.unwrap().volume_claim_templates.unwrap()[1].spec);
    }

    #[test]
    fn a_claims_name_leads_to_its_pod() {
        let set = sample::set_with_claims(3, &["www", "www-web"]);
        let cases = [
            ("www-web-0", Some(0)),
            ("www-web-web-1", Some(1)),
            ("www-web-7", Some(7)),
            ("www-db-0", None),
            ("log-web-0", None),
            ("www-web", None),
        ];
        for (name, expected) in cases {
            assert_eq!(ordinal_of(&set, name), expected, "{name}");
        }
        assert!(are_needed(&set, "www-web-2"));
        assert!(!are_needed(&set, "www-web-3"), "the set has three pods");
    }

    #[test]
    fn a_claim_replaces_a_volume_of_its_name() {
        let set = sample::set_with_claims(1, &["www"]);
        let mut pod = fixture::pod("web-0");
        let volume = |name: &str| Volume { name: name.to_owned(), ..Volume::default() };
        pod.spec.as_mut().unwrap().volumes = Some(vec![volume("tmp"), volume("www")]);
        assert!(!are_mounted(&set, &pod, 0));
        mount(&set, pod.spec.as_mut().unwrap(), 0);
        assert!(are_mounted(&set, &pod, 0));
        assert!(!are_mounted(&set, &pod, 1), "the claim of another pod");
        let volumes = pod.spec.unwrap().volumes.unwrap();
        assert_eq!(volumes.iter().map(|volume| volume.name.as_str()).collect::<Vec<_>>(), ["www", "tmp"]);
        let mut plain = fixture::pod("web-0");
        mount(&sample::set(1), plain.spec.as_mut().unwrap(), 0);
        assert_eq!(plain, fixture::pod("web-0"), "a set without claims");
    }
}
