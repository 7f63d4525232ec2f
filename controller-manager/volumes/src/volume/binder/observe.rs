//! Reads what the binder decides about from the caches, and finds the claims and volumes that an event concerns.
//!
//! Corresponds to the event handlers in pkg/controller/volume/persistentvolume/pv_controller_base.go.

use super::{claim_plan, volume_plan};
use crate::volume::claims::{self, CLAIMS_BY_VOLUME, UNBOUND_BY_CLASS};
use crate::volume::volumes::{self, FREE_BY_CLASS, VOLUMES_BY_CLAIM};
use client::{Event, Lister, WorkQueue};
use component_helpers::volumes::annotations::{BETA_IS_DEFAULT_CLASS, IS_DEFAULT_CLASS, annotation};
use component_helpers::volumes::{matching, pod_volumes};
use controller_base::indexes::PODS_BY_CLAIM;
use controller_base::pod;
use proto::Kind;
use proto::kinds::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use proto::kinds::api::storage::v1::StorageClass;
use std::cmp::Reverse;
use std::sync::Arc;

#[derive(Clone)]
pub struct Listers {
    pub claims: Lister<PersistentVolumeClaim>,
    pub volumes: Lister<PersistentVolume>,
    pub classes: Lister<StorageClass>,
    pub pods: Lister<Pod>,
}

impl Listers {
    pub fn observe_claim(&self, key: &str, enable_dynamic_provisioning: bool) -> Option<claim_plan::Observed> {
        let claim = self.claims.by_key(key)?;
        let name = claims::volume_name(&claim);
        let takes_any = name.is_empty() && !claims::is_bind_completed(&claim);
        let candidates = if takes_any { self.candidates(&claim) } else { Vec::new() };
        Some(claim_plan::Observed {
            named: if name.is_empty() { None } else { self.volumes.get("", name) },
            candidates,
            class: self.classes.get("", claims::class(&claim)),
            default_class: self.default_class(),
            unscheduled_pods: self.unscheduled_pods(&claim),
            enable_dynamic_provisioning,
            claim,
        })
    }

    pub fn observe_volume(&self, key: &str) -> Option<volume_plan::Observed> {
        let volume = self.volumes.by_key(key)?;
        let claim = volumes::claim_key(&volume).and_then(|key| self.claims.by_key(&key));
        let claim = claim.filter(|claim| claim.uid() == volumes::claim_uid(&volume));
        Some(volume_plan::Observed { volume, claim })
    }

    fn candidates(&self, claim: &PersistentVolumeClaim) -> Vec<Arc<PersistentVolume>> {
        let mut candidates = self.volumes.by_index(VOLUMES_BY_CLAIM, &claim.key());
        candidates.extend(self.volumes.by_index(FREE_BY_CLASS, claims::class(claim)));
        candidates
    }

    /// Returns the default class: the newest, then the first by name.
    fn default_class(&self) -> Option<String> {
        let classes = self.classes.filter("", is_default);
        let newest = classes.iter().min_by_key(|class| {
            (Reverse(class.metadata.creation_timestamp.as_ref().map(|time| time.0)), class.name().to_owned())
        });
        newest.map(|class| class.name().to_owned())
    }

    fn unscheduled_pods(&self, claim: &PersistentVolumeClaim) -> Vec<String> {
        let mut names: Vec<String> = self
            .pods
            .by_index(PODS_BY_CLAIM, &claim.key())
            .iter()
            .filter(|found| pod::node_name(found).is_empty() && pod_volumes::volume_of(found, claim).is_some())
            .map(|pod| pod.name().to_owned())
            .collect();
        names.sort();
        names
    }

    /// Adds the volumes that a claim's event concerns.
    pub fn on_claim(&self, event: &Event<PersistentVolumeClaim>, volumes: &WorkQueue<String>) {
        let facts = |claim: &PersistentVolumeClaim| (claim.uid().to_owned(), claims::volume_name(claim).to_owned());
        if matches!(event, Event::Updated { old, new } if facts(old) == facts(new)) {
            return;
        }
        let claim = event.object();
        self.volumes.by_index(VOLUMES_BY_CLAIM, &claim.key()).iter().for_each(|volume| volumes.add(volume.key()));
    }

    /// Adds the claims that a volume's event concerns: the one that it refers to or referred to, those that name it, and,
    /// if it is free, those that may take it.
    pub fn on_volume(&self, event: &Event<PersistentVolume>, claims: &WorkQueue<String>) {
        let volume = event.object();
        if let Event::Updated { old, .. } = event {
            volumes::claim_key(old).into_iter().for_each(|key| claims.add(key));
        }
        volumes::claim_key(volume).into_iter().for_each(|key| claims.add(key));
        self.claims.by_index(CLAIMS_BY_VOLUME, volume.name()).iter().for_each(|claim| claims.add(claim.key()));
        if !matches!(event, Event::Deleted(_)) && volumes::claim_ref(volume).is_none() {
            let unbound = self.claims.by_index(UNBOUND_BY_CLASS, volumes::class(volume));
            let takers = unbound.iter().filter(|claim| matching::is_free_for(volume, claim));
            takers.for_each(|claim| claims.add(claim.key()));
        }
    }

    /// Adds the claims that wait for a class, and those without a class if it is the default.
    pub fn on_class(&self, event: &Event<StorageClass>, claims: &WorkQueue<String>) {
        if matches!(event, Event::Deleted(_)) {
            return;
        }
        let class = event.object();
        let mut concerned = self.claims.by_index(UNBOUND_BY_CLASS, class.name());
        if is_default(class) {
            let classless = self.claims.by_index(UNBOUND_BY_CLASS, "");
            concerned.extend(classless.into_iter().filter(|claim| !claims::names_class(claim)));
        }
        concerned.iter().for_each(|claim| claims.add(claim.key()));
    }
}

fn is_default(class: &StorageClass) -> bool {
    [IS_DEFAULT_CLASS, BETA_IS_DEFAULT_CLASS].iter().any(|key| annotation(class, key) == Some("true"))
}
