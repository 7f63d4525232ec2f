//! Starts the PersistentVolume binder: rounds of claims and rounds of volumes.
//!
//! Corresponds to pkg/controller/volume/persistentvolume/pv_controller_base.go.

use super::observe::Listers;
use super::{claim_plan, metrics, volume_plan};
use crate::volume::{claims, pods, volumes};
use client::reconcile::{self, Reconciler};
use client::{Client, Event, Plan, ReconcileError};
use controller_base::context::Running;
use controller_base::descriptor::Setup;
use futures::future::join;
use jiff::Timestamp;
use proto::Kind;
use proto::kinds::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use std::sync::Arc;

/// One round at a time, as in kube-controller-manager: rounds of claims often want the same volume.
const WORKERS: usize = 1;

struct Claims {
    listers: Listers,
    enable_dynamic_provisioning: bool,
}

struct Volumes {
    listers: Listers,
}

pub fn start(setup: &Setup<'_>) -> Running {
    let [claim_queue, volume_queue] = setup.queues();
    claims::index(&setup.informer());
    volumes::index(&setup.informer());
    pods::index(&setup.informer());
    let listers =
        Listers { claims: setup.lister(), volumes: setup.lister(), classes: setup.lister(), pods: setup.lister() };
    metrics::register(setup.env, &listers);
    setup.on_event(&claim_queue, {
        let (listers, volumes) = (listers.clone(), volume_queue.clone());
        move |event: &Event<PersistentVolumeClaim>, queue| {
            queue.add(event.object().key());
            listers.on_claim(event, &volumes);
        }
    });
    setup.on_event(&volume_queue, {
        let (listers, claims) = (listers.clone(), claim_queue.clone());
        move |event: &Event<PersistentVolume>, queue| {
            queue.add(event.object().key());
            listers.on_volume(event, &claims);
        }
    });
    setup.on_event(&claim_queue, {
        let listers = listers.clone();
        move |event, queue| listers.on_class(event, queue)
    });
    let actor = setup.actor();
    let enable_dynamic_provisioning = setup.settings.enable_dynamic_provisioning;
    let claims = Claims { listers: listers.clone(), enable_dynamic_provisioning };
    let claims = reconcile::run(actor.clone(), claim_queue, WORKERS, claims);
    let volumes = reconcile::run(actor, volume_queue, WORKERS, Volumes { listers });
    Box::pin(async move {
        join(claims, volumes).await;
    })
}

impl Reconciler for Claims {
    type Observed = claim_plan::Observed;

    fn observe(&self, key: &str) -> Option<Self::Observed> {
        self.listers.observe_claim(key, self.enable_dynamic_provisioning)
    }

    /// Asks the server for the volume of a bound claim before its data is called lost: the cache may lack a new volume.
    async fn consult(
        &self,
        client: &Client,
        mut observed: Self::Observed,
    ) -> Result<Option<Self::Observed>, ReconcileError> {
        let name = claims::volume_name(&observed.claim);
        if observed.named.is_none() && claims::is_bind_completed(&observed.claim) && !name.is_empty() {
            observed.named = match client.api::<PersistentVolume>("").get(name).await {
                Ok(volume) => Some(Arc::new(volume)),
                Err(error) if error.is_not_found() => None,
                Err(error) => return Err(error.into()),
            };
        }
        Ok(Some(observed))
    }

    fn plan(&self, observed: &Self::Observed, _now: Timestamp) -> Plan {
        claim_plan::plan(observed)
    }
}

impl Reconciler for Volumes {
    type Observed = volume_plan::Observed;

    fn observe(&self, key: &str) -> Option<Self::Observed> {
        self.listers.observe_volume(key)
    }

    /// Asks the server for the claim before the volume is released: the cache may lack a new claim.
    async fn consult(
        &self,
        client: &Client,
        mut observed: Self::Observed,
    ) -> Result<Option<Self::Observed>, ReconcileError> {
        let Some(claim) = volumes::claim_ref(&observed.volume).filter(|_| observed.is_about_to_be_released()) else {
            return Ok(Some(observed));
        };
        let api = client.api::<PersistentVolumeClaim>(claim.namespace.as_deref().unwrap_or_default());
        let found = match api.get(claim.name.as_deref().unwrap_or_default()).await {
            Ok(found) if Some(found.uid()) == claim.uid.as_deref() => Some(Arc::new(found)),
            Err(error) if !error.is_not_found() => return Err(error.into()),
            _ => None,
        };
        observed.claim = found;
        Ok(Some(observed))
    }

    fn plan(&self, observed: &Self::Observed, _now: Timestamp) -> Plan {
        volume_plan::plan(observed)
    }
}
