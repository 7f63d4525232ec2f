//! `DecisionLog`: receives every attempt of a trial's scheduler, and knows for whom a pod was preempted.

use component_base::env::Env;
use experiments::decision::{Decided, Verdict};
use experiments::record::Event;
use experiments::units::micros_of;
use parking_lot::Mutex;
use scheduler::explanation::explain::{choice, explain};
use scheduler::explanation::reason::reason;
use scheduler::explanation::rows::{Row, rows};
use scheduler::explanation::{Attempt, Attempts, Outcome};
use scheduler::framework::cache::Snapshot;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::time::Instant;

/// What is told of each attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    Attempts,
    /// Every plugin's word on every node too. Filters and scores run once more for it.
    Plugins,
}

/// An attempt, as the audience of a trial gets it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Told {
    pub decided: Decided,
    /// Empty unless the detail is `Plugins`.
    pub verdicts: Vec<Verdict>,
    /// CPU time of the decision, if the setup has a clock for it. It depends on the machine.
    pub cpu: Option<Duration>,
}

pub struct DecisionLog {
    env: Env,
    detail: Option<Detail>,
    cpu_clock: Option<fn() -> Duration>,
    began: OnceLock<Instant>,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    recorded: u64,
    /// CPU time at the beginning of the cycle.
    cpu_before: Option<Duration>,
    told: Vec<Told>,
    /// The beginning of the attempt that has found a node for a pod that is not bound yet.
    placed: BTreeMap<String, Instant>,
    /// The preemptor of each pod that is to be deleted for one.
    preemptors: BTreeMap<String, String>,
}

impl DecisionLog {
    pub fn new(env: &Env, detail: Option<Detail>, cpu_clock: Option<fn() -> Duration>) -> Arc<Self> {
        Arc::new(Self { env: env.clone(), detail, cpu_clock, began: OnceLock::new(), inner: Mutex::default() })
    }

    /// Notes the beginning of the trial, from which times count.
    pub fn begin(&self, now: Instant) {
        self.began.get_or_init(|| now);
    }

    /// Returns the attempts since the last call.
    pub fn take(&self) -> Vec<Told> {
        std::mem::take(&mut self.inner.lock().told)
    }

    /// Adds to an event what the store does not tell: when a binding was decided, and for whom a pod was preempted.
    pub fn complete(&self, event: &mut Event) {
        let mut inner = self.inner.lock();
        match event {
            Event::PodScheduled { pod, decided_us, .. } => {
                *decided_us = inner.placed.remove(pod).map(|at| self.micros(at));
            }
            Event::PodPreempted { pod, by } => *by = inner.preemptors.remove(pod).unwrap_or_default(),
            _ => {}
        }
    }

    fn micros(&self, at: Instant) -> u64 {
        self.began.get().map_or(0, |began| micros_of(at.saturating_duration_since(*began)))
    }

    fn tell(&self, attempt: &Attempt, began: Instant, snapshot: &Snapshot) -> (Decided, Vec<Verdict>) {
        let (summary, choice) = (attempt.summary(), choice(attempt, snapshot));
        let victims = match &attempt.outcome {
            Outcome::NotFound { victims, .. } => victims.len(),
            Outcome::Found(_) | Outcome::Failed(_) => 0,
        };
        let decided = Decided {
            number: attempt.id,
            at_us: self.micros(began),
            took_us: micros_of(attempt.took),
            pod: summary.pod,
            attempt: summary.attempt,
            profile: summary.profile,
            result: summary.result,
            node: summary.node,
            evaluated: choice.evaluated as u64,
            feasible: choice.feasible as u64,
            ties: choice.ties.len() as u64,
            score: choice.best_total,
            victims: victims as u64,
            reason: reason(attempt, snapshot),
        };
        let verdicts = match self.detail {
            Some(Detail::Plugins) => rows(&explain(attempt, snapshot)).into_iter().map(verdict).collect(),
            Some(Detail::Attempts) | None => Vec::new(),
        };
        (decided, verdicts)
    }
}

fn verdict(row: Row) -> Verdict {
    Verdict {
        number: u64::try_from(row.id).unwrap_or_default(),
        pod: row.pod,
        node: row.node,
        searched: row.searched,
        fits: row.fits,
        chosen: row.chosen,
        point: row.point.to_owned(),
        plugin: row.plugin,
        result: row.result,
        reasons: row.reasons,
        raw: row.raw,
        normalised: row.score,
        weight: row.weight,
    }
}

impl Attempts for DecisionLog {
    fn begins(&self) {
        self.inner.lock().cpu_before = self.cpu_clock.map(|clock| clock());
    }

    fn record(&self, mut attempt: Attempt, snapshot: &Snapshot) -> u64 {
        let cpu_now = self.cpu_clock.map(|clock| clock());
        let began = self.env.now() - attempt.took;
        let mut inner = self.inner.lock();
        inner.recorded += 1;
        attempt.id = inner.recorded;
        match &attempt.outcome {
            Outcome::Found(_) => {
                inner.placed.insert(attempt.pod.key.clone(), began);
            }
            Outcome::NotFound { victims, .. } => {
                let by = &attempt.pod.key;
                inner.preemptors.extend(victims.iter().map(|victim| (victim.clone(), by.clone())));
            }
            Outcome::Failed(_) => {}
        }
        if self.detail.is_some() {
            let (decided, verdicts) = self.tell(&attempt, began, snapshot);
            let cpu = cpu_now.zip(inner.cpu_before).map(|(now, before)| now.saturating_sub(before));
            inner.told.push(Told { decided, verdicts, cpu });
        }
        // The next pod of a group has no beginning of its own.
        inner.cpu_before = self.cpu_clock.map(|clock| clock());
        attempt.id
    }

    fn end(&self, _: u64, _: &str) {}
}
