//! `FaultInjector`: draws the faults of a run from the seed, with their times and durations, and injects them.

use super::cluster::Cluster;
use super::drawn_list::DrawnList;
use super::part::Part;
use super::wire::{Wire, WireFaults};
use component_base::env::Env;
use component_base::rng::Random;
use jiff::SignedDuration;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use storage::fault::{Fault, Faults as StoreFaults};
use tokio::time::Instant;

/// A fault to inject, with its duration.
#[derive(Clone, Debug, PartialEq)]
pub enum InjectedFault {
    /// Requests and answers are lost or delayed, and watches stall and break.
    WireFaults(WireFaults, Duration),
    /// Requests of the API server to its store, and their answers, are lost or delayed.
    StoreFaults(StoreFaults, Duration),
    /// The watches of a component break.
    CutWatches(Part),
    /// All watches of the API server on its store break.
    CutStoreWatches,
    /// The watches of a component stall.
    StallWatches(Part, Duration),
    /// A part is killed now, and is down for this time.
    Kill(Part, Duration),
    /// A part is killed after this number of writes, before it gets the answer to the last one.
    KillAfterWrites(Part, u32, Duration),
    /// The node with this number is disconnected.
    LoseNode(u32, Duration),
    /// The wall clock of a part is wrong by this much.
    StepClock(Part, SignedDuration, Duration),
}

impl fmt::Display for InjectedFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InjectedFault::WireFaults(_, lasts) => write!(f, "a storm on the wire, for {lasts:?}"),
            InjectedFault::StoreFaults(_, lasts) => write!(f, "a storm before the store, for {lasts:?}"),
            InjectedFault::CutWatches(part) => write!(f, "the watches of {part} break"),
            InjectedFault::CutStoreWatches => write!(f, "the watches on the store break"),
            InjectedFault::StallWatches(part, lasts) => write!(f, "the watches of {part} stand still, for {lasts:?}"),
            InjectedFault::Kill(part, _) => write!(f, "{part} is to be killed"),
            InjectedFault::KillAfterWrites(part, writes, _) => {
                write!(f, "{part} is to be killed at its write {writes}")
            }
            InjectedFault::LoseNode(node, lasts) => write!(f, "node-{node} reaches nobody, for {lasts:?}"),
            InjectedFault::StepClock(part, error, lasts) => {
                write!(f, "the clock of {part} is wrong by {error:#}, for {lasts:?}")
            }
        }
    }
}

/// The kinds and the frequency of a run's faults.
#[derive(Clone, Copy, Debug)]
pub struct FaultProfile {
    /// Number of nodes that may be disconnected; 0 for none.
    pub nodes_to_lose: u32,
    /// Longest pause between two faults.
    pub longest_pause: Duration,
    /// Whether clocks step.
    pub steps_clocks: bool,
}

/// Draws the next fault. `clients` are the parts that may be killed or cut off, besides the API server.
fn draw(random: &Random, profile: FaultProfile, clients: &[Part]) -> InjectedFault {
    let seconds = |most: usize| Duration::from_millis(random.below(most * 1000) as u64);
    let client = || clients[random.below(clients.len())];
    if profile.steps_clocks && random.below(2) == 0 {
        let error = SignedDuration::from_secs([3600, -3600, 90, -90][random.below(4)]);
        // The API server comes after its clients.
        let part = clients.get(random.below(clients.len() + 1)).copied().unwrap_or(Part::ApiServer);
        return InjectedFault::StepClock(part, error, seconds(100));
    }
    match random.below(if profile.nodes_to_lose > 0 { 11 } else { 9 }) {
        0 | 1 => InjectedFault::WireFaults(wire_faults(random), seconds(40)),
        2 => InjectedFault::StoreFaults(store_faults(random), seconds(30)),
        3 => InjectedFault::CutWatches(client()),
        4 => InjectedFault::CutStoreWatches,
        5 => InjectedFault::StallWatches(client(), seconds(30)),
        6 => InjectedFault::Kill(client(), seconds(20)),
        7 => InjectedFault::KillAfterWrites(client(), 1 + random.below(12) as u32, seconds(20)),
        8 => InjectedFault::Kill(Part::ApiServer, seconds(15)),
        _ => InjectedFault::LoseNode(random.below(profile.nodes_to_lose as usize) as u32, seconds(400)),
    }
}

/// Draws small probabilities, half of them zero: if all faults came at once, they would hide the effects of a single
/// one.
fn wire_faults(random: &Random) -> WireFaults {
    let probability = |most: f64| if random.below(2) == 0 { 0.0 } else { random.unit() * most };
    WireFaults {
        lost_request: probability(0.3),
        lost_answer: probability(0.3),
        delay: probability(1.0),
        longest_delay: Duration::from_millis(random.below(3000) as u64),
        cut_watch: probability(0.1),
        stall_watch: probability(0.2),
        longest_stall: Duration::from_millis(random.below(10_000) as u64),
    }
}

fn store_faults(random: &Random) -> StoreFaults {
    let probability = |most: f64| if random.below(2) == 0 { 0.0 } else { random.unit() * most };
    StoreFaults {
        lost_request: probability(0.2),
        lost_answer: probability(0.2),
        delay: probability(1.0),
        longest_delay: Duration::from_millis(random.below(1000) as u64),
        cut_watch: probability(0.1),
    }
}

/// Injects faults into a running cluster.
pub struct FaultInjector {
    env: Env,
    began: Instant,
    drawn: Arc<DrawnList>,
    random: Random,
    cluster: Arc<Cluster>,
    wire: Arc<Wire>,
    store: Arc<Fault>,
}

impl FaultInjector {
    /// Makes an injector for a run that began at this time.
    pub fn new(
        env: &Env,
        began: Instant,
        drawn: &Arc<DrawnList>,
        cluster: &Arc<Cluster>,
        wire: &Arc<Wire>,
        store: &Arc<Fault>,
    ) -> Self {
        let (random, drawn) = (env.random("simulation/faults"), drawn.clone());
        let (cluster, wire, store) = (cluster.clone(), wire.clone(), store.clone());
        Self { env: env.clone(), began, drawn, random, cluster, wire, store }
    }

    /// Injects one fault after another for some time, and then heals them all.
    pub async fn run(&self, profile: FaultProfile, how_long: Duration) {
        let end = self.env.now() + how_long;
        let mut lost = BTreeSet::new();
        let mut ongoing: Vec<(Instant, OngoingFault)> = Vec::new();
        let clients = self.cluster.clients();
        loop {
            let pause = profile.longest_pause.mul_f64(self.random.unit());
            let next = self.env.now() + pause;
            ongoing.sort_by_key(|(at, _)| *at);
            while ongoing.first().is_some_and(|(at, _)| *at <= next.min(end)) {
                let (at, fault) = ongoing.remove(0);
                self.env.sleep_until(at).await;
                self.heal(fault, &mut lost);
            }
            if next >= end {
                break;
            }
            self.env.sleep_until(next).await;
            // A fault that is left out is drawn all the same, so that the others stay as they are.
            let fault = draw(&self.random, profile, &clients);
            let (number, is_kept) = self.drawn.draw(self.env.now().duration_since(self.began));
            self.drawn.describe(number, fault.to_string());
            if !is_kept {
                continue;
            }
            if let Some((lasts, fault)) = self.inject(fault, &mut lost) {
                ongoing.push((self.env.now() + lasts, fault));
            }
        }
        self.env.sleep_until(end).await;
        self.cluster.log_fault("no more faults");
        ongoing.into_iter().for_each(|(_, fault)| self.heal(fault, &mut lost));
        // Killed parts restart by themselves.
        self.wire.heal();
        self.store.set(StoreFaults::default());
    }

    /// Injects a fault. If it must be healed later, returns when and how.
    fn inject(&self, fault: InjectedFault, lost: &mut BTreeSet<u32>) -> Option<(Duration, OngoingFault)> {
        self.cluster.log_fault(&fault);
        match fault {
            InjectedFault::WireFaults(faults, lasts) => {
                self.wire.set_faults(faults);
                return Some((lasts, OngoingFault::Wire));
            }
            InjectedFault::StoreFaults(faults, lasts) => {
                self.store.set(faults);
                return Some((lasts, OngoingFault::Store));
            }
            InjectedFault::CutWatches(part) => self.wire.cut_watches(part),
            InjectedFault::CutStoreWatches => self.store.cut_watches(),
            InjectedFault::StallWatches(part, lasts) => self.wire.stall_watches(part, "", lasts),
            InjectedFault::Kill(part, down) => self.cluster.kill(part, down),
            InjectedFault::KillAfterWrites(part, writes, down) => self.wire.kill_after_writes(part, writes, down),
            InjectedFault::LoseNode(node, lasts) if lost.insert(node) => {
                self.wire.set_unreachable(&format!("node-{node}"), true);
                return Some((lasts, OngoingFault::Node(node)));
            }
            InjectedFault::LoseNode(..) => {}
            InjectedFault::StepClock(part, error, lasts) => {
                self.cluster.set_clock(part, error);
                return Some((lasts, OngoingFault::Clock(part)));
            }
        }
        None
    }

    fn heal(&self, fault: OngoingFault, lost: &mut BTreeSet<u32>) {
        match fault {
            OngoingFault::Wire => self.wire.set_faults(WireFaults::default()),
            OngoingFault::Store => self.store.set(StoreFaults::default()),
            OngoingFault::Clock(part) => self.cluster.set_clock(part, SignedDuration::ZERO),
            OngoingFault::Node(node) => {
                lost.remove(&node);
                self.wire.set_unreachable(&format!("node-{node}"), false);
            }
        }
    }
}

/// A fault that lasts until it is healed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum OngoingFault {
    Wire,
    Store,
    Node(u32),
    Clock(Part),
}
