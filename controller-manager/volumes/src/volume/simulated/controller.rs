//! Starts the programs of the simulated storage system: they make, delete, resize and modify volumes, and say how much is
//! free.
//!
//! Corresponds to cmd/csi-provisioner of the external-provisioner and cmd/csi-resizer of the external-resizer, which run
//! beside a CSI driver.
//!
//! Deviation: the driver is part of the controller manager, so that a cluster has storage without a pod. Kubernetes has only
//! drivers that somebody installs.

use super::capacity::{self, Publisher};
use super::delete::{self, Deleter};
use super::driver::{Driver, asks_us, has_our_source};
use super::modify::{self, Modifier};
use super::provision::Provisioner;
use super::resize::Resizer;
use crate::volume::{claims, volumes};
use client::Event;
use client::reconcile;
use controller_base::context::Running;
use controller_base::descriptor::Setup;
use futures::future::join5;
use proto::Kind;
use proto::kinds::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use proto::kinds::api::storage::v1::{CSIStorageCapacity, StorageClass, VolumeAttributesClass};

/// One round at a time, so that the limit of a class holds.
const WORKERS: usize = 1;

pub fn start(setup: &Setup<'_>) -> Running {
    let [claim_queue, volume_queue, resize_queue, modify_queue, capacity_queue] = setup.queues();
    let (provisioner, deleter) = (Provisioner(Driver::new(setup)), Deleter(Driver::new(setup)));
    let (resizer, modifier) = (Resizer(Driver::new(setup)), Modifier(Driver::new(setup)));
    let of_claims = [provisioner.0.calls.clone(), resizer.0.calls.clone(), modifier.0.calls.clone()];
    setup.on_event(&claim_queue, {
        let (of_claims, resize_queue, modify_queue) = (of_claims.clone(), resize_queue.clone(), modify_queue.clone());
        move |event: &Event<PersistentVolumeClaim>, queue| {
            let claim = event.object();
            if matches!(event, Event::Deleted(_)) {
                of_claims.iter().for_each(|calls| calls.forget(claim.uid()));
            } else if !claims::volume_name(claim).is_empty() {
                resize_queue.add(claim.key());
                modify_queue.add(claim.key());
            } else if asks_us(claim) {
                queue.add(claim.key());
            }
        }
    });
    setup.on_event(&volume_queue, {
        let (deletions, resize_queue, modify_queue) =
            (deleter.0.calls.clone(), resize_queue.clone(), modify_queue.clone());
        let capacity_queue = capacity_queue.clone();
        move |event: &Event<PersistentVolume>, queue| {
            let volume = event.object();
            // The caches now show what the calls about the claim did.
            of_claims.iter().for_each(|calls| calls.forget(volumes::claim_uid(volume)));
            if delete::is_ours(volume) {
                capacity_queue.add(volumes::class(volume).to_owned());
            }
            if matches!(event, Event::Deleted(_)) {
                deletions.forget(volume.uid());
                return;
            }
            if delete::is_ours(volume) {
                queue.add(volume.key());
            }
            if let Some(claim) = volumes::claim_key(volume).filter(|_| has_our_source(volume)) {
                resize_queue.add(claim.clone());
                modify_queue.add(claim);
            }
        }
    });
    setup.on_event(&modify_queue, {
        let claims = setup.lister::<PersistentVolumeClaim>();
        move |event: &Event<VolumeAttributesClass>, queue| {
            let name = event.object().name();
            let waiting = claims.filter("", |claim| modify::target(claim) == Some(name));
            waiting.iter().for_each(|claim| queue.add(claim.key()));
        }
    });
    setup.on_event(&capacity_queue, |event: &Event<StorageClass>, queue| queue.add(event.object().key()));
    setup.on_event(&capacity_queue, |event: &Event<CSIStorageCapacity>, queue| {
        capacity::class_of(event.object()).into_iter().for_each(|class| queue.add(class.to_owned()));
    });
    let publisher = Publisher { driver: Driver::new(setup), capacities: setup.lister() };
    let actor = setup.actor();
    let provisions = reconcile::run(actor.clone(), claim_queue, WORKERS, provisioner);
    let deletions = reconcile::run(actor.clone(), volume_queue, WORKERS, deleter);
    let resizes = reconcile::run(actor.clone(), resize_queue, WORKERS, resizer);
    let modifications = reconcile::run(actor.clone(), modify_queue, WORKERS, modifier);
    let capacities = reconcile::run(actor, capacity_queue, WORKERS, publisher);
    Box::pin(async move {
        join5(provisions, deletions, resizes, modifications, capacities).await;
    })
}
