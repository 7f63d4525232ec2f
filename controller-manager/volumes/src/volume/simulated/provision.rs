//! What the driver does about a claim that asks it for a volume.
//!
//! Corresponds to provisionClaimOperation in controller/controller.go of sig-storage-lib-external-provisioner.

use super::call::{Call, Stage};
use super::driver::{Driver, asks_us};
use super::parameters::Parameters;
use super::source::{CloneSource, Source};
use super::{PROVISIONER, delete, made, zone};
use crate::volume::{claims, volumes};
use client::reconcile::Reconciler;
use client::{Action, ApplyError, Client, ListOptions, Plan, ReconcileError};
use component_helpers::volumes::annotations::{SELECTED_NODE, annotation};
use controller_base::actions;
use controller_base::context::Actor;
use jiff::Timestamp;
use proto::Kind;
use proto::kinds::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim};
use proto::kinds::api::storage::v1::StorageClass;
use proto::meta::quantity::Quantity;
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
    /// What the volume begins with.
    pub source: Source,
    pub call: Call,
}

/// Why a volume is not made.
struct Failure {
    words: String,
    /// Another node may do.
    depends_on_node: bool,
}

impl Failure {
    /// The driver answers a call with a code of gRPC.
    fn of_call(code: &str, words: &str) -> Self {
        Self { words: format!("rpc error: code = {code} desc = {words}"), depends_on_node: false }
    }
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
    if matches!(observed.source, Source::Populator) {
        let message = "Assuming an external populator will provision the volume";
        plan.push(actions::normal(claim, "Provisioning", message));
        return plan;
    }
    let invalid = |words: String| Failure::of_call("InvalidArgument", &words);
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
    observed.source.files(claim).map_err(|words| Failure { words, depends_on_node: false })?;
    if observed.draw < parameters.provisioning_faults {
        return Err(Failure::of_call("Internal", "simulated fault"));
    }
    if let Source::Claim(CloneSource { failure: Some(why), .. }) = &observed.source {
        return Err(Failure::of_call("Internal", why));
    }
    let depends_on_node = !selected_node(claim).is_empty();
    let exhausted = |words: String| Failure { depends_on_node, ..Failure::of_call("ResourceExhausted", &words) };
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
    let message = format!("failed to provision volume with StorageClass {class:?}: {}", failure.words);
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

impl Provisioner {
    /// Copies the data for a clone, if this round makes it.
    async fn copy_source(&self, client: &Client, observed: &mut Observed) {
        let files = observed.source.files(&observed.claim);
        let Ok(Some(from)) = files else { return };
        let is_made = |action: &Action| matches!(action, Action::Create { .. });
        if !plan(observed, client.env().wall()).actions.iter().any(is_made) {
            return;
        }
        let copied = self.0.storage.copy(&from, &made::name(&observed.claim)).await;
        if let Source::Claim(source) = &mut observed.source {
            source.failure = copied.err().map(|error| error.to_string());
        }
    }
}

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
        let source = Source::observe(&claim, &driver.claims, &driver.volumes, driver.storage.can_clone());
        Some(Observed { claim, class, node, used: Quantity::ZERO, draw: 1.0, source, call })
    }

    /// Draws whether the call fails, and asks the server how much of a limited class is used: the cache may lack volumes that
    /// were made a moment ago. A volume that is to be made now gets the data of its source.
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
        self.copy_source(client, &mut observed).await;
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
    use crate::volume::fixture::{self, claim, class, naming, refer, volume};
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
            source: Source::Nothing,
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

    fn source(phase: &str, size: &str) -> CloneSource {
        let mut source = naming(claim("base", Some("standard")), "v");
        source.status.get_or_insert_default().phase = Some(phase.to_owned());
        source.spec.get_or_insert_default().resources.get_or_insert_default().requests = Some(fixture::size(size));
        let mut volume = refer(volume("v", "1Gi", "standard"), "base", "uid-base");
        volume.spec.as_mut().unwrap().csi.as_mut().unwrap().driver = DRIVER.to_owned();
        CloneSource {
            name: "base".to_owned(),
            claim: Some(Arc::new(source)),
            volume: Some(Arc::new(volume)),
            can_clone: true,
            failure: None,
        }
    }

    #[test]
    fn a_clone_needs_a_source_that_fits() {
        let handle = "error getting handle for DataSource Type PersistentVolumeClaim by Name base: ";
        let of_handle = |why: &str| format!("{handle}{why}");
        let mut deleted = (*source("Bound", "1Gi").claim.unwrap()).clone();
        deleted.metadata.deletion_timestamp = Some(controller_base::fixture::time(1));
        let mut block = (*source("Bound", "1Gi").claim.unwrap()).clone();
        block.spec.as_mut().unwrap().volume_mode = Some("Block".to_owned());
        for (source, why) in [
            (
                CloneSource { claim: None, ..source("Bound", "1Gi") },
                of_handle(
                    "error getting PVC base (namespace \"default\") from api server: persistentvolumeclaim \"base\" not found",
                ),
            ),
            (source("Pending", "1Gi"), of_handle("the PVC DataSource base must have a status of Bound.  Got Pending")),
            (
                CloneSource { claim: Some(Arc::new(deleted)), ..source("Bound", "1Gi") },
                of_handle("the PVC DataSource base is currently being deleted"),
            ),
            (
                source("Bound", "2Gi"),
                of_handle(
                    "error, new PVC request must be greater than or equal in size to the specified PVC data source, \
                     requested 1073741824 but source is 2147483648",
                ),
            ),
            (
                CloneSource { volume: None, ..source("Bound", "1Gi") },
                of_handle("claim in dataSource not bound or invalid"),
            ),
            (
                CloneSource { claim: Some(Arc::new(block)), ..source("Bound", "1Gi") },
                of_handle(
                    "the source PVC and destination PVCs must have the same volume mode for cloning.  Source is Block, \
                     but new PVC requested Filesystem",
                ),
            ),
            (
                CloneSource { can_clone: false, ..source("Bound", "1Gi") },
                "CSI driver does not support clone operations: controller CLONE_VOLUME capability is not reported"
                    .to_owned(),
            ),
            (
                CloneSource { failure: Some("disk full".to_owned()), ..source("Bound", "1Gi") },
                "rpc error: code = Internal desc = disk full".to_owned(),
            ),
        ] {
            let observed = Observed { source: Source::Claim(source), ..observed(&[]) };
            let expected = format!(
                "event Warning ProvisioningFailed PersistentVolumeClaim default/data: failed to provision volume with \
                 StorageClass \"standard\": {why}\n"
            );
            assert_eq!(failed(&observed), expected);
        }
        let fits = Observed { source: Source::Claim(source("Bound", "1Gi")), ..observed(&[]) };
        assert_eq!(plan(&fits, at(0)), plan(&observed(&[]), at(0)), "a clone is made like any volume");
    }

    #[test]
    fn other_sources_are_refused_or_left_to_others() {
        let snapshot = Observed { source: Source::Snapshot, ..observed(&[]) };
        let why = "CSI driver does not support snapshot restore: controller CREATE_DELETE_SNAPSHOT capability is not reported";
        assert!(failed(&snapshot).contains(why));
        let populated = Observed { source: Source::Populator, ..observed(&[]) };
        expect![[r#"
            event Normal Provisioning PersistentVolumeClaim default/data: External provisioner is provisioning volume for claim "default/data"
            event Normal Provisioning PersistentVolumeClaim default/data: Assuming an external populator will provision the volume
        "#]]
        .assert_eq(&plan(&populated, at(0)).to_string());
    }
}
