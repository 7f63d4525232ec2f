//! `Faults`: draws the faults of a run, their times and durations, from the seed.

use super::cluster::Cluster;
use super::part::Part;
use super::wire::{Weather, Wire};
use component_base::env::Env;
use component_base::rng::Random;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use storage::fault::{Fault, Faults as StoreFaults};

/// One fault, with its duration.
#[derive(Clone, Debug, PartialEq)]
pub enum Misfortune {
    /// Requests and answers are lost or delayed, and watches stall and break.
    Storm(Weather, Duration),
    /// Such faults between the API server and its store.
    StoreStorm(StoreFaults, Duration),
    CutWatches(Part),
    /// All watches of the API server on its store break.
    CutStoreWatches,
    /// The watches of a component stall.
    StallWatches(Part, Duration),
    /// A part is killed now, and is down for this time.
    Kill(Part, Duration),
    /// A part is killed after so many writes, before it gets the answer to the last one.
    KillAfterWrites(Part, u32, Duration),
    /// A node is disconnected.
    LoseNode(u32, Duration),
}

impl fmt::Display for Misfortune {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Misfortune::Storm(_, lasts) => write!(f, "a storm on the wire, for {lasts:?}"),
            Misfortune::StoreStorm(_, lasts) => write!(f, "a storm before the store, for {lasts:?}"),
            Misfortune::CutWatches(part) => write!(f, "the watches of {part} break"),
            Misfortune::CutStoreWatches => write!(f, "the watches on the store break"),
            Misfortune::StallWatches(part, lasts) => write!(f, "the watches of {part} stand still, for {lasts:?}"),
            Misfortune::Kill(part, _) => write!(f, "{part} is to be killed"),
            Misfortune::KillAfterWrites(part, writes, _) => write!(f, "{part} is to be killed at its write {writes}"),
            Misfortune::LoseNode(node, lasts) => write!(f, "node-{node} reaches nobody, for {lasts:?}"),
        }
    }
}

/// The faults of a run.
#[derive(Clone, Copy, Debug)]
pub struct Climate {
    /// Number of nodes of the cluster; 0 to lose none.
    pub nodes_to_lose: u32,
    /// Longest pause between two faults.
    pub longest_pause: Duration,
}

/// Draws the next fault.
pub fn draw(random: &Random, climate: Climate) -> Misfortune {
    let seconds = |most: usize| Duration::from_millis(random.below(most * 1000) as u64);
    let client = || Part::CLIENTS[random.below(Part::CLIENTS.len())];
    match random.below(if climate.nodes_to_lose > 0 { 11 } else { 9 }) {
        0 | 1 => Misfortune::Storm(weather(random), seconds(40)),
        2 => Misfortune::StoreStorm(store_faults(random), seconds(30)),
        3 => Misfortune::CutWatches(client()),
        4 => Misfortune::CutStoreWatches,
        5 => Misfortune::StallWatches(client(), seconds(30)),
        6 => Misfortune::Kill(client(), seconds(20)),
        7 => Misfortune::KillAfterWrites(client(), 1 + random.below(12) as u32, seconds(20)),
        8 => Misfortune::Kill(Part::ApiServer, seconds(15)),
        _ => Misfortune::LoseNode(random.below(climate.nodes_to_lose as usize) as u32, seconds(400)),
    }
}

/// Draws probabilities, mostly small and sometimes zero: with all faults at once, effects of a single one would be hidden.
fn weather(random: &Random) -> Weather {
    let likely = |most: f64| if random.below(2) == 0 { 0.0 } else { random.unit() * most };
    Weather {
        lost_request: likely(0.3),
        lost_answer: likely(0.3),
        delay: likely(1.0),
        longest_delay: Duration::from_millis(random.below(3000) as u64),
        cut_watch: likely(0.1),
        stall_watch: likely(0.2),
        longest_stall: Duration::from_millis(random.below(10_000) as u64),
    }
}

fn store_faults(random: &Random) -> StoreFaults {
    let likely = |most: f64| if random.below(2) == 0 { 0.0 } else { random.unit() * most };
    StoreFaults {
        lost_request: likely(0.2),
        lost_answer: likely(0.2),
        delay: likely(1.0),
        longest_delay: Duration::from_millis(random.below(1000) as u64),
        cut_watch: likely(0.1),
    }
}

/// Injects faults.
pub struct Faults {
    env: Env,
    random: Random,
    cluster: Arc<Cluster>,
    wire: Arc<Wire>,
    store: Arc<Fault>,
}

impl Faults {
    pub fn new(env: &Env, cluster: &Arc<Cluster>, wire: &Arc<Wire>, store: &Arc<Fault>) -> Self {
        let random = env.random("simulation/faults");
        Self { env: env.clone(), random, cluster: cluster.clone(), wire: wire.clone(), store: store.clone() }
    }

    /// Injects one fault after another for some time, and then heals them all.
    pub async fn rage(&self, climate: Climate, how_long: Duration) {
        let end = self.env.now() + how_long;
        let mut lost = BTreeSet::new();
        let mut healings: Vec<(tokio::time::Instant, Healing)> = Vec::new();
        loop {
            let pause = climate.longest_pause.mul_f64(self.random.unit());
            let next = self.env.now() + pause;
            healings.sort_by_key(|(at, _)| *at);
            while healings.first().is_some_and(|(at, _)| *at <= next.min(end)) {
                let (at, healing) = healings.remove(0);
                self.env.sleep_until(at).await;
                self.heal(healing, &mut lost);
            }
            if next >= end {
                break;
            }
            self.env.sleep_until(next).await;
            if let Some((lasts, healing)) = self.strike(draw(&self.random, climate), &mut lost) {
                healings.push((self.env.now() + lasts, healing));
            }
        }
        self.env.sleep_until(end).await;
        self.cluster.log_line("no more faults");
        healings.into_iter().for_each(|(_, healing)| self.heal(healing, &mut lost));
        // Killed parts restart by themselves.
        self.wire.heal();
        self.store.set(StoreFaults::default());
    }

    fn strike(&self, misfortune: Misfortune, lost: &mut BTreeSet<u32>) -> Option<(Duration, Healing)> {
        self.cluster.log_line(&misfortune.to_string());
        match misfortune {
            Misfortune::Storm(weather, lasts) => {
                self.wire.set_weather(weather);
                return Some((lasts, Healing::Wire));
            }
            Misfortune::StoreStorm(faults, lasts) => {
                self.store.set(faults);
                return Some((lasts, Healing::Store));
            }
            Misfortune::CutWatches(part) => self.wire.cut_watches(part),
            Misfortune::CutStoreWatches => self.store.cut_watches(),
            Misfortune::StallWatches(part, lasts) => self.wire.stall_watches(part, "", lasts),
            Misfortune::Kill(part, down) => self.cluster.kill(part, down),
            Misfortune::KillAfterWrites(part, writes, down) => self.wire.ambush(part, writes, down),
            Misfortune::LoseNode(node, lasts) if lost.insert(node) => {
                self.wire.set_unreachable(&format!("node-{node}"), true);
                return Some((lasts, Healing::Node(node)));
            }
            Misfortune::LoseNode(..) => {}
        }
        None
    }

    fn heal(&self, healing: Healing, lost: &mut BTreeSet<u32>) {
        match healing {
            Healing::Wire => self.wire.set_weather(Weather::default()),
            Healing::Store => self.store.set(StoreFaults::default()),
            Healing::Node(node) => {
                lost.remove(&node);
                self.wire.set_unreachable(&format!("node-{node}"), false);
            }
        }
    }
}

/// The end of a fault that lasts.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Healing {
    Wire,
    Store,
    Node(u32),
}
