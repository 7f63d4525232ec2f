//! Starts the PersistentVolume binder: rounds of claims and rounds of volumes.
//!
//! Corresponds to pkg/controller/volume/persistentvolume/pv_controller_base.go.

use super::metrics::{self, ProvisionDurations};
use super::observe::Listers;
use super::said::Said;
use super::{claim_plan, volume_plan};
use crate::volume::{claims, volumes};
use client::reconcile::{self, Reconciler};
use client::{ApplyError, Client, Event, Plan, ReconcileError, apply};
use controller_base::context::{Actor, Running};
use controller_base::descriptor::Setup;
use controller_base::indexes;
use futures::future::join4;
use jiff::Timestamp;
use proto::Kind;
use proto::kinds::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use std::sync::Arc;

/// One round at a time, as in kube-controller-manager: rounds of claims often want the same volume.
const WORKERS: usize = 1;

struct Claims {
    listers: Listers,
    durations: Arc<ProvisionDurations>,
    said: Arc<Said>,
    enable_dynamic_provisioning: bool,
}

struct Volumes {
    listers: Listers,
    said: Arc<Said>,
}

pub fn start(setup: &Setup<'_>) -> Running {
    let [claim_queue, volume_queue] = setup.queues();
    claims::index(&setup.informer());
    volumes::index(&setup.informer());
    indexes::pods_by_claim(&setup.informer());
    let listers =
        Listers { claims: setup.lister(), volumes: setup.lister(), classes: setup.lister(), pods: setup.lister() };
    metrics::register(setup.env, &listers);
    let durations = Arc::new(ProvisionDurations::new(setup.env));
    // Of claims and of volumes: no two have the same uid.
    let said: Arc<Said> = Arc::default();
    setup.on_event(&claim_queue, {
        let (listers, volumes) = (listers.clone(), volume_queue.clone());
        let (durations, said) = (durations.clone(), said.clone());
        move |event: &Event<PersistentVolumeClaim>, queue| {
            if let Event::Deleted(claim) = event {
                durations.forget(claim);
                said.forget(claim.uid());
            }
            queue.add(event.object().key());
            listers.on_claim(event, &volumes);
        }
    });
    setup.on_event(&volume_queue, {
        let (listers, claims, said) = (listers.clone(), claim_queue.clone(), said.clone());
        move |event: &Event<PersistentVolume>, queue| {
            if let Event::Deleted(volume) = event {
                said.forget(volume.uid());
            }
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
    let claims = Claims { listers: listers.clone(), durations, said: said.clone(), enable_dynamic_provisioning };
    let period = setup.settings.pvclaimbinder_sync_period;
    let all_claims = setup.resync::<PersistentVolumeClaim>(&claim_queue, period, |_| true);
    let all_volumes = setup.resync::<PersistentVolume>(&volume_queue, period, |_| true);
    let claims = reconcile::run(actor.clone(), claim_queue, WORKERS, claims);
    let volumes = reconcile::run(actor, volume_queue, WORKERS, Volumes { listers, said });
    Box::pin(async move {
        join4(claims, volumes, all_claims, all_volumes).await;
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

    async fn apply(&self, actor: &Actor, _: &str, observed: &Self::Observed, plan: &Plan) -> Result<(), ApplyError> {
        let claim = &observed.claim;
        self.durations.observe(claim, actor.client.env().wall());
        let news = self.said.news(claim.uid(), claim.resource_version(), plan);
        apply(&actor.client, &actor.recorder, &news).await.map(drop)
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

    async fn apply(&self, actor: &Actor, _: &str, observed: &Self::Observed, plan: &Plan) -> Result<(), ApplyError> {
        let volume = &observed.volume;
        let news = self.said.news(volume.uid(), volume.resource_version(), plan);
        apply(&actor.client, &actor.recorder, &news).await.map(drop)
    }
}
