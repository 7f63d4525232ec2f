//! The pool of pod addresses of one node.
//!
//! Corresponds to the host-local IPAM plugin: the next free address after the last one given, so that an address
//! that has just been released is not given again at once.

use ipnet::IpNet;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The addresses of one range, and the pod that has each. Rebuilt from the pods' statuses when the process starts.
#[derive(Debug)]
pub struct PodAddresses {
    range: IpNet,
    by_uid: BTreeMap<String, IpAddr>,
    uid_of: BTreeMap<IpAddr, String>,
    last: u128,
}

impl PodAddresses {
    pub fn new(range: IpNet) -> Self {
        // The first host address belongs to the node's end of the bridge.
        let gateway = number(range.network()) + 1;
        Self { range, by_uid: BTreeMap::new(), uid_of: BTreeMap::new(), last: gateway }
    }

    pub fn range(&self) -> IpNet {
        self.range
    }

    /// Returns the first and last address for pods.
    pub fn bounds(&self) -> (IpAddr, IpAddr) {
        let (first, last) = (number(self.range.network()) + 1, number(self.range.broadcast()) - 1);
        (self.address(first), self.address(last.max(first)))
    }

    fn address(&self, number: u128) -> IpAddr {
        match self.range {
            IpNet::V4(_) => IpAddr::V4(Ipv4Addr::from(u32::try_from(number).unwrap_or(u32::MAX))),
            IpNet::V6(_) => IpAddr::V6(Ipv6Addr::from(number)),
        }
    }

    /// Returns the pod's address: the one it has, or the next free one. `None` when all are taken.
    pub fn allocate(&mut self, uid: &str) -> Option<IpAddr> {
        if let Some(address) = self.by_uid.get(uid) {
            return Some(*address);
        }
        let (first, end) = (number(self.range.network()) + 2, number(self.range.broadcast()));
        let after_last = (self.last + 1).max(first);
        let mut all = (after_last..end).chain(first..after_last.min(end));
        let free = all.find(|number| !self.uid_of.contains_key(&self.address(*number)))?;
        self.last = free;
        let address = self.address(free);
        self.add(uid, address);
        Some(address)
    }

    /// Records an address that a pod already has.
    pub fn add(&mut self, uid: &str, address: IpAddr) {
        if self.range.contains(&address) && !self.by_uid.contains_key(uid) {
            self.by_uid.insert(uid.to_owned(), address);
            self.uid_of.insert(address, uid.to_owned());
        }
    }

    /// Returns the uid of the pod that has an address.
    pub fn pod_at(&self, address: IpAddr) -> Option<String> {
        self.uid_of.get(&address).cloned()
    }

    /// Releases all addresses, and goes on after the last one that was given.
    pub fn release_all(&mut self) {
        self.by_uid.clear();
        self.uid_of.clear();
    }

    pub fn release(&mut self, uid: &str) {
        if let Some(address) = self.by_uid.remove(uid) {
            self.uid_of.remove(&address);
        }
    }
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(u32::from(address)),
        IpAddr::V6(address) => u128::from(address),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_go_round() {
        let mut pool = PodAddresses::new("10.244.1.0/29".parse().unwrap());
        let mut given = |uid: &str| pool.allocate(uid).map_or(0, |address| number(address) & 0xff);
        assert_eq!(["a", "b", "c", "d", "e", "f", "a"].map(&mut given), [2, 3, 4, 5, 6, 0, 2]);
        pool.release("b");
        pool.release("e");
        assert_eq!(pool.allocate("g").unwrap().to_string(), "10.244.1.3", "after the end comes the start");
        assert_eq!(pool.allocate("h").unwrap().to_string(), "10.244.1.6");
    }

    #[test]
    fn a_restarted_agent_gives_no_address_twice() {
        let mut pool = PodAddresses::new("10.244.1.0/24".parse().unwrap());
        pool.add("old", "10.244.1.2".parse().unwrap());
        pool.add("elsewhere", "10.244.9.9".parse().unwrap());
        assert_eq!(pool.allocate("new").unwrap().to_string(), "10.244.1.3");
        assert_eq!(pool.allocate("old").unwrap().to_string(), "10.244.1.2");
        assert_eq!(pool.allocate("elsewhere").unwrap().to_string(), "10.244.1.4");
    }

    #[test]
    fn the_other_family_is_larger() {
        let mut pool = PodAddresses::new("fd00:10:244:1::/64".parse().unwrap());
        pool.add("old", "fd00:10:244:1::2".parse().unwrap());
        pool.add("elsewhere", "10.244.9.9".parse().unwrap());
        assert_eq!(pool.allocate("new").unwrap().to_string(), "fd00:10:244:1::3");
        assert_eq!(pool.bounds().1.to_string(), "fd00:10:244:1:ffff:ffff:ffff:fffe");
    }
}
