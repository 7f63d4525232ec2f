//! Plans the writes of a Service's mirrored slices.
//!
//! Corresponds to syncEndpoints and reconcile in pkg/controller/endpointslicemirroring.

use super::desired::{Mirrored, mirrored};
use crate::endpoints::plan::LEADER;
use crate::endpointslice::desired::{Group, Identity, Port};
use crate::endpointslice::tracker::{MANAGED_BY, SERVICE_NAME};
use client::{Action, Plan};
use controller_base::actions;
use controller_base::controller_ref::controller_ref;
use proto::Kind;
use proto::kinds::api::core::v1::{Endpoints, Service};
use proto::kinds::api::discovery::v1::{Endpoint, EndpointSlice};
use proto::kinds::metav1::ObjectMeta;
use std::collections::BTreeMap;
use std::sync::Arc;

pub const MANAGER: &str = "endpointslicemirroring-controller.k8s.io";
const SKIP_MIRROR: &str = "endpointslice.kubernetes.io/skip-mirror";
/// Annotations that slices do not copy.
const NOT_MIRRORED: [&str; 2] =
    ["endpoints.kubernetes.io/last-change-trigger-time", "kubectl.kubernetes.io/last-applied-configuration"];

#[derive(Debug)]
pub struct Observed {
    pub service: Option<Arc<Service>>,
    pub endpoints: Option<Arc<Endpoints>>,
    /// This controller's slices of the service.
    pub slices: Vec<Arc<EndpointSlice>>,
    pub max_per_subset: usize,
}

impl Observed {
    /// Returns the Endpoints if they are to be mirrored: their service has no selector, so no other controller writes
    /// slices.
    pub fn to_mirror(&self) -> Option<&Endpoints> {
        let spec = self.service.as_ref()?.spec.as_ref();
        let has_selector = spec.and_then(|spec| spec.selector.as_ref()).is_some_and(|selector| !selector.is_empty());
        self.endpoints.as_deref().filter(|endpoints| !has_selector && may_be_mirrored(endpoints))
    }
}

/// Returns true unless a label excludes the Endpoints, or they are a lock for leader election.
pub fn may_be_mirrored(endpoints: &Endpoints) -> bool {
    let has = |map: &Option<BTreeMap<String, String>>, key: &str| map.as_ref().and_then(|map| map.get(key).cloned());
    has(&endpoints.metadata.labels, SKIP_MIRROR).as_deref() != Some("true")
        && has(&endpoints.metadata.annotations, LEADER).is_none()
}

pub fn plan(observed: &Observed) -> Plan {
    let delete = |slice: &Arc<EndpointSlice>| actions::delete_exactly(&**slice);
    let Some(endpoints) = observed.to_mirror() else { return Plan::of(observed.slices.iter().map(delete)) };
    let mirrored = mirrored(endpoints, observed.max_per_subset);
    let (mut wanted, mut surplus) = (Vec::new(), Vec::new());
    let mut existing: BTreeMap<Group, Vec<Arc<EndpointSlice>>> = BTreeMap::new();
    for slice in &observed.slices {
        existing.entry(Group::of(slice)).or_default().push(slice.clone());
    }
    for (group, desired) in &mirrored.desired {
        // Each group has one slice. Further slices are surplus.
        let mut present = existing.remove(group).unwrap_or_default().into_iter();
        wanted.push((present.next(), slice(endpoints, group, desired)));
        surplus.extend(present);
    }
    surplus.extend(existing.into_values().flatten());
    let mut plan = Plan::default();
    for (present, wanted) in wanted {
        // Updating a surplus slice instead of creating one causes one event instead of two.
        let reusable = surplus.iter().position(|slice| slice.address_type == wanted.address_type);
        let present = present.or_else(|| reusable.map(|i| surplus.remove(i)));
        match present {
            None if endpoints.is_deleting() => {}
            None => plan.push(Action::create(&wanted)),
            Some(present) if is_same(&present, &wanted) => {}
            Some(present) => plan.push(Action::update(&replaced(&present, wanted))),
        }
    }
    plan.actions.extend(surplus.iter().map(delete));
    if !plan.is_empty() {
        plan.actions.extend(warnings(endpoints, &mirrored, observed.max_per_subset));
    }
    plan
}

fn slice(endpoints: &Endpoints, group: &Group, desired: &BTreeMap<Identity, Endpoint>) -> EndpointSlice {
    let mut labels = endpoints.metadata.labels.clone().unwrap_or_default();
    labels.insert(SERVICE_NAME.to_owned(), endpoints.name().to_owned());
    labels.insert(MANAGED_BY.to_owned(), MANAGER.to_owned());
    let mut annotations = endpoints.metadata.annotations.clone().unwrap_or_default();
    annotations.retain(|key, _| !NOT_MIRRORED.contains(&key.as_str()));
    EndpointSlice {
        metadata: ObjectMeta {
            generate_name: Some(format!("{}-", endpoints.name())),
            namespace: Some(endpoints.namespace().to_owned()),
            labels: Some(labels),
            annotations: (!annotations.is_empty()).then_some(annotations),
            owner_references: Some(vec![controller_ref(endpoints)]),
            ..ObjectMeta::default()
        },
        address_type: group.address_type.clone(),
        endpoints: Some(desired.values().cloned().collect()),
        ports: Some(group.ports.iter().map(Port::to_endpoint_port).collect()),
    }
}

fn replaced(present: &EndpointSlice, wanted: EndpointSlice) -> EndpointSlice {
    let metadata = ObjectMeta {
        labels: wanted.metadata.labels,
        annotations: wanted.metadata.annotations,
        owner_references: wanted.metadata.owner_references,
        ..present.metadata.clone()
    };
    EndpointSlice { metadata, ..wanted }
}

/// Compares two slices. The order of endpoints does not matter.
fn is_same(present: &EndpointSlice, wanted: &EndpointSlice) -> bool {
    let endpoints = |slice: &EndpointSlice| {
        let mut endpoints = slice.endpoints.clone().unwrap_or_default();
        endpoints.sort_by_key(crate::endpointslice::desired::identity);
        endpoints
    };
    Group::of(present) == Group::of(wanted)
        && endpoints(present) == endpoints(wanted)
        && present.metadata.labels == wanted.metadata.labels
        && present.metadata.annotations.clone().unwrap_or_default()
            == wanted.metadata.annotations.clone().unwrap_or_default()
}

/// Warns of addresses that are not mirrored.
fn warnings(endpoints: &Endpoints, mirrored: &Mirrored, max_per_subset: usize) -> Vec<Action> {
    let mut warnings = Vec::new();
    let Mirrored { invalid, skipped, .. } = mirrored;
    if *invalid > 0 {
        let message = format!("Skipped {invalid} invalid IP addresses when mirroring to EndpointSlices");
        warnings.push(actions::warning(endpoints, "InvalidIPAddress", message));
    }
    if skipped > invalid {
        let message = format!(
            "A max of {max_per_subset} addresses can be mirrored to EndpointSlices per Endpoints subset. {skipped} addresses were skipped"
        );
        warnings.push(actions::warning(endpoints, "TooManyAddressesToMirror", message));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;
    use controller_base::fixture;
    use proto::kinds::api::core::v1::{EndpointAddress, EndpointPort, EndpointSubset, ServiceSpec};

    fn endpoints(ips: &[&str], port: i32) -> Endpoints {
        let address = |ip: &&str| EndpointAddress { ip: (*ip).to_owned(), ..EndpointAddress::default() };
        let subset = EndpointSubset {
            addresses: Some(ips.iter().map(address).collect()),
            not_ready_addresses: None,
            ports: Some(vec![EndpointPort { port, ..EndpointPort::default() }]),
        };
        let mut endpoints = Endpoints { metadata: fixture::meta("db"), subsets: Some(vec![subset]) };
        endpoints.metadata.labels = Some(fixture::labels(&[("team", "shop")]));
        fixture::annotate(&mut endpoints, &[(NOT_MIRRORED[1], "{}"), ("note", "by hand")]);
        endpoints
    }

    fn observed(endpoints: Option<Endpoints>, slices: Vec<EndpointSlice>) -> Observed {
        let service = Service { metadata: fixture::meta("db"), spec: Some(ServiceSpec::default()), status: None };
        let slices = slices.into_iter().map(Arc::new).collect();
        Observed { service: Some(Arc::new(service)), endpoints: endpoints.map(Arc::new), slices, max_per_subset: 1000 }
    }

    /// Returns the slices of a first plan as the server returns them.
    fn made(endpoints: &Endpoints) -> Vec<EndpointSlice> {
        let plan = plan(&observed(Some(endpoints.clone()), vec![]));
        let slice = |(i, action): (usize, &Action)| {
            let Action::Create { object, .. } = action else { panic!("{action}") };
            let mut slice = EndpointSlice::decode_value(object.clone()).unwrap();
            slice.metadata.name = Some(format!("db-{i}"));
            slice
        };
        plan.actions.iter().enumerate().map(slice).collect()
    }

    fn shown(observed: &Observed) -> Vec<String> {
        plan(observed)
            .actions
            .iter()
            .map(|action| action.to_string().replace("endpointslices.discovery.k8s.io ", ""))
            .collect()
    }

    #[test]
    fn slices_follow_endpoints_written_by_hand() {
        let one = endpoints(&["10.0.0.1"], 80);
        let slice = &made(&one)[0];
        assert_eq!(
            slice.metadata.labels,
            Some(fixture::labels(&[("team", "shop"), (SERVICE_NAME, "db"), (MANAGED_BY, MANAGER)]))
        );
        assert_eq!(slice.metadata.annotations, Some(fixture::labels(&[("note", "by hand")])));
        assert_eq!(slice.metadata.owner_references.as_ref().unwrap()[0].kind, "Endpoints");
        let cases: Vec<(&str, Option<Endpoints>, Vec<EndpointSlice>, Vec<&str>)> = vec![
            ("new", Some(one.clone()), vec![], vec!["create default/db-*"]),
            ("as it is", Some(one.clone()), made(&one), vec![]),
            ("another address", Some(endpoints(&["10.0.0.2"], 80)), made(&one), vec!["update default/db-0"]),
            (
                "another port takes the slice over",
                Some(endpoints(&["10.0.0.1"], 81)),
                made(&one),
                vec!["update default/db-0"],
            ),
            (
                "another family does not",
                Some(endpoints(&["fd00::1"], 80)),
                made(&one),
                vec!["create default/db-*", "delete default/db-0"],
            ),
            ("none left", Some(endpoints(&[], 80)), made(&one), vec!["delete default/db-0"]),
            ("deleted", None, made(&one), vec!["delete default/db-0"]),
        ];
        for (what, endpoints, slices, expected) in cases {
            let got = shown(&observed(endpoints, slices));
            let got: Vec<&str> = got.iter().map(|line| line.split(" uid=").next().unwrap()).collect();
            assert_eq!(got, expected, "{what}");
        }
    }

    #[test]
    fn excluded_endpoints_are_not_mirrored() {
        let one = endpoints(&["10.0.0.1"], 80);
        let mut marked = one.clone();
        marked.metadata.labels = Some(fixture::labels(&[(SKIP_MIRROR, "true")]));
        assert_eq!(shown(&observed(Some(marked), made(&one))).len(), 1, "the mirrored slice is deleted");
        let mut lock = one.clone();
        fixture::annotate(&mut lock, &[(LEADER, "{}")]);
        assert_eq!(shown(&observed(Some(lock), vec![])), [] as [String; 0]);
        let mut selecting = observed(Some(one.clone()), vec![]);
        let mut service = (**selecting.service.as_ref().unwrap()).clone();
        service.spec.as_mut().unwrap().selector = Some(fixture::labels(&[("app", "db")]));
        selecting.service = Some(Arc::new(service));
        assert_eq!(shown(&selecting), [] as [String; 0]);
        selecting.service = None;
        assert_eq!(shown(&selecting), [] as [String; 0]);
    }

    #[test]
    fn skipped_addresses_are_reported() {
        let mut observed = observed(Some(endpoints(&["10.0.0.1", "10.0.0.2", "10.0.0.3", "nonsense"], 80)), vec![]);
        observed.max_per_subset = 2;
        let got = shown(&observed);
        let expected = [
            "event Warning InvalidIPAddress Endpoints default/db: Skipped 1 invalid IP addresses when mirroring to EndpointSlices",
            "event Warning TooManyAddressesToMirror Endpoints default/db: A max of 2 addresses can be mirrored to EndpointSlices per Endpoints subset. 2 addresses were skipped",
        ];
        assert_eq!(got[1..], expected);
    }
}
