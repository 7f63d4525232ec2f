//! `Counters`: charges the claims of concurrent writes to a namespace's quotas in batches.
//!
//! A thousand writes that race for one quota would mostly cause conflicts. Therefore one of them charges all waiting claims:
//! one read, one decision after the other, one write. Between servers, the store's compare-and-swap decides. Corresponds to
//! quotaEvaluator in k8s.io/apiserver/pkg/admission/plugin/resourcequota.

use super::claim::{Claim, set_usage};
use crate::QuotaStore;
use cacher::lookup::{Lookup, ObjectKey};
use parking_lot::Mutex;
use proto::Status;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Rounds after conflicts with other servers, before the claims are rejected.
const ATTEMPTS: usize = 64;

type Outcome = Result<(), Status>;

/// One counter for each namespace with waiting claims.
#[derive(Default)]
pub struct Counters(Mutex<BTreeMap<String, Arc<Counter>>>);

#[derive(Default)]
struct Counter {
    /// Waiting claims in the order of arrival; decided ones are removed.
    waiting: Mutex<Vec<Arc<Waiting>>>,
    turn: tokio::sync::Mutex<()>,
}

struct Waiting {
    claim: Claim,
    outcome: Mutex<Option<Outcome>>,
}

/// A waiting claim, which is removed when this is dropped, also when the request is cancelled.
struct QueuedClaim {
    counter: Arc<Counter>,
    waiting: Arc<Waiting>,
}

impl Drop for QueuedClaim {
    fn drop(&mut self) {
        self.counter.waiting.lock().retain(|other| !Arc::ptr_eq(other, &self.waiting));
    }
}

/// Access to the quotas of a namespace.
#[derive(Clone, Copy)]
pub struct QuotaAccess<'a> {
    pub namespace: &'a str,
    pub lookup: &'a dyn Lookup,
    pub quotas: &'a dyn QuotaStore,
}

impl Counters {
    /// Charges a claim to every matching quota, or to none.
    pub async fn charge(&self, access: QuotaAccess<'_>, claim: Claim) -> Outcome {
        let counter = self.0.lock().entry(access.namespace.to_owned()).or_default().clone();
        let waiting = Arc::new(Waiting { claim, outcome: Mutex::default() });
        counter.waiting.lock().push(waiting.clone());
        let queued = QueuedClaim { counter, waiting };
        let outcome = queued.counter.outcome(access, &queued.waiting).await;
        drop(queued);
        self.0.lock().retain(|_, counter| Arc::strong_count(counter) > 1);
        outcome
    }
}

impl Counter {
    async fn outcome(&self, access: QuotaAccess<'_>, mine: &Waiting) -> Outcome {
        let _turn = self.turn.lock().await;
        if let Some(outcome) = mine.outcome.lock().take() {
            return outcome;
        }
        let all = self.waiting.lock().clone();
        let all: Vec<_> = all.into_iter().filter(|waiting| waiting.outcome.lock().is_none()).collect();
        let claims: Vec<&Claim> = all.iter().map(|waiting| &waiting.claim).collect();
        let outcomes = count(access, &claims).await;
        for (waiting, outcome) in all.iter().zip(outcomes) {
            *waiting.outcome.lock() = Some(outcome);
        }
        let own = mine.outcome.lock().take();
        own.expect("who has not been answered stands in the row")
    }
}

/// Returns one result for each claim. An error of the store is the result of all pending claims.
async fn count(access: QuotaAccess<'_>, claims: &[&Claim]) -> Vec<Outcome> {
    let mut pending: Vec<PendingClaim> =
        claims.iter().map(|claim| PendingClaim { left: claim.quotas.clone(), outcome: None }).collect();
    for _ in 0..ATTEMPTS {
        if let Err(status) = round(access, claims, &mut pending).await {
            return pending.into_iter().map(|pending| pending.outcome.unwrap_or_else(|| Err(status.clone()))).collect();
        }
        if pending.iter().all(|pending| pending.outcome.is_some()) {
            break;
        }
    }
    let given_up = || {
        let why = "too many writers raise the usage of this quota; please try again";
        Err(Status::conflict("", "resourcequotas", access.namespace, why))
    };
    pending.into_iter().map(|pending| pending.outcome.unwrap_or_else(given_up)).collect()
}

struct PendingClaim {
    /// Quotas that are not charged yet.
    left: BTreeSet<String>,
    outcome: Option<Outcome>,
}

/// Reads the quotas, decides claim by claim, and writes the quotas. A claim with a conflict stays pending.
///
/// If one quota is charged and another one rejects the claim in a later round, the first stays charged until the
/// controller corrects it: usage may be too high for that time, never too low.
async fn round(access: QuotaAccess<'_>, claims: &[&Claim], pending: &mut [PendingClaim]) -> Result<(), Status> {
    let undecided = || pending.iter().filter(|pending| pending.outcome.is_none());
    let names: BTreeSet<String> = undecided().flat_map(|pending| pending.left.iter().cloned()).collect();
    let mut quotas: BTreeMap<String, Value> = BTreeMap::new();
    for name in names {
        let key = ObjectKey::new("", "resourcequotas", access.namespace, &name);
        if let Some(live) = access.lookup.get_live(key).await? {
            quotas.insert(name, live.to_value());
        }
    }
    let mut changed = BTreeSet::new();
    for (claim, pending) in claims.iter().zip(pending.iter_mut()).filter(|(_, pending)| pending.outcome.is_none()) {
        // A deleted quota limits nothing.
        pending.left.retain(|name| quotas.contains_key(name));
        match decide(claim, &pending.left, &quotas) {
            Ok(charged) => {
                pending.left = charged.iter().map(|(name, _)| name.clone()).collect();
                for (name, quota) in charged {
                    changed.insert(name.clone());
                    quotas.insert(name, quota);
                }
            }
            Err(refusal) => pending.outcome = Some(Err(refusal)),
        }
    }
    for name in changed {
        if access.quotas.record_usage(&quotas[&name]).await? {
            for pending in pending.iter_mut().filter(|pending| pending.outcome.is_none()) {
                pending.left.remove(&name);
            }
        }
    }
    for pending in pending.iter_mut().filter(|pending| pending.outcome.is_none() && pending.left.is_empty()) {
        pending.outcome = Some(Ok(()));
    }
    Ok(())
}

/// Returns the changed quotas with the claim charged, or the first rejection.
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
