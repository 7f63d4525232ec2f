//! Starts the attacher of simulated drivers: a queue of attachments, and one of volumes.
//!
//! Corresponds to Run in pkg/controller/controller.go of external-attacher.

use super::{attachment_plan, volume_plan};
use client::reconcile::{self, Reconciler};
use client::{Event, Lister, Plan};
use component_helpers::volumes::csi_volume::{CsiVolume, is_simulated};
use controller_base::context::Running;
use controller_base::descriptor::Setup;
use controller_base::indexes::{self, ATTACHMENTS_BY_VOLUME};
use futures::future::join;
use jiff::Timestamp;
use proto::Kind;
use proto::kinds::api::core::v1::PersistentVolume;
use proto::kinds::api::storage::v1::{CSIDriver, VolumeAttachment};
use std::sync::Arc;

/// Attachments, and volumes, that are reconciled concurrently, as in external-attacher.
const WORKERS: usize = 10;

#[derive(Clone)]
struct Caches {
    attachments: Lister<VolumeAttachment>,
    volumes: Lister<PersistentVolume>,
    drivers: Lister<CSIDriver>,
}

pub fn start(setup: &Setup<'_>) -> Running {
    let [attachments, volumes] = setup.queues();
    let informer = setup.informer::<VolumeAttachment>();
    indexes::attachments_by_volume(&informer);
    let caches = Caches { attachments: informer.lister(), volumes: setup.lister(), drivers: setup.lister() };
    let of_volumes = volumes.clone();
    setup.on_event(&attachments, move |event: &Event<VolumeAttachment>, queue| {
        queue.add(event.object().key());
        let volume = event.object().spec.source.persistent_volume_name.clone();
        volume.filter(|_| matches!(event, Event::Deleted(_))).into_iter().for_each(|volume| of_volumes.add(volume));
    });
    let (of_attachments, known) = (attachments.clone(), caches.clone());
    setup.on_event(&volumes, move |event: &Event<PersistentVolume>, queue| {
        queue.add(event.object().key());
        known
            .attachments
            .by_index(ATTACHMENTS_BY_VOLUME, event.object().name())
            .iter()
            .for_each(|of| of_attachments.add(of.key()));
    });
    let known = caches.clone();
    setup.on_event(&attachments, move |event: &Event<CSIDriver>, queue| {
        let of_driver = |attachment: &VolumeAttachment| attachment.spec.attacher == event.object().name();
        known.attachments.filter("", of_driver).iter().for_each(|attachment| queue.add(attachment.key()));
    });
    let actor = setup.actor();
    let of_attachments = reconcile::run(actor.clone(), attachments, WORKERS, Attachments(caches.clone()));
    let of_volumes = reconcile::run(actor, volumes, WORKERS, Volumes(caches));
    Box::pin(async move {
        join(of_attachments, of_volumes).await;
    })
}

impl Caches {
    fn simulates(&self, driver: &str) -> bool {
        is_simulated(driver, self.drivers.get("", driver).as_deref())
    }
}

struct Attachments(Caches);

impl Reconciler for Attachments {
    type Observed = attachment_plan::Observed;

    fn observe(&self, key: &str) -> Option<attachment_plan::Observed> {
        let attachment = self.0.attachments.by_key(key).filter(|found| self.0.simulates(&found.spec.attacher))?;
        let name = attachment.spec.source.persistent_volume_name.as_deref();
        let volume = name.and_then(|name| self.0.volumes.get("", name));
        Some(attachment_plan::Observed { attachment, volume })
    }

    fn plan(&self, observed: &attachment_plan::Observed, now: Timestamp) -> Plan {
        attachment_plan::plan(observed, now)
    }
}

struct Volumes(Caches);

impl Reconciler for Volumes {
    type Observed = volume_plan::Observed;

    fn observe(&self, key: &str) -> Option<volume_plan::Observed> {
        let volume: Arc<PersistentVolume> = self.0.volumes.by_key(key)?;
        let driver = CsiVolume::of(&volume)?.driver;
        let is_attached = !self.0.attachments.by_index(ATTACHMENTS_BY_VOLUME, key).is_empty();
        self.0.simulates(&driver).then_some(volume_plan::Observed { volume, driver, is_attached })
    }

    fn plan(&self, observed: &volume_plan::Observed, _now: Timestamp) -> Plan {
        volume_plan::plan(observed)
    }
}
