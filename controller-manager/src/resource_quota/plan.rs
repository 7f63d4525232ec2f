//! What the status of one quota shall be. Pure.

use super::ledger::Counted;
use crate::clock;
use client::{Action, Plan};
use jiff::Timestamp;
use proto::kinds::api::core::v1::ResourceQuota;
use proto::meta::quantity::Quantity;
use proto::quota::{Amounts, amounts};
use proto::{Gvr, Kind};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;

/// As long as a request may take: what was charged before that has been created, or never will be.
pub const QUIET_S: i64 = 60;

#[derive(Clone, Debug)]
pub struct Observed {
    pub quota: Arc<ResourceQuota>,
    /// The same as a tree.
    pub tree: Value,
    pub counted: Counted,
    /// Names among the limits that some kind takes of.
    pub countable: BTreeSet<String>,
    /// What the server itself lists, where the usage was quiet and looked too high.
    pub live: Option<Amounts>,
}

impl Observed {
    fn limits(&self) -> Amounts {
        amounts(self.tree.pointer("/spec/hard"))
    }

    /// Not there for a resource that was not limited before.
    fn usage_before(&self) -> Amounts {
        let (mut used, hard) = (amounts(self.tree.pointer("/status/used")), amounts(self.tree.pointer("/status/hard")));
        used.retain(|name, _| hard.contains_key(name));
        used
    }

    /// The usage of everything that is limited.
    pub fn usage(&self) -> Amounts {
        let before = self.usage_before();
        let used = |name: &String| {
            let of = |amounts: &Amounts| amounts.get(name).copied();
            let total = of(&self.counted.total).unwrap_or(Quantity::ZERO);
            match (&self.live, of(&before)) {
                (Some(live), _) => of(live).unwrap_or(Quantity::ZERO),
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

    /// Whether more is said to be used than there is: a creation is on its way, or came to nothing.
    fn is_too_high(&self, usage: &Amounts) -> bool {
        let there = |name: &String| self.counted.total.get(name).copied().unwrap_or(Quantity::ZERO);
        usage.iter().any(|(name, used)| *used > there(name))
    }

    /// When a usage that is too high may be set right; nothing where it is not.
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
    if observed.live.is_none()
        && let Some(due) = observed.due()
    {
        plan.requeue_within(clock::until(due, now));
    }
    plan
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

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
        Observed { quota: quota.into(), tree, counted, countable: ["pods".to_owned()].into(), live: None }
    }

    #[test]
    fn the_usage_covers_what_is_there_and_what_is_on_its_way() {
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
            // Never counted before; nobody says anything of what no kind takes.
            (json!({}), pods("3"), json!({}), writes("3")),
            // Another limit than before.
            (json!({"hard": {"pods": "5"}, "used": {"pods": "3"}}), pods("3"), json!({}), writes("3")),
            (used("3"), pods("3"), json!({}), String::new()),
            // One creation is on its way, or was given up.
            (used("4"), pods("3"), json!({}), later.clone()),
            // One is gone and another one is on its way.
            (used("4"), pods("2"), pods("1"), writes("3") + &later),
            (used("4"), pods("3"), pods("1"), writes("3")),
            // Something was created without having been charged, before the quota was known everywhere.
            (used("2"), pods("3"), json!({}), writes("3")),
            // What was freed had never been counted.
            (used("2"), pods("2"), pods("1"), String::new()),
        ] {
            let observed = observed(status, total, freed);
            assert_eq!(plan(&observed, fixture::at(0)).to_string(), expected, "{observed:?}");
        }
    }

    #[test]
    fn what_the_server_lists_after_a_quiet_time_is_the_usage() {
        let mut observed = observed(
            json!({"hard": {"pods": "10", "foo": "1"}, "used": {"pods": "4"}}),
            json!({"pods": "3"}),
            json!({}),
        );
        assert_eq!(observed.due(), Some(fixture::at(60)));
        observed.live = Some(amounts(Some(&json!({"pods": "2"}))));
        let plan = plan(&observed, fixture::at(60)).to_string();
        assert!(plan.ends_with("\"used\":{\"pods\":\"2\"}}\n"), "{plan}");
    }
}
