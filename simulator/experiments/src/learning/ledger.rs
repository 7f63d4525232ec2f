//! `Ledger`: computes the reward of each step from the records of the episode and the answers of the agent.
//!
//! A binding is recorded a little later than it is decided. The ledger assumes it at once, as the scheduler does, so that a step is
//! rewarded for its own decision.

use crate::metrics::Values;
use crate::metrics::replay::{GPUS, Replay};
use crate::record::{Event, PodCreated, Record};
use crate::study::{Reward, Term};
use std::collections::{BTreeMap, BTreeSet};

/// What an agent has answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer<'a> {
    Node(&'a str),
    Wait,
    /// The name of a node on which the pod does not fit: the pod waits.
    Invalid,
}

#[derive(Debug)]
pub struct Ledger {
    replay: Replay,
    /// All pods of the episode.
    pods: BTreeMap<String, PodCreated>,
    /// Pods with a node of which no record tells yet.
    assumed: BTreeSet<String>,
    parts: Vec<Reward>,
    /// What the sums were when the step began.
    before: Sums,
    /// What the answer itself adds to the step.
    own: f64,
}

/// Numbers that grow in the course of an episode.
#[derive(Clone, Debug, Default)]
struct Sums {
    pending_s: f64,
    bound_s: f64,
    /// Seconds times the share of each resource that is allocated.
    allocated: BTreeMap<&'static str, f64>,
    fragment: f64,
}

impl Ledger {
    /// Begins an episode with these pods.
    pub fn new(pods: BTreeMap<String, PodCreated>, reward: &[Reward]) -> Self {
        let parts = match reward {
            [] => vec![Reward { term: Some(Term::Pending), metric: None, weight: -1.0 }],
            parts => parts.to_vec(),
        };
        let replay = Replay::of_workload(pods.values());
        Self { replay, pods, assumed: BTreeSet::new(), parts, before: Sums::default(), own: 0.0 }
    }

    /// Takes the next record. Records come in the order of time.
    pub fn record(&mut self, record: &Record) {
        self.advance(record.at_us);
        match &record.event {
            Event::PodScheduled { pod, .. } => drop(self.assumed.remove(pod)),
            // The scheduler has assumed it in vain.
            Event::AttemptFailed { pod, .. } if self.assumed.remove(pod) => self.replay.lose(pod, |_| ()),
            _ => {}
        }
        self.replay.apply(record);
    }

    /// Notes that a pod waits for a decision, of which no record may tell yet.
    pub fn ask(&mut self, at_us: u64, pod: &str) {
        self.advance(at_us);
        if let Some(created) = self.pods.get(pod)
            && !self.replay.pods.contains_key(pod)
        {
            self.replay.apply(&Record { at_us, event: Event::PodCreated(created.clone()) });
        }
    }

    /// Notes the answer to a decision.
    pub fn answer(&mut self, at_us: u64, pod: &str, answer: Answer<'_>) {
        self.advance(at_us);
        let mut packed = 0.0;
        if let Answer::Node(node) = answer {
            let event = Event::PodScheduled {
                pod: pod.to_owned(),
                node: node.to_owned(),
                gpus: Vec::new(),
                decided_us: Some(at_us),
            };
            self.replay.apply(&Record { at_us, event });
            self.assumed.insert(pod.to_owned());
            packed = self.replay.allocated_share(node);
        }
        let flag = |is: bool| f64::from(u8::from(is));
        for part in &self.parts {
            let own = match part.term {
                Some(Term::BinPacking) => packed,
                Some(Term::Waited) => flag(!matches!(answer, Answer::Node(_))),
                Some(Term::Invalid) => flag(answer == Answer::Invalid),
                _ => 0.0,
            };
            self.own += part.weight * own;
        }
    }

    /// Returns the reward of the step that ends now, and begins the next one.
    pub fn settle(&mut self, at_us: u64) -> f64 {
        self.advance(at_us);
        let (now, mut reward) = (self.sums(), std::mem::take(&mut self.own));
        let before = std::mem::replace(&mut self.before, now.clone());
        let allocated = |resource: &str| {
            let of = |sums: &Sums| sums.allocated.get(resource).copied().unwrap_or_default();
            of(&now) - of(&before)
        };
        let (pending_s, bound_s) = (now.pending_s - before.pending_s, now.bound_s - before.bound_s);
        for part in &self.parts {
            let grown = match part.term {
                Some(Term::Pending) => pending_s,
                Some(Term::Unfinished) => pending_s + bound_s,
                Some(Term::AllocationCpu) => allocated("cpu"),
                Some(Term::AllocationMemory) => allocated("memory"),
                Some(Term::AllocationGpu) => allocated(GPUS),
                Some(Term::Fragmentation) => (now.fragment - before.fragment) / 1000.0,
                _ => 0.0,
            };
            reward += part.weight * grown;
        }
        reward
    }

    /// Returns what the metrics of the whole episode add to its last step.
    pub fn at_end(&self, metrics: &Values) -> f64 {
        let value = |part: &Reward| Some(part.weight * metrics.get(part.metric.as_deref()?)?);
        self.parts.iter().filter_map(value).sum()
    }

    /// Returns the number of pods that wait.
    pub fn pending(&self) -> u64 {
        self.replay.pending()
    }

    /// Returns how long a pod has existed, in seconds.
    pub fn age_s(&self, pod: &str, at_us: u64) -> f64 {
        let created_us = self.replay.pods.get(pod).map_or(at_us, |row| row.created_us);
        crate::units::seconds(at_us.saturating_sub(created_us))
    }

    fn sums(&self) -> Sums {
        let integrals = &self.replay.integrals;
        Sums {
            pending_s: integrals.pending_s,
            bound_s: integrals.bound_s,
            allocated: integrals.allocated_share.clone(),
            fragment: self.replay.totals.fragment,
        }
    }

    fn advance(&mut self, at_us: u64) {
        self.replay.advance(at_us);
    }
}
