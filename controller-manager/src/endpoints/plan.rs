//! Plans the Endpoints of a Service.
//!
//! Corresponds to syncService in pkg/controller/endpoint/endpoints_controller.go.
//! Deviation: the annotation endpoints.kubernetes.io/last-change-trigger-time is not written: it depends on when the
//! controller observed a change, and not on the objects.

use super::subsets::{self, PodEndpoint};
use crate::service;
use client::{Action, Plan};
use controller_base::{actions, pod};
use proto::Kind;
use proto::kinds::api::core::v1::{EndpointAddress, EndpointPort, Endpoints, Pod, Service, ServicePort};
use proto::kinds::metav1::ObjectMeta;
use std::sync::Arc;

const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
const MANAGER: &str = "endpoint-controller";
const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";
/// Annotation of Endpoints that served as a lock for leader election, before there were Leases.
pub const LEADER: &str = "control-plane.alpha.kubernetes.io/leader";

#[derive(Debug)]
pub struct Observed {
    pub service: Option<Arc<Service>>,
    pub endpoints: Option<Arc<Endpoints>>,
    /// The pods that the service selects.
    pub pods: Vec<Arc<Pod>>,
}

pub fn plan(observed: &Observed) -> Plan {
    let Some(service) = &observed.service else { return plan_orphan(observed.endpoints.as_deref()) };
    if service::selector(service).is_none() {
        return Plan::default();
    }
    let wanted = wanted(service, &observed.pods, observed.endpoints.as_deref());
    let action = match &observed.endpoints {
        None => Action::create(&wanted),
        Some(present) if is_same(present, &wanted) => return Plan::default(),
        Some(_) => Action::update(&wanted),
    };
    Plan::of([action])
}

/// Deletes Endpoints whose service does not exist, unless they are a lock for leader election.
fn plan_orphan(endpoints: Option<&Endpoints>) -> Plan {
    let is_lock = |endpoints: &Endpoints| {
        endpoints.metadata.annotations.as_ref().is_some_and(|annotations| annotations.contains_key(LEADER))
    };
    Plan::of(endpoints.filter(|endpoints| !is_lock(endpoints)).map(actions::delete_exactly))
}

fn is_same(present: &Endpoints, wanted: &Endpoints) -> bool {
    let annotation =
        |endpoints: &Endpoints| endpoints.metadata.annotations.as_ref().and_then(|all| all.get(OVER_CAPACITY).cloned());
    present.subsets.as_deref().unwrap_or_default() == wanted.subsets.as_deref().unwrap_or_default()
        && present.metadata.labels == wanted.metadata.labels
        && annotation(present) == annotation(wanted)
}

fn wanted(service: &Service, pods: &[Arc<Pod>], present: Option<&Endpoints>) -> Endpoints {
    let endpoints: Vec<PodEndpoint> = pods.iter().filter_map(|pod| pod_endpoint(service, pod)).collect();
    let mut subsets = subsets::pack(&endpoints);
    let is_truncated = subsets::truncate(&mut subsets);
    let mut metadata = present.map_or_else(
        || ObjectMeta {
            name: Some(service.name().to_owned()),
            namespace: Some(service.namespace().to_owned()),
            ..ObjectMeta::default()
        },
        |present| present.metadata.clone(),
    );
    let mut labels = service::inherited_labels(service, &[MANAGED_BY]);
    labels.insert(MANAGED_BY.to_owned(), MANAGER.to_owned());
    metadata.labels = Some(labels);
    let annotations = metadata.annotations.get_or_insert_default();
    if is_truncated {
        annotations.insert(OVER_CAPACITY.to_owned(), "truncated".to_owned());
    } else {
        annotations.remove(OVER_CAPACITY);
    }
    if annotations.is_empty() {
        metadata.annotations = None;
    }
    Endpoints { metadata, subsets: (!subsets.is_empty()).then_some(subsets) }
}

fn pod_endpoint(service: &Service, pod: &Pod) -> Option<PodEndpoint> {
    let publishes_not_ready = service::publishes_not_ready(service);
    if !service::is_endpoint(pod, publishes_not_ready) {
        return None;
    }
    let family = service::ip_families(service).into_iter().next()?;
    let address = EndpointAddress {
        ip: service::pod_ip(pod, family)?.to_owned(),
        hostname: service::hostname(pod, service).map(str::to_owned),
        node_name: Some(pod::node_name(pod).to_owned()).filter(|name| !name.is_empty()),
        target_ref: Some(service::pod_reference(pod)),
    };
    let service_ports = service::ports(service);
    let ports: Vec<EndpointPort> =
        service_ports.iter().filter_map(|port| Some(endpoint_port(port, service::find_port(pod, port)?))).collect();
    // A pod without any of the service's ports is no endpoint. A headless service without ports lists its pods.
    if ports.is_empty() && !(service_ports.is_empty() && service::is_headless(service)) {
        return None;
    }
    Some(PodEndpoint { address, is_ready: publishes_not_ready || pod::is_ready(pod), ports })
}

fn endpoint_port(port: &ServicePort, number: i32) -> EndpointPort {
    EndpointPort {
        name: port.name.clone().filter(|name| !name.is_empty()),
        port: number,
        protocol: port.protocol.clone().or_else(|| Some("TCP".to_owned())),
        app_protocol: port.app_protocol.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use controller_base::fixture;
    use proto::kinds::IntOrString;
    use proto::kinds::api::core::v1::ServiceSpec;

    fn service() -> Service {
        let mut metadata = fixture::meta("web");
        metadata.labels = Some(fixture::labels(&[("team", "shop")]));
        let port = ServicePort {
            port: 80,
            target_port: Some(IntOrString::Int(8080)),
            protocol: Some("TCP".to_owned()),
            ..ServicePort::default()
        };
        let spec = ServiceSpec {
            selector: Some(fixture::labels(&[("app", "web")])),
            cluster_ip: Some("10.0.0.5".to_owned()),
            ip_families: Some(vec!["IPv4".to_owned()]),
            ports: Some(vec![port]),
            ..ServiceSpec::default()
        };
        Service { metadata, spec: Some(spec), ..Service::default() }
    }

    fn pod(name: &str, ip: &str, is_ready: bool) -> Arc<Pod> {
        let mut pod = fixture::pod(name);
        fixture::set_phase(&mut pod, "Running");
        pod.status.as_mut().unwrap().pod_ip = Some(ip.to_owned());
        if is_ready {
            fixture::set_ready(&mut pod, fixture::at(0));
        }
        Arc::new(pod)
    }

    fn observed(service: Service, pods: Vec<Arc<Pod>>) -> Observed {
        Observed { service: Some(Arc::new(service)), endpoints: None, pods }
    }

    #[test]
    fn ready_pods_are_listed_apart() {
        let endpoints = wanted(&service(), &[pod("a", "10.244.0.1", true), pod("b", "10.244.0.2", false)], None);
        let subsets = endpoints.subsets.unwrap();
        assert_eq!(subsets.len(), 1);
        assert_eq!(subsets[0].addresses.as_ref().unwrap()[0].ip, "10.244.0.1");
        assert_eq!(subsets[0].not_ready_addresses.as_ref().unwrap()[0].ip, "10.244.0.2");
        assert_eq!(subsets[0].ports.as_ref().unwrap()[0].port, 8080);
        let labels = fixture::labels(&[("team", "shop"), (MANAGED_BY, MANAGER)]);
        assert_eq!(endpoints.metadata.labels, Some(labels));
    }

    #[test]
    fn publish_not_ready_lists_all_as_ready() {
        let mut service = service();
        service.spec.as_mut().unwrap().publish_not_ready_addresses = Some(true);
        let endpoints = wanted(&service, &[pod("b", "10.244.0.2", false)], None);
        assert_eq!(endpoints.subsets.unwrap()[0].addresses.as_ref().unwrap().len(), 1);
    }

    #[test]
    fn unchanged_endpoints_are_not_written() {
        let mut observed = observed(service(), vec![pod("a", "10.244.0.1", true)]);
        assert_eq!(plan(&observed).actions.len(), 1);
        observed.endpoints = Some(Arc::new(wanted(&service(), &observed.pods, None)));
        assert_eq!(plan(&observed).actions.len(), 0);
        observed.pods.clear();
        assert_eq!(plan(&observed).actions.len(), 1, "the pod was deleted");
    }

    #[test]
    fn services_without_selector_or_of_type_external_name_are_left_alone() {
        let mut manual = service();
        manual.spec.as_mut().unwrap().selector = None;
        let mut outside = service();
        outside.spec.as_mut().unwrap().type_ = Some("ExternalName".to_owned());
        for service in [manual, outside] {
            assert_eq!(plan(&observed(service, vec![pod("a", "10.244.0.1", true)])).actions.len(), 0);
        }
    }

    #[test]
    fn endpoints_follow_their_service_into_deletion() {
        let own = wanted(&service(), &[], None);
        let mut by_hand = own.clone();
        by_hand.metadata.labels = None;
        let mut lock = by_hand.clone();
        fixture::annotate(&mut lock, &[(LEADER, "{}")]);
        for (endpoints, expected) in [(own, 1), (by_hand, 1), (lock, 0)] {
            let observed = Observed { service: None, endpoints: Some(Arc::new(endpoints)), pods: Vec::new() };
            assert_eq!(plan(&observed).actions.len(), expected);
        }
    }
}
