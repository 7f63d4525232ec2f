//! The service controller: a Service of type LoadBalancer gets an address of the cloud's, and gives it back at its end.
//!
//! Addresses are of a network that is kept for documentation; nothing ever connects to them. Corresponds to
//! k8s.io/cloud-provider/controllers/service.

use crate::actions;
use crate::context::Running;
use crate::descriptor::Setup;
use crate::reconcile::Reconciler;
use client::{Action, Event, Lister, Patch, Plan};
use jiff::Timestamp;
use parking_lot::Mutex;
use proto::Kind;
use proto::kinds::api::core::v1::Service;
use serde_json::json;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

/// The addresses of the cloud: RFC 5737's third network.
const NETWORK: [u8; 3] = [203, 0, 113];
const FINALIZER: &str = "service.kubernetes.io/load-balancer-cleanup";
/// One at a time, as in the original, so that no address is given twice.
const WORKERS: usize = 1;
/// When a service that got none looks again.
const RETRY: Duration = Duration::from_secs(60);

struct Controller {
    services: Lister<Service>,
    /// By service. What no cache shows yet is here too.
    given: Mutex<BTreeMap<String, Ipv4Addr>>,
}

#[derive(Debug)]
pub struct Observed {
    pub service: Arc<Service>,
    /// The address that it has or gets; nothing where none is left.
    pub address: Option<Ipv4Addr>,
}

pub fn start(setup: &Setup<'_>) -> Running {
    let queue = setup.queue();
    setup.on_event(&queue, |event: &Event<Service>, queue| queue.add(event.object().key()));
    setup.run(queue, WORKERS, Controller { services: setup.lister(), given: Mutex::default() })
}

/// Whether the service is this cloud's to serve.
pub fn wants(service: &Service) -> bool {
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
        _ if !wants(service) => release(service),
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
    let is_kept = finalizers(service).iter().any(|finalizer| finalizer == FINALIZER);
    if is_kept && addresses(service).eq([address.to_string().as_str()]) {
        return Plan::default();
    }
    let mut finalizers = finalizers(service).to_vec();
    if !is_kept {
        finalizers.push(FINALIZER.to_owned());
    }
    // The finalizer first: an address that nobody would give back is lost.
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

/// Finalizers are written beside the status, which is all that the controller may write.
fn patch(service: &Service, finalizers: &[String], status: Option<serde_json::Value>) -> Action {
    let mut patch = json!({"metadata": {"uid": service.uid(), "finalizers": finalizers}});
    if let Some(status) = status {
        patch["status"] = status;
    }
    Action::patch_status::<Service>(service.namespace(), service.name(), Patch::Merge(patch))
}

impl Controller {
    /// The address that the service has, or else the lowest that is free.
    fn address(&self, service: &Service) -> Option<Ipv4Addr> {
        let key = service.key();
        let mut given = self.given.lock();
        if let Some(known) = own_address(service).or_else(|| given.get(&key).copied()) {
            given.insert(key, known);
            return Some(known);
        }
        let shown: Vec<Ipv4Addr> = self.services.list().iter().filter_map(|other| own_address(other)).collect();
        let [a, b, c] = NETWORK;
        let mut all = (1..=254).map(|host| Ipv4Addr::new(a, b, c, host));
        let free = all.find(|ip| !shown.contains(ip) && !given.values().any(|taken| taken == ip))?;
        given.insert(key, free);
        Some(free)
    }
}

impl Reconciler for Controller {
    type Observed = Observed;

    fn observe(&self, key: &str) -> Option<Observed> {
        let Some(service) = self.services.by_key(key) else {
            self.given.lock().remove(key);
            return None;
        };
        let address = if wants(&service) { self.address(&service) } else { None };
        if !wants(&service) {
            self.given.lock().remove(key);
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
    use crate::fixture;
    use proto::kinds::api::core::v1::{LoadBalancerIngress, LoadBalancerStatus, ServiceSpec, ServiceStatus};

    fn service(type_: &str, address: &str, is_kept: bool) -> Service {
        let mut service = Service { metadata: fixture::meta("web"), ..Service::default() };
        service.spec = Some(ServiceSpec { type_: Some(type_.to_owned()), ..ServiceSpec::default() });
        service.metadata.finalizers = is_kept.then(|| vec![FINALIZER.to_owned()]);
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
        assert!(!wants(&other));
        assert!(wants(&service("LoadBalancer", "", false)));
    }
}
