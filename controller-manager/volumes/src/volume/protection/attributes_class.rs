//! Keeps a deleted VolumeAttributesClass while a claim or a volume names it.
//!
//! Corresponds to pkg/controller/volume/vacprotection.

use client::reconcile::Reconciler;
use client::{Client, Event, Informer, ListOptions, Lister, Plan, ReconcileError, WorkQueue};
use controller_base::context::Running;
use controller_base::descriptor::Setup;
use controller_base::finalizer::{self, concerns, is_candidate};
use jiff::Timestamp;
use proto::Kind;
use proto::finalizers::VAC_PROTECTION;
use proto::kinds::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use proto::kinds::api::storage::v1::VolumeAttributesClass;
use std::sync::Arc;

/// Claims and volumes by the attributes classes that they name.
const BY_ATTRIBUTES_CLASS: &str = "volumeAttributesClassName";
const WORKERS: usize = 1;

struct Controller {
    classes: Lister<VolumeAttributesClass>,
    claims: Lister<PersistentVolumeClaim>,
    volumes: Lister<PersistentVolume>,
}

struct Observed {
    class: Arc<VolumeAttributesClass>,
    is_used: bool,
}

pub fn start(setup: &Setup<'_>) -> Running {
    let queue = setup.queue();
    setup.on_event(&queue, |event: &Event<VolumeAttributesClass>, queue| {
        if concerns(event, VAC_PROTECTION) {
            queue.add(event.object().key());
        }
    });
    watch(setup, &queue, of_claim);
    watch(setup, &queue, of_volume);
    let controller = Controller { classes: setup.lister(), claims: setup.lister(), volumes: setup.lister() };
    setup.run(queue, WORKERS, controller)
}

/// Indexes objects by the classes that they name, and adds the classes that one no longer names.
fn watch<K: Kind>(setup: &Setup<'_>, queue: &WorkQueue<String>, names: fn(&K) -> Vec<String>) {
    let informer: Informer<K> = setup.informer();
    informer.index(BY_ATTRIBUTES_CLASS, names);
    setup.on_event(queue, move |event: &Event<K>, queue| {
        let (before, after) = match event {
            Event::Added(_) => return,
            Event::Updated { old, new } => (names(old), names(new)),
            Event::Deleted(old) => (names(old), Vec::new()),
        };
        before.into_iter().filter(|name| !after.contains(name)).for_each(|name| queue.add(name));
    });
}

/// Returns the classes that a claim asks for, has, and is being given.
fn of_claim(claim: &PersistentVolumeClaim) -> Vec<String> {
    let asked = claim.spec.as_ref().and_then(|spec| spec.volume_attributes_class_name.clone());
    let status = claim.status.as_ref();
    let has = status.and_then(|status| status.current_volume_attributes_class_name.clone());
    let target =
        status.and_then(|status| status.modify_volume_status.as_ref()?.target_volume_attributes_class_name.clone());
    let mut names: Vec<String> = [asked, has, target].into_iter().flatten().filter(|name| !name.is_empty()).collect();
    names.sort();
    names.dedup();
    names
}

fn of_volume(volume: &PersistentVolume) -> Vec<String> {
    volume.spec.iter().filter_map(|spec| spec.volume_attributes_class_name.clone()).collect()
}

impl Reconciler for Controller {
    type Observed = Observed;

    fn observe(&self, key: &str) -> Option<Observed> {
        let class = self.classes.by_key(key)?;
        let is_used = !self.claims.by_index(BY_ATTRIBUTES_CLASS, key).is_empty()
            || !self.volumes.by_index(BY_ATTRIBUTES_CLASS, key).is_empty();
        Some(Observed { class, is_used })
    }

    /// Asks the server for claims and volumes before the class goes: a cache may lack one.
    async fn consult(&self, client: &Client, observed: Observed) -> Result<Option<Observed>, ReconcileError> {
        let Observed { class, is_used } = observed;
        if is_used || !is_candidate(&*class, VAC_PROTECTION) {
            return Ok(Some(Observed { class, is_used }));
        }
        let name = class.name().to_owned();
        let claims = client.api::<PersistentVolumeClaim>("").list(&ListOptions::default()).await?;
        let volumes = client.api::<PersistentVolume>("").list(&ListOptions::default()).await?;
        let is_used = claims.items.iter().any(|claim| of_claim(claim).contains(&name))
            || volumes.items.iter().any(|volume| of_volume(volume).contains(&name));
        Ok(Some(Observed { class, is_used }))
    }

    fn plan(&self, observed: &Observed, _now: Timestamp) -> Plan {
        finalizer::plan(&*observed.class, VAC_PROTECTION, observed.is_used)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volume::fixture::claim;
    use proto::kinds::api::core::v1::ModifyVolumeStatus;

    #[test]
    fn a_claim_uses_the_class_that_it_had_until_the_change_is_done() {
        let mut claim = claim("c", None);
        assert_eq!(of_claim(&claim), [""; 0]);
        claim.spec.get_or_insert_default().volume_attributes_class_name = Some("fast".to_owned());
        let status = claim.status.get_or_insert_default();
        status.current_volume_attributes_class_name = Some("slow".to_owned());
        status.modify_volume_status = Some(ModifyVolumeStatus {
            target_volume_attributes_class_name: Some("fast".to_owned()),
            ..ModifyVolumeStatus::default()
        });
        assert_eq!(of_claim(&claim), ["fast", "slow"]);
    }
}
