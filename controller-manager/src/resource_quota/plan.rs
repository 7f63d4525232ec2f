//! Plans the status of one quota. Pure.

use super::ledger::Counted;
use client::{Action, Plan};
use controller_base::clock;
use jiff::Timestamp;
use proto::kinds::api::core::v1::ResourceQuota;
use proto::meta::quantity::Quantity;
use proto::quota::{Amounts, amounts};
use proto::{Gvr, Kind};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Longest duration of a request. A creation that was charged earlier has succeeded or failed.
pub const QUIET_S: i64 = 60;

#[derive(Clone, Debug)]
pub struct Observed {
    pub quota: Arc<ResourceQuota>,
    /// The quota as a JSON tree.
    pub tree: Value,
    pub counted: Counted,
    /// Names of limits that concern a monitored resource.
    pub countable: BTreeSet<String>,
    /// Usage from lists of the server, if the usage seemed too high without a recent change.
    pub listed: Option<Amounts>,
}

impl Observed {
    fn limits(&self) -> Amounts {
        amounts(self.tree.pointer("/spec/hard"))
    }

    /// Returns the usage in the status, without resources that the status does not limit.
    fn usage_before(&self) -> Amounts {
        let (mut used, hard) = (amounts(self.tree.pointer("/status/used")), amounts(self.tree.pointer("/status/hard")));
        used.retain(|name, _| hard.contains_key(name));
        used
    }

    /// Returns the usage of each countable limit.
    pub fn usage(&self) -> Amounts {
        let before = self.usage_before();
        let used = |name: &String| {
            let of = |amounts: &Amounts| amounts.get(name).copied();
            let total = of(&self.counted.total).unwrap_or(Quantity::ZERO);
            match (&self.listed, of(&before)) {
                (Some(listed), _) => of(listed).unwrap_or(Quantity::ZERO),
                (None, None) => total,
                (None, Some(before)) => {
                    let left = of(&self.counted.freed).map_or(before, |freed| before - freed);
                    if total > left { total } else { left }
                }
            }
        };
        self.limits()
            .keys()
            .filter(|name| self.countable.contains(*name))
            .map(|name| (name.clone(), used(name)))
            .collect()
    }

    /// Returns true if the usage exceeds that of the existing objects: a creation is pending or has failed.
    fn is_too_high(&self, usage: &Amounts) -> bool {
        let existing = |name: &String| self.counted.total.get(name).copied().unwrap_or(Quantity::ZERO);
        usage.iter().any(|(name, used)| *used > existing(name))
    }

    /// Returns the time at which a usage that is too high may be corrected.
    pub fn due(&self) -> Option<Timestamp> {
        let since = self.counted.since?;
        self.is_too_high(&self.usage()).then(|| clock::after(since, QUIET_S))
    }
}

pub fn plan(observed: &Observed, now: Timestamp) -> Plan {
    let usage = observed.usage();
    let status = &observed.tree["status"];
    let limits = observed.limits();
    let mut plan = Plan::default();
    if amounts(status.get("hard")) != limits || amounts(status.get("used")) != usage || status["used"].is_null() {
        let mut quota = observed.tree.clone();
        let list =
            |amounts: &Amounts| -> Value { amounts.iter().map(|(n, q)| (n.clone(), json!(q.to_string()))).collect() };
        quota["status"] = json!({"hard": observed.tree["spec"]["hard"], "used": list(&usage)});
        let namespace = observed.quota.namespace().to_owned();
        plan.push(Action::UpdateStatus { gvr: Gvr::new("", "v1", "resourcequotas"), namespace, object: quota });
    }
    if observed.listed.is_none()
        && let Some(due) = observed.due()
    {
        plan.requeue_within(clock::until(due, now));
    }
    plan
}

#[cfg(test)]
mod tests {
    use super::*;
    use controller_base::fixture;

    fn observed(status: Value, total: Value, freed: Value) -> Observed {
        let quota = ResourceQuota { metadata: fixture::meta("q"), ..ResourceQuota::default() };
        let mut tree = quota.encode();
        tree["spec"] = json!({"hard": {"pods": "10", "foo": "1"}});
        tree["status"] = status;
        let counted = Counted {
            total: amounts(Some(&total)),
            freed: amounts(Some(&freed)),
            releases: 0,
            since: Some(fixture::at(0)),
        };
        Observed { quota: quota.into(), tree, counted, countable: ["pods".to_owned()].into(), listed: None }
    }

    #[test]
    fn the_usage_covers_existing_objects_and_pending_creations() {
        let hard = || json!({"pods": "10", "foo": "1"});
        let used = |n: &str| json!({"hard": hard(), "used": {"pods": n}});
        let pods = |n: &str| json!({"pods": n});
        let writes = |n: &str| {
            format!(
                "update resourcequotas/status default/q {{\"hard\":{{\"foo\":\"1\",\"pods\":\"10\"}},\"used\":{{\"pods\":\"{n}\"}}}}\n"
            )
        };
        let later = "look again after 60s\n".to_owned();
        for (status, total, freed, expected) in [
            // The first usage; a limit that concerns no resource is left out.
            (json!({}), pods("3"), json!({}), writes("3")),
            // The limit has changed.
            (json!({"hard": {"pods": "5"}, "used": {"pods": "3"}}), pods("3"), json!({}), writes("3")),
            (used("3"), pods("3"), json!({}), String::new()),
            // One creation is pending, or has failed.
            (used("4"), pods("3"), json!({}), later.clone()),
            // One object was deleted, and another creation is pending.
            (used("4"), pods("2"), pods("1"), writes("3") + &later),
            (used("4"), pods("3"), pods("1"), writes("3")),
            // Something was created without having been charged, before the quota was known everywhere.
            (used("2"), pods("3"), json!({}), writes("3")),
            // The released usage had never been counted.
            (used("2"), pods("2"), pods("1"), String::new()),
        ] {
            let observed = observed(status, total, freed);
            assert_eq!(plan(&observed, fixture::at(0)).to_string(), expected, "{observed:?}");
        }
    }

    #[test]
    fn after_a_quiet_time_the_lists_of_the_server_are_the_usage() {
        let mut observed = observed(
            json!({"hard": {"pods": "10", "foo": "1"}, "used": {"pods": "4"}}),
            json!({"pods": "3"}),
            json!({}),
        );
        assert_eq!(observed.due(), Some(fixture::at(60)));
        observed.listed = Some(amounts(Some(&json!({"pods": "2"}))));
        let plan = plan(&observed, fixture::at(60)).to_string();
        assert!(plan.ends_with("\"used\":{\"pods\":\"2\"}}\n"), "{plan}");
    }
}
