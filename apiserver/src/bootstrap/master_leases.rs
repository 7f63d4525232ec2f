//! `MasterLease`: the key by which an API server shows the other servers of its store that it runs.
//!
//! Each server writes a key of its own with a time to live, and renews it well before that has passed. The key of a
//! killed server expires. Corresponds to pkg/controlplane/reconcilers/lease.go, and has the same keys and durations.
//!
//! ```text
//!   /registry/masterleases/10.0.0.1   {"apiVersion":"v1","kind":"Endpoints", … "ip":"10.0.0.1", … "port":6443 …}
//!   /registry/masterleases/10.0.0.2   …
//! ```
//!
//! The annotations of a lease are the server's flags, see [`super::shared_flags`].
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
/// Time after which a lease expires, unless it is renewed.
const TTL: Duration = Duration::from_secs(15);
/// Attempts at one write. An attempt fails when another server writes the key at the same time.
const ATTEMPTS: usize = 8;

/// Address at which clients reach a server.
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

/// The content of a server's key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lease {
    pub address: Address,
    /// The flags that should be equal on all servers.
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

    /// Reads a lease; `None` if the value is not a lease.
    fn parse(value: &[u8]) -> Option<Self> {
        let mut value: Value = serde_json::from_slice(value).ok()?;
        let flags = serde_json::from_value(value["metadata"]["annotations"].take()).unwrap_or_default();
        let subset = value.pointer("/subsets/0")?;
        let ip = subset.pointer("/addresses/0/ip")?.as_str()?.parse().ok()?;
        let port = subset.pointer("/ports/0/port")?.as_u64()?;
        Some(Self { address: Address { ip, port: u16::try_from(port).ok()? }, flags })
    }
}

/// Returns the leases that have not expired, ordered by address.
async fn current_leases(storage: &dyn Storage) -> registry::Result<Vec<Lease>> {
    let range = storage.range(RangeRequest::prefix(PREFIX)).await?;
    let mut leases: Vec<_> = range.entries.iter().filter_map(|entry| Lease::parse(&entry.value)).collect();
    leases.sort_unstable();
    Ok(leases)
}

/// This server's lease.
#[derive(Debug)]
pub struct MasterLease {
    storage: Arc<dyn Storage>,
    own: Lease,
    /// Server that last held the lease of this server's IP address. Logged when it changes.
    address_holder: Mutex<Option<Address>>,
    /// Differences between the flags of other servers and this one's that were last logged.
    logged_differences: Mutex<BTreeMap<Address, Vec<String>>>,
}

impl MasterLease {
    pub fn new(storage: Arc<dyn Storage>, own: Lease) -> Self {
        Self { storage, own, address_holder: Mutex::default(), logged_differences: Mutex::default() }
    }

    /// Returns the current leases of all servers, ordered by address.
    pub async fn current_leases(&self) -> registry::Result<Vec<Lease>> {
        current_leases(&*self.storage).await
    }

    /// Logs the servers whose flags differ from this one's, each difference once.
    pub fn compare(&self, leases: &[Lease]) {
        let others = leases.iter().filter(|lease| lease.address != self.own.address);
        let differing = others.map(|lease| (lease.address, differences(&self.own.flags, &lease.flags)));
        let differing: BTreeMap<_, _> = differing.filter(|(_, differences)| !differences.is_empty()).collect();
        let mut logged = self.logged_differences.lock();
        for (address, differences) in differing.iter().filter(|(address, now)| logged.get(address) != Some(now)) {
            tracing::warn!(
                "another API server, at {address}, has other flags: {}. What a client gets depends on whom it asks",
                differences.join(", ")
            );
        }
        *logged = differing;
    }

    /// Renews the lease, unless another server holds the lease of this IP address.
    pub async fn renew(&self) -> registry::Result<()> {
        let key = self.own.address.key();
        for _ in 0..ATTEMPTS {
            let held = self.storage.get(&key).await?.entry;
            let holder = held.as_ref().and_then(|entry| Lease::parse(&entry.value));
            if let Some(other) = holder.filter(|holder| holder.address != self.own.address) {
                self.note_holder(Some(other.address));
                return Ok(());
            }
            let expected = held.map_or(0, |entry| entry.mod_revision);
            let value = to_canonical(&self.own.to_value()).into();
            let outcome = self.storage.update(&key, expected, value, Some(TTL)).await?;
            if matches!(outcome, Outcome::Written { .. }) {
                self.note_holder(None);
                return Ok(());
            }
        }
        Err(Status::internal(format!("{key} is written by others all the time")).into())
    }

    /// Deletes the lease, so that the other servers do not have to wait until it expires.
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

    /// Remembers which other server holds the lease of this IP address. Logs a change.
    fn note_holder(&self, other: Option<Address>) {
        let Address { ip, port } = self.own.address;
        match (std::mem::replace(&mut *self.address_holder.lock(), other), other) {
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
        current_leases(storage).await.unwrap().iter().map(|lease| lease.address).collect()
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
