//! The rule that pod addresses, cluster addresses and node ports are allocated only once.

use super::seen::{Pod, Service};
use super::{Complaint, Rule, When, read};
use std::collections::BTreeMap;

const PODS: &str = "/registry/pods/";
const SERVICES: &str = "/registry/services/specs/";

#[derive(Default)]
pub struct Addresses {
    /// Allocations of each key.
    held: BTreeMap<String, Vec<String>>,
    holder: BTreeMap<String, String>,
}

impl Rule for Addresses {
    fn prefixes(&self) -> &'static [&'static str] {
        &[PODS, SERVICES]
    }

    fn judge(&mut self, key: &str, value: Option<&[u8]>, _: When<'_>) -> Result<(), Complaint> {
        for held in self.held.remove(key).unwrap_or_default() {
            self.holder.remove(&held);
        }
        let held = match key.starts_with(PODS) {
            true => read(key, value)?.as_ref().map(of_pod),
            false => read(key, value)?.as_ref().map(of_service),
        };
        let Some(held) = held else { return Ok(()) };
        for one in &held {
            if let Some(other) = self.holder.get(one) {
                return Err(Complaint::about(format!("{key} has {one}, which {other} has"), [other.clone()]));
            }
            self.holder.insert(one.clone(), key.to_owned());
        }
        self.held.insert(key.to_owned(), held);
        Ok(())
    }
}

/// Returns the addresses of a pod; none once it has ended.
fn of_pod(pod: &Pod) -> Vec<String> {
    let has_none = pod.status.pod_ip.is_empty() || pod.spec.host_network || pod.has_ended();
    if has_none { Vec::new() } else { vec![format!("address {}", pod.status.pod_ip)] }
}

fn of_service(service: &Service) -> Vec<String> {
    let spec = &service.spec;
    let addresses = spec.cluster_ips.iter().filter(|ip| *ip != "None").map(|ip| format!("address {ip}"));
    let ports = spec.ports.iter().filter(|port| port.node_port != 0);
    let ports = ports.map(|port| format!("node port {}/{}", port.node_port, port.protocol));
    let health = (spec.health_check_node_port != 0).then(|| format!("node port {}/TCP", spec.health_check_node_port));
    addresses.chain(ports).chain(health).collect()
}
