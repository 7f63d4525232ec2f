//! `CidrSet` divides the cluster's CIDR into node CIDRs of equal size, and allocates them.
//!
//! Corresponds to pkg/controller/nodeipam/ipam/cidrset.

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

/// Limit on the bits that number the node CIDRs, as in Kubernetes.
const MAX_BITS: u8 = 16;

#[derive(Clone, Debug)]
pub struct CidrSet {
    cluster_cidr: IpNet,
    node_mask_size: u8,
    allocated: BTreeSet<u32>,
    /// Parts that no node gets, because they are addresses of Services.
    reserved: Vec<RangeInclusive<u32>>,
    /// Index at which the search for a free CIDR begins, so that a released one is not allocated again at once.
    next: u32,
    tries: Option<u32>,
}

/// The cluster's CIDR cannot be divided into node CIDRs of that size.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("--cluster-cidr {cluster_cidr} cannot be divided into node CIDRs of /{node_mask_size}")]
pub struct InvalidMaskSize {
    cluster_cidr: IpNet,
    node_mask_size: u8,
}

impl CidrSet {
    pub fn new(cluster_cidr: IpNet, node_mask_size: u8) -> Result<Self, InvalidMaskSize> {
        let bits = node_mask_size.checked_sub(cluster_cidr.prefix_len());
        match bits {
            Some(bits) if bits <= MAX_BITS && node_mask_size <= cluster_cidr.max_prefix_len() => {
                let (allocated, reserved) = (BTreeSet::new(), Vec::new());
                Ok(Self {
                    cluster_cidr: cluster_cidr.trunc(),
                    node_mask_size,
                    allocated,
                    reserved,
                    next: 0,
                    tries: None,
                })
            }
            _ => Err(InvalidMaskSize { cluster_cidr, node_mask_size }),
        }
    }

    pub fn cluster_cidr(&self) -> IpNet {
        self.cluster_cidr
    }

    /// Returns how many parts nodes have.
    pub fn in_use(&self) -> usize {
        self.allocated.len()
    }

    /// Returns how many parts there are.
    pub fn count(&self) -> u32 {
        1 << (self.node_mask_size - self.cluster_cidr.prefix_len())
    }

    /// Allocates the next free CIDR; `None` if there is none.
    pub fn allocate(&mut self) -> Option<IpNet> {
        let count = self.count();
        let is_reserved = |i: &u32| self.reserved.iter().any(|range| range.contains(i));
        let mut parts = (0..count).map(|i| (self.next + i) % count);
        let free = parts.find(|i| !self.allocated.contains(i) && !is_reserved(i))?;
        self.allocated.insert(free);
        self.tries = Some((free + count - self.next) % count);
        self.next = (free + 1) % count;
        Some(self.cidr(free))
    }

    /// Returns how many parts the last search has passed, once.
    pub fn take_tries(&mut self) -> Option<u32> {
        self.tries.take()
    }

    /// Keeps every part that overlaps a range from nodes.
    pub fn reserve(&mut self, range: &IpNet) {
        let cluster = self.cluster_cidr;
        if !cluster.contains(&range.network()) && !range.contains(&cluster.network()) {
            return;
        }
        let index = |address: IpAddr, outside: u32| self.index_at(address).unwrap_or(outside);
        let reserved = index(range.network(), 0)..=index(range.broadcast(), self.count() - 1);
        self.reserved.push(reserved);
    }

    /// Marks a CIDR that a node has already as allocated. Returns false if it is not in this set.
    pub fn occupy(&mut self, cidr: &IpNet) -> bool {
        let Some(i) = self.index_of(cidr) else { return false };
        self.allocated.insert(i);
        true
    }

    pub fn release(&mut self, cidr: &IpNet) {
        if let Some(i) = self.index_of(cidr) {
            self.allocated.remove(&i);
        }
    }

    fn cidr(&self, i: u32) -> IpNet {
        match self.cluster_cidr {
            IpNet::V4(range) => {
                let address = u32::from(range.network()) + (i << (32 - u32::from(self.node_mask_size)).min(31));
                let address = if self.node_mask_size == 0 { u32::from(range.network()) } else { address };
                IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::from(address), self.node_mask_size))
            }
            IpNet::V6(range) => {
                let shift = (128 - u32::from(self.node_mask_size)).min(127);
                let address = u128::from(range.network()) + (u128::from(i) << shift);
                IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::from(address), self.node_mask_size))
            }
        }
    }

    fn index_of(&self, cidr: &IpNet) -> Option<u32> {
        if cidr.prefix_len() == self.node_mask_size { self.index_at(cidr.network()) } else { None }
    }

    /// Returns the index of the part that has an address.
    fn index_at(&self, address: IpAddr) -> Option<u32> {
        if !self.cluster_cidr.contains(&address) {
            return None;
        }
        let offset = match (address, self.cluster_cidr.network()) {
            (IpAddr::V4(address), IpAddr::V4(base)) => {
                u128::from(u32::from(address) - u32::from(base)) >> (32 - u32::from(self.node_mask_size))
            }
            (IpAddr::V6(address), IpAddr::V6(base)) => {
                (u128::from(address) - u128::from(base)).checked_shr(128 - u32::from(self.node_mask_size)).unwrap_or(0)
            }
            _ => return None,
        };
        u32::try_from(offset).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn net(text: &str) -> IpNet {
        text.parse().unwrap()
    }

    fn shown(part: Option<IpNet>) -> String {
        part.map_or("none".to_owned(), |part| part.to_string())
    }

    #[test]
    fn parts_come_in_order_and_run_out() {
        let cases = [
            ("10.244.0.0/16", 24, ["10.244.0.0/24", "10.244.1.0/24", "10.244.2.0/24"]),
            ("10.0.0.0/30", 31, ["10.0.0.0/31", "10.0.0.2/31", "none"]),
            ("10.0.0.7/32", 32, ["10.0.0.7/32", "none", "none"]),
            ("fd00:10:244::/56", 64, ["fd00:10:244::/64", "fd00:10:244:1::/64", "fd00:10:244:2::/64"]),
        ];
        for (range, prefix, expected) in cases {
            let mut set = CidrSet::new(net(range), prefix).unwrap();
            let got = [(); 3].map(|()| shown(set.allocate()));
            assert_eq!(got, expected, "{range} /{prefix}");
        }
    }

    #[test]
    fn allocated_cidrs_are_left_out_and_released_ones_come_last() {
        let mut set = CidrSet::new(net("10.0.0.0/22"), 24).unwrap();
        assert!(set.occupy(&net("10.0.1.0/24")));
        assert!(!set.occupy(&net("10.9.0.0/24")) && !set.occupy(&net("10.0.0.0/25")), "not one of these parts");
        assert_eq!(shown(set.allocate()), "10.0.0.0/24");
        assert_eq!(shown(set.allocate()), "10.0.2.0/24");
        set.release(&net("10.0.0.0/24"));
        assert_eq!(shown(set.allocate()), "10.0.3.0/24");
        assert_eq!(shown(set.allocate()), "10.0.0.0/24");
        assert_eq!(shown(set.allocate()), "none");
    }

    #[test]
    fn parts_with_addresses_of_services_are_left_out() {
        for (service_range, expected) in [
            ("10.0.0.0/24", ["10.0.1.0/24", "10.0.2.0/24", "10.0.3.0/24"]),
            ("10.0.1.0/25", ["10.0.0.0/24", "10.0.2.0/24", "10.0.3.0/24"]),
            ("10.0.1.128/23", ["10.0.2.0/24", "10.0.3.0/24", "none"]),
            ("10.0.2.0/23", ["10.0.0.0/24", "10.0.1.0/24", "none"]),
            ("10.0.0.0/8", ["none", "none", "none"]),
            ("10.96.0.0/16", ["10.0.0.0/24", "10.0.1.0/24", "10.0.2.0/24"]),
            ("fd00::/112", ["10.0.0.0/24", "10.0.1.0/24", "10.0.2.0/24"]),
        ] {
            let mut set = CidrSet::new(net("10.0.0.0/22"), 24).unwrap();
            set.reserve(&net(service_range));
            set.release(&net("10.0.0.0/24"));
            assert_eq!([(); 3].map(|()| shown(set.allocate())), expected, "{service_range}");
        }
        let mut set = CidrSet::new(net("fd00:10::/56"), 64).unwrap();
        set.reserve(&net("fd00:10::5:0/112"));
        assert_eq!(shown(set.allocate()), "fd00:10:0:1::/64");
    }

    #[test]
    fn impossible_sizes_are_refused() {
        for (range, prefix) in [("10.0.0.0/16", 8), ("10.0.0.0/8", 25), ("10.0.0.0/16", 33), ("fd00::/40", 64)] {
            assert!(CidrSet::new(net(range), prefix).is_err(), "{range} /{prefix}");
        }
    }
}
