//! The repair loop: what is reserved and what Services use are brought together again.
//!
//! A server that died between reserving an address and storing the Service, or between deleting the Service and letting
//! its address go, leaves a reservation that nobody uses. One that was seen so in several rounds, unchanged, is let go:
//! no write takes that long. What a Service uses and nobody has reserved is reserved for it.
//! Corresponds to pkg/registry/core/service/ipallocator/controller and portallocator/controller.
//!
//! ```text
//!   round 1   10.96.3.7 reserved at revision 812, used by nobody     seen once
//!   round 2   the same, at revision 812 still                        seen twice
//!   round 3   the same                                               let go, if it is at revision 812 even now
//! ```

use crate::{Error, Registry, Result};
use cacher::Freshness;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use storage::RangeRequest;
use strategy::Reservations;
use strategy::allocation::{Holder, NODE_PORTS, Reserved, ServiceNetwork};
use strategy::kinds::service::held_by;
use strategy::object_meta::text;

/// Time between two rounds, as in Kubernetes. A request is given up long before.
const PERIOD: Duration = Duration::from_secs(180);
/// Pause after a round that did not succeed: the server is not ready before one has.
const AGAIN: Duration = Duration::from_secs(1);
/// Rounds in which a reservation has to be seen unused before it is let go.
const ROUNDS: u32 = 3;
/// What the allocator writes into its addresses; those of other writers are theirs to look after.
const MANAGED_BY: &str = "ipaddress.kubernetes.io/managed-by";

/// Namespace and name of a Service.
type Service = (String, String);

/// What there is: reservations with the revision that wrote them, and who uses what.
#[derive(Debug, Default)]
struct Observed {
    reserved: BTreeMap<Reserved, u64>,
    used: BTreeMap<Reserved, Vec<Service>>,
}

/// Reservations that nobody used: at which revision, and in how many rounds.
type Unused = BTreeMap<Reserved, (u64, u32)>;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Action {
    Reserve(Reserved, Service),
    /// Unless it was written since.
    Release(Reserved, u64),
    /// Two Services hold the same: one of them has to be made anew.
    Conflict(Reserved, Vec<Service>),
    /// Not what this server's flags allow: another server has other flags, or an earlier one had.
    OutOfRange(Reserved, Service),
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |(namespace, name): &Service| format!("{namespace}/{name}");
        match self {
            Self::Reserve(what, by) => write!(f, "{what} is used by Service {} and was not reserved", name(by)),
            Self::Release(what, _) => write!(f, "{what} was reserved and is used by no Service"),
            Self::Conflict(what, by) => {
                let names: Vec<String> = by.iter().map(name).collect();
                write!(f, "{what} is used by several Services: {}; make all but one of them anew", names.join(", "))
            }
            Self::OutOfRange(what, by) => {
                let flag = match what {
                    Reserved::Address(_) => "--service-cluster-ip-range",
                    Reserved::NodePort(_) => "--service-node-port-range",
                };
                write!(f, "{what} of Service {} is outside this server's {flag}", name(by))
            }
        }
    }
}

/// One round. `unused` is carried from round to round.
fn plan(observed: &Observed, network: &ServiceNetwork, unused: &mut Unused) -> Vec<Action> {
    let mut actions = Vec::new();
    for (what, services) in &observed.used {
        let allowed = match what {
            Reserved::Address(address) => network.contains(*address),
            Reserved::NodePort(port) => network.node_ports.contains(port),
        };
        if !allowed {
            actions.push(Action::OutOfRange(*what, services[0].clone()));
        }
        if services.len() > 1 {
            actions.push(Action::Conflict(*what, services.clone()));
        }
        if !observed.reserved.contains_key(what) {
            actions.push(Action::Reserve(*what, services[0].clone()));
        }
    }
    let before = std::mem::take(unused);
    for (what, revision) in &observed.reserved {
        if observed.used.contains_key(what) {
            continue;
        }
        let seen = before.get(what).filter(|(at, _)| at == revision).map_or(0, |(_, rounds)| *rounds) + 1;
        if seen < ROUNDS {
            unused.insert(*what, (*revision, seen));
        } else {
            actions.push(Action::Release(*what, *revision));
        }
    }
    actions
}

/// Reservations are read before Services: a Service reserves before it is stored, so none that is there is missed.
async fn observe(registry: &Registry) -> Result<Observed> {
    let mut observed = Observed::default();
    let addresses = registry.stored_row_of("networking.k8s.io", "ipaddresses")?;
    for (_, object) in addresses.cacher.read(Freshness::Latest).await?.iter() {
        if object.peek()["metadata"]["labels"][MANAGED_BY] == strategy::allocation::MANAGER
            && let Ok(address) = object.index.name.parse()
        {
            observed.reserved.insert(Reserved::Address(address), object.revision);
        }
    }
    for entry in registry.storage.range(RangeRequest::prefix(NODE_PORTS)).await?.entries {
        if let Ok(port) = entry.key[NODE_PORTS.len()..].parse() {
            observed.reserved.insert(Reserved::NodePort(port), entry.mod_revision);
        }
    }
    let services = registry.stored_row_of("", "services")?;
    for (_, object) in services.cacher.read(Freshness::Latest).await?.iter() {
        let service = object.peek();
        let name = (text(&service, "namespace").to_owned(), text(&service, "name").to_owned());
        for what in held_by(&service) {
            observed.used.entry(what).or_default().push(name.clone());
        }
    }
    Ok(observed)
}

async fn apply(registry: &Registry, action: &Action) -> Result<()> {
    match action {
        Action::Reserve(what, (namespace, name)) => {
            Ok(registry.reserve(what, Holder { namespace, name }, false).await.map(|_| ())?)
        }
        Action::Release(what, revision) => {
            let key = registry.reservation_key(what)?;
            registry.storage.delete(&key, *revision).await.map(|_| ()).map_err(Error::from)
        }
        Action::Conflict(..) | Action::OutOfRange(..) => Ok(()),
    }
}

/// What is carried from round to round.
#[derive(Debug, Default)]
pub struct Repair {
    unused: Unused,
    /// What nobody but the cluster's owner can mend is told once.
    told: BTreeSet<String>,
}

impl Repair {
    pub async fn round(&mut self, registry: &Registry) -> Result<()> {
        let observed = observe(registry).await?;
        let mut told = BTreeSet::new();
        for action in plan(&observed, &registry.service_network(), &mut self.unused) {
            let text = action.to_string();
            match action {
                Action::Reserve(..) | Action::Release(..) => tracing::info!("repaired: {text}"),
                Action::Conflict(..) | Action::OutOfRange(..) => {
                    if !self.told.contains(&text) {
                        tracing::warn!("{text}");
                    }
                    told.insert(text);
                }
            }
            apply(registry, &action).await?;
        }
        self.told = told;
        Ok(())
    }
}

/// Repairs at the start, and then again and again until shutdown. Whoever waits for the first success is told.
pub async fn run(registry: Arc<Registry>, succeeded: impl Fn() + Send + Sync) {
    let shutdown = registry.env.shutdown().clone();
    let mut repair = Repair::default();
    for (group, resource) in [("networking.k8s.io", "ipaddresses"), ("", "services")] {
        // Without the resource nothing is held.
        let Ok(row) = registry.stored_row_of(group, resource) else { return succeeded() };
        if !row.cacher.ready().await {
            return;
        }
    }
    loop {
        let pause = match repair.round(&registry).await {
            Ok(()) => {
                succeeded();
                PERIOD
            }
            Err(status) => {
                tracing::warn!(error = %status, "what Services hold could not be checked");
                AGAIN
            }
        };
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            () = registry.env.sleep(pause) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network() -> ServiceNetwork {
        let ranges = ["10.0.0.0/24", "fd00::/112"].map(|range| range.parse().unwrap());
        ServiceNetwork { ranges: ranges.to_vec(), node_ports: 30000..=30010 }
    }

    fn address(text: &str) -> Reserved {
        Reserved::Address(text.parse().unwrap())
    }

    fn service(name: &str) -> Service {
        ("default".to_owned(), name.to_owned())
    }

    #[test]
    fn what_nobody_uses_is_let_go_once_it_was_seen_so_often_enough() {
        let what = Reserved::NodePort(30000);
        let mut unused = Unused::new();
        let mut round = |reserved: &[(Reserved, u64)], used: &[Reserved]| {
            let used = used.iter().map(|what| (*what, vec![service("a")])).collect();
            plan(&Observed { reserved: reserved.iter().copied().collect(), used }, &network(), &mut unused)
        };
        assert_eq!(round(&[(what, 7)], &[]), []);
        assert_eq!(round(&[(what, 7)], &[]), []);
        assert_eq!(round(&[(what, 9)], &[]), [], "somebody else has reserved it since");
        assert_eq!(round(&[(what, 9)], &[]), []);
        assert_eq!(round(&[(what, 9)], &[what]), [], "it is used after all");
        for _ in 0..2 {
            assert_eq!(round(&[(what, 9)], &[]), []);
        }
        assert_eq!(round(&[(what, 9)], &[]), [Action::Release(what, 9)]);
    }

    #[test]
    fn what_is_used_is_reserved_and_what_cannot_be_mended_is_told() {
        let (inside, outside) = (address("10.0.0.9"), address("10.9.0.9"));
        let (second, far) = (address("fd00::9"), address("fd01::9"));
        let observed = Observed {
            reserved: BTreeMap::from([(outside, 3), (far, 4)]),
            used: BTreeMap::from([
                (inside, vec![service("a"), service("b")]),
                (outside, vec![service("c")]),
                (second, vec![service("a")]),
                (far, vec![service("d")]),
            ]),
        };
        let actions = plan(&observed, &network(), &mut Unused::new());
        let lines: Vec<String> = actions.iter().map(ToString::to_string).collect();
        assert_eq!(
            lines,
            [
                "address 10.0.0.9 is used by several Services: default/a, default/b; make all but one of them anew",
                "address 10.0.0.9 is used by Service default/a and was not reserved",
                "address 10.9.0.9 of Service default/c is outside this server's --service-cluster-ip-range",
                "address fd00::9 is used by Service default/a and was not reserved",
                "address fd01::9 of Service default/d is outside this server's --service-cluster-ip-range",
            ]
        );
    }
}
