//! `Ledger` records the usage of the objects in namespaces with quotas, and the releases since a quota was last
//! written.

use jiff::Timestamp;
use proto::quota::{Amounts, add, scope};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Group, resource and name of an object within a namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Id {
    pub group: String,
    pub resource: String,
    pub name: String,
}

/// The usage of one object.
#[derive(Clone, Debug, PartialEq)]
pub struct ObjectUsage {
    pub uid: String,
    pub amounts: Amounts,
    /// The object if it is a pod, because scopes select pods.
    pub pod: Option<Value>,
}

impl ObjectUsage {
    /// Returns the amounts that count for a quota; `None` if its scopes do not match the object.
    fn for_quota(&self, quota: &Value) -> Option<&Amounts> {
        let nothing = Value::Null;
        let object = self.pod.as_ref().unwrap_or(&nothing);
        scope::matches(quota, self.pod.is_some(), object).then_some(&self.amounts)
    }
}

/// An object whose usage has decreased, or that was deleted.
#[derive(Clone, Debug)]
struct Release {
    before: Arc<ObjectUsage>,
    after: Option<Arc<ObjectUsage>>,
}

#[derive(Debug, Default)]
struct QuotaState {
    /// Releases that the quota's usage does not include yet.
    released: Vec<Release>,
    /// The last observed usage, and the time since which it is the same.
    used: Value,
    since: Option<Timestamp>,
}

#[derive(Debug, Default)]
struct NamespaceState {
    objects: BTreeMap<Id, Arc<ObjectUsage>>,
    quotas: BTreeMap<String, QuotaState>,
}

/// The state of each namespace that has a quota.
#[derive(Debug, Default)]
pub struct Ledger(BTreeMap<String, NamespaceState>);

/// The usage and the releases of one quota.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counted {
    pub total: Amounts,
    pub freed: Amounts,
    /// Number of releases in `freed`.
    pub releases: usize,
    /// Time since which the quota's usage is the same.
    pub since: Option<Timestamp>,
}

impl Ledger {
    /// Records a quota. Returns true if it is the first of its namespace: then the namespace's objects are to be added.
    pub fn observe_quota(&mut self, namespace: &str, name: &str, used: &Value, now: Timestamp) -> bool {
        let is_new = !self.0.contains_key(namespace);
        let state = self.0.entry(namespace.to_owned()).or_default().quotas.entry(name.to_owned()).or_default();
        if state.since.is_none() || state.used != *used {
            state.used = used.clone();
            state.since = Some(now);
        }
        is_new
    }

    pub fn forget_quota(&mut self, namespace: &str, name: &str) {
        let Some(state) = self.0.get_mut(namespace) else { return };
        state.quotas.remove(name);
        if state.quotas.is_empty() {
            self.0.remove(namespace);
        }
    }

    /// Returns the names of a namespace's quotas.
    pub fn quotas(&self, namespace: &str) -> Vec<String> {
        self.0.get(namespace).map(|state| state.quotas.keys().cloned().collect()).unwrap_or_default()
    }

    pub fn has_quota(&self, namespace: &str) -> bool {
        self.0.contains_key(namespace)
    }

    /// Records the present usage of an object. With another uid, the former object of that name was deleted.
    pub fn set(&mut self, namespace: &str, id: Id, usage: ObjectUsage) {
        let Some(state) = self.0.get_mut(namespace) else { return };
        let usage = Arc::new(usage);
        match state.objects.insert(id, usage.clone()) {
            Some(before) if before.uid != usage.uid => state.release(&Release { before, after: None }),
            Some(before) if *before != *usage => state.release(&Release { before, after: Some(usage) }),
            _ => {}
        }
    }

    pub fn remove(&mut self, namespace: &str, id: &Id) {
        let Some(state) = self.0.get_mut(namespace) else { return };
        if let Some(before) = state.objects.remove(id) {
            state.release(&Release { before, after: None });
        }
    }

    /// Sums up the usage and the releases of a quota.
    pub fn counted(&self, namespace: &str, name: &str, quota: &Value) -> Counted {
        let Some(state) = self.0.get(namespace) else { return Counted::default() };
        let total = total(quota, state.objects.values().map(AsRef::as_ref));
        let Some(state) = state.quotas.get(name) else { return Counted { total, ..Counted::default() } };
        let mut freed = Amounts::new();
        for Release { before, after } in &state.released {
            let mut less = before.for_quota(quota).cloned().unwrap_or_default();
            if let Some(now) = after.as_ref().and_then(|after| after.for_quota(quota)) {
                for (name, quantity) in &mut less {
                    if let Some(now) = now.get(name) {
                        *quantity -= *now;
                    }
                }
            }
            less.retain(|_, quantity| quantity.signum() > 0);
            add(&mut freed, &less);
        }
        Counted { total, freed, releases: state.released.len(), since: state.since }
    }

    /// Drops the oldest releases of a quota, after its written usage includes them.
    pub fn drop_releases(&mut self, namespace: &str, name: &str, releases: usize) {
        if let Some(state) = self.0.get_mut(namespace).and_then(|state| state.quotas.get_mut(name)) {
            state.released.drain(..releases.min(state.released.len()));
        }
    }
}

impl NamespaceState {
    fn release(&mut self, release: &Release) {
        for quota in self.quotas.values_mut() {
            quota.released.push(release.clone());
        }
    }
}

/// Returns the total usage of objects for a quota.
pub fn total<'a>(quota: &Value, objects: impl Iterator<Item = &'a ObjectUsage>) -> Amounts {
    let mut total = Amounts::new();
    for amounts in objects.filter_map(|object| object.for_quota(quota)) {
        add(&mut total, amounts);
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;
    use controller_base::fixture;
    use proto::quota::amounts;
    use serde_json::json;

    fn id(name: &str) -> Id {
        Id { group: String::new(), resource: "services".to_owned(), name: name.to_owned() }
    }

    fn object_usage(uid: &str, list: Value) -> ObjectUsage {
        ObjectUsage { uid: uid.to_owned(), amounts: amounts(Some(&list)), pod: None }
    }

    fn seen(ledger: &Ledger) -> (Value, Value, usize) {
        let list =
            |amounts: &Amounts| -> Value { amounts.iter().map(|(n, q)| (n.clone(), json!(q.to_string()))).collect() };
        let counted = ledger.counted("shop", "q", &Value::Null);
        (list(&counted.total), list(&counted.freed), counted.releases)
    }

    #[test]
    fn deletions_are_releases_and_creations_are_not() {
        let mut ledger = Ledger::default();
        ledger.set("shop", id("before"), object_usage("0", json!({"services": "1"})));
        assert!(ledger.observe_quota("shop", "q", &json!({}), fixture::at(0)));
        assert!(!ledger.observe_quota("shop", "other", &json!({}), fixture::at(0)));
        assert_eq!(seen(&ledger), (json!({}), json!({}), 0));
        ledger.set("shop", id("a"), object_usage("1", json!({"services": "1", "services.nodeports": "3"})));
        ledger.set("shop", id("b"), object_usage("2", json!({"services": "1"})));
        assert_eq!(seen(&ledger), (json!({"services": "2", "services.nodeports": "3"}), json!({}), 0));
        // The object has fewer ports, then another uid, and then is deleted.
        ledger.set("shop", id("a"), object_usage("1", json!({"services": "1", "services.nodeports": "1"})));
        assert_eq!(seen(&ledger).1, json!({"services.nodeports": "2"}));
        ledger.set("shop", id("a"), object_usage("3", json!({"services": "1", "services.nodeports": "1"})));
        assert_eq!(seen(&ledger).1, json!({"services": "1", "services.nodeports": "3"}));
        ledger.drop_releases("shop", "q", 2);
        ledger.remove("shop", &id("a"));
        ledger.remove("shop", &id("a"));
        assert_eq!(seen(&ledger), (json!({"services": "1"}), json!({"services": "1", "services.nodeports": "1"}), 1));
        ledger.forget_quota("shop", "q");
        assert!(ledger.has_quota("shop"));
        ledger.forget_quota("shop", "other");
        assert!(!ledger.has_quota("shop"));
    }

    #[test]
    fn a_usage_is_as_old_as_its_last_change() {
        let mut ledger = Ledger::default();
        for (second, used, since) in [(0, "1", 0), (5, "1", 0), (9, "2", 9), (12, "2", 9)] {
            ledger.observe_quota("shop", "q", &json!({"pods": used}), fixture::at(second));
            assert_eq!(ledger.counted("shop", "q", &Value::Null).since, Some(fixture::at(since)), "{second}");
        }
    }

    #[test]
    fn scopes_choose_pods() {
        let best_effort = json!({"spec": {"scopes": ["BestEffort"]}});
        let pod = |requests: Value| json!({"spec": {"containers": [{"resources": {"requests": requests}}]}});
        let usage = |uid: &str, pod: Value| ObjectUsage { pod: Some(pod), ..object_usage(uid, json!({"pods": "1"})) };
        let all =
            [usage("1", pod(json!({}))), usage("2", pod(json!({"cpu": "1"}))), object_usage("3", json!({"pods": "1"}))];
        assert_eq!(total(&best_effort, all.iter()), amounts(Some(&json!({"pods": "1"}))));
        assert_eq!(total(&json!({}), all.iter()), amounts(Some(&json!({"pods": "3"}))));
    }
}
