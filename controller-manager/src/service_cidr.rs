//! The service-CIDR controller says that a ServiceCIDR is ready, and keeps a deleted one while Services need its addresses.
//!
//! The API server allocates addresses from all ServiceCIDRs that are ready (`apiserver/strategy/src/allocation/`).
//! Corresponds to pkg/controller/servicecidrs.

use client::reconcile::Reconciler;
use client::{Action, ApplyError, Client, Event, ListOptions, Lister, Patch, Plan, ReconcileError, WorkQueue};
use controller_base::actions;
use controller_base::clock;
use controller_base::context::Running;
use controller_base::descriptor::Setup;
use ipnet::IpNet;
use jiff::Timestamp;
use proto::Kind;
use proto::kinds::api::networking::v1::{IPAddress, ServiceCIDR};
use proto::kinds::metav1::Condition;
use serde_json::{Value, json};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

const FINALIZER: &str = "networking.k8s.io/service-cidr-finalizer";
/// Label of the addresses that the API server's allocator creates, with its value.
const MANAGED_BY: (&str, &str) = ("ipaddress.kubernetes.io/managed-by", "ipallocator.k8s.io");
/// Time for which a deleted ServiceCIDR stays in any case, so that every API server stops allocating from it before.
const GRACE_PERIOD: Duration = Duration::from_secs(10);
const WORKERS: usize = 5;

const READY: &str = "Ready";
const IS_READY: &str = "Kubernetes Service CIDR is ready";
const IS_NEEDED: &str =
    "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR";

struct Controller {
    service_cidrs: Lister<ServiceCIDR>,
    addresses: Lister<IPAddress>,
}

struct Observed {
    service_cidr: Arc<ServiceCIDR>,
    /// A Service has an address that no other ServiceCIDR contains. `false` unless the ServiceCIDR is being deleted.
    is_needed: bool,
}

pub fn start(setup: &Setup<'_>) -> Running {
    let queue = setup.queue();
    let service_cidrs: Lister<ServiceCIDR> = setup.lister();
    setup.on_event(&queue, {
        let service_cidrs = service_cidrs.clone();
        move |event: &Event<ServiceCIDR>, queue| {
            queue.add(event.object().key());
            add_deleted(&service_cidrs, queue);
        }
    });
    setup.on_event(&queue, {
        let service_cidrs = service_cidrs.clone();
        move |event: &Event<IPAddress>, queue| {
            if !matches!(event, Event::Updated { .. }) {
                add_deleted(&service_cidrs, queue);
            }
        }
    });
    setup.run(queue, WORKERS, Controller { service_cidrs, addresses: setup.lister() })
}

/// Adds the ServiceCIDRs that are being deleted: the event may have made one of them dispensable, or needed.
fn add_deleted(service_cidrs: &Lister<ServiceCIDR>, queue: &WorkQueue<String>) {
    service_cidrs.filter("", Kind::is_deleting).iter().for_each(|deleted| queue.add(deleted.key()));
}

fn ranges(service_cidr: &ServiceCIDR) -> Vec<IpNet> {
    let texts = service_cidr.spec.iter().filter_map(|spec| spec.cidrs.as_ref()).flatten();
    texts.filter_map(|text| text.parse().ok()).collect()
}

/// Returns the address, if the allocator reserved it for a Service.
fn reserved(address: &IPAddress) -> Option<IpAddr> {
    let labels = address.metadata.labels.as_ref()?;
    let is_reserved = labels.get(MANAGED_BY.0).is_some_and(|manager| manager == MANAGED_BY.1);
    is_reserved.then(|| address.name().parse().ok()).flatten()
}

/// Returns true if one of the addresses is in the ServiceCIDR, and in no other one that stays.
///
/// Deviation: in Kubernetes another ServiceCIDR that is being deleted counts too. Two with the same range, deleted at once,
/// then leave addresses outside every range.
fn is_needed<'a>(
    service_cidr: &ServiceCIDR,
    all: impl Iterator<Item = &'a ServiceCIDR>,
    mut addresses: impl Iterator<Item = IpAddr>,
) -> bool {
    let own = ranges(service_cidr);
    let others: Vec<IpNet> = all.filter(|other| !other.is_deleting()).flat_map(ranges).collect();
    if own.iter().all(|own| others.iter().any(|other| other.contains(own))) {
        return false;
    }
    let contain = |ranges: &[IpNet], address: &IpAddr| ranges.iter().any(|range| range.contains(address));
    addresses.any(|address| contain(&own, &address) && !contain(&others, &address))
}

fn has_finalizer(service_cidr: &ServiceCIDR) -> bool {
    service_cidr.metadata.finalizers.iter().flatten().any(|finalizer| finalizer == FINALIZER)
}

fn patch(service_cidr: &ServiceCIDR, metadata: &Value) -> Action {
    Action::patch::<ServiceCIDR>("", service_cidr.name(), Patch::Strategic(json!({"metadata": metadata})))
}

/// Sets the condition `Ready`, unless it is so already.
fn set_ready(
    service_cidr: &ServiceCIDR,
    (status, reason, message): (&str, &str, &str),
    now: Timestamp,
) -> Option<Action> {
    let condition = Condition {
        type_: READY.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        last_transition_time: clock::stamp(now),
        observed_generation: None,
    };
    let is_same = |other: &Condition| {
        let known = Condition { last_transition_time: condition.last_transition_time.clone(), ..other.clone() };
        known == condition
    };
    if service_cidr.status.iter().filter_map(|status| status.conditions.as_ref()).flatten().any(is_same) {
        return None;
    }
    let patch = Patch::Strategic(json!({"status": {"conditions": [condition]}}));
    Some(Action::patch_status::<ServiceCIDR>("", service_cidr.name(), patch))
}

fn plan(observed: &Observed, now: Timestamp) -> Plan {
    let service_cidr = &*observed.service_cidr;
    let Some(deleted) = &service_cidr.metadata.deletion_timestamp else {
        if !has_finalizer(service_cidr) {
            // Its event begins the next round. With both writes in one, that round could see the first without the second.
            return Plan::of([patch(service_cidr, &json!({"uid": service_cidr.uid(), "finalizers": [FINALIZER]}))]);
        }
        return Plan::of(set_ready(service_cidr, ("True", "", IS_READY), now));
    };
    if !has_finalizer(service_cidr) {
        return Plan::default();
    }
    if observed.is_needed {
        return Plan::of(set_ready(service_cidr, ("False", "Terminating", IS_NEEDED), now));
    }
    let remaining = GRACE_PERIOD.saturating_sub(clock::since(deleted.0, now));
    if !remaining.is_zero() {
        return Plan { requeue_after: Some(remaining), ..Plan::default() };
    }
    let metadata = json!({"uid": service_cidr.uid(), "$deleteFromPrimitiveList/finalizers": [FINALIZER]});
    Plan::of([patch(service_cidr, &metadata)])
}

impl Reconciler for Controller {
    type Observed = Observed;

    fn observe(&self, key: &str) -> Option<Observed> {
        let service_cidr = self.service_cidrs.by_key(key)?;
        let is_needed = service_cidr.is_deleting() && {
            let all = self.service_cidrs.filter("", |_| true);
            let addresses = self.addresses.filter("", |_| true);
            is_needed(&service_cidr, all.iter().map(|it| &**it), addresses.iter().filter_map(|it| reserved(it)))
        };
        Some(Observed { service_cidr, is_needed })
    }

    /// Asks the server for ServiceCIDRs and addresses before the finalizer goes: a cache may lack one.
    async fn consult(&self, client: &Client, observed: Observed) -> Result<Option<Observed>, ReconcileError> {
        let Observed { service_cidr, is_needed: is_known } = observed;
        if is_known || !service_cidr.is_deleting() || !has_finalizer(&service_cidr) {
            return Ok(Some(Observed { service_cidr, is_needed: is_known }));
        }
        let all = client.api::<ServiceCIDR>("").list(&ListOptions::default()).await?;
        let addresses = client.api::<IPAddress>("").list(&ListOptions::default()).await?;
        let is_needed = is_needed(&service_cidr, all.items.iter(), addresses.items.iter().filter_map(reserved));
        Ok(Some(Observed { service_cidr, is_needed }))
    }

    fn plan(&self, observed: &Observed, now: Timestamp) -> Plan {
        plan(observed, now)
    }

    fn recover(&self, observed: &Observed, error: &ApplyError, _now: Timestamp) -> Option<Plan> {
        let is_status = matches!(&error.failed, Action::Patch { subresource: Some(_), .. });
        let message = "The ServiceCIDR Status can not be set to Ready=True";
        let event = || actions::warning(&*observed.service_cidr, "KubernetesServiceCIDRError", message);
        (is_status && !observed.service_cidr.is_deleting()).then(|| Plan::of([event()]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use controller_base::fixture;
    use expect_test::expect;
    use proto::kinds::api::networking::v1::ServiceCIDRSpec;

    fn service_cidr(name: &str, cidrs: &[&str]) -> ServiceCIDR {
        let mut metadata = fixture::meta(name);
        (metadata.namespace, metadata.finalizers) = (None, Some(vec![FINALIZER.to_owned()]));
        let cidrs = cidrs.iter().map(|&cidr| cidr.to_owned()).collect();
        ServiceCIDR { metadata, spec: Some(ServiceCIDRSpec { cidrs: Some(cidrs) }), status: None }
    }

    fn deleted(mut service_cidr: ServiceCIDR) -> ServiceCIDR {
        service_cidr.metadata.deletion_timestamp = Some(fixture::time(0));
        service_cidr
    }

    #[test]
    fn a_service_cidr_is_needed_for_addresses_that_no_other_one_contains() {
        let own = deleted(service_cidr("own", &["10.0.0.0/24", "fd00::/112"]));
        let parent = || service_cidr("parent", &["10.0.0.0/16", "fd00::/64"]);
        for (others, addresses, expected) in [
            (vec![], vec![], false),
            (vec![], vec!["10.0.1.1", "fd01::1"], false),
            (vec![], vec!["10.0.1.1", "10.0.0.7"], true),
            (vec![], vec!["fd00::7"], true),
            (vec![parent()], vec!["10.0.0.7", "fd00::7"], false),
            (vec![deleted(parent())], vec!["10.0.0.7"], true),
            (vec![service_cidr("same", &["10.0.0.0/24"])], vec!["10.0.0.7"], false),
            (vec![service_cidr("same", &["10.0.0.0/24"])], vec!["10.0.0.7", "fd00::7"], true),
            (vec![service_cidr("half", &["10.0.0.0/25"])], vec!["10.0.0.7"], false),
            (vec![service_cidr("half", &["10.0.0.0/25"])], vec!["10.0.0.7", "10.0.0.200"], true),
        ] {
            let all = others.iter().chain([&own]);
            let found = is_needed(&own, all, addresses.iter().map(|text| text.parse().unwrap()));
            let names: Vec<&str> = others.iter().map(Kind::name).collect();
            assert_eq!(found, expected, "{addresses:?} beside {names:?}");
        }
    }

    #[test]
    fn only_addresses_of_the_allocator_count() {
        let mut address = IPAddress { metadata: fixture::meta("10.0.0.7"), ..IPAddress::default() };
        assert_eq!(reserved(&address), None);
        address.metadata.labels = Some(fixture::labels(&[MANAGED_BY]));
        assert_eq!(reserved(&address), "10.0.0.7".parse().ok());
    }

    #[test]
    fn a_service_cidr_gets_ready_and_waits_for_its_addresses_when_deleted() {
        let ready = |mut service_cidr: ServiceCIDR, (status, reason, message): (&str, &str, &str)| {
            service_cidr.status.get_or_insert_default().conditions = Some(vec![Condition {
                type_: READY.to_owned(),
                status: status.to_owned(),
                reason: reason.to_owned(),
                message: message.to_owned(),
                last_transition_time: fixture::time(0),
                observed_generation: None,
            }]);
            service_cidr
        };
        let mut new = service_cidr("a", &["10.0.0.0/24"]);
        new.metadata.finalizers = None;
        let old = || service_cidr("a", &["10.0.0.0/24"]);
        let ended = deleted(ServiceCIDR { metadata: new.metadata.clone(), ..old() });
        let mut text = String::new();
        for (what, service_cidr, is_needed, after_s) in [
            ("new", new, false, 1),
            ("kept", old(), false, 1),
            ("ready", ready(old(), ("True", "", IS_READY)), false, 1),
            ("needed", deleted(old()), true, 1),
            ("needed still", ready(deleted(old()), ("False", "Terminating", IS_NEEDED)), true, 60),
            ("unneeded", deleted(old()), false, 4),
            ("unneeded for long", deleted(old()), false, 10),
            ("let go", ended, false, 60),
        ] {
            let observed = Observed { service_cidr: Arc::new(service_cidr), is_needed };
            text += &format!("{what}:\n{}", plan(&observed, fixture::at(after_s)));
        }
        expect![[r#"
            new:
            strategic patch servicecidrs.networking.k8s.io a {"metadata":{"finalizers":["networking.k8s.io/service-cidr-finalizer"],"uid":"uid-a"}}
            kept:
            strategic patch servicecidrs.networking.k8s.io/status a {"status":{"conditions":[{"lastTransitionTime":"2026-01-01T00:00:01Z","message":"Kubernetes Service CIDR is ready","reason":"","status":"True","type":"Ready"}]}}
            ready:
            needed:
            strategic patch servicecidrs.networking.k8s.io/status a {"status":{"conditions":[{"lastTransitionTime":"2026-01-01T00:00:01Z","message":"There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR","reason":"Terminating","status":"False","type":"Ready"}]}}
            needed still:
            unneeded:
            look again after 6s
            unneeded for long:
            strategic patch servicecidrs.networking.k8s.io a {"metadata":{"$deleteFromPrimitiveList/finalizers":["networking.k8s.io/service-cidr-finalizer"],"uid":"uid-a"}}
            let go:
        "#]].assert_eq(&text);
    }
}
