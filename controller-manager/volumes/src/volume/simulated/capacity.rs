//! Publishes how much a class with a limit can still hold, as a CSIStorageCapacity.
//!
//! Corresponds to pkg/capacity of the external-provisioner.
//!
//! Deviation: the object is named by the uid of its class and owned by the class. Kubernetes' provisioner generates a name, and
//! its own pod or Deployment owns the object.

use super::driver::Driver;
use super::parameters::Parameters;
use super::{DRIVER, PROVISIONER, delete};
use crate::volume::volumes;
use client::reconcile::Reconciler;
use client::{Action, Lister, Plan};
use jiff::Timestamp;
use proto::Kind;
use proto::kinds::api::core::v1::PersistentVolume;
use proto::kinds::api::storage::v1::{CSIStorageCapacity, StorageClass};
use proto::kinds::apimachinery::api::resource::Quantity as Text;
use proto::kinds::metav1::{LabelSelector, LabelSelectorRequirement, ObjectMeta, OwnerReference};
use proto::meta::node_labels::ZONE;
use proto::meta::quantity::Quantity;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Namespace of the objects: that of the driver.
pub const NAMESPACE: &str = "kube-system";
/// Begins the names of the objects, as in Kubernetes.
const PREFIX: &str = "csisc-";
const LABELS: [(&str, &str); 2] =
    [("csi.storage.k8s.io/drivername", DRIVER), ("csi.storage.k8s.io/managed-by", "simulated-volume-provisioner")];

#[derive(Debug)]
pub struct Observed {
    pub class: Arc<StorageClass>,
    /// What all volumes of the class together may hold.
    pub limit: Quantity,
    pub zones: Vec<String>,
    /// What its volumes hold.
    pub used: Quantity,
    pub published: Option<Arc<CSIStorageCapacity>>,
}

/// Plans the object of a class. Nothing is written while it is true.
pub fn plan(observed: &Observed) -> Plan {
    let free = if observed.used > observed.limit { Quantity::ZERO } else { observed.limit - observed.used };
    let free = free.with_format(observed.limit.format()).to_string();
    let topology = topology(&observed.zones);
    let Some(published) = &observed.published else {
        return Plan::of([Action::create(&object(&observed.class, topology, free))]);
    };
    let is_same = published.capacity.as_ref().is_some_and(|capacity| capacity.0 == free);
    if is_same && published.node_topology.as_ref() == Some(&topology) {
        return Plan::default();
    }
    let changed =
        CSIStorageCapacity { capacity: Some(Text(free)), node_topology: Some(topology), ..(**published).clone() };
    Plan::of([Action::update(&changed)])
}

fn name(class: &StorageClass) -> String {
    format!("{PREFIX}{}", class.uid())
}

fn object(class: &StorageClass, topology: LabelSelector, free: String) -> CSIStorageCapacity {
    let owner = OwnerReference {
        api_version: StorageClass::gvk().api_version(),
        kind: StorageClass::KIND.to_owned(),
        name: class.name().to_owned(),
        uid: class.uid().to_owned(),
        ..OwnerReference::default()
    };
    CSIStorageCapacity {
        metadata: ObjectMeta {
            name: Some(name(class)),
            namespace: Some(NAMESPACE.to_owned()),
            labels: Some(LABELS.map(|(key, value)| (key.to_owned(), value.to_owned())).into()),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        capacity: Some(Text(free)),
        maximum_volume_size: None,
        node_topology: Some(topology),
        storage_class_name: class.name().to_owned(),
    }
}

/// Returns the nodes that reach the volumes: those of the zones, or all.
fn topology(zones: &[String]) -> LabelSelector {
    let in_zones =
        LabelSelectorRequirement { key: ZONE.to_owned(), operator: "In".to_owned(), values: Some(zones.to_vec()) };
    LabelSelector { match_expressions: (!zones.is_empty()).then(|| vec![in_zones]), match_labels: None }
}

/// Returns the class of an object that the program has published.
pub fn class_of(capacity: &CSIStorageCapacity) -> Option<&str> {
    let labels: Option<&BTreeMap<String, String>> = capacity.metadata.labels.as_ref();
    let is_ours = LABELS.iter().all(|(key, value)| labels.and_then(|all| all.get(*key)).is_some_and(|is| is == value));
    is_ours.then_some(capacity.storage_class_name.as_str())
}

/// The program that publishes capacities. Its keys are names of classes.
pub struct Publisher {
    pub driver: Driver,
    pub capacities: Lister<CSIStorageCapacity>,
}

impl Reconciler for Publisher {
    type Observed = Observed;

    fn observe(&self, key: &str) -> Option<Observed> {
        let class = self.driver.classes.get("", key).filter(|class| class.provisioner == PROVISIONER)?;
        let Parameters { capacity: Some(limit), zones, .. } = Parameters::of(&class).ok()? else { return None };
        let of_class = |volume: &PersistentVolume| delete::is_ours(volume) && volumes::class(volume) == key;
        let volumes = self.driver.volumes.filter("", of_class);
        let used = volumes.iter().fold(Quantity::ZERO, |used, volume| used + volumes::capacity(volume));
        let published = self.capacities.get(NAMESPACE, &name(&class));
        Some(Observed { class, limit, zones, used, published })
    }

    fn plan(&self, observed: &Observed, _now: Timestamp) -> Plan {
        plan(observed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volume::fixture::class;
    use serde_json::json;

    fn observed(used: &str, zones: &[&str], published: Option<CSIStorageCapacity>) -> Observed {
        Observed {
            class: Arc::new(class("limited", PROVISIONER)),
            limit: Quantity::parse("10Gi").unwrap(),
            zones: zones.iter().map(|&zone| zone.to_owned()).collect(),
            used: Quantity::parse(used).unwrap(),
            published: published.map(Arc::new),
        }
    }

    /// Returns the object that a plan writes, and its verb.
    fn written(plan: &Plan) -> Option<(&'static str, CSIStorageCapacity)> {
        let (verb, object) = match plan.actions.first()? {
            Action::Create { object, .. } => ("create", object),
            Action::Update { object, .. } => ("update", object),
            other => panic!("{other}"),
        };
        Some((verb, CSIStorageCapacity::decode_value(object.clone()).unwrap()))
    }

    #[test]
    fn the_free_capacity_of_a_class_is_published_and_kept_true() {
        let (verb, first) = written(&plan(&observed("0", &["a", "b"], None))).unwrap();
        assert_eq!((verb, first.name(), first.namespace()), ("create", "csisc-uid-limited", NAMESPACE));
        assert_eq!(class_of(&first), Some("limited"));
        assert_eq!(first.encode()["metadata"]["ownerReferences"][0]["kind"], "StorageClass");
        let zones = json!({"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["a", "b"]}]});
        assert_eq!((&first.encode()["capacity"], &first.encode()["nodeTopology"]), (&json!("10Gi"), &zones));
        assert_eq!(plan(&observed("0", &["a", "b"], Some(first.clone()))), Plan::default());
        for (used, expected) in [("1Gi", "9Gi"), ("1536Mi", "8704Mi"), ("10Gi", "0"), ("12Gi", "0")] {
            let (verb, next) = written(&plan(&observed(used, &["a", "b"], Some(first.clone())))).unwrap();
            assert_eq!((verb, next.capacity), ("update", Some(Text(expected.to_owned()))), "{used} are used");
        }
        let (_, everywhere) = written(&plan(&observed("0", &[], None))).unwrap();
        assert_eq!(everywhere.encode()["nodeTopology"], json!({}), "every node reaches the volumes");
    }
}
