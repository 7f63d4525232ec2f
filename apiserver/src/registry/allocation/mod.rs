//! Addresses and ports that Services hold: what is given out, and how two servers never give out the same.
//!
//! Each address and each node port is a key of its own in the store; whoever creates the key holds it. Addresses are
//! `IPAddress` objects, as in Kubernetes. Corresponds to pkg/registry/core/service/{ipallocator,portallocator}.
//!
//! Deviation: a node port is a key below `/registry/ranges/servicenodeports`, where Kubernetes keeps one bitmap for all.

pub mod service;
pub mod families;
pub mod repair;

use component_base::rng::Random;
use ipnet::IpNet;
use serde_json::{Value, json};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::ops::RangeInclusive;

/// Where Services get their addresses and ports from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceNetwork {
    pub range: IpNet,
    pub node_ports: RangeInclusive<u16>,
}

/// A thing that one Service holds at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reserved {
    Address(IpAddr),
    NodePort(u16),
}

impl fmt::Display for Reserved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => write!(f, "address {address}"),
            Self::NodePort(port) => write!(f, "node port {port}"),
        }
    }
}

/// The Service that holds it.
#[derive(Clone, Copy, Debug)]
pub struct Holder<'a> {
    pub namespace: &'a str,
    pub name: &'a str,
}

/// `first-last`, both inclusive.
pub fn parse_ports(text: &str) -> Result<RangeInclusive<u16>, String> {
    let wrong = || format!("--service-node-port-range: {text:?} is not first-last, two ports");
    let (first, last) = text.split_once('-').ok_or_else(wrong)?;
    let (first, last): (u16, u16) = (first.parse().map_err(|_| wrong())?, last.parse().map_err(|_| wrong())?);
    if first == 0 || first > last { Err(wrong()) } else { Ok(first..=last) }
}

impl ServiceNetwork {
    /// Hosts of the range that a Service may have: neither the network's own address nor its broadcast address.
    fn hosts(&self) -> (u32, u32) {
        match self.range {
            IpNet::V4(net) => (u32::from(net.network()) + 1, u32::from(net.broadcast()).saturating_sub(1)),
            IpNet::V6(_) => (1, 0),
        }
    }

    pub fn contains(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(address) => {
                let (first, last) = self.hosts();
                (first..=last).contains(&u32::from(address))
            }
            IpAddr::V6(_) => false,
        }
    }

    /// Free addresses worth trying, best first: at random from the upper band, then whatever is free. The lower band
    /// (at least 16, at most 256 addresses) is left to those who ask for an address of their own.
    pub fn candidates(&self, taken: &dyn Fn(IpAddr) -> bool, random: &Random) -> Vec<IpAddr> {
        let (first, last) = self.hosts();
        if last < first {
            return Vec::new();
        }
        let size = last - first + 1;
        let band = if size < 32 { 0 } else { (size / 16).clamp(16, 256) };
        let upper = size - band;
        let start = u32::try_from(random.below(usize::try_from(upper).unwrap_or(1).max(1))).unwrap_or(0);
        let in_upper = (0..upper).map(|i| first + band + (start + i) % upper);
        let in_lower = first..first + band;
        let free = in_upper.chain(in_lower).map(|host| IpAddr::V4(Ipv4Addr::from(host))).filter(|ip| !taken(*ip));
        free.take(MAX_ATTEMPTS).collect()
    }

    /// Free node ports worth trying, from a random one on.
    pub fn port_candidates(&self, taken: &dyn Fn(u16) -> bool, random: &Random) -> Vec<u16> {
        let (first, last) = (*self.node_ports.start(), *self.node_ports.end());
        let size = usize::from(last - first) + 1;
        let start = random.below(size);
        let all = (0..size).map(|i| first + u16::try_from((start + i) % size).unwrap_or(0));
        all.filter(|port| !taken(*port)).take(MAX_ATTEMPTS).collect()
    }
}

/// So many free-looking ones are tried before the range counts as full: each lost one went to another writer.
const MAX_ATTEMPTS: usize = 64;

/// Who wrote an address that stands for a reservation.
const MANAGER: &str = "ipallocator.k8s.io";
/// The keys of held node ports.
const NODE_PORTS: &str = "/registry/ranges/servicenodeports/";

/// The object that stands for a held address.
pub fn ip_address(address: IpAddr, holder: Holder<'_>) -> Value {
    let family = if address.is_ipv4() { "IPv4" } else { "IPv6" };
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "IPAddress",
        "metadata": {
            "name": address.to_string(),
            "labels": {
                "ipaddress.kubernetes.io/ip-family": family,
                "ipaddress.kubernetes.io/managed-by": MANAGER,
            },
        },
        "spec": {
            "parentRef": {"group": "", "resource": "services", "namespace": holder.namespace, "name": holder.name},
        },
    })
}

/// The key of a held node port.
pub fn node_port_key(port: u16) -> String {
    format!("{NODE_PORTS}{port}")
}

/// What lies under that key.
pub fn node_port_claim(holder: Holder<'_>) -> Value {
    json!({"namespace": holder.namespace, "name": holder.name})
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn network(range: &str) -> ServiceNetwork {
        ServiceNetwork { range: range.parse().unwrap(), node_ports: 30000..=30003 }
    }

    #[test]
    fn addresses_come_from_the_upper_band_first() {
        let network = network("10.0.0.0/24");
        let random = Random::from_seed(1, "test");
        let found = network.candidates(&|_| false, &random);
        assert_eq!(found.len(), MAX_ATTEMPTS);
        assert!(found.iter().all(|ip| matches!(ip, IpAddr::V4(ip) if ip.octets()[3] > 16 && ip.octets()[3] < 255)));
        let only_low = network.candidates(&|ip| matches!(ip, IpAddr::V4(ip) if ip.octets()[3] > 16), &random);
        assert_eq!(only_low.first(), Some(&"10.0.0.1".parse().unwrap()));
        assert!(network.candidates(&|_| true, &random).is_empty());
    }

    #[test]
    fn the_ends_of_the_range_are_nobodys() {
        let network = network("10.0.0.0/24");
        let inside = |text: &str| network.contains(text.parse().unwrap());
        assert!(!inside("10.0.0.0") && inside("10.0.0.1") && inside("10.0.0.254") && !inside("10.0.0.255"));
        assert!(!inside("10.0.1.1") && !inside("fd00::1"));
    }

    #[test]
    fn every_port_is_tried_once() {
        let network = network("10.0.0.0/24");
        let ports = network.port_candidates(&|port| port == 30001, &Random::from_seed(2, "test"));
        assert_eq!(ports.into_iter().collect::<BTreeSet<_>>(), BTreeSet::from([30000, 30002, 30003]));
    }

    #[test]
    fn a_port_range_is_two_ports() {
        assert_eq!(parse_ports("30000-32767"), Ok(30000..=32767));
        for wrong in ["", "1", "5-2", "0-4", "a-b", "1-70000"] {
            assert!(parse_ports(wrong).is_err(), "{wrong}");
        }
    }
}
