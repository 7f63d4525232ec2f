//! `Ledger`: what the objects of namespaces with quotas take, and what was given back since a quota was last written.

use jiff::Timestamp;
use proto::quota::{Amounts, add, scope};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Group, resource and name of an object, in some namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Id {
    pub group: String,
    pub resource: String,
    pub name: String,
}

/// What one object takes.
#[derive(Clone, Debug, PartialEq)]
pub struct Taken {
    pub uid: String,
    pub amounts: Amounts,
    /// A pod, whom scopes look at.
    pub pod: Option<Value>,
}

impl Taken {
    /// Of this quota: nothing, where its scopes are not the object's.
    fn of(&self, quota: &Value) -> Option<&Amounts> {
        let nothing = Value::Null;
        let object = self.pod.as_ref().unwrap_or(&nothing);
        scope::matches(quota, self.pod.is_some(), object).then_some(&self.amounts)
    }
}

/// An object that takes less than it did, or is gone.
#[derive(Clone, Debug)]
struct Release {
    before: Arc<Taken>,
    after: Option<Arc<Taken>>,
}

#[derive(Debug, Default)]
struct QuotaNotes {
    /// Not yet taken off the quota's usage.
    released: Vec<Release>,
    /// The usage that was last seen, and since when.
    used: Value,
    since: Option<Timestamp>,
}

#[derive(Debug, Default)]
struct Account {
    objects: BTreeMap<Id, Arc<Taken>>,
    quotas: BTreeMap<String, QuotaNotes>,
}

/// Of all namespaces that have a quota.
#[derive(Debug, Default)]
pub struct Ledger(BTreeMap<String, Account>);

/// What the ledger knows for one quota.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counted {
    pub total: Amounts,
    pub freed: Amounts,
    /// How many releases `freed` sums up.
    pub releases: usize,
    /// Since when the usage is what it is.
    pub since: Option<Timestamp>,
}

impl Ledger {
    /// A quota as it was seen at a time. True where it is the first of its namespace, whose objects are to be told.
    pub fn note_quota(&mut self, namespace: &str, name: &str, used: &Value, now: Timestamp) -> bool {
        let is_new = !self.0.contains_key(namespace);
        let notes = self.0.entry(namespace.to_owned()).or_default().quotas.entry(name.to_owned()).or_default();
        if notes.since.is_none() || notes.used != *used {
            notes.used = used.clone();
            notes.since = Some(now);
        }
        is_new
    }

    pub fn forget_quota(&mut self, namespace: &str, name: &str) {
        let Some(account) = self.0.get_mut(namespace) else { return };
        account.quotas.remove(name);
        if account.quotas.is_empty() {
            self.0.remove(namespace);
        }
    }

    /// The quotas of a namespace.
    pub fn quotas(&self, namespace: &str) -> Vec<String> {
        self.0.get(namespace).map(|account| account.quotas.keys().cloned().collect()).unwrap_or_default()
    }

    pub fn counts(&self, namespace: &str) -> bool {
        self.0.contains_key(namespace)
    }

    /// An object as it is now. Another of the same name has been and gone.
    pub fn set(&mut self, namespace: &str, id: Id, taken: Taken) {
        let Some(account) = self.0.get_mut(namespace) else { return };
        let taken = Arc::new(taken);
        match account.objects.insert(id, taken.clone()) {
            Some(before) if before.uid != taken.uid => account.release(&Release { before, after: None }),
            Some(before) if *before != *taken => account.release(&Release { before, after: Some(taken) }),
            _ => {}
        }
    }

    pub fn remove(&mut self, namespace: &str, id: &Id) {
        let Some(account) = self.0.get_mut(namespace) else { return };
        if let Some(before) = account.objects.remove(id) {
            account.release(&Release { before, after: None });
        }
    }

    /// Everything that concerns a quota.
    pub fn counted(&self, namespace: &str, name: &str, quota: &Value) -> Counted {
        let Some(account) = self.0.get(namespace) else { return Counted::default() };
        let total = total(quota, account.objects.values().map(AsRef::as_ref));
        let Some(notes) = account.quotas.get(name) else { return Counted { total, ..Counted::default() } };
        let mut freed = Amounts::new();
        for Release { before, after } in &notes.released {
            let mut less = before.of(quota).cloned().unwrap_or_default();
            if let Some(now) = after.as_ref().and_then(|after| after.of(quota)) {
                for (name, quantity) in &mut less {
                    if let Some(now) = now.get(name) {
                        *quantity -= *now;
                    }
                }
            }
            less.retain(|_, quantity| quantity.signum() > 0);
            add(&mut freed, &less);
        }
        Counted { total, freed, releases: notes.released.len(), since: notes.since }
    }

    /// The oldest of a quota's releases are in its usage.
    pub fn settled(&mut self, namespace: &str, name: &str, releases: usize) {
        if let Some(notes) = self.0.get_mut(namespace).and_then(|account| account.quotas.get_mut(name)) {
            notes.released.drain(..releases.min(notes.released.len()));
        }
    }
}

impl Account {
    fn release(&mut self, release: &Release) {
        for notes in self.quotas.values_mut() {
            notes.released.push(release.clone());
        }
    }
}

/// What objects take together of a quota.
pub fn total<'a>(quota: &Value, objects: impl Iterator<Item = &'a Taken>) -> Amounts {
    let mut total = Amounts::new();
    for amounts in objects.filter_map(|object| object.of(quota)) {
        add(&mut total, amounts);
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use proto::quota::amounts;
    use serde_json::json;

    fn id(name: &str) -> Id {
        Id { group: String::new(), resource: "services".to_owned(), name: name.to_owned() }
    }

    fn takes(uid: &str, list: Value) -> Taken {
        Taken { uid: uid.to_owned(), amounts: amounts(Some(&list)), pod: None }
    }

    fn seen(ledger: &Ledger) -> (Value, Value, usize) {
        let list =
            |amounts: &Amounts| -> Value { amounts.iter().map(|(n, q)| (n.clone(), json!(q.to_string()))).collect() };
        let counted = ledger.counted("shop", "q", &Value::Null);
        (list(&counted.total), list(&counted.freed), counted.releases)
    }

    #[test]
    fn what_goes_is_freed_and_what_comes_is_not() {
        let mut ledger = Ledger::default();
        ledger.set("shop", id("before"), takes("0", json!({"services": "1"})));
        assert!(ledger.note_quota("shop", "q", &json!({}), fixture::at(0)));
        assert!(!ledger.note_quota("shop", "other", &json!({}), fixture::at(0)));
        assert_eq!(seen(&ledger), (json!({}), json!({}), 0));
        ledger.set("shop", id("a"), takes("1", json!({"services": "1", "services.nodeports": "3"})));
        ledger.set("shop", id("b"), takes("2", json!({"services": "1"})));
        assert_eq!(seen(&ledger), (json!({"services": "2", "services.nodeports": "3"}), json!({}), 0));
        // Fewer ports; then a namesake; then nothing.
        ledger.set("shop", id("a"), takes("1", json!({"services": "1", "services.nodeports": "1"})));
        assert_eq!(seen(&ledger).1, json!({"services.nodeports": "2"}));
        ledger.set("shop", id("a"), takes("3", json!({"services": "1", "services.nodeports": "1"})));
        assert_eq!(seen(&ledger).1, json!({"services": "1", "services.nodeports": "3"}));
        ledger.settled("shop", "q", 2);
        ledger.remove("shop", &id("a"));
        ledger.remove("shop", &id("a"));
        assert_eq!(seen(&ledger), (json!({"services": "1"}), json!({"services": "1", "services.nodeports": "1"}), 1));
        ledger.forget_quota("shop", "q");
        assert!(ledger.counts("shop"));
        ledger.forget_quota("shop", "other");
        assert!(!ledger.counts("shop"));
    }

    #[test]
    fn a_usage_is_as_old_as_its_last_change() {
        let mut ledger = Ledger::default();
        for (second, used, since) in [(0, "1", 0), (5, "1", 0), (9, "2", 9), (12, "2", 9)] {
            ledger.note_quota("shop", "q", &json!({"pods": used}), fixture::at(second));
            assert_eq!(ledger.counted("shop", "q", &Value::Null).since, Some(fixture::at(since)), "{second}");
        }
    }

    #[test]
    fn scopes_choose_pods() {
        let best_effort = json!({"spec": {"scopes": ["BestEffort"]}});
        let pod = |requests: Value| json!({"spec": {"containers": [{"resources": {"requests": requests}}]}});
        let taken = |uid: &str, pod: Value| Taken { pod: Some(pod), ..takes(uid, json!({"pods": "1"})) };
        let all = [taken("1", pod(json!({}))), taken("2", pod(json!({"cpu": "1"}))), takes("3", json!({"pods": "1"}))];
        assert_eq!(total(&best_effort, all.iter()), amounts(Some(&json!({"pods": "1"}))));
        assert_eq!(total(&json!({}), all.iter()), amounts(Some(&json!({"pods": "3"}))));
    }
}
