//! `Simulation`: runs the whole control plane inside one process, with an in-memory transport, virtual time and a seed.
//!
//! The components' code is the same as in processes; only the `Env` differs. The same seed gives the same log, byte for
//! byte. Read first: `cluster` (the components), `wire` and `faults` (the faults), `safety` (invariants of every
//! revision), `convergence` and `quiet` (the state of the cluster once faults stop).

// The components.
pub mod part;
pub mod keys;
pub mod log;
mod cluster;

// Servers beside the cluster.
mod metrics_source;
mod cloud;
pub mod cashier;

// The faults.
pub mod plan;
pub mod drawn_list;
mod wire;
pub mod faults;

// The invariants.
mod violations;
mod history;
mod controller_caches;
mod checked_store;
mod watch_check;
mod safety;
mod convergence;
mod quiet;

// The scenarios.
pub mod scenario;
pub mod user;
mod stories;
mod error_states;
mod any_order;
pub mod explore;

// Experiments.
pub mod trial;

use checked_store::CheckedStore;
use client::{Client, ListOptions};
use cluster::{Cluster, Layout};
use component_base::env::Env;
use convergence::Unconverged;
use drawn_list::{Draw, DrawnList, Listener};
use faults::{FaultInjector, FaultProfile};
use log::{Log, Row};
use metrics_source::MetricsSource;
use part::Part;
use plan::FaultPlan;
use plan::fault::Drawn;
use plan::point::Point;
use proto::kinds::api::core::v1::Node;
use simulated_cloud::running::RunningCloud;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;
use storage::Storage;
use storage::fault::Fault;
use storage::memory::Memory;
use tokio::time::Instant;
use violations::{Violation, Violations};
use wire::Wire;

/// Virtual time in which a condition must become true.
const CONDITION_LIMIT: Duration = Duration::from_secs(600);
/// Virtual time between two checks of a condition.
const CHECK_PERIOD: Duration = Duration::from_millis(500);
/// Virtual time between two checks of the whole store.
const STORE_CHECK_PERIOD: Duration = Duration::from_secs(5);
/// Time in which the cluster converges after the last fault: pods of lost nodes are evicted after five minutes,
/// unfulfilled expectations time out after five, and back-offs grow to minutes.
const CONVERGENCE: Duration = Duration::from_secs(1800);
/// Time after convergence in which Events and the nodes' next reports may still be written.
const LAST_WRITES: Duration = Duration::from_secs(30);
/// Most objects that one violation lists.
const SHOWN: usize = 20;
/// Most lines of a timeline.
const TIMELINE_LINES: usize = 60;

/// The result of a run.
pub struct Run<T> {
    /// The log up to the end of the scenario.
    pub log: Vec<Row>,
    /// Time from the first start to the end of the scenario.
    pub virtual_time: Duration,
    /// The scenario's result, or a report about the violated invariants.
    pub outcome: Result<T, String>,
    pub trace: Trace,
}

/// What a run says about faults.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// The promise that was broken first.
    pub promise: Option<String>,
    /// The faults that the seed has drawn.
    pub drawn: Vec<Drawn>,
    /// The user's actions that the seed has drawn.
    pub actions: Vec<Drawn>,
    /// The points at which faults can be tried.
    pub points: Vec<Point>,
    /// The planned faults that have happened, each with its place.
    pub reached: Vec<String>,
}

/// How a run begins.
#[derive(Clone, Debug)]
pub struct Start {
    pub seed: u64,
    /// Numbers of the drawn faults to inject; `None` for all.
    pub kept_faults: Option<BTreeSet<u32>>,
    /// Numbers of the user's drawn actions to take; `None` for all.
    pub kept_actions: Option<BTreeSet<u32>>,
    /// Learns of each draw at once.
    pub listener: Option<Listener>,
}

impl From<u64> for Start {
    fn from(seed: u64) -> Self {
        Self { seed, kept_faults: None, kept_actions: None, listener: None }
    }
}

/// A running cluster.
#[derive(Clone)]
pub struct Simulation {
    seed: u64,
    drawn: Arc<DrawnList>,
    actions: Arc<DrawnList>,
    env: Env,
    began: Instant,
    log: Log,
    violations: Violations,
    checked_store: Arc<CheckedStore>,
    store: Arc<Fault>,
    wire: Arc<Wire>,
    cluster: Arc<Cluster>,
    /// The values of external metrics.
    metrics: MetricsSource,
    cloud: Option<RunningCloud>,
}

impl Simulation {
    /// Runs a scenario with an API server only.
    pub fn apiserver_alone<T>(seed: u64, scenario: impl AsyncFnOnce(&Self) -> T) -> T {
        let run = Self::run(seed.into(), Layout::default(), &[Part::ApiServer], scenario);
        run.outcome.unwrap_or_else(|report| panic!("{report}"))
    }

    /// Runs a scenario with every component and `nodes` nodes, which are ready when it begins. Panics with a report if
    /// any step violates an invariant.
    pub fn whole<T>(seed: u64, nodes: u32, scenario: impl AsyncFnOnce(&Self) -> T) -> T {
        Self::run_whole(seed, nodes, scenario).outcome.unwrap_or_else(|report| panic!("{report}"))
    }

    /// Runs a scenario like `whole`. Does not panic at a violation, but returns the log and the report.
    pub fn run_whole<T>(start: impl Into<Start>, nodes: u32, scenario: impl AsyncFnOnce(&Self) -> T) -> Run<T> {
        Self::run_layout(start, Layout { nodes, ..Layout::default() }, scenario)
    }

    /// Runs a scenario with every component that a layout has, like `run_whole`.
    fn run_layout<T>(start: impl Into<Start>, layout: Layout, scenario: impl AsyncFnOnce(&Self) -> T) -> Run<T> {
        Self::run(start.into(), layout, &layout.parts(), async |simulation| {
            simulation.until("all nodes are ready", async |client| ready_nodes(client).await == layout.nodes).await;
            scenario(simulation).await
        })
    }

    fn run<T>(start: Start, layout: Layout, parts: &[Part], scenario: impl AsyncFnOnce(&Self) -> T) -> Run<T> {
        in_virtual_time(async {
            let simulation = Self::new(start, layout).await;
            simulation.violations.watch_panics();
            parts.iter().for_each(|part| simulation.cluster.start(*part));
            let outcome = tokio::select! {
                biased;
                () = simulation.violations.first() => None,
                outcome = scenario(&simulation) => Some(outcome),
            };
            let virtual_time = simulation.env.now().duration_since(simulation.began);
            let log = simulation.log.rows();
            simulation.cluster.stop().await;
            simulation.env.drain().await;
            Violations::stop_watching_panics();
            let outcome = outcome.filter(|_| simulation.violations.all().is_empty());
            let trace = simulation.trace();
            Run { log, virtual_time, outcome: outcome.ok_or_else(|| simulation.report()), trace }
        })
    }

    async fn new(Start { seed, kept_faults, kept_actions, listener }: Start, layout: Layout) -> Self {
        let drawn = Arc::new(DrawnList::keeping(Draw::Fault, kept_faults, listener.clone()));
        let actions = Arc::new(DrawnList::keeping(Draw::Action, kept_actions, listener));
        let env = Env::simulated(seed);
        let violations = Violations::default();
        let log = Log::new(&env);
        let store_env = env.process("store");
        let cloud = if layout.has_cloud { Some(cloud::start(&env).await) } else { None };
        let checked_store = CheckedStore::new(&store_env, Memory::new(&store_env), &violations, cloud.as_ref());
        let checked_store = checked_store.await.expect("a memory store starts");
        let storage: Arc<dyn Storage> = checked_store.clone();
        let store = Fault::new(&store_env, storage);
        let wire = Wire::new(&env, &violations, checked_store.clone(), log.clone());
        let cluster = Cluster::new(&env, &wire, &violations, &store, log.clone(), layout);
        let metrics = MetricsSource::start(&env);
        Self {
            seed,
            drawn,
            actions,
            began: env.now(),
            env,
            log,
            violations,
            checked_store,
            store,
            wire,
            cluster,
            metrics,
            cloud,
        }
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

    /// Returns the log so far as text, with a line per request, delivered watch event and fault.
    pub fn log(&self) -> Vec<String> {
        self.log.rows().iter().map(ToString::to_string).collect()
    }

    /// Injects faults for some time, and then heals them all.
    pub async fn inject_faults(&self, profile: FaultProfile, how_long: Duration) {
        let injector = FaultInjector::new(&self.env, self.began, &self.drawn, &self.cluster, &self.wire, &self.store);
        injector.run(profile, how_long).await;
    }

    /// Disconnects a node from the network, or reconnects it.
    pub fn set_unreachable(&self, node: &str, unreachable: bool) {
        self.cluster.log_fault(format!("{node} {}", if unreachable { "reaches nobody" } else { "is back" }));
        self.wire.set_unreachable(node, unreachable);
    }

    /// Stalls the controllers' watches of one resource for some time. `row` is its prefix: `/registry/replicasets/`,
    /// say.
    pub fn stall_controllers(&self, row: &'static str, how_long: Duration) {
        self.cluster.log_fault(format!("the controllers see nothing new of {row}, for {how_long:?}"));
        self.wire.stall_watches(Part::ControllerManager, row, how_long);
    }

    /// Waits until `condition` holds. Checks it every half second of virtual time, and records a violation after ten
    /// minutes.
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
            let text = format!("waited {CONDITION_LIMIT:?} of virtual time in vain until {what}; the log ends:\n{end}");
            self.break_promise(&format!("until {what}"), text, Vec::new()).await;
        }
    }

    /// Waits until the cluster has converged and written its last Events. Returns the time until it converged.
    pub async fn converges(&self) -> Duration {
        let began = self.env.now();
        let mut objects = convergence::Objects::default();
        loop {
            let store = self.checked_store.snapshot().await;
            objects.update(&store.entries);
            let mut found = convergence::unconverged(&objects, self.env.wall());
            if let Some(cloud) = &self.cloud {
                found.extend(cloud.look(|cloud| convergence::cloud::differences(&objects, cloud.holdings())));
            }
            if found.is_empty() {
                let converged_at = self.env.now();
                self.env.sleep(LAST_WRITES).await;
                found = quiet::unexpected_writes(&self.checked_store.since(store.revision), LAST_WRITES);
                if found.is_empty() {
                    return converged_at.duration_since(began);
                }
            }
            let took = self.env.now().duration_since(began);
            if took > CONVERGENCE {
                let what = format!("after {took:?} without faults the cluster is not at rest:");
                let row = found.first().map_or("", |first| first.key.split('/').nth(2).unwrap_or_default());
                self.break_promise(&format!("the cluster comes to rest: {row}"), what, found).await;
            }
            self.env.sleep(STORE_CHECK_PERIOD).await;
        }
    }

    /// Observes a converged cluster for some time. Only the writes that `quiet` lists are allowed. Returns the number
    /// of requests.
    pub async fn stays_quiet(&self, how_long: Duration) -> usize {
        let (revision, lines) = (self.checked_store.snapshot().await.revision, self.log.count());
        self.env.sleep(how_long).await;
        let unexpected = quiet::unexpected_writes(&self.checked_store.since(revision), how_long);
        if !unexpected.is_empty() {
            self.fail(format!("a cluster at rest wrote {} times:", unexpected.len()), unexpected).await;
        }
        self.log.since(lines).iter().filter(|row| row.is_request()).count()
    }

    /// Ends the run with a violation that lists the objects.
    async fn fail(&self, what: String, objects: Vec<Unconverged>) {
        self.break_promise("the scenario ends as it should", what, objects).await;
    }

    async fn break_promise(&self, promise: &str, what: String, objects: Vec<Unconverged>) {
        let shown: Vec<String> = objects.iter().take(SHOWN).map(|object| format!("\n  {object}")).collect();
        let keys = objects.into_iter().map(|object| object.key);
        self.violations.record(promise, format!("{what}{}", shown.concat()), keys);
        std::future::pending().await
    }

    fn trace(&self) -> Trace {
        Trace {
            promise: self.violations.all().first().map(|violation| violation.promise.clone()),
            drawn: self.drawn.all(),
            actions: self.actions.all(),
            points: self.wire.plan(FaultPlan::points),
            reached: self.wire.plan(|plan| plan.reached().to_vec()),
        }
    }

    /// Returns a report: each violation with its seed and with timelines of the objects that it concerns.
    fn report(&self) -> String {
        let mut report = String::new();
        let log: Vec<(Row, String)> = self
            .log
            .rows()
            .into_iter()
            .filter(|row| !row.is_delivery())
            .map(|row| (row.clone(), row.to_string()))
            .collect();
        for Violation { what, concerned, .. } in self.violations.all() {
            let _ = writeln!(report, "seed {}: {what}", self.seed);
            for key in concerned.iter().take(5) {
                let _ = writeln!(report, "timeline of {key}:");
                let name = key.rsplit('/').next().unwrap_or(key);
                let written = self
                    .checked_store
                    .timeline(key, TIMELINE_LINES)
                    .into_iter()
                    .map(|(at, line)| (at.to_string(), line));
                let about = log.iter().filter(|(row, line)| row.is_of_run() || line.contains(&format!("/{name}")));
                let requests = about.filter_map(|(_, line)| {
                    line.split_once(' ').map(|(at, rest)| (at.to_owned(), format!("    {rest}")))
                });
                let mut all: Vec<(String, String)> = written.chain(requests).collect();
                all.sort_by(|(a, _), (b, _)| a.cmp(b));
                for (at, line) in &all[all.len().saturating_sub(TIMELINE_LINES)..] {
                    let _ = writeln!(report, "  {at} {line}");
                }
            }
        }
        report
    }
}

/// Runs a scenario on one thread, with a clock that advances only when all tasks wait.
fn in_virtual_time<T>(scenario: impl Future<Output = T>) -> T {
    virtual_runtime().block_on(scenario)
}

fn virtual_runtime() -> tokio::runtime::Runtime {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime without IO needs nothing")
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
