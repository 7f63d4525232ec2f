//! The pod addresses of one node.
//!
//! Corresponds to the host-local IPAM plugin: the next free address after the last one given, so that an address
//! that has just been released is not given again at once.

use ipnet::Ipv4Net;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;

/// Which pod has which address. Rebuilt from the pods' statuses when the process starts.
#[derive(Debug)]
pub struct PodAddresses {
    range: Ipv4Net,
    by_uid: BTreeMap<String, Ipv4Addr>,
    uid_of: BTreeMap<Ipv4Addr, String>,
    last: u32,
}

impl PodAddresses {
    pub fn new(range: Ipv4Net) -> Self {
        // The first host address is the node's end of the bridge.
        let gateway = u32::from(range.network()) + 1;
        Self { range, by_uid: BTreeMap::new(), uid_of: BTreeMap::new(), last: gateway }
    }

    pub fn range(&self) -> Ipv4Net {
        self.range
    }

    /// The pod's address: the one it has, or the next free one. `None` when all are taken.
    pub fn allocate(&mut self, uid: &str) -> Option<Ipv4Addr> {
        if let Some(address) = self.by_uid.get(uid) {
            return Some(*address);
        }
        let first = u32::from(self.range.network()) + 2;
        let end = u32::from(self.range.broadcast());
        let after_last = (self.last + 1).max(first);
        let free =
            (after_last..end).chain(first..after_last.min(end)).find(|a| !self.uid_of.contains_key(&(*a).into()))?;
        self.last = free;
        self.take(uid, free.into());
        Some(free.into())
    }

    /// Notes an address that a pod already has.
    pub fn take(&mut self, uid: &str, address: Ipv4Addr) {
        if self.range.contains(&address) && !self.by_uid.contains_key(uid) {
            self.by_uid.insert(uid.to_owned(), address);
            self.uid_of.insert(address, uid.to_owned());
        }
    }

    pub fn release(&mut self, uid: &str) {
        if let Some(address) = self.by_uid.remove(uid) {
            self.uid_of.remove(&address);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_go_round() {
        let mut pool = PodAddresses::new("10.244.1.0/29".parse().unwrap());
        let mut given = |uid: &str| pool.allocate(uid).map(|a| a.octets()[3]);
        assert_eq!(["a", "b", "c", "d", "e", "f", "a"].map(&mut given).map(|x| x.unwrap_or(0)), [2, 3, 4, 5, 6, 0, 2]);
        pool.release("b");
        pool.release("e");
        assert_eq!(pool.allocate("g").unwrap().octets()[3], 3, "after the end comes the start");
        assert_eq!(pool.allocate("h").unwrap().octets()[3], 6);
    }

    #[test]
    fn a_restarted_agent_gives_no_address_twice() {
        let mut pool = PodAddresses::new("10.244.1.0/24".parse().unwrap());
        pool.take("old", "10.244.1.2".parse().unwrap());
        pool.take("elsewhere", "10.244.9.9".parse().unwrap());
        assert_eq!(pool.allocate("new").unwrap().to_string(), "10.244.1.3");
        assert_eq!(pool.allocate("old").unwrap().to_string(), "10.244.1.2");
        assert_eq!(pool.allocate("elsewhere").unwrap().to_string(), "10.244.1.4");
    }
}
