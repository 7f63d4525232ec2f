//! Plans the writes of a Service's slices.
//!
//! Corresponds to Reconcile and finalize in k8s.io/endpointslice/reconciler.go.
//! Deviation: the annotation endpoints.kubernetes.io/last-change-trigger-time is not written: it depends on when the
//! controller observed a change, and not on the objects.

use super::desired::{Backends, Desired, Group, Port};
use super::packing::{Packing, pack};
use super::topology::{self, Outcome, Shares};
use super::tracker::{MANAGED_BY, SERVICE_NAME};
use crate::service;
use client::{Action, Plan};
use controller_base::actions;
use controller_base::controller_ref::{controller_ref, is_controlled_by};
use proto::Kind;
use proto::kinds::api::core::v1::Service;
use proto::kinds::api::discovery::v1::{Endpoint, EndpointSlice};
use proto::kinds::metav1::ObjectMeta;
use std::collections::BTreeMap;
use std::sync::Arc;

pub const MANAGER: &str = "endpointslice-controller.k8s.io";

pub struct Observed {
    pub service: Arc<Service>,
    pub backends: Backends,
    /// This controller's slices of the service that are not being deleted.
    pub slices: Vec<Arc<EndpointSlice>>,
    pub max_per_slice: usize,
    /// The zones' shares of the CPU, for a Service that asks for hints by them.
    pub shares: Shares,
}

/// The slices to create, update and delete, before creations reuse deleted slices.
#[derive(Default)]
struct Changes {
    create: Vec<EndpointSlice>,
    update: Vec<EndpointSlice>,
    delete: Vec<Arc<EndpointSlice>>,
}

pub fn plan(observed: &Observed) -> Plan {
    let mut desired: Desired = observed.backends.desired.clone();
    let events: Vec<Action> = add_hints(observed, &mut desired);
    let mut changes = Changes::default();
    let mut by_group: BTreeMap<Group, Vec<Arc<EndpointSlice>>> = BTreeMap::new();
    for slice in &observed.slices {
        by_group.entry(Group::of(slice)).or_default().push(slice.clone());
    }
    for (group, slices) in &by_group {
        changes.pack_group(observed, group, slices, desired.remove(group).unwrap_or_default());
    }
    for (group, endpoints) in desired {
        changes.pack_group(observed, &group, &[], endpoints);
    }
    for family in service::ip_families(&observed.service) {
        changes.keep_placeholder(observed, family);
    }
    changes.reuse_deleted(&observed.service);
    let mut plan = changes.into_plan();
    plan.actions.extend(events);
    plan.actions.extend(warn_of_skipped(observed));
    plan
}

/// Gives the endpoints of each family hints by topology. Returns the events about it.
fn add_hints(observed: &Observed, desired: &mut Desired) -> Vec<Action> {
    let service = &*observed.service;
    let outcome = |family: &str, desired: &mut Desired| {
        let existing: Vec<_> = observed.slices.iter().filter(|slice| slice.address_type == family).cloned().collect();
        topology::apply(service, family, desired, &existing, &observed.shares)
    };
    let outcomes = service::ip_families(service).into_iter().filter_map(|family| outcome(family, desired));
    let event = |outcome| match outcome {
        Outcome::Enabled(message) => actions::normal(service, "TopologyAwareHintsEnabled", message),
        Outcome::Disabled(message) => actions::warning(service, "TopologyAwareHintsDisabled", message),
    };
    outcomes.map(event).collect()
}

/// Warns of pods whose node is not in the cache.
fn warn_of_skipped(observed: &Observed) -> Option<Action> {
    let (service, pods) = (&*observed.service, &observed.backends.on_unknown_nodes);
    let key = service.key();
    let one = |(pod, node): &(String, String)| format!("skipping Pod {pod} for Service {key}: Node {node} Not Found");
    let skipped: Vec<String> = pods.iter().map(one).collect();
    let message = format!("Error updating Endpoint Slices for Service {key}: {}", skipped.join(", "));
    (!skipped.is_empty()).then(|| actions::warning(service, "FailedToUpdateEndpointSlices", message))
}

impl Changes {
    fn pack_group(
        &mut self,
        observed: &Observed,
        group: &Group,
        slices: &[Arc<EndpointSlice>],
        desired: BTreeMap<super::desired::Identity, Endpoint>,
    ) {
        let service = &observed.service;
        let existing: Vec<&[Endpoint]> =
            slices.iter().map(|slice| slice.endpoints.as_deref().unwrap_or_default()).collect();
        let is_wanted = !desired.is_empty();
        let Packing { existing, new } = pack(&existing, desired, observed.max_per_slice);
        for (slice, endpoints) in slices.iter().zip(existing) {
            match endpoints {
                Some(endpoints) if endpoints.is_empty() => self.delete.push(slice.clone()),
                // An empty slice is deleted, unless `keep_placeholder` keeps it.
                None if !is_wanted && slice.endpoints.as_ref().is_none_or(Vec::is_empty) => {
                    self.delete.push(slice.clone())
                }
                Some(endpoints) => {
                    let mut updated = labelled(service, slice);
                    updated.endpoints = Some(endpoints);
                    self.update.push(updated);
                }
                None => {
                    let updated = labelled(service, slice);
                    if updated.metadata.labels != slice.metadata.labels {
                        self.update.push(updated);
                    }
                }
            }
        }
        self.create.extend(new.into_iter().map(|endpoints| new_slice(service, group, endpoints)));
    }

    /// Keeps or creates one empty slice for a service without endpoints. Clients can then distinguish it from a service
    /// that the controller has not observed.
    fn keep_placeholder(&mut self, observed: &Observed, family: &str) {
        let of_family = |slice: &EndpointSlice| slice.address_type == family;
        let before = observed.slices.iter().filter(|slice| of_family(slice)).count();
        let deleted = self.delete.iter().filter(|slice| of_family(slice)).count();
        if before > deleted || self.create.iter().any(of_family) {
            return;
        }
        let group = Group { address_type: family.to_owned(), ports: Vec::new() };
        let placeholder = new_slice(&observed.service, &group, Vec::new());
        match self.delete.iter().position(|slice| is_placeholder(slice, family)) {
            Some(i) => {
                let kept = self.delete.remove(i);
                if kept.metadata.labels != placeholder.metadata.labels {
                    self.update.push(labelled(&observed.service, &kept));
                }
            }
            None => self.create.push(placeholder),
        }
    }

    /// Updates a deleted slice instead of creating one: one event instead of two.
    fn reuse_deleted(&mut self, service: &Service) {
        let (mut reusable, deleted): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.delete).into_iter().partition(|slice| is_controlled_by(&**slice, service.uid()));
        self.delete = deleted;
        reusable.reverse();
        let mut create = Vec::new();
        for wanted in std::mem::take(&mut self.create) {
            // The address type of a slice cannot change.
            match reusable.iter().rposition(|slice| slice.address_type == wanted.address_type) {
                Some(i) => {
                    let slice = reusable.remove(i);
                    let mut updated = labelled(service, &slice);
                    updated.endpoints = wanted.endpoints;
                    updated.ports = wanted.ports;
                    self.update.push(updated);
                }
                None => create.push(wanted),
            }
        }
        self.create = create;
        reusable.reverse();
        self.delete.append(&mut reusable);
    }

    fn into_plan(self) -> Plan {
        let create = self.create.iter().map(Action::create);
        let update = self.update.iter().map(Action::update);
        let delete = self.delete.iter().map(|slice| actions::delete_exactly(&**slice));
        Plan::of(create.chain(update).chain(delete))
    }
}

fn is_placeholder(slice: &EndpointSlice, family: &str) -> bool {
    slice.address_type == family
        && slice.endpoints.as_ref().is_none_or(Vec::is_empty)
        && slice.ports.as_ref().is_none_or(Vec::is_empty)
}

fn labels(service: &Service) -> BTreeMap<String, String> {
    let mut labels = service::inherited_labels(service, &[SERVICE_NAME, MANAGED_BY]);
    labels.insert(SERVICE_NAME.to_owned(), service.name().to_owned());
    labels.insert(MANAGED_BY.to_owned(), MANAGER.to_owned());
    labels
}

fn labelled(service: &Service, slice: &EndpointSlice) -> EndpointSlice {
    let mut slice = slice.clone();
    slice.metadata.labels = Some(labels(service));
    slice
}

fn new_slice(service: &Service, group: &Group, endpoints: Vec<Endpoint>) -> EndpointSlice {
    EndpointSlice {
        metadata: ObjectMeta {
            generate_name: Some(format!("{}-", service.name())),
            namespace: Some(service.namespace().to_owned()),
            labels: Some(labels(service)),
            owner_references: Some(vec![controller_ref(service)]),
            ..ObjectMeta::default()
        },
        address_type: group.address_type.clone(),
        endpoints: Some(endpoints),
        ports: Some(group.ports.iter().map(Port::to_endpoint_port).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpointslice::desired::identity;
    use controller_base::fixture;
    use proto::kinds::api::core::v1::ServiceSpec;

    fn service() -> Arc<Service> {
        let spec = ServiceSpec { cluster_ip: Some("10.0.0.9".to_owned()), ..ServiceSpec::default() };
        Arc::new(Service { metadata: fixture::meta("web"), spec: Some(spec), ..Service::default() })
    }

    fn port(number: i32) -> Port {
        Port { name: String::new(), port: Some(number), protocol: "TCP".to_owned(), app_protocol: None }
    }

    fn endpoint(i: usize) -> Endpoint {
        Endpoint { addresses: vec![format!("10.0.0.{i}")], ..Endpoint::default() }
    }

    /// Returns a slice as the server returns it.
    fn slice(name: &str, number: i32, endpoints: &[usize]) -> Arc<EndpointSlice> {
        let ports = if number == 0 { vec![] } else { vec![port(number)] };
        let group = Group { address_type: "IPv4".to_owned(), ports };
        let mut slice = new_slice(&service(), &group, endpoints.iter().map(|i| endpoint(*i)).collect());
        slice.metadata.name = Some(name.to_owned());
        Arc::new(slice)
    }

    fn planned(wanted: &[(i32, &[usize])], slices: &[Arc<EndpointSlice>]) -> Vec<String> {
        let mut desired = Desired::new();
        for (number, endpoints) in wanted {
            let group = Group { address_type: "IPv4".to_owned(), ports: vec![port(*number)] };
            let endpoints = endpoints.iter().map(|i| (identity(&endpoint(*i)), endpoint(*i)));
            desired.entry(group).or_default().extend(endpoints);
        }
        let backends = Backends { desired, on_unknown_nodes: Vec::new() };
        let observed =
            Observed { service: service(), backends, slices: slices.to_vec(), max_per_slice: 3, shares: None };
        plan(&observed).actions.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn slices_follow_endpoints_with_few_writes() {
        let create = "create endpointslices.discovery.k8s.io default/web-*";
        let update = |name: &str| format!("update endpointslices.discovery.k8s.io default/{name}");
        let delete = |name: &str| format!("delete endpointslices.discovery.k8s.io default/{name}");
        let cases: Vec<(&str, Vec<(i32, &[usize])>, Vec<Arc<EndpointSlice>>, Vec<String>)> = vec![
            ("a placeholder for none", vec![], vec![], vec![create.to_owned()]),
            ("the placeholder stays", vec![], vec![slice("web-p", 0, &[])], vec![]),
            ("the placeholder is filled", vec![(80, &[1])], vec![slice("web-p", 0, &[])], vec![update("web-p")]),
            ("the last endpoint leaves a placeholder", vec![], vec![slice("web-a", 80, &[1])], vec![update("web-a")]),
            ("nothing new", vec![(80, &[1, 2])], vec![slice("web-a", 80, &[1, 2])], vec![]),
            ("one more", vec![(80, &[1, 2])], vec![slice("web-a", 80, &[1])], vec![update("web-a")]),
            (
                "over the limit",
                vec![(80, &[1, 2, 3, 4])],
                vec![slice("web-a", 80, &[1, 2, 3])],
                vec![create.to_owned()],
            ),
            (
                "ports that differ have slices apart",
                vec![(80, &[1]), (81, &[2])],
                vec![],
                vec![create.to_owned(), create.to_owned()],
            ),
            (
                "another port takes the slice over",
                vec![(81, &[1])],
                vec![slice("web-a", 80, &[1])],
                vec![update("web-a")],
            ),
            (
                "one of two emptied",
                vec![(80, &[1])],
                vec![slice("web-a", 80, &[1]), slice("web-b", 80, &[2])],
                vec![delete("web-b")],
            ),
        ];
        for (what, wanted, slices, expected) in cases {
            let got = planned(&wanted, &slices);
            let got: Vec<&str> = got.iter().map(|line| line.split(" uid=").next().unwrap()).collect();
            assert_eq!(got, expected, "{what}");
        }
    }

    #[test]
    fn labels_follow_the_service() {
        let mut renamed = slice("web-a", 80, &[1]).as_ref().clone();
        renamed.metadata.labels.as_mut().unwrap().insert("team".to_owned(), "former".to_owned());
        assert_eq!(
            planned(&[(80, &[1])], &[Arc::new(renamed)]),
            ["update endpointslices.discovery.k8s.io default/web-a"]
        );
    }
}
