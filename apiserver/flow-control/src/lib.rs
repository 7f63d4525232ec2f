//! API Priority and Fairness: decides which requests run when the server receives too many, and which wait or are rejected.
//!
//! The first FlowSchema that matches a request assigns it to a PriorityLevelConfiguration, which has a share of the server's
//! seats. A request that finds no free seat waits in one of the level's queues, or is rejected with 429. Flows of one schema
//! are distinguished by user or namespace. Each flow may use only a few of the queues, so that one flood cannot fill them all.
//! Corresponds to k8s.io/apiserver/pkg/util/flowcontrol.
//!
//! Reading order: [`flow_schema`], [`priority_level`], [`work`], [`queue_set`] with [`dealer`], [`borrowing`]: pure
//! calculations. [`level`] and [`FlowControl`] below let requests wait; [`controller`] watches the API objects.

pub mod flow_schema;
pub mod priority_level;
pub mod work;
pub mod watch_count;
pub mod queue_set;
pub mod dealer;
pub mod level;
pub mod demand;
pub mod occupancy;
pub mod reads_and_writes;
pub mod borrowing;
pub mod configuration;
pub mod controller;
pub mod debug;
pub mod max_in_flight;
pub mod metrics;

use crate::metrics::{FlowMetrics, KindOfRequest};
use arc_swap::ArcSwap;
use component_base::env::Env;
use configuration::{Configuration, Flow};
use level::{About, Level, Queued};
use max_in_flight::{MaxInFlight, NoSeat};
use queue_set::{Refused, Running};
use reads_and_writes::{Phase, ReadsAndWrites};
use registry::Registry;
use request::UserInfo;
use request::info::RequestInfo;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;
use watch_count::{OpenWatch, WatchCount};
use work::{Load, Work, estimate};

/// A request waits for at most one part in this many of its timeout.
const WAIT_PART: u32 = 4;

/// Admits requests: by fairness, or by `max-in-flight` limits.
#[derive(Clone, Debug)]
pub struct FlowControl(Kind);

#[derive(Clone, Debug)]
enum Kind {
    InFlight(MaxInFlight),
    Fair(Arc<Fairness>),
}

/// State of API Priority and Fairness.
#[derive(Debug)]
pub struct Fairness {
    env: Env,
    began: Instant,
    server_seats: usize,
    configuration: ArcSwap<Configuration>,
    watches: WatchCount,
    kinds: ReadsAndWrites,
    metrics: FlowMetrics,
}

/// The seat that a request holds until its response is complete.
#[derive(Debug)]
pub enum Seat {
    /// The request is not limited.
    None,
    InFlight(OwnedSemaphorePermit),
    Fair(FairSeat),
}

/// The seats of a request on a priority level.
#[derive(Debug)]
pub struct FairSeat {
    fairness: Arc<Fairness>,
    flow: Arc<Flow>,
    running: Option<Running>,
    seats: usize,
    kind: KindOfRequest,
    is_write: bool,
    began: Instant,
}

impl FlowControl {
    /// Limits concurrent requests without fairness; 0 means no limit.
    pub fn max_in_flight(max_reads: usize, max_writes: usize) -> Self {
        Self(Kind::InFlight(MaxInFlight::new(max_reads, max_writes)))
    }

    /// Shares `server_seats` among the default objects of a new cluster, until the stored objects are known.
    pub fn fair(env: &Env, server_seats: usize) -> Self {
        let metrics = FlowMetrics::register(env);
        let fairness = Arc::new(Fairness {
            env: env.clone(),
            began: env.now(),
            server_seats,
            configuration: ArcSwap::default(),
            watches: WatchCount::default(),
            kinds: ReadsAndWrites::default(),
            metrics,
        });
        fairness.configure(&[], &[]);
        let shown = Arc::downgrade(&fairness);
        env.metrics().before_encoding(move || {
            let fairness = shown.upgrade();
            fairness.iter().for_each(|fairness| fairness.show());
            fairness.is_some()
        });
        Self(Kind::Fair(fairness))
    }

    pub fn fairness(&self) -> Option<&Arc<Fairness>> {
        match &self.0 {
            Kind::Fair(fairness) => Some(fairness),
            Kind::InFlight(_) => None,
        }
    }

    /// Returns the flow of a request; `None` without fairness, and for long-running requests other than watches.
    pub fn classify(&self, info: &RequestInfo, user: &UserInfo) -> Option<Arc<Flow>> {
        let fairness = self.fairness()?;
        // A long-running request costs little, except a watch until it has begun.
        if info.is_long_running() && info.verb != "watch" {
            return None;
        }
        Some(fairness.configuration.load().classify(info, user).clone())
    }

    /// Returns a seat, perhaps after waiting; the error asks the client to retry later.
    pub async fn enter(
        &self,
        flow: Option<Arc<Flow>>,
        info: &RequestInfo,
        user: &UserInfo,
        registry: &Registry,
        limit: Duration,
    ) -> Result<Seat, NoSeat> {
        match (&self.0, flow) {
            (Kind::InFlight(max), _) => Ok(max.enter(info, user)?.map_or(Seat::None, Seat::InFlight)),
            (Kind::Fair(_), None) => Ok(Seat::None),
            (Kind::Fair(fairness), Some(flow)) => {
                let load = LoadOf { registry, watches: &fairness.watches, info, flow: &flow };
                let work = estimate(info, flow.level.nominal_seats(), &load);
                fairness.clone().enter(flow, info, user, work, limit / WAIT_PART).await.map_err(NoSeat)
            }
        }
    }

    /// Counts a watch for as long as it is open.
    pub fn watch(&self, info: &RequestInfo) -> Option<OpenWatch> {
        self.fairness().map(|fairness| fairness.watches.open(info))
    }
}

impl Fairness {
    fn now(&self) -> Duration {
        self.env.now().duration_since(self.began)
    }

    /// Applies changed objects.
    fn configure(&self, schemas: &[Value], levels: &[Value]) {
        let known = self.configuration.load();
        let configuration = Configuration::of(&known, schemas, levels, self.server_seats, self.now(), &self.metrics);
        self.configuration.store(Arc::new(configuration));
    }

    /// Reallocates the seats among the levels.
    fn adjust(&self) {
        let configuration = self.configuration.load();
        let now = self.now();
        let borrowers: Vec<borrowing::Borrower> = configuration
            .levels
            .values()
            .map(|level| {
                let (discipline, bounds, demand) = level.end_period(now);
                borrowing::Borrower { exempt: discipline == priority_level::Discipline::Exempt, bounds, demand }
            })
            .collect();
        let shares = borrowing::share_out(&borrowers);
        for ((level, limit), borrower) in configuration.levels.values().zip(shares.limits).zip(&borrowers) {
            let target = borrower.demand.smoothed.max(borrower.bounds.lower as f64);
            self.metrics.target(&level.name, target);
            level.set_limit(now, limit);
        }
        if let Some(fraction) = shares.fair_fraction {
            self.metrics.fair_fraction.set(fraction);
        }
    }

    fn show(&self) {
        let now = self.now();
        self.configuration.load().levels.values().for_each(|level| level.show(now));
        self.kinds.look(now, |by_phase| self.metrics.show(by_phase));
    }

    async fn enter(
        self: Arc<Self>,
        flow: Arc<Flow>,
        info: &RequestInfo,
        user: &UserInfo,
        work: Work,
        limit: Duration,
    ) -> Result<Seat, Refused> {
        let kind = if info.verb == "watch" { KindOfRequest::Watch } else { KindOfRequest::Regular };
        let name = flow.schema.flow(info, user);
        let (seats, is_write) = (work.max_seats(), info.is_mutating());
        let hash = || dealer::hash_of(&flow.schema.name, name);
        let about = || (about(&flow, name, info, user, &self.env), flow.meters.no_accommodation.clone());
        flow.meters.seats.observe(seats as f64);
        let running = match flow.level.arrive(self.now(), hash, work, about) {
            Ok(Ok(running)) => {
                flow.meters.waited(true, Duration::ZERO);
                running
            }
            Ok(Err(queued)) => {
                flow.meters.queue_length.observe(flow.level.look(|state| state.set.waiting) as f64);
                self.clone().wait(&flow, queued, (seats, is_write), limit).await?
            }
            Err(why) => {
                self.metrics.rejected(&flow.level.name, &flow.schema.name, why.as_str());
                return Err(why);
            }
        };
        flow.meters.begin(seats);
        self.kinds.begin(self.now(), Phase::Executing, is_write);
        let began = self.env.now();
        Ok(Seat::Fair(FairSeat { fairness: self, flow, running: Some(running), seats, kind, is_write, began }))
    }

    /// Waits for the request's turn, at most as long as it may.
    async fn wait(
        self: Arc<Self>,
        flow: &Arc<Flow>,
        queued: Queued,
        (seats, is_write): (usize, bool),
        limit: Duration,
    ) -> Result<Running, Refused> {
        let came = self.env.now();
        let (fairness, why) = (self.clone(), Refused::Cancelled);
        let mut waiting = QueuedRequest { fairness, flow: flow.clone(), queued: Some(queued), seats, is_write, why };
        flow.meters.queue(seats);
        self.kinds.begin(self.now(), Phase::Waiting, is_write);
        self.look_after(&flow.level);
        let queued = waiting.queued.as_mut().expect("it waits");
        let turn = self.env.timeout(limit, &mut queued.turn).await;
        let waited = self.env.now().duration_since(came);
        match turn {
            Ok(Ok(running)) => {
                waiting.queued = None;
                flow.meters.waited(true, waited);
                Ok(running)
            }
            _ => {
                waiting.why = Refused::TimeOut;
                flow.meters.waited(false, waited);
                Err(Refused::TimeOut)
            }
        }
    }

    /// Starts a task for seats that become free when a time has passed, and not by an event.
    fn look_after(self: &Arc<Self>, level: &Arc<Level>) {
        let Some(at) = level.set_alarm() else { return };
        let (fairness, level) = (self.clone(), level.clone());
        self.env.spawn(async move {
            tokio::select! {
                biased;
                () = fairness.env.shutdown().cancelled() => {}
                () = fairness.env.sleep_until(fairness.began + at) => {}
            }
            level.alarm(fairness.now());
            fairness.look_after(&level);
        });
    }
}

/// A request in a queue. It leaves the queue when this is dropped.
struct QueuedRequest {
    fairness: Arc<Fairness>,
    flow: Arc<Flow>,
    queued: Option<Queued>,
    seats: usize,
    is_write: bool,
    why: Refused,
}

impl Drop for QueuedRequest {
    fn drop(&mut self) {
        let now = self.fairness.now();
        self.flow.meters.leave_queue(self.seats);
        self.fairness.kinds.end(now, Phase::Waiting, self.is_write);
        let Some(mut queued) = self.queued.take() else { return };
        if self.flow.level.abandon(now, queued.id, self.why) {
            self.fairness.metrics.rejected(&self.flow.level.name, &self.flow.schema.name, self.why.as_str());
        } else if let Ok(running) = queued.turn.try_recv() {
            // Its turn came in the meantime: return the seats.
            self.flow.level.finish(now, running);
        }
    }
}

impl Drop for FairSeat {
    fn drop(&mut self) {
        let Some(running) = self.running.take() else { return };
        let now = self.fairness.now();
        self.flow.meters.end(self.seats, self.kind, self.fairness.env.now().duration_since(self.began));
        self.fairness.kinds.end(now, Phase::Executing, self.is_write);
        self.flow.level.finish(now, running);
        self.fairness.look_after(&self.flow.level);
    }
}

fn about(flow: &Flow, name: &str, info: &RequestInfo, user: &UserInfo, env: &Env) -> About {
    let api_version =
        if info.group.is_empty() { info.version.clone() } else { format!("{}/{}", info.group, info.version) };
    About {
        schema: flow.schema.name.clone(),
        flow: name.to_owned(),
        user: user.name.clone(),
        verb: info.verb.clone(),
        path: info.path.clone(),
        namespace: info.namespace.clone(),
        name: info.name.clone(),
        api_version,
        resource: info.resource.clone(),
        subresource: info.subresource.clone(),
        arrived: env.wall().to_string(),
    }
}

/// The load of a request's resource, from the caches and the open watches.
struct LoadOf<'a> {
    registry: &'a Registry,
    watches: &'a WatchCount,
    info: &'a RequestInfo,
    flow: &'a Flow,
}

impl Load for LoadOf<'_> {
    fn objects(&self) -> Option<u64> {
        let Ok((_, row)) = self.registry.row_of(&self.info.group, &self.info.resource) else { return Some(0) };
        row.cacher.snapshot().ok().map(|snapshot| snapshot.len() as u64)
    }

    fn watches(&self) -> u64 {
        let watches = self.watches.of(self.info);
        self.flow.meters.watches.observe(watches as f64);
        watches
    }
}
