//! The repair loop: makes the reserved addresses and node ports match those that Services use.
//!
//! A server can die between reserving an address and storing the Service, or between deleting the Service and releasing
//! its address. Both leave a reservation that no Service uses. The loop releases it when it was unused and unchanged in
//! several rounds: no write takes that long. An address that names a Service which does not use it counts as unused. The loop
//! reserves what a Service uses without a reservation.
//! Corresponds to pkg/registry/core/service/ipallocator/controller and portallocator/controller.
//!
//! ```text
//!   round 1   10.96.3.7 reserved at revision 812, used by no Service   unused in 1 round
//!   round 2   the same, still at revision 812                          unused in 2 rounds
//!   round 3   the same                                                 released, if it is still at revision 812
//! ```

mod events;

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

/// Time between two rounds, as in Kubernetes. Requests time out much earlier.
const PERIOD: Duration = Duration::from_secs(180);
/// Pause after a failed round. It is short, because the server is not ready before one round has succeeded.
const RETRY_PERIOD: Duration = Duration::from_secs(1);
/// Number of rounds in which a reservation must be unused before it is released.
const ROUNDS: u32 = 3;
/// Label of the addresses that the allocator creates. The loop leaves addresses without it alone.
const MANAGED_BY: &str = "ipaddress.kubernetes.io/managed-by";

/// The namespace and name of a Service.
type Service = (String, String);

/// A reserved address or node port.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Reservation {
    /// The revision at which it was written.
    revision: u64,
    /// The Service that an address names.
    holder: Option<Service>,
}

/// The state that a round compares.
#[derive(Debug, Default)]
struct Observed {
    reserved: BTreeMap<Reserved, Reservation>,
    /// The addresses and ports in use, each with its Services.
    used: BTreeMap<Reserved, Vec<Service>>,
}

/// Unused reservations: the revision of each, and the number of rounds in which it was unused.
type Unused = BTreeMap<Reserved, (u64, u32)>;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Action {
    Reserve(Reserved, Service),
    /// Release the reservation if it is still the same.
    Release(Reserved, Reservation),
    /// Warn that several Services use the same address or port. All but the first must be recreated.
    Conflict(Reserved, Vec<Service>),
    /// Warn that no ServiceCIDR has the address, or that this server's flags do not allow the port: the flags have changed, or
    /// another server's differ.
    OutOfRange(Reserved, Service),
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |(namespace, name): &Service| format!("{namespace}/{name}");
        match self {
            Self::Reserve(what, by) => write!(f, "{what} is used by Service {} and was not reserved", name(by)),
            Self::Release(what, _) => {
                write!(f, "{what} was reserved and is not used by the Service it was reserved for")
            }
            Self::Conflict(what, by) => {
                let names: Vec<String> = by.iter().map(name).collect();
                write!(f, "{what} is used by several Services: {}; make all but one of them anew", names.join(", "))
            }
            Self::OutOfRange(what, by) => {
                let range = match what {
                    Reserved::Address(_) => "every ServiceCIDR",
                    Reserved::NodePort(_) => "this server's --service-node-port-range",
                };
                write!(f, "{what} of Service {} is outside {range}", name(by))
            }
        }
    }
}

/// Plans one round. `unused` is carried from round to round.
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
            let holder = observed.reserved.get(what).and_then(|reservation| reservation.holder.as_ref());
            let mut services = services.clone();
            services.sort_by_key(|service| Some(service) != holder);
            actions.push(Action::Conflict(*what, services));
        }
        if !observed.reserved.contains_key(what) {
            actions.push(Action::Reserve(*what, services[0].clone()));
        }
    }
    let before = std::mem::take(unused);
    for (what, reservation) in &observed.reserved {
        let services = observed.used.get(what).map_or(&[][..], Vec::as_slice);
        let is_right = match &reservation.holder {
            Some(holder) => services.contains(holder),
            None => !services.is_empty(),
        };
        if is_right {
            continue;
        }
        let revision = reservation.revision;
        let seen = before.get(what).filter(|(at, _)| *at == revision).map_or(0, |(_, rounds)| *rounds) + 1;
        if seen < ROUNDS {
            unused.insert(*what, (revision, seen));
        } else {
            actions.push(Action::Release(*what, reservation.clone()));
            actions.extend(services.first().map(|service| Action::Reserve(*what, service.clone())));
        }
    }
    actions
}

/// Reads reservations first, then Services. A Service reserves before it is stored, so this order never finds the
/// reservation without its Service, except while a write is under way.
async fn observe(registry: &Registry) -> Result<Observed> {
    let mut observed = Observed::default();
    let addresses = registry.stored_row_of("networking.k8s.io", "ipaddresses")?;
    for (_, object) in addresses.cacher.read(Freshness::Latest).await?.iter() {
        let value = object.peek();
        if value["metadata"]["labels"][MANAGED_BY] == strategy::allocation::MANAGER
            && let Ok(address) = object.index.name.parse()
        {
            let parent = |field: &str| value["spec"]["parentRef"][field].as_str().unwrap_or_default().to_owned();
            let holder = Some((parent("namespace"), parent("name")));
            observed.reserved.insert(Reserved::Address(address), Reservation { revision: object.revision, holder });
        }
    }
    for entry in registry.storage.range(RangeRequest::prefix(NODE_PORTS)).await?.entries {
        if let Ok(port) = entry.key[NODE_PORTS.len()..].parse() {
            let reservation = Reservation { revision: entry.mod_revision, holder: None };
            observed.reserved.insert(Reserved::NodePort(port), reservation);
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
        Action::Release(what, reservation) => {
            let key = registry.reservation_key(what)?;
            registry.storage.delete(&key, reservation.revision).await.map(|_| ()).map_err(Error::from)
        }
        Action::Conflict(..) | Action::OutOfRange(..) => Ok(()),
    }
}

/// State that is carried from round to round.
#[derive(Debug, Default)]
pub struct Repair {
    unused: Unused,
    /// The warnings of the last round. Each is logged once, because only the cluster's operator can act on it.
    warned: BTreeSet<String>,
}

impl Repair {
    pub async fn round(&mut self, registry: &Registry) -> Result<()> {
        let observed = observe(registry).await?;
        let mut warned = BTreeSet::new();
        let network = registry.whole_service_network();
        for action in plan(&observed, &network, &mut self.unused) {
            let text = action.to_string();
            events::record(registry, &action, &network).await;
            match action {
                Action::Reserve(..) | Action::Release(..) => tracing::info!("repaired: {text}"),
                Action::Conflict(..) | Action::OutOfRange(..) => {
                    if !self.warned.contains(&text) {
                        tracing::warn!("{text}");
                    }
                    warned.insert(text);
                }
            }
            apply(registry, &action).await?;
        }
        self.warned = warned;
        Ok(())
    }
}

/// Repairs at the start and then periodically until shutdown. Calls `succeeded` after each round that succeeds.
pub async fn run(registry: Arc<Registry>, succeeded: impl Fn() + Send + Sync) {
    let shutdown = registry.env.shutdown().clone();
    let mut repair = Repair::default();
    for (group, resource) in [("networking.k8s.io", "ipaddresses"), ("", "services")] {
        // Without the resource there are no reservations.
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
                RETRY_PERIOD
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
        ServiceNetwork::new(&["10.0.0.0/24", "fd00::/112"].map(|range| range.parse().unwrap()), 30000..=30010)
    }

    fn address(text: &str) -> Reserved {
        Reserved::Address(text.parse().unwrap())
    }

    fn service(name: &str) -> Service {
        ("default".to_owned(), name.to_owned())
    }

    fn unnamed(revision: u64) -> Reservation {
        Reservation { revision, holder: None }
    }

    #[test]
    fn a_reservation_unused_in_enough_rounds_is_released() {
        let what = Reserved::NodePort(30000);
        let mut unused = Unused::new();
        let mut round = |reserved: &[(Reserved, u64)], used: &[Reserved]| {
            let used = used.iter().map(|what| (*what, vec![service("a")])).collect();
            let reserved = reserved.iter().map(|(what, revision)| (*what, unnamed(*revision))).collect();
            plan(&Observed { reserved, used }, &network(), &mut unused)
        };
        assert_eq!(round(&[(what, 7)], &[]), []);
        assert_eq!(round(&[(what, 7)], &[]), []);
        assert_eq!(round(&[(what, 9)], &[]), [], "somebody else has reserved it since");
        assert_eq!(round(&[(what, 9)], &[]), []);
        assert_eq!(round(&[(what, 9)], &[what]), [], "it is used after all");
        for _ in 0..2 {
            assert_eq!(round(&[(what, 9)], &[]), []);
        }
        assert_eq!(round(&[(what, 9)], &[]), [Action::Release(what, unnamed(9))]);
    }

    #[test]
    fn an_address_that_names_another_service_is_reserved_anew() {
        let what = address("10.0.0.9");
        let of = |name: &str| Reservation { revision: 7, holder: Some(service(name)) };
        let mut unused = Unused::new();
        let mut round = |holder: &str, users: &[&str]| {
            let used = BTreeMap::from([(what, users.iter().map(|name| service(name)).collect())]);
            plan(&Observed { reserved: BTreeMap::from([(what, of(holder))]), used }, &network(), &mut unused)
        };
        assert_eq!(round("a", &["a"]), []);
        assert_eq!(round("b", &["a"]), []);
        assert_eq!(round("b", &["a"]), []);
        assert_eq!(round("b", &["a"]), [Action::Release(what, of("b")), Action::Reserve(what, service("a"))]);
        assert_eq!(round("b", &["a", "b"]), [Action::Conflict(what, vec![service("b"), service("a")])]);
    }

    #[test]
    fn what_is_used_is_reserved_and_what_cannot_be_repaired_is_reported() {
        let (inside, outside) = (address("10.0.0.9"), address("10.9.0.9"));
        let (second, far) = (address("fd00::9"), address("fd01::9"));
        let observed = Observed {
            reserved: BTreeMap::from([(outside, unnamed(3)), (far, unnamed(4))]),
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
                "address 10.9.0.9 of Service default/c is outside every ServiceCIDR",
                "address fd00::9 is used by Service default/a and was not reserved",
                "address fd01::9 of Service default/d is outside every ServiceCIDR",
            ]
        );
    }
}
