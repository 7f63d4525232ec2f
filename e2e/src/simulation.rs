//! `Simulation`: the whole control plane inside one process, with an in-memory transport, virtual time and a seed.
//!
//! The components' code is the same as in processes; only the `Env` differs. The same seed gives the same log, byte for
//! byte. Read first: `cluster` (the components), `wire` and `faults` (the faults), `safety` (invariants of every step),
//! `rest` and `quiet` (convergence once faults stop).

// The components.
pub mod part;
mod cluster;

// The faults.
mod wire;
pub mod faults;

// The invariants.
mod verdict;
mod history;
mod insight;
mod witness;
mod watch_check;
mod safety;
mod rest;
mod quiet;

// The scenarios.
pub mod scenario;
pub mod user;

use apiserver::config::RequestLog;
use client::{Client, ListOptions};
use cluster::Cluster;
use component_base::env::Env;
use faults::{Climate, Faults};
use parking_lot::Mutex;
use part::Part;
use proto::kinds::api::core::v1::Node;
use rest::Restless;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;
use storage::Storage;
use storage::fault::Fault;
use storage::memory::Memory;
use tokio::time::Instant;
use verdict::{Verdict, Violation};
use wire::Wire;
use witness::Witness;

/// Virtual time in which a condition must become true.
const CONDITION_LIMIT: Duration = Duration::from_secs(600);
/// Virtual time between two checks of a condition.
const CHECK_PERIOD: Duration = Duration::from_millis(500);
/// Virtual time between two checks of the whole store.
const STORE_CHECK_PERIOD: Duration = Duration::from_secs(5);
/// Time in which the cluster converges after the last fault: pods of lost nodes are evicted after five minutes, unfulfilled
/// expectations time out after five, and back-offs grow to minutes.
const CONVERGENCE: Duration = Duration::from_secs(1800);
/// Time after convergence in which events and the nodes' next reports are still written.
const LAST_WRITES: Duration = Duration::from_secs(30);
/// Most objects named in one complaint.
const SHOWN: usize = 20;
/// Most lines of a timeline.
const TIMELINE: usize = 60;

/// The result of a run.
pub struct Run<T> {
    /// The log up to the end of the scenario.
    pub log: Vec<String>,
    /// Time from the first start to the end of the scenario.
    pub virtual_time: Duration,
    /// The scenario's result, or a report of the violated invariants.
    pub outcome: Result<T, String>,
}

/// A running cluster.
#[derive(Clone)]
pub struct Simulation {
    seed: u64,
    env: Env,
    began: Instant,
    log: Arc<Mutex<Vec<String>>>,
    verdict: Verdict,
    witness: Arc<Witness>,
    store: Arc<Fault>,
    wire: Arc<Wire>,
    cluster: Arc<Cluster>,
}

impl Simulation {
    /// Runs a scenario with an API server only.
    pub fn apiserver_alone<T>(seed: u64, scenario: impl AsyncFnOnce(&Self) -> T) -> T {
        let run = Self::run(seed, 0, &[Part::ApiServer], scenario);
        run.outcome.unwrap_or_else(|report| panic!("{report}"))
    }

    /// Runs a scenario with every component and `nodes` nodes, which are ready when it begins. Panics with a report if any
    /// step violates an invariant.
    pub fn whole<T>(seed: u64, nodes: u32, scenario: impl AsyncFnOnce(&Self) -> T) -> T {
        Self::judged(seed, nodes, scenario).outcome.unwrap_or_else(|report| panic!("{report}"))
    }

    /// Runs a scenario like `whole`, and returns the log and the report also of a violation.
    pub fn judged<T>(seed: u64, nodes: u32, scenario: impl AsyncFnOnce(&Self) -> T) -> Run<T> {
        let parts: Vec<Part> = std::iter::once(Part::ApiServer).chain(Part::CLIENTS).collect();
        Self::run(seed, nodes, &parts, async |simulation| {
            simulation.until("all nodes are ready", async |client| ready_nodes(client).await == nodes).await;
            scenario(simulation).await
        })
    }

    fn run<T>(seed: u64, nodes: u32, parts: &[Part], scenario: impl AsyncFnOnce(&Self) -> T) -> Run<T> {
        in_virtual_time(async {
            let simulation = Self::new(seed, nodes).await;
            simulation.verdict.watch_panics();
            parts.iter().for_each(|part| simulation.cluster.start(*part));
            let outcome = tokio::select! {
                biased;
                () = simulation.verdict.broken() => None,
                outcome = scenario(&simulation) => Some(outcome),
            };
            let virtual_time = simulation.env.now().duration_since(simulation.began);
            let log = simulation.log();
            simulation.cluster.stop().await;
            simulation.env.drain().await;
            Verdict::stop_watching_panics();
            let outcome = outcome.filter(|_| simulation.verdict.violations().is_empty());
            Run { log, virtual_time, outcome: outcome.ok_or_else(|| simulation.report()) }
        })
    }

    async fn new(seed: u64, nodes: u32) -> Self {
        let env = Env::simulated(seed);
        let verdict = Verdict::default();
        let log: Arc<Mutex<Vec<String>>> = Arc::default();
        let sink = log.clone();
        let request_log = RequestLog(Arc::new(move |line| sink.lock().push(line)));
        let below = env.process("store");
        let witness = Witness::new(&below, Memory::new(&below), &verdict).await.expect("a memory store starts");
        let storage: Arc<dyn Storage> = witness.clone();
        let store = Fault::new(&below, storage);
        let wire = Wire::new(&env, &verdict, witness.clone());
        let cluster = Cluster::new(&env, &wire, &verdict, &store, request_log, nodes);
        Self { seed, began: env.now(), env, log, verdict, witness, store, wire, cluster }
    }

    pub fn admin(&self) -> Client {
        self.cluster.client("kubernetes-admin")
    }

    /// Returns a client from outside the cluster with the certificate of a user.
    pub fn client(&self, user: &str) -> Client {
        self.cluster.client(user)
    }

    pub fn env(&self) -> &Env {
        &self.env
    }

    /// Returns the log so far, with a line per request, delivered watch event and fault.
    pub fn log(&self) -> Vec<String> {
        self.log.lock().clone()
    }

    /// Injects faults for some time, and then heals them all.
    pub async fn rage(&self, climate: Climate, how_long: Duration) {
        Faults::new(&self.env, &self.cluster, &self.wire, &self.store).rage(climate, how_long).await;
    }

    /// Disconnects a node from the network, or reconnects it.
    pub fn set_unreachable(&self, node: &str, unreachable: bool) {
        self.cluster.log_line(&format!("{node} {}", if unreachable { "reaches nobody" } else { "is back" }));
        self.wire.set_unreachable(node, unreachable);
    }

    /// Stalls the controllers' watches of a row (`/registry/replicasets/`) for some time.
    pub fn stall_controllers(&self, row: &'static str, how_long: Duration) {
        self.cluster.log_line(&format!("the controllers see nothing new of {row}, for {how_long:?}"));
        self.wire.stall_watches(Part::ControllerManager, row, how_long);
    }

    /// Waits until `condition` holds, and checks it every half second of virtual time. Records a violation if it does not
    /// hold within ten minutes.
    pub async fn until(&self, what: &str, condition: impl AsyncFn(&Client) -> bool) {
        let admin = self.admin();
        let waiting = async {
            while !condition(&admin).await {
                self.env.sleep(CHECK_PERIOD).await;
            }
        };
        if self.env.timeout(CONDITION_LIMIT, waiting).await.is_err() {
            let log = self.log();
            let end = log[log.len().saturating_sub(200)..].join("\n");
            self.give_up(
                format!("waited {CONDITION_LIMIT:?} of virtual time in vain until {what}; the log ends:\n{end}"),
                Vec::new(),
            )
            .await;
        }
    }

    /// Waits until the cluster has converged and written its last events. Returns the time that took.
    pub async fn converges(&self) -> Duration {
        let began = self.env.now();
        let mut objects = rest::Objects::default();
        loop {
            let store = self.witness.everything().await;
            objects.update(&store.entries);
            let mut restless = rest::restless(&objects, self.env.wall());
            if restless.is_empty() {
                let at_rest = self.env.now();
                self.env.sleep(LAST_WRITES).await;
                restless = quiet::unrest(&self.witness.since(store.revision), LAST_WRITES);
                if restless.is_empty() {
                    return at_rest.duration_since(began);
                }
            }
            let took = self.env.now().duration_since(began);
            if took > CONVERGENCE {
                let what = format!("after {took:?} without faults the cluster is not at rest:");
                self.give_up(what, restless).await;
            }
            self.env.sleep(STORE_CHECK_PERIOD).await;
        }
    }

    /// Observes a cluster at rest for some time: only writes on the closed list are allowed. Returns the number of requests.
    pub async fn stays_quiet(&self, how_long: Duration) -> usize {
        let (revision, lines) = (self.witness.everything().await.revision, self.log.lock().len());
        self.env.sleep(how_long).await;
        let unrest = quiet::unrest(&self.witness.since(revision), how_long);
        if !unrest.is_empty() {
            self.give_up(format!("a cluster at rest wrote {} times:", unrest.len()), unrest).await;
        }
        self.log.lock()[lines..].iter().filter(|line| !line.contains(" event /")).count()
    }

    /// Ends the run with a violation.
    async fn give_up(&self, what: String, restless: Vec<Restless>) {
        let shown: Vec<String> = restless.iter().take(SHOWN).map(|restless| format!("\n  {restless}")).collect();
        self.verdict.violated(format!("{what}{}", shown.concat()), restless.into_iter().map(|restless| restless.key));
        std::future::pending().await
    }

    /// Returns a report: the violation, how to repeat it, and the timelines of the objects.
    fn report(&self) -> String {
        let mut report = String::new();
        let log = self.log();
        for Violation { what, concerned } in self.verdict.violations() {
            let _ = writeln!(report, "seed {}: {what}", self.seed);
            for key in concerned.iter().take(5) {
                let _ = writeln!(report, "timeline of {key}:");
                let name = key.rsplit('/').next().unwrap_or(key);
                let written = self.witness.timeline(key, TIMELINE).into_iter().map(|(at, line)| (at.to_string(), line));
                let about = |line: &&String| line.contains(&format!("/{name}")) || line.contains("simulation:");
                let asked =
                    log.iter().filter(|line| !line.contains(" event ")).filter(about).filter_map(|line| {
                        line.split_once(' ').map(|(at, rest)| (at.to_owned(), format!("    {rest}")))
                    });
                let mut all: Vec<(String, String)> = written.chain(asked).collect();
                all.sort_by(|(a, _), (b, _)| a.cmp(b));
                for (at, line) in &all[all.len().saturating_sub(TIMELINE)..] {
                    let _ = writeln!(report, "  {at} {line}");
                }
            }
        }
        report
    }
}

/// Runs a scenario on one thread, with a clock that advances only when all tasks wait.
fn in_virtual_time<T>(scenario: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime without IO needs nothing").block_on(scenario)
}

async fn ready_nodes(client: &Client) -> u32 {
    let Ok(nodes) = client.api::<Node>("").list(&ListOptions::default()).await else { return 0 };
    let ready = |node: &&Node| {
        let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
        conditions.into_iter().any(|c| c.type_ == "Ready" && c.status == "True")
            && node.spec.as_ref().is_none_or(|spec| spec.taints.is_none())
    };
    u32::try_from(nodes.items.iter().filter(ready).count()).unwrap_or(u32::MAX)
}
