//! Properties of a Service and of its pods that the endpoint controllers read.
//!
//! Corresponds to pkg/api/v1/endpoints, k8s.io/endpointslice/util and FindPort in pkg/api/v1/pod.

use client::{Event, Lister};
use controller_base::pod;
use proto::Kind;
use proto::kinds::IntOrString;
use proto::kinds::api::core::v1::{ContainerPort, ObjectReference, Pod, Service, ServicePort};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Label on the endpoints and slices of a service without a cluster IP.
pub const HEADLESS_LABEL: &str = "service.kubernetes.io/headless";

/// Returns the service's pod selector; `None` if no controller keeps the service's endpoints.
pub fn selector(service: &Service) -> Option<&BTreeMap<String, String>> {
    let spec = service.spec.as_ref()?;
    if spec.type_.as_deref() == Some("ExternalName") {
        return None;
    }
    spec.selector.as_ref().filter(|selector| !selector.is_empty())
}

fn selects(selector: &BTreeMap<String, String>, pod: &Pod) -> bool {
    pod.metadata.labels.as_ref().map_or(selector.is_empty(), |labels| selects_labels(selector, labels))
}

fn selects_labels(selector: &BTreeMap<String, String>, labels: &BTreeMap<String, String>) -> bool {
    selector.iter().all(|(key, value)| labels.get(key) == Some(value))
}

/// Returns the pods of a namespace that a service's selector matches.
pub fn selected_pods(pods: &Lister<Pod>, namespace: &str, selector: &BTreeMap<String, String>) -> Vec<Arc<Pod>> {
    pods.with_labels(namespace, |labels| selects_labels(selector, labels))
}

pub fn is_headless(service: &Service) -> bool {
    let cluster_ip = service.spec.as_ref().and_then(|spec| spec.cluster_ip.as_deref());
    matches!(cluster_ip, None | Some("" | "None"))
}

pub fn publishes_not_ready(service: &Service) -> bool {
    service.spec.as_ref().and_then(|spec| spec.publish_not_ready_addresses).unwrap_or(false)
}

pub fn ports(service: &Service) -> &[ServicePort] {
    service.spec.as_ref().and_then(|spec| spec.ports.as_deref()).unwrap_or_default()
}

/// Returns the service's IP families, `IPv4` or `IPv6`, in its order of preference.
pub fn ip_families(service: &Service) -> Vec<&str> {
    let families = service.spec.as_ref().and_then(|spec| spec.ip_families.as_ref());
    let families: Vec<&str> = families.into_iter().flatten().map(String::as_str).collect();
    if families.is_empty() { vec!["IPv4"] } else { families }
}

/// Returns the pod's address of one family.
pub fn pod_ip<'a>(pod: &'a Pod, family: &str) -> Option<&'a str> {
    let status = pod.status.as_ref()?;
    let several = status.pod_ips.iter().flatten().map(|ip| ip.ip.as_str());
    several.chain(status.pod_ip.as_deref()).find(|ip| !ip.is_empty() && ip.contains(':') == (family == "IPv6"))
}

/// Returns true if a pod belongs into the endpoints: it has an address and is not terminal.
pub fn is_endpoint(pod: &Pod, include_terminating: bool) -> bool {
    let has_address = pod_ip(pod, "IPv4").or_else(|| pod_ip(pod, "IPv6")).is_some();
    has_address && !pod::is_terminal(pod) && (include_terminating || !pod.is_deleting())
}

/// Returns the pod's DNS name below the service, if it has one.
pub fn hostname<'a>(pod: &'a Pod, service: &Service) -> Option<&'a str> {
    let spec = pod.spec.as_ref()?;
    let is_below = spec.subdomain.as_deref() == Some(service.name()) && pod.namespace() == service.namespace();
    spec.hostname.as_deref().filter(|hostname| is_below && !hostname.is_empty())
}

/// Returns the `targetRef` of a pod's endpoint.
pub fn pod_reference(pod: &Pod) -> ObjectReference {
    ObjectReference {
        kind: Some(Pod::KIND.to_owned()),
        namespace: Some(pod.namespace().to_owned()),
        name: Some(pod.name().to_owned()),
        uid: Some(pod.uid().to_owned()),
        ..ObjectReference::default()
    }
}

/// Returns the number of a service's target port. A name is looked up among the pod's ports of the same protocol.
pub fn find_port(pod: &Pod, port: &ServicePort) -> Option<i32> {
    match &port.target_port {
        None => Some(port.port),
        Some(IntOrString::Int(number)) => Some(*number),
        Some(IntOrString::String(name)) => {
            let spec = pod.spec.as_ref()?;
            let sidecars =
                spec.init_containers.iter().flatten().filter(|c| c.restart_policy.as_deref() == Some("Always"));
            let mut container_ports = spec.containers.iter().chain(sidecars).flat_map(|c| c.ports.iter().flatten());
            let matches = |own: &&ContainerPort| {
                own.name.as_deref() == Some(name)
                    && protocol(own.protocol.as_deref()) == protocol(port.protocol.as_deref())
            };
            container_ports.find(matches).map(|own| own.container_port)
        }
    }
}

fn protocol(protocol: Option<&str>) -> &str {
    protocol.unwrap_or("TCP")
}

/// Returns the labels that endpoints copy from their service: all but the reserved ones, with the headless label if the
/// service is headless.
pub fn inherited_labels(service: &Service, reserved: &[&str]) -> BTreeMap<String, String> {
    let own = service.metadata.labels.iter().flatten();
    let own = own.filter(|(key, _)| key.as_str() != HEADLESS_LABEL && !reserved.contains(&key.as_str()));
    let mut labels: BTreeMap<String, String> = own.map(|(key, value)| (key.clone(), value.clone())).collect();
    if is_headless(service) {
        labels.insert(HEADLESS_LABEL.to_owned(), String::new());
    }
    labels
}

/// Returns the keys of the services whose endpoints a pod's event may change.
pub fn concerned_services(services: &Lister<Service>, event: &Event<Pod>) -> BTreeSet<String> {
    let pods: Vec<&Arc<Pod>> = match event {
        Event::Added(pod) | Event::Deleted(pod) => vec![pod],
        Event::Updated { old, new } if Arc::ptr_eq(old, new) => vec![new],
        Event::Updated { old, new } if is_same_backend(old, new) => return BTreeSet::new(),
        Event::Updated { old, new } => vec![old, new],
    };
    let namespace = services.in_namespace(event.object().namespace());
    let is_concerned = |service: &&Arc<Service>| {
        selector(service).is_some_and(|selector| pods.iter().any(|pod| selects(selector, pod)))
    };
    namespace.iter().filter(is_concerned).map(|service| service.key()).collect()
}

/// Returns true if no property of the pod that endpoints show has changed.
fn is_same_backend(old: &Pod, new: &Pod) -> bool {
    let addresses = |pod: &Pod| pod.status.as_ref().map(|status| (status.pod_ip.clone(), status.pod_ips.clone()));
    let name = |pod: &Pod| pod.spec.as_ref().map(|spec| (spec.hostname.clone(), spec.subdomain.clone()));
    old.metadata.labels == new.metadata.labels
        && old.is_deleting() == new.is_deleting()
        && pod::is_ready(old) == pod::is_ready(new)
        && pod::is_terminal(old) == pod::is_terminal(new)
        && pod::node_name(old) == pod::node_name(new)
        && addresses(old) == addresses(new)
        && name(old) == name(new)
}

#[cfg(test)]
mod tests {
    use super::*;
    use controller_base::fixture;

    #[test]
    fn named_ports_are_found_by_name_and_protocol() {
        let mut pod = fixture::pod("web");
        let port = |name: &str, number: i32, protocol: Option<&str>| ContainerPort {
            name: Some(name.to_owned()),
            container_port: number,
            protocol: protocol.map(str::to_owned),
            ..ContainerPort::default()
        };
        pod.spec.as_mut().unwrap().containers[0].ports =
            Some(vec![port("dns", 53, Some("UDP")), port("dns", 5353, None), port("http", 8080, Some("TCP"))]);
        let cases = [
            (Some(IntOrString::Int(81)), Some("TCP"), Some(81)),
            (Some(IntOrString::String("http".to_owned())), Some("TCP"), Some(8080)),
            (Some(IntOrString::String("dns".to_owned())), Some("UDP"), Some(53)),
            (Some(IntOrString::String("dns".to_owned())), None, Some(5353)),
            (Some(IntOrString::String("http".to_owned())), Some("UDP"), None),
            (Some(IntOrString::String("smtp".to_owned())), None, None),
            (None, None, Some(80)),
        ];
        for (target_port, protocol, expected) in cases {
            let port = ServicePort {
                port: 80,
                target_port: target_port.clone(),
                protocol: protocol.map(str::to_owned),
                ..ServicePort::default()
            };
            assert_eq!(find_port(&pod, &port), expected, "{target_port:?} {protocol:?}");
        }
    }

    #[test]
    fn only_living_pods_with_an_address_take_part() {
        let cases = [
            // address, phase, deleting => takes part, with terminating ones included
            (None, "Running", false, false, false),
            (Some("10.0.0.1"), "Running", false, true, true),
            (Some("10.0.0.1"), "Pending", false, true, true),
            (Some("10.0.0.1"), "Succeeded", false, false, false),
            (Some("10.0.0.1"), "Failed", true, false, false),
            (Some("10.0.0.1"), "Running", true, false, true),
        ];
        for (ip, phase, deleting, expected, with_terminating) in cases {
            let mut pod = fixture::pod("web");
            fixture::set_phase(&mut pod, phase);
            pod.status.as_mut().unwrap().pod_ip = ip.map(str::to_owned);
            pod.metadata.deletion_timestamp = deleting.then(|| fixture::time(0));
            assert_eq!(is_endpoint(&pod, false), expected, "{ip:?} {phase} {deleting}");
            assert_eq!(is_endpoint(&pod, true), with_terminating, "{ip:?} {phase} {deleting}");
        }
    }
}
