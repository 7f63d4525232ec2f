//! `Counters`: one at a time counts for a namespace, for everybody who waits meanwhile.
//!
//! A thousand writes that race for one quota would spend their time on each other's versions of it. So the first counts
//! for all that have come: one read, one decision after the other, one write. Between servers the compare-and-swap of
//! the store decides. Corresponds to quotaEvaluator in k8s.io/apiserver/pkg/admission/plugin/resourcequota.

use super::claim::{Claim, set_usage};
use crate::QuotaStore;
use cacher::lookup::{Lookup, ObjectKey};
use parking_lot::Mutex;
use proto::Status;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Rounds against other servers that write the same quota, before the writes are given up.
const ATTEMPTS: usize = 64;

type Outcome = Result<(), Status>;

/// One counter for each namespace that somebody waits in.
#[derive(Default)]
pub struct Counters(Mutex<BTreeMap<String, Arc<Counter>>>);

#[derive(Default)]
struct Counter {
    /// In the order in which they came; whoever was answered is taken out.
    waiting: Mutex<Vec<Arc<Waiting>>>,
    turn: tokio::sync::Mutex<()>,
}

struct Waiting {
    claim: Claim,
    outcome: Mutex<Option<Outcome>>,
}

/// A place in the row, given up when the request is.
struct Place {
    counter: Arc<Counter>,
    waiting: Arc<Waiting>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.counter.waiting.lock().retain(|other| !Arc::ptr_eq(other, &self.waiting));
    }
}

/// Where quotas are read and written.
#[derive(Clone, Copy)]
pub struct Books<'a> {
    pub namespace: &'a str,
    pub lookup: &'a dyn Lookup,
    pub quotas: &'a dyn QuotaStore,
}

impl Counters {
    /// Takes what is claimed of every quota, or nothing.
    pub async fn charge(&self, books: Books<'_>, claim: Claim) -> Outcome {
        let counter = self.0.lock().entry(books.namespace.to_owned()).or_default().clone();
        let waiting = Arc::new(Waiting { claim, outcome: Mutex::default() });
        counter.waiting.lock().push(waiting.clone());
        let place = Place { counter, waiting };
        let outcome = place.counter.outcome(books, &place.waiting).await;
        drop(place);
        self.0.lock().retain(|_, counter| Arc::strong_count(counter) > 1);
        outcome
    }
}

impl Counter {
    async fn outcome(&self, books: Books<'_>, mine: &Waiting) -> Outcome {
        let _turn = self.turn.lock().await;
        if let Some(outcome) = mine.outcome.lock().take() {
            return outcome;
        }
        let all = self.waiting.lock().clone();
        let all: Vec<_> = all.into_iter().filter(|waiting| waiting.outcome.lock().is_none()).collect();
        let claims: Vec<&Claim> = all.iter().map(|waiting| &waiting.claim).collect();
        let outcomes = count(books, &claims).await;
        for (waiting, outcome) in all.iter().zip(outcomes) {
            *waiting.outcome.lock() = Some(outcome);
        }
        let own = mine.outcome.lock().take();
        own.expect("who has not been answered stands in the row")
    }
}

/// One answer for each claim. A store that fails fails all that are still open.
async fn count(books: Books<'_>, claims: &[&Claim]) -> Vec<Outcome> {
    let mut open: Vec<Open> = claims.iter().map(|claim| Open { left: claim.quotas.clone(), outcome: None }).collect();
    for _ in 0..ATTEMPTS {
        if let Err(status) = round(books, claims, &mut open).await {
            return open.into_iter().map(|open| open.outcome.unwrap_or_else(|| Err(status.clone()))).collect();
        }
        if open.iter().all(|open| open.outcome.is_some()) {
            break;
        }
    }
    let given_up = || {
        let why = "too many writers raise the usage of this quota; please try again";
        Err(Status::conflict("", "resourcequotas", books.namespace, why))
    };
    open.into_iter().map(|open| open.outcome.unwrap_or_else(given_up)).collect()
}

struct Open {
    /// Quotas that do not know of the claim yet.
    left: BTreeSet<String>,
    outcome: Option<Outcome>,
}

/// Reads the quotas, decides claim by claim, writes the quotas. What another server has overtaken stays open.
///
/// A claim that one quota has taken in and another refuses in a later round stays in the first until the controller
/// sets it right: too little is given out for that time, never too much.
async fn round(books: Books<'_>, claims: &[&Claim], open: &mut [Open]) -> Result<(), Status> {
    let undecided = || open.iter().filter(|open| open.outcome.is_none());
    let names: BTreeSet<String> = undecided().flat_map(|open| open.left.iter().cloned()).collect();
    let mut quotas: BTreeMap<String, Value> = BTreeMap::new();
    for name in names {
        let key = ObjectKey::new("", "resourcequotas", books.namespace, &name);
        if let Some(live) = books.lookup.get_live(key).await? {
            quotas.insert(name, live.to_value());
        }
    }
    let mut changed = BTreeSet::new();
    for (claim, open) in claims.iter().zip(open.iter_mut()).filter(|(_, open)| open.outcome.is_none()) {
        // A quota that is gone limits nothing.
        open.left.retain(|name| quotas.contains_key(name));
        match decide(claim, &open.left, &quotas) {
            Ok(charged) => {
                open.left = charged.iter().map(|(name, _)| name.clone()).collect();
                for (name, quota) in charged {
                    changed.insert(name.clone());
                    quotas.insert(name, quota);
                }
            }
            Err(refusal) => open.outcome = Some(Err(refusal)),
        }
    }
    for name in changed {
        if books.quotas.record_usage(&quotas[&name]).await? {
            for open in open.iter_mut().filter(|open| open.outcome.is_none()) {
                open.left.remove(&name);
            }
        }
    }
    for open in open.iter_mut().filter(|open| open.outcome.is_none() && open.left.is_empty()) {
        open.outcome = Some(Ok(()));
    }
    Ok(())
}

/// The quotas that change, as they are with the claim; the first refusal otherwise.
fn decide(
    claim: &Claim,
    left: &BTreeSet<String>,
    quotas: &BTreeMap<String, Value>,
) -> Result<Vec<(String, Value)>, Status> {
    let mut charged = Vec::new();
    for name in left {
        let quota = &quotas[name];
        if let Some(used) = claim.charged(quota)? {
            let mut quota = quota.clone();
            set_usage(&mut quota, &used);
            charged.push((name.clone(), quota));
        }
    }
    Ok(charged)
}
