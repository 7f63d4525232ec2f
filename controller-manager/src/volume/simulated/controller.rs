//! Starts the programs of the simulated storage system: one makes volumes, one deletes them, and one resizes them.
//!
//! Corresponds to cmd/csi-provisioner of the external-provisioner and cmd/csi-resizer of the external-resizer, which run
//! beside a CSI driver.
//!
//! Deviation: the driver is part of the controller manager, so that a cluster has storage without a pod. Kubernetes has only
//! drivers that somebody installs.

use super::call::Calls;
use super::parameters::Parameters;
use super::{DRIVER, delete, made, provision, resize};
use crate::context::{Actor, Running};
use crate::descriptor::Setup;
use crate::reconcile::{self, Reconciler};
use crate::volume::annotations::{BETA_STORAGE_PROVISIONER, STORAGE_PROVISIONER, annotation};
use crate::volume::binder::claim_plan::waits_for_consumer;
use crate::volume::{claims, volumes};
use client::{ApplyError, Client, Event, ListOptions, Lister, Plan, ReconcileError, apply};
use component_base::rng::Random;
use futures::future::join3;
use jiff::Timestamp;
use proto::Kind;
use proto::kinds::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim};
use proto::kinds::api::storage::v1::StorageClass;
use proto::meta::quantity::Quantity;

/// One round at a time, so that the limit of a class holds.
const WORKERS: usize = 1;

#[derive(Clone)]
struct Driver {
    claims: Lister<PersistentVolumeClaim>,
    volumes: Lister<PersistentVolume>,
    classes: Lister<StorageClass>,
    nodes: Lister<Node>,
    calls: Calls,
    faults: Random,
}

struct Provisioner(Driver);
struct Deleter(Driver);
struct Resizer(Driver);

pub fn start(setup: &Setup<'_>) -> Running {
    let [claim_queue, volume_queue, resize_queue] = setup.queues();
    let driver = || Driver {
        claims: setup.lister(),
        volumes: setup.lister(),
        classes: setup.lister(),
        nodes: setup.lister(),
        calls: Calls::default(),
        faults: setup.env.random("simulated-storage"),
    };
    let (provisioner, deleter, resizer) = (driver(), driver(), driver());
    setup.on_event(&claim_queue, {
        let (provisions, resizes, resize_queue) =
            (provisioner.calls.clone(), resizer.calls.clone(), resize_queue.clone());
        move |event: &Event<PersistentVolumeClaim>, queue| {
            let claim = event.object();
            if matches!(event, Event::Deleted(_)) {
                provisions.forget(claim.uid());
                resizes.forget(claim.uid());
            } else if !claims::volume_name(claim).is_empty() {
                resize_queue.add(claim.key());
            } else if asks_us(claim) {
                queue.add(claim.key());
            }
        }
    });
    setup.on_event(&volume_queue, {
        let (provisions, deletions) = (provisioner.calls.clone(), deleter.calls.clone());
        let (resizes, resize_queue) = (resizer.calls.clone(), resize_queue.clone());
        move |event: &Event<PersistentVolume>, queue| {
            let volume = event.object();
            // The caches now show what the calls about the claim did.
            provisions.forget(volumes::claim_uid(volume));
            resizes.forget(volumes::claim_uid(volume));
            if matches!(event, Event::Deleted(_)) {
                deletions.forget(volume.uid());
            } else if delete::is_ours(volume) {
                queue.add(volume.key());
                volumes::claim_key(volume).into_iter().for_each(|key| resize_queue.add(key));
            }
        }
    });
    let actor = setup.actor();
    let provisions = reconcile::run(actor.clone(), claim_queue, WORKERS, Provisioner(provisioner));
    let deletions = reconcile::run(actor.clone(), volume_queue, WORKERS, Deleter(deleter));
    let resizes = reconcile::run(actor, resize_queue, WORKERS, Resizer(resizer));
    Box::pin(async move {
        join3(provisions, deletions, resizes).await;
    })
}

/// Returns true if the binder has named this driver as the claim's provisioner.
fn asks_us(claim: &PersistentVolumeClaim) -> bool {
    let named = annotation(claim, STORAGE_PROVISIONER).or_else(|| annotation(claim, BETA_STORAGE_PROVISIONER));
    named == Some(DRIVER)
}

impl Driver {
    /// Returns the parameters of a volume's class; the defaults if it is gone or cannot be read.
    fn parameters_of(&self, volume: &PersistentVolume) -> Parameters {
        let class = self.classes.get("", volumes::class(volume));
        class.and_then(|class| Parameters::of(&class).ok()).unwrap_or_default()
    }

    /// Carries a plan out, and records how the call about the object with this uid goes.
    async fn apply(&self, actor: &Actor, uid: &str, plan: &Plan) -> Result<(), ApplyError> {
        apply(&actor.client, &actor.recorder, plan).await?;
        self.calls.record(uid, plan, actor.client.env().wall());
        Ok(())
    }
}

impl Reconciler for Provisioner {
    type Observed = provision::Observed;

    fn observe(&self, key: &str) -> Option<Self::Observed> {
        let Self(driver) = self;
        let claim = driver.claims.by_key(key)?;
        let class = driver.classes.get("", claims::class(&claim)).filter(|class| class.provisioner == DRIVER)?;
        let node = provision::selected_node(&claim);
        let is_made = driver.volumes.get("", &made::name(&claim)).is_some();
        let waits = waits_for_consumer(Some(&class)) && node.is_empty();
        if !asks_us(&claim) || !claims::volume_name(&claim).is_empty() || is_made || waits {
            return None;
        }
        let node = driver.nodes.get("", node);
        let call = driver.calls.get(claim.uid());
        Some(provision::Observed { claim, class, node, used: Quantity::ZERO, draw: 1.0, call })
    }

    /// Draws whether the call fails, and asks the server how much of a limited class is used: the cache may lack volumes that
    /// were made a moment ago.
    async fn consult(
        &self,
        client: &Client,
        mut observed: Self::Observed,
    ) -> Result<Option<Self::Observed>, ReconcileError> {
        let parameters = Parameters::of(&observed.class).unwrap_or_default();
        if parameters.provisioning_faults > 0.0 {
            observed.draw = self.0.faults.unit();
        }
        if parameters.capacity.is_some() {
            let volumes = client.api::<PersistentVolume>("").list(&ListOptions::default()).await?;
            let of_class = volumes
                .items
                .iter()
                .filter(|volume| delete::is_ours(volume) && volumes::class(volume) == observed.class.name());
            observed.used = of_class.fold(Quantity::ZERO, |used, volume| used + volumes::capacity(volume));
        }
        Ok(Some(observed))
    }

    fn plan(&self, observed: &Self::Observed, now: Timestamp) -> Plan {
        provision::plan(observed, now)
    }

    async fn apply(&self, actor: &Actor, _: &str, observed: &Self::Observed, plan: &Plan) -> Result<(), ApplyError> {
        let (driver, claim) = (&self.0, &observed.claim);
        driver.apply(actor, claim.uid(), plan).await?;
        if driver.volumes.get("", &made::name(claim)).is_some() {
            driver.calls.forget(claim.uid());
        }
        Ok(())
    }
}

impl Reconciler for Deleter {
    type Observed = delete::Observed;

    fn observe(&self, key: &str) -> Option<Self::Observed> {
        let volume = self.0.volumes.by_key(key).filter(|volume| delete::is_ours(volume))?;
        let call = self.0.calls.get(volume.uid());
        Some(delete::Observed { parameters: self.0.parameters_of(&volume), draw: 1.0, call, volume })
    }

    /// Draws whether the call fails.
    async fn consult(
        &self,
        _client: &Client,
        mut observed: Self::Observed,
    ) -> Result<Option<Self::Observed>, ReconcileError> {
        if observed.parameters.deletion_faults > 0.0 {
            observed.draw = self.0.faults.unit();
        }
        Ok(Some(observed))
    }

    fn plan(&self, observed: &Self::Observed, now: Timestamp) -> Plan {
        delete::plan(observed, now)
    }

    async fn apply(&self, actor: &Actor, _: &str, observed: &Self::Observed, plan: &Plan) -> Result<(), ApplyError> {
        let (driver, volume) = (&self.0, &observed.volume);
        if !delete::is_call(volume) {
            return apply(&actor.client, &actor.recorder, plan).await.map(drop);
        }
        driver.apply(actor, volume.uid(), plan).await?;
        if driver.volumes.get("", volume.name()).is_none() {
            driver.calls.forget(volume.uid());
        }
        Ok(())
    }
}

impl Reconciler for Resizer {
    type Observed = resize::Observed;

    fn observe(&self, key: &str) -> Option<Self::Observed> {
        let Self(driver) = self;
        let claim = driver.claims.by_key(key)?;
        let volume = driver.volumes.get("", claims::volume_name(&claim))?;
        resize::is_due(&claim, &volume).then(|| resize::Observed {
            latency: driver.parameters_of(&volume).latency,
            call: driver.calls.get(claim.uid()),
            claim,
            volume,
        })
    }

    fn plan(&self, observed: &Self::Observed, now: Timestamp) -> Plan {
        resize::plan(observed, now)
    }

    async fn apply(&self, actor: &Actor, _: &str, observed: &Self::Observed, plan: &Plan) -> Result<(), ApplyError> {
        // The first and the last step are about the claim's status alone.
        let grows = plan.actions.iter().any(|action| action.gvr() == Some(&PersistentVolume::gvr()));
        if grows || plan.actions.is_empty() {
            return self.0.apply(actor, observed.claim.uid(), plan).await;
        }
        self.0.calls.forget(observed.claim.uid());
        apply(&actor.client, &actor.recorder, plan).await.map(drop)
    }
}
