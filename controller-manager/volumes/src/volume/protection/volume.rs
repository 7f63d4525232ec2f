//! Keeps a deleted volume while it is bound to a claim.
//!
//! Corresponds to pkg/controller/volume/pvprotection.

use crate::volume::volumes;
use client::reconcile::Reconciler;
use client::{Event, Lister, Plan};
use controller_base::context::Running;
use controller_base::descriptor::Setup;
use controller_base::finalizer::{self, concerns};
use jiff::Timestamp;
use proto::Kind;
use proto::finalizers::PV_PROTECTION;
use proto::kinds::api::core::v1::PersistentVolume;
use std::sync::Arc;

const WORKERS: usize = 1;

struct Controller {
    volumes: Lister<PersistentVolume>,
}

pub fn start(setup: &Setup<'_>) -> Running {
    let queue = setup.queue();
    setup.on_event(&queue, |event: &Event<PersistentVolume>, queue| {
        if concerns(event, PV_PROTECTION) {
            queue.add(event.object().key());
        }
    });
    setup.run(queue, WORKERS, Controller { volumes: setup.lister() })
}

impl Reconciler for Controller {
    type Observed = Arc<PersistentVolume>;

    fn observe(&self, key: &str) -> Option<Arc<PersistentVolume>> {
        self.volumes.by_key(key)
    }

    fn plan(&self, volume: &Arc<PersistentVolume>, _now: Timestamp) -> Plan {
        finalizer::plan(&**volume, PV_PROTECTION, volumes::phase(volume) == volumes::BOUND)
    }
}
