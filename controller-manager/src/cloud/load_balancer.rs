//! The service controller gives each Service of type LoadBalancer an address of the cloud, and releases it at the end.
//!
//! The addresses come from a network that is reserved for documentation; nothing ever connects to them. Corresponds to
//! k8s.io/cloud-provider/controllers/service.

use client::reconcile::Reconciler;
use client::{Action, Event, Lister, Patch, Plan};
use controller_base::actions;
use controller_base::context::Running;
use controller_base::descriptor::Setup;
use jiff::Timestamp;
use parking_lot::Mutex;
use proto::Kind;
use proto::kinds::api::core::v1::Service;
use serde_json::json;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

/// Network of the cloud's addresses: TEST-NET-3 of RFC 5737.
const NETWORK: [u8; 3] = [203, 0, 113];
const FINALIZER: &str = "service.kubernetes.io/load-balancer-cleanup";
/// One worker, as in cloud-controller-manager, so that no address is allocated twice.
const WORKERS: usize = 1;
/// How soon a service without an address is reconciled again.
const RETRY: Duration = Duration::from_secs(60);

struct Controller {
    services: Lister<Service>,
    /// Address of each service, including those that no cache shows yet.
    allocated: Mutex<BTreeMap<String, Ipv4Addr>>,
}

#[derive(Debug)]
pub struct Observed {
    pub service: Arc<Service>,
    /// The address that the service has or gets; `None` if no address is left.
    pub address: Option<Ipv4Addr>,
}

pub fn start(setup: &Setup<'_>) -> Running {
    let queue = setup.queue();
    setup.on_event(&queue, |event: &Event<Service>, queue| queue.add(event.object().key()));
    setup.run(queue, WORKERS, Controller { services: setup.lister(), allocated: Mutex::default() })
}

/// Returns true if the service asks this cloud for a load balancer.
pub fn wants_load_balancer(service: &Service) -> bool {
    let spec = service.spec.as_ref();
    let is_balanced = spec.is_some_and(|spec| {
        spec.type_.as_deref() == Some("LoadBalancer")
            && spec.load_balancer_class.as_deref().unwrap_or_default().is_empty()
    });
    is_balanced && !service.is_deleting()
}

fn addresses(service: &Service) -> impl Iterator<Item = &str> {
    let balancer = service.status.as_ref().and_then(|status| status.load_balancer.as_ref());
    balancer.into_iter().flat_map(|balancer| balancer.ingress.iter().flatten()).filter_map(|point| point.ip.as_deref())
}

fn own_address(service: &Service) -> Option<Ipv4Addr> {
    addresses(service).filter_map(|ip| ip.parse::<Ipv4Addr>().ok()).find(|ip| ip.octets()[..3] == NETWORK)
}

fn finalizers(service: &Service) -> &[String] {
    service.metadata.finalizers.as_deref().unwrap_or_default()
}

pub fn plan(observed: &Observed) -> Plan {
    let service = &*observed.service;
    match observed.address {
        _ if !wants_load_balancer(service) => release(service),
        Some(address) => ensure(service, address),
        None => {
            let message =
                "Error syncing load balancer: failed to ensure load balancer: no address of 203.0.113.0/24 is left";
            let warning = actions::warning(service, "SyncLoadBalancerFailed", message);
            Plan { requeue_after: Some(RETRY), ..Plan::of([warning]) }
        }
    }
}

fn ensure(service: &Service, address: Ipv4Addr) -> Plan {
    let has_finalizer = finalizers(service).iter().any(|finalizer| finalizer == FINALIZER);
    if has_finalizer && addresses(service).eq([address.to_string().as_str()]) {
        return Plan::default();
    }
    let mut finalizers = finalizers(service).to_vec();
    if !has_finalizer {
        finalizers.push(FINALIZER.to_owned());
    }
    // The finalizer comes first: without it, the address of a deleted service would never be released.
    let status = json!({"loadBalancer": {"ingress": [{"ip": address.to_string(), "ipMode": "VIP"}]}});
    Plan::of([
        actions::normal(service, "EnsuringLoadBalancer", "Ensuring load balancer"),
        patch(service, &finalizers, None),
        patch(service, &finalizers, Some(status)),
        actions::normal(service, "EnsuredLoadBalancer", "Ensured load balancer"),
    ])
}

fn release(service: &Service) -> Plan {
    if !finalizers(service).iter().any(|finalizer| finalizer == FINALIZER) {
        return Plan::default();
    }
    let rest: Vec<String> = finalizers(service).iter().filter(|name| *name != FINALIZER).cloned().collect();
    Plan::of([
        actions::normal(service, "DeletingLoadBalancer", "Deleting load balancer"),
        actions::normal(service, "DeletedLoadBalancer", "Deleted load balancer"),
        patch(service, &rest, Some(json!({"loadBalancer": {"ingress": null}}))),
    ])
}

/// Returns a patch of the status that writes finalizers too: the controller may patch nothing but the status.
fn patch(service: &Service, finalizers: &[String], status: Option<serde_json::Value>) -> Action {
    let mut patch = json!({"metadata": {"uid": service.uid(), "finalizers": finalizers}});
    if let Some(status) = status {
        patch["status"] = status;
    }
    Action::patch_status::<Service>(service.namespace(), service.name(), Patch::Merge(patch))
}

impl Controller {
    /// Returns the address that the service has, or else allocates the lowest free one.
    fn address(&self, service: &Service) -> Option<Ipv4Addr> {
        let key = service.key();
        let mut allocated = self.allocated.lock();
        if let Some(known) = own_address(service).or_else(|| allocated.get(&key).copied()) {
            allocated.insert(key, known);
            return Some(known);
        }
        let in_status: Vec<Ipv4Addr> = self.services.list().iter().filter_map(|other| own_address(other)).collect();
        let [a, b, c] = NETWORK;
        let mut all = (1..=254).map(|host| Ipv4Addr::new(a, b, c, host));
        let free = all.find(|ip| !in_status.contains(ip) && !allocated.values().any(|taken| taken == ip))?;
        allocated.insert(key, free);
        Some(free)
    }
}

impl Reconciler for Controller {
    type Observed = Observed;

    fn observe(&self, key: &str) -> Option<Observed> {
        let Some(service) = self.services.by_key(key) else {
            self.allocated.lock().remove(key);
            return None;
        };
        let address = if wants_load_balancer(&service) { self.address(&service) } else { None };
        if !wants_load_balancer(&service) {
            self.allocated.lock().remove(key);
        }
        Some(Observed { service, address })
    }

    fn plan(&self, observed: &Observed, _now: Timestamp) -> Plan {
        plan(observed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use controller_base::fixture;
    use proto::kinds::api::core::v1::{LoadBalancerIngress, LoadBalancerStatus, ServiceSpec, ServiceStatus};

    fn service(type_: &str, address: &str, has_finalizer: bool) -> Service {
        let mut service = Service { metadata: fixture::meta("web"), ..Service::default() };
        service.spec = Some(ServiceSpec { type_: Some(type_.to_owned()), ..ServiceSpec::default() });
        service.metadata.finalizers = has_finalizer.then(|| vec![FINALIZER.to_owned()]);
        let point = LoadBalancerIngress { ip: Some(address.to_owned()), ..LoadBalancerIngress::default() };
        let ingress = (!address.is_empty()).then(|| vec![point]);
        let load_balancer = Some(LoadBalancerStatus { ingress });
        service.status = Some(ServiceStatus { load_balancer, ..ServiceStatus::default() });
        service
    }

    fn planned(service: Service, address: Option<&str>) -> String {
        let address = address.map(|address| address.parse().unwrap());
        plan(&Observed { service: Arc::new(service), address }).to_string()
    }

    #[test]
    fn an_address_is_given_kept_and_given_back() {
        let first = planned(service("LoadBalancer", "", false), Some("203.0.113.1"));
        assert!(first.contains(r#""finalizers":["service.kubernetes.io/load-balancer-cleanup"]"#), "{first}");
        assert!(first.contains(r#""ingress":[{"ip":"203.0.113.1","ipMode":"VIP"}]"#), "{first}");
        assert_eq!(planned(service("LoadBalancer", "203.0.113.1", true), Some("203.0.113.1")), "");
        assert_eq!(planned(service("ClusterIP", "", false), None), "");
        let back = planned(service("ClusterIP", "203.0.113.1", true), None);
        assert!(back.contains(r#""finalizers":[]"#) && back.contains("DeletedLoadBalancer"), "{back}");
        let none = planned(service("LoadBalancer", "", false), None);
        assert!(none.contains("SyncLoadBalancerFailed"), "{none}");
    }

    #[test]
    fn another_class_is_somebody_elses() {
        let mut other = service("LoadBalancer", "", false);
        other.spec.as_mut().unwrap().load_balancer_class = Some("example.com/lb".to_owned());
        assert!(!wants_load_balancer(&other));
        assert!(wants_load_balancer(&service("LoadBalancer", "", false)));
    }
}
