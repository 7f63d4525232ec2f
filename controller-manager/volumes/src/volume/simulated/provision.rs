//! What the driver does about a claim that asks it for a volume.
//!
//! Corresponds to provisionClaimOperation in controller/controller.go of sig-storage-lib-external-provisioner.

use super::call::{Call, Stage};
use super::driver::{Driver, asks_us};
use super::parameters::Parameters;
use super::{PROVISIONER, delete, made, zone};
use crate::volume::{claims, volumes};
use client::reconcile::Reconciler;
use client::{Action, ApplyError, Client, ListOptions, Plan, ReconcileError};
use controller_base::actions;
use controller_base::context::Actor;
use jiff::Timestamp;
use proto::Kind;
use proto::kinds::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim};
use proto::kinds::api::storage::v1::StorageClass;
use proto::meta::quantity::Quantity;
use proto::volumes::annotations::{SELECTED_NODE, annotation};
use std::sync::Arc;

#[derive(Debug)]
pub struct Observed {
    pub claim: Arc<PersistentVolumeClaim>,
    pub class: Arc<StorageClass>,
    /// The node that the scheduler chose for the claim's first consumer.
    pub node: Option<Arc<Node>>,
    /// What the volumes of the class hold already, if the class limits it.
    pub used: Quantity,
    /// A random number from 0 to 1, which decides whether the call fails.
    pub draw: f64,
    pub call: Call,
}

/// Why a volume is not made: a code of gRPC, and words.
struct Failure {
    code: &'static str,
    words: String,
    /// Another node may do.
    depends_on_node: bool,
}

pub fn plan(observed: &Observed, now: Timestamp) -> Plan {
    let claim = &*observed.claim;
    let parameters = Parameters::of(&observed.class);
    let latency = parameters.as_ref().map(|parameters| parameters.latency).unwrap_or_default();
    let mut plan = Plan::default();
    match observed.call.stage(latency, now) {
        Stage::Over => return plan,
        Stage::Waits(rest) => {
            plan.requeue_within(rest);
            return plan;
        }
        Stage::Begins => {
            let message = format!("External provisioner is provisioning volume for claim {:?}", claim.key());
            plan.push(actions::normal(claim, "Provisioning", message));
            if !latency.is_zero() {
                plan.requeue_within(latency);
                return plan;
            }
        }
        Stage::Ends => {}
    }
    let invalid = |words| Failure { code: "InvalidArgument", words, depends_on_node: false };
    match parameters.map_err(invalid).and_then(|parameters| make(observed, &parameters)) {
        Ok(create) => {
            let message = format!("Successfully provisioned volume {}", made::name(claim));
            plan.actions.extend([create, actions::normal(claim, "ProvisioningSucceeded", message)]);
        }
        Err(failure) => fail(&mut plan, observed, failure),
    }
    plan
}

/// Returns the creation of the volume.
fn make(observed: &Observed, parameters: &Parameters) -> Result<Action, Failure> {
    let (claim, class) = (&*observed.claim, &*observed.class);
    let failure = |code, words: &str| Failure { code, words: words.to_owned(), depends_on_node: false };
    if claim.spec.as_ref().is_some_and(|spec| spec.data_source.is_some() || spec.data_source_ref.is_some()) {
        return Err(failure("InvalidArgument", "a simulated volume has no data source"));
    }
    if observed.draw < parameters.provisioning_faults {
        return Err(failure("Internal", "simulated fault"));
    }
    let exhausted =
        |words| Failure { code: "ResourceExhausted", words, depends_on_node: !selected_node(claim).is_empty() };
    if let Some(capacity) = parameters.capacity
        && observed.used + claims::requested(claim) > capacity
    {
        return Err(exhausted(format!("{} of {capacity} are in use", observed.used)));
    }
    let zone = zone::of(claim, class, &parameters.zones, observed.node.as_deref()).map_err(exhausted)?;
    Ok(Action::create(&made::volume(claim, class, parameters, zone)))
}

/// Plans the event, the next attempt and, if another node may do, that the scheduler chooses again.
fn fail(plan: &mut Plan, observed: &Observed, failure: Failure) {
    let (claim, class) = (&*observed.claim, observed.class.name());
    let message = format!(
        "failed to provision volume with StorageClass {class:?}: rpc error: code = {} desc = {}",
        failure.code, failure.words
    );
    plan.push(actions::warning(claim, "ProvisioningFailed", message));
    plan.requeue_within(observed.call.next_retry());
    if failure.depends_on_node {
        let mut again = claim.clone();
        again.metadata.annotations.get_or_insert_default().remove(SELECTED_NODE);
        plan.push(Action::update(&again));
    }
}

fn selected_node(claim: &PersistentVolumeClaim) -> &str {
    annotation(claim, SELECTED_NODE).unwrap_or_default()
}

/// The program that makes volumes.
pub struct Provisioner(pub Driver);

impl Reconciler for Provisioner {
    type Observed = Observed;

    fn observe(&self, key: &str) -> Option<Self::Observed> {
        let Self(driver) = self;
        let claim = driver.claims.by_key(key)?;
        let class = driver.classes.get("", claims::class(&claim)).filter(|class| class.provisioner == PROVISIONER)?;
        let node = selected_node(&claim);
        let is_made = driver.volumes.get("", &made::name(&claim)).is_some();
        let waits = claims::waits_for_consumer(Some(&class)) && node.is_empty();
        if !asks_us(&claim) || !claims::volume_name(&claim).is_empty() || is_made || waits {
            return None;
        }
        let node = driver.nodes.get("", node);
        let call = driver.calls.get(claim.uid());
        Some(Observed { claim, class, node, used: Quantity::ZERO, draw: 1.0, call })
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
        plan(observed, now)
    }

    /// Says on the claim that the server refuses the volume, and tries again later.
    fn recover(&self, observed: &Observed, error: &ApplyError, _now: Timestamp) -> Option<Plan> {
        if !matches!(error.failed, Action::Create { .. }) || error.cause.is_already_exists() {
            return None;
        }
        let claim = &*observed.claim;
        let message = format!("Error creating provisioned PV object for claim {}: {}.", claim.key(), error.cause);
        Some(Plan::of([actions::warning(claim, "ProvisioningFailed", message)]))
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

#[cfg(test)]
mod tests {
    use super::super::{DRIVER, FINALIZER};
    use super::*;
    use crate::volume::fixture::{claim, class};
    use controller_base::fixture::{annotate, at, labels, node};
    use expect_test::expect;
    use proto::kinds::api::core::v1::PersistentVolume;
    use std::time::Duration;

    fn observed(parameters: &[(&str, &str)]) -> Observed {
        let mut class = class("standard", PROVISIONER);
        class.parameters = Some(labels(parameters));
        Observed {
            claim: Arc::new(claim("data", Some("standard"))),
            class: Arc::new(class),
            node: None,
            used: Quantity::ZERO,
            draw: 0.5,
            call: Call::default(),
        }
    }

    fn failed(observed: &Observed) -> String {
        let plan = plan(observed, at(0));
        assert_eq!(plan.requeue_after, Some(Duration::from_secs(1)));
        plan.actions.iter().skip(1).map(|action| format!("{action}\n")).collect()
    }

    #[test]
    fn a_volume_is_made_at_once_or_after_the_latency() {
        expect![[r#"
            event Normal Provisioning PersistentVolumeClaim default/data: External provisioner is provisioning volume for claim "default/data"
            create persistentvolumes pvc-uid-data
            event Normal ProvisioningSucceeded PersistentVolumeClaim default/data: Successfully provisioned volume pvc-uid-data
        "#]]
        .assert_eq(&plan(&observed(&[]), at(0)).to_string());
        expect![[r#"
            event Normal Provisioning PersistentVolumeClaim default/data: External provisioner is provisioning volume for claim "default/data"
            look again after 5s
        "#]]
        .assert_eq(&plan(&observed(&[("latency", "5s")]), at(0)).to_string());
    }

    #[test]
    fn the_volume_is_the_claims() {
        let mut observed = observed(&[("zones", "a")]);
        let made = |observed: &Observed| {
            let plan = plan(observed, at(0));
            let create = plan.actions.iter().find_map(|action| match action {
                Action::Create { object, .. } => Some(PersistentVolume::decode_value(object.clone()).unwrap()),
                _ => None,
            });
            create.unwrap()
        };
        let volume = made(&observed);
        let spec = volume.spec.clone().unwrap();
        let reference = spec.claim_ref.unwrap();
        assert_eq!((reference.uid.as_deref(), reference.name.as_deref()), (Some("uid-data"), Some("data")));
        assert_eq!(spec.capacity.unwrap()["storage"].0, "1Gi");
        assert_eq!(spec.csi.unwrap().driver, DRIVER);
        assert_eq!(spec.storage_class_name.as_deref(), Some("standard"));
        let zones = spec.node_affinity.unwrap().required.unwrap().node_selector_terms.remove(0).match_expressions;
        assert_eq!(zones.unwrap()[0].values, Some(vec!["a".to_owned()]));
        assert_eq!(volume.metadata.finalizers, Some(vec![FINALIZER.to_owned()]));
        let mut kept = (*observed.class).clone();
        kept.reclaim_policy = Some("Retain".to_owned());
        observed.class = Arc::new(kept);
        assert_eq!(made(&observed).metadata.finalizers, None, "the driver never deletes it");
    }

    #[test]
    fn a_failure_is_said_and_tried_again() {
        let event = |why: &str| {
            format!(
                "event Warning ProvisioningFailed PersistentVolumeClaim default/data: failed to provision volume with \
                 StorageClass \"standard\": rpc error: code = {why}\n"
            )
        };
        let unknown = observed(&[("size", "1")]);
        let why = "InvalidArgument desc = parameter \"size\": simulated volumes have no such parameter";
        assert_eq!(failed(&unknown), event(why));
        assert_eq!(failed(&observed(&[("provisioningFaults", "0.6")])), event("Internal desc = simulated fault"));
        let mut full = Observed { used: Quantity::parse("1536Mi").unwrap(), ..observed(&[("capacity", "2Gi")]) };
        let exhausted = event("ResourceExhausted desc = 1536Mi of 2Gi are in use");
        assert_eq!(failed(&full), exhausted);
        // The scheduler chooses another node.
        let mut chosen = (*full.claim).clone();
        annotate(&mut chosen, &[(SELECTED_NODE, "node-1")]);
        (full.claim, full.node) = (Arc::new(chosen), Some(Arc::new(node("node-1"))));
        assert_eq!(failed(&full), exhausted + "update persistentvolumeclaims default/data\n");
    }
}
