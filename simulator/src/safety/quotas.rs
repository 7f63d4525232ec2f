//! The rule that the objects of a namespace never exceed the hard limits of its ResourceQuotas.
//!
//! Usage is counted from the objects, not read from a status. No write may raise it above a limit. The limits are those in
//! `status.hard`, which admission checks. A request may have been admitted under an earlier limit, or before there was one, so
//! the widest limit within the longest time of a request counts.

use super::fields::{Pod, ResourceQuota, Service, milli};
use super::{Rule, RuleViolation, WriteContext, read};
use jiff::{SignedDuration, Timestamp};
use std::collections::BTreeMap;

const PODS: &str = "/registry/pods/";
const SERVICES: &str = "/registry/services/specs/";
const QUOTAS: &str = "/registry/resourcequotas/";
/// Longest time from the admission of a write to the write.
const REQUEST: SignedDuration = SignedDuration::from_mins(1);

/// Amounts in thousandths, by the name of their limit.
type Amounts = BTreeMap<String, i64>;

#[derive(Default)]
pub struct Quotas {
    /// The limits of each quota, and the time since which they hold.
    limits: BTreeMap<String, Vec<(Timestamp, Amounts)>>,
    /// The usage of each object.
    used: BTreeMap<String, Amounts>,
    /// The usage of each namespace.
    totals: BTreeMap<String, Amounts>,
}

/// Returns the namespace in a key.
fn namespace_of(key: &str) -> &str {
    key.rsplit('/').nth(1).unwrap_or_default()
}

fn of_pod(pod: &Pod) -> Amounts {
    if pod.has_ended() {
        return Amounts::new();
    }
    let of = |resource: &str| (format!("requests.{resource}"), pod.requested_milli(resource));
    [("pods".to_owned(), 1000), of("cpu"), of("memory")].into()
}

fn of_service(service: &Service) -> Amounts {
    let node_ports = service.spec.ports.iter().filter(|port| port.node_port != 0).count();
    let node_ports = i64::try_from(node_ports).unwrap_or(i64::MAX);
    [("services".to_owned(), 1000), ("services.nodeports".to_owned(), node_ports * 1000)].into()
}

impl Quotas {
    fn record_limits(&mut self, key: &str, value: Option<&[u8]>, at: Timestamp) -> Result<(), RuleViolation> {
        let Some(quota) = read::<ResourceQuota>(key, value)? else {
            self.limits.remove(key);
            return Ok(());
        };
        let hard = quota.status.hard.iter().map(|(name, limit)| (name.clone(), milli(limit)));
        self.limits.entry(key.to_owned()).or_default().push((at, hard.collect()));
        Ok(())
    }

    fn check_object(&mut self, key: &str, now: Amounts, at: Timestamp) -> Result<(), RuleViolation> {
        let namespace = namespace_of(key);
        let before = self.used.remove(key).unwrap_or_default();
        let total = self.totals.entry(namespace.to_owned()).or_default();
        for (amounts, sign) in [(&before, -1), (&now, 1)] {
            amounts.iter().for_each(|(name, amount)| *total.entry(name.clone()).or_default() += sign * amount);
        }
        let raised = now.iter().filter(|(name, amount)| **amount > before.get(*name).copied().unwrap_or(0));
        let of_namespace: Vec<_> = self.limits.iter().filter(|(quota, _)| namespace_of(quota) == namespace).collect();
        let exceeded = raised.into_iter().find_map(|(name, _)| {
            of_namespace.iter().find_map(|(quota, limits)| {
                let most = widest(limits, name, at)?;
                (total[name] > most).then(|| ((*quota).clone(), format!("{name} is {} of {most}", total[name])))
            })
        });
        self.used.insert(key.to_owned(), now);
        match exceeded {
            Some((quota, what)) => {
                let what = format!("{key} exceeds {quota}: {what} thousandths");
                Err(RuleViolation::about(what, [quota]))
            }
            None => Ok(()),
        }
    }
}

/// Returns the greatest limit that may have been in force when a write was admitted; `None` if there may have been none.
fn widest(limits: &[(Timestamp, Amounts)], name: &str, at: Timestamp) -> Option<i64> {
    let earliest = at.checked_sub(REQUEST).unwrap_or(Timestamp::MIN);
    let first = limits.partition_point(|(since, _)| *since <= earliest).checked_sub(1)?;
    let possible: Option<Vec<i64>> = limits[first..].iter().map(|(_, hard)| hard.get(name).copied()).collect();
    possible?.into_iter().max()
}

impl Rule for Quotas {
    fn prefixes(&self) -> &'static [&'static str] {
        &[PODS, SERVICES, QUOTAS]
    }

    fn check(&mut self, key: &str, value: Option<&[u8]>, context: WriteContext<'_>) -> Result<(), RuleViolation> {
        let now = if key.starts_with(QUOTAS) {
            return self.record_limits(key, value, context.at);
        } else if key.starts_with(PODS) {
            read(key, value)?.as_ref().map(of_pod)
        } else {
            read(key, value)?.as_ref().map(of_service)
        };
        self.check_object(key, now.unwrap_or_default(), context.at)
    }
}
