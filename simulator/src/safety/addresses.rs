//! The rule that no two objects have the same pod address, cluster IP or node port.

use super::fields::{Pod, Service};
use super::{Rule, RuleViolation, WriteContext, read};
use std::collections::BTreeMap;

const PODS: &str = "/registry/pods/";
const SERVICES: &str = "/registry/services/specs/";

#[derive(Default)]
pub struct Addresses {
    /// Allocations by the key of their object.
    allocations: BTreeMap<String, Vec<String>>,
    /// Key of the object that has each allocation.
    holders: BTreeMap<String, String>,
}

impl Rule for Addresses {
    fn prefixes(&self) -> &'static [&'static str] {
        &[PODS, SERVICES]
    }

    fn check(&mut self, key: &str, value: Option<&[u8]>, _: WriteContext<'_>) -> Result<(), RuleViolation> {
        for allocation in self.allocations.remove(key).unwrap_or_default() {
            self.holders.remove(&allocation);
        }
        let allocations = match key.starts_with(PODS) {
            true => read(key, value)?.as_ref().map(of_pod),
            false => read(key, value)?.as_ref().map(of_service),
        };
        let Some(allocations) = allocations else { return Ok(()) };
        for one in &allocations {
            if let Some(other) = self.holders.get(one) {
                return Err(RuleViolation::about(format!("{key} has {one}, which {other} has"), [other.clone()]));
            }
            self.holders.insert(one.clone(), key.to_owned());
        }
        self.allocations.insert(key.to_owned(), allocations);
        Ok(())
    }
}

/// Returns the address of a pod. A pod that has ended has none.
fn of_pod(pod: &Pod) -> Vec<String> {
    let has_none = pod.status.pod_ip.is_empty() || pod.spec.host_network || pod.has_ended();
    if has_none { Vec::new() } else { vec![format!("address {}", pod.status.pod_ip)] }
}

/// Returns the cluster IPs and the node ports of a Service.
fn of_service(service: &Service) -> Vec<String> {
    let spec = &service.spec;
    let addresses = spec.cluster_ips.iter().filter(|ip| *ip != "None").map(|ip| format!("address {ip}"));
    let ports = spec.ports.iter().filter(|port| port.node_port != 0);
    let ports = ports.map(|port| format!("node port {}/{}", port.node_port, port.protocol));
    let health = (spec.health_check_node_port != 0).then(|| format!("node port {}/TCP", spec.health_check_node_port));
    addresses.chain(ports).chain(health).collect()
}
