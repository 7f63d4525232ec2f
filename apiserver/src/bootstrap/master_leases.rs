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
//! Deviation: a lease names its server's port too, where Kubernetes trusts that all servers have the same one. A server
//! whose address is held by a living one on another port leaves it alone, so that two servers on one machine do not
//! take turns; it takes the address over when that lease has ended.

use crate::registry::storage_failure;
use crate::storage::{Outcome, RangeRequest, Storage};
use parking_lot::Mutex;
use proto::Status;
use proto::wire::json::to_canonical;
use serde_json::{Value, json};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

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

    fn to_value(self) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "Endpoints",
            "metadata": {"name": self.ip.to_string()},
            "subsets": [{"addresses": [{"ip": self.ip.to_string()}], "ports": [{"port": self.port}]}],
        })
    }

    /// None: the key holds something else.
    fn parse(value: &[u8]) -> Option<Self> {
        let value: Value = serde_json::from_slice(value).ok()?;
        let subset = value.pointer("/subsets/0")?;
        let ip = subset.pointer("/addresses/0/ip")?.as_str()?.parse().ok()?;
        let port = subset.pointer("/ports/0/port")?.as_u64()?;
        Some(Self { ip, port: u16::try_from(port).ok()? })
    }
}

/// Everybody who is alive, in order.
pub async fn living(storage: &dyn Storage) -> Result<Vec<Address>, Status> {
    let range = storage.range(RangeRequest::prefix(PREFIX)).await.map_err(storage_failure)?;
    let mut living: Vec<_> = range.entries.iter().filter_map(|entry| Address::parse(&entry.value)).collect();
    living.sort_unstable();
    Ok(living)
}

/// This server's own.
#[derive(Debug)]
pub struct MasterLease {
    storage: Arc<dyn Storage>,
    own: Address,
    /// Who else was last seen at this server's address: told once.
    in_the_way: Mutex<Option<Address>>,
}

impl MasterLease {
    pub fn new(storage: Arc<dyn Storage>, own: Address) -> Self {
        Self { storage, own, in_the_way: Mutex::default() }
    }

    /// Lives on for another while, unless another server has this address.
    pub async fn renew(&self) -> Result<(), Status> {
        let key = self.own.key();
        for _ in 0..ATTEMPTS {
            let held = self.storage.get(&key).await.map_err(storage_failure)?.entry;
            let holder = held.as_ref().and_then(|entry| Address::parse(&entry.value));
            if let Some(other) = holder.filter(|holder| *holder != self.own) {
                self.note(Some(other));
                return Ok(());
            }
            let expected = held.map_or(0, |entry| entry.mod_revision);
            let value = to_canonical(&self.own.to_value()).into();
            let outcome = self.storage.update(&key, expected, value, Some(TTL)).await.map_err(storage_failure)?;
            if matches!(outcome, Outcome::Written { .. }) {
                self.note(None);
                return Ok(());
            }
        }
        Err(Status::internal(format!("{key} is written by others all the time")))
    }

    /// The end of a clean stop: nobody has to wait until its time is over.
    pub async fn give_up(&self) -> Result<(), Status> {
        let key = self.own.key();
        for _ in 0..ATTEMPTS {
            let held = self.storage.get(&key).await.map_err(storage_failure)?.entry;
            let Some(own) = held.filter(|entry| Address::parse(&entry.value) == Some(self.own)) else { return Ok(()) };
            let outcome = self.storage.delete(&key, own.mod_revision).await.map_err(storage_failure)?;
            if matches!(outcome, Outcome::Written { .. }) {
                return Ok(());
            }
        }
        Ok(())
    }

    fn note(&self, other: Option<Address>) {
        let Address { ip, port } = self.own;
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
    use crate::storage::memory::Memory;
    use component_base::env::Env;

    fn address(ip: &str, port: u16) -> Address {
        Address { ip: ip.parse().unwrap(), port }
    }

    #[tokio::test(start_paused = true)]
    async fn who_renews_lives_and_who_does_not_is_gone() {
        let env = Env::simulated(1);
        let storage: Arc<dyn Storage> = Memory::new(&env);
        let lease = |ip, port| MasterLease::new(storage.clone(), address(ip, port));
        let (a, b) = (lease("10.0.0.1", 6443), lease("10.0.0.2", 6443));
        b.renew().await.unwrap();
        for _ in 0..3 {
            a.renew().await.unwrap();
            env.sleep(Duration::from_secs(10)).await;
        }
        assert_eq!(living(&*storage).await.unwrap(), [a.own]);
        b.renew().await.unwrap();
        assert_eq!(living(&*storage).await.unwrap(), [a.own, b.own]);
        a.give_up().await.unwrap();
        assert_eq!(living(&*storage).await.unwrap(), [b.own]);
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_changes_hands_when_its_lease_has_ended() {
        let env = Env::simulated(1);
        let storage: Arc<dyn Storage> = Memory::new(&env);
        let [first, second] = [6443, 6444].map(|port| MasterLease::new(storage.clone(), address("127.0.0.1", port)));
        first.renew().await.unwrap();
        second.renew().await.unwrap();
        second.give_up().await.unwrap();
        assert_eq!(living(&*storage).await.unwrap(), [first.own], "it is not the other's to take");
        env.sleep(TTL * 2).await;
        second.renew().await.unwrap();
        first.renew().await.unwrap();
        assert_eq!(living(&*storage).await.unwrap(), [second.own]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_no_lease_counts_for_nothing_and_is_replaced() {
        let env = Env::simulated(1);
        let storage: Arc<dyn Storage> = Memory::new(&env);
        let lease = MasterLease::new(storage.clone(), address("10.0.0.1", 6443));
        for (name, value) in [("10.0.0.1", "{"), ("10.0.0.2", r#"{"subsets":[]}"#)] {
            storage.create(&format!("{PREFIX}{name}"), value.into(), None).await.unwrap();
        }
        assert_eq!(living(&*storage).await.unwrap(), []);
        lease.renew().await.unwrap();
        assert_eq!(living(&*storage).await.unwrap(), [lease.own]);
    }
}
