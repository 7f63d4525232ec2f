//! `MasterLease`: how API servers on one store know of each other.
//!
//! Each writes a key of its own, with a time to live, and renews it well before that has passed. Who is listed is
//! alive; who was killed is gone when its time is over. Corresponds to pkg/controlplane/reconcilers/lease.go, with its
//! keys and its numbers.
//!
//! ```text
//!   /registry/masterleases/10.0.0.1   {"apiVersion":"v1","kind":"Endpoints", … "ip":"10.0.0.1", … "port":6443 …}
//!   /registry/masterleases/10.0.0.2   …
//! ```
//!
//! The annotations of a lease are flags, see [`super::shared_flags`].
//!
//! Deviation: a lease names its server's port too, where Kubernetes trusts that all servers have the same one. A server
//! whose address is held by a living one on another port leaves it alone, so that two servers on one machine do not
//! take turns; it takes the address over when that lease has ended.

use super::shared_flags::{Flags, differences};
use parking_lot::Mutex;
use proto::Status;
use proto::wire::json::to_canonical;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use storage::{Outcome, RangeRequest, Storage};

const PREFIX: &str = "/registry/masterleases/";
/// How long a server counts as alive after it was last heard of.
const TTL: Duration = Duration::from_secs(15);
/// Rounds of one write against others; each lost one means that another server won.
const ATTEMPTS: usize = 8;

/// Where a server is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address {
    pub ip: IpAddr,
    pub port: u16,
}

impl Address {
    fn key(&self) -> String {
        format!("{PREFIX}{}", self.ip)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        SocketAddr::new(self.ip, self.port).fmt(f)
    }
}

/// What a server writes down.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lease {
    pub address: Address,
    /// As far as others should have the same.
    pub flags: Flags,
}

impl Lease {
    fn to_value(&self) -> Value {
        let ip = self.address.ip.to_string();
        json!({
            "apiVersion": "v1",
            "kind": "Endpoints",
            "metadata": {"name": ip, "annotations": self.flags},
            "subsets": [{"addresses": [{"ip": ip}], "ports": [{"port": self.address.port}]}],
        })
    }

    /// None: the key holds something else.
    fn parse(value: &[u8]) -> Option<Self> {
        let mut value: Value = serde_json::from_slice(value).ok()?;
        let flags = serde_json::from_value(value["metadata"]["annotations"].take()).unwrap_or_default();
        let subset = value.pointer("/subsets/0")?;
        let ip = subset.pointer("/addresses/0/ip")?.as_str()?.parse().ok()?;
        let port = subset.pointer("/ports/0/port")?.as_u64()?;
        Some(Self { address: Address { ip, port: u16::try_from(port).ok()? }, flags })
    }
}

/// Everybody who is alive, in order.
pub async fn living(storage: &dyn Storage) -> registry::Result<Vec<Lease>> {
    let range = storage.range(RangeRequest::prefix(PREFIX)).await?;
    let mut living: Vec<_> = range.entries.iter().filter_map(|entry| Lease::parse(&entry.value)).collect();
    living.sort_unstable();
    Ok(living)
}

/// This server's own.
#[derive(Debug)]
pub struct MasterLease {
    storage: Arc<dyn Storage>,
    own: Lease,
    /// Who else was last seen at this server's address: told once.
    in_the_way: Mutex<Option<Address>>,
    /// What was last told of each server that has other flags.
    told: Mutex<BTreeMap<Address, Vec<String>>>,
}

impl MasterLease {
    pub fn new(storage: Arc<dyn Storage>, own: Lease) -> Self {
        Self { storage, own, in_the_way: Mutex::default(), told: Mutex::default() }
    }

    /// Tells once of each other server whose flags do not agree with this one's.
    pub fn compare(&self, living: &[Lease]) {
        let others = living.iter().filter(|lease| lease.address != self.own.address);
        let differing = others.map(|lease| (lease.address, differences(&self.own.flags, &lease.flags)));
        let differing: BTreeMap<_, _> = differing.filter(|(_, differences)| !differences.is_empty()).collect();
        let mut told = self.told.lock();
        for (address, differences) in differing.iter().filter(|(address, now)| told.get(address) != Some(now)) {
            tracing::warn!(
                "another API server, at {address}, has other flags: {}. What a client gets depends on whom it asks",
                differences.join(", ")
            );
        }
        *told = differing;
    }

    /// Lives on for another while, unless another server has this address.
    pub async fn renew(&self) -> registry::Result<()> {
        let key = self.own.address.key();
        for _ in 0..ATTEMPTS {
            let held = self.storage.get(&key).await?.entry;
            let holder = held.as_ref().and_then(|entry| Lease::parse(&entry.value));
            if let Some(other) = holder.filter(|holder| holder.address != self.own.address) {
                self.note(Some(other.address));
                return Ok(());
            }
            let expected = held.map_or(0, |entry| entry.mod_revision);
            let value = to_canonical(&self.own.to_value()).into();
            let outcome = self.storage.update(&key, expected, value, Some(TTL)).await?;
            if matches!(outcome, Outcome::Written { .. }) {
                self.note(None);
                return Ok(());
            }
        }
        Err(Status::internal(format!("{key} is written by others all the time")).into())
    }

    /// The end of a clean stop: nobody has to wait until its time is over.
    pub async fn give_up(&self) -> registry::Result<()> {
        let key = self.own.address.key();
        for _ in 0..ATTEMPTS {
            let held = self.storage.get(&key).await?.entry;
            let is_own = |value: &[u8]| Lease::parse(value).is_some_and(|lease| lease.address == self.own.address);
            let Some(own) = held.filter(|entry| is_own(&entry.value)) else { return Ok(()) };
            let outcome = self.storage.delete(&key, own.mod_revision).await?;
            if matches!(outcome, Outcome::Written { .. }) {
                return Ok(());
            }
        }
        Ok(())
    }

    fn note(&self, other: Option<Address>) {
        let Address { ip, port } = self.own.address;
        match (std::mem::replace(&mut *self.in_the_way.lock(), other), other) {
            (before, Some(other)) if before != Some(other) => tracing::warn!(
                "another API server, on port {}, is at {ip}: as long as it lives, the kubernetes Service leads there \
                 and not to port {port} (--advertise-address gives each an address of its own)",
                other.port
            ),
            (Some(_), None) => tracing::info!("the kubernetes Service leads to {ip}, port {port}, from now on"),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use component_base::env::Env;
    use storage::memory::Memory;

    fn lease(ip: &str, port: u16) -> Lease {
        Lease { address: Address { ip: ip.parse().unwrap(), port }, flags: Flags::new() }
    }

    async fn who_lives(storage: &dyn Storage) -> Vec<Address> {
        living(storage).await.unwrap().iter().map(|lease| lease.address).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn who_renews_lives_and_who_does_not_is_gone() {
        let env = Env::simulated(1);
        let storage: Arc<dyn Storage> = Memory::new(&env);
        let own = |ip, port| MasterLease::new(storage.clone(), lease(ip, port));
        let (a, b) = (own("10.0.0.1", 6443), own("10.0.0.2", 6443));
        b.renew().await.unwrap();
        for _ in 0..3 {
            a.renew().await.unwrap();
            env.sleep(Duration::from_secs(10)).await;
        }
        assert_eq!(who_lives(&*storage).await, [a.own.address]);
        b.renew().await.unwrap();
        assert_eq!(who_lives(&*storage).await, [a.own.address, b.own.address]);
        a.give_up().await.unwrap();
        assert_eq!(who_lives(&*storage).await, [b.own.address]);
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_changes_hands_when_its_lease_has_ended() {
        let env = Env::simulated(1);
        let storage: Arc<dyn Storage> = Memory::new(&env);
        let [first, second] = [6443, 6444].map(|port| MasterLease::new(storage.clone(), lease("127.0.0.1", port)));
        first.renew().await.unwrap();
        second.renew().await.unwrap();
        second.give_up().await.unwrap();
        assert_eq!(who_lives(&*storage).await, [first.own.address], "it is not the other's to take");
        env.sleep(TTL * 2).await;
        second.renew().await.unwrap();
        first.renew().await.unwrap();
        assert_eq!(who_lives(&*storage).await, [second.own.address]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_no_lease_counts_for_nothing_and_is_replaced() {
        let env = Env::simulated(1);
        let storage: Arc<dyn Storage> = Memory::new(&env);
        let own = MasterLease::new(storage.clone(), lease("10.0.0.1", 6443));
        for (name, value) in [("10.0.0.1", "{"), ("10.0.0.2", r#"{"subsets":[]}"#)] {
            storage.create(&format!("{PREFIX}{name}"), value.into(), None).await.unwrap();
        }
        assert_eq!(who_lives(&*storage).await, []);
        own.renew().await.unwrap();
        assert_eq!(who_lives(&*storage).await, [own.own.address]);
    }
}
