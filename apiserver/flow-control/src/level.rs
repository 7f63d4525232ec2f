//! `Level`: the state of a priority level: its queues, its seats and its counters.
//!
//! It wraps the pure [`QueueSet`] with a lock and wakes waiting requests. Corresponds to priorityLevelState in
//! k8s.io/apiserver/pkg/util/flowcontrol/apf_controller.go.

use super::demand::Smoothed;
use super::occupancy::Capacity;
use super::priority_level::{Bounds, Discipline};
use super::queue_set::{Arrival, DispatchObserver, Next, QueueSet, Refused, Running};
use super::work::Work;
use crate::metrics::{FlowMetrics, LevelMeters};
use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use std::time::Duration;
use tokio::sync::oneshot;

/// Description of a waiting request, for the debug page.
#[derive(Clone, Debug)]
pub struct About {
    pub schema: String,
    pub flow: String,
    pub user: String,
    pub verb: String,
    pub path: String,
    pub namespace: String,
    pub name: String,
    pub api_version: String,
    pub resource: String,
    pub subresource: String,
    /// Time of arrival, formatted.
    pub arrived: String,
}

/// Wakes a waiting request when its turn comes.
#[derive(Debug)]
pub struct Ticket {
    pub wake: oneshot::Sender<Running>,
    pub about: About,
    /// Counts how often the request was first in order and too few seats were free.
    pub no_accommodation: Counter,
}

impl DispatchObserver for Ticket {
    fn not_accommodated(&self) {
        self.no_accommodation.inc();
    }
}

/// Counts of the results of a level's requests.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tallies {
    pub dispatched: u64,
    pub rejected: u64,
    pub timed_out: u64,
    pub cancelled: u64,
}

#[derive(Debug)]
pub struct State {
    pub set: QueueSet<Ticket>,
    pub discipline: Discipline,
    pub bounds: Bounds,
    pub demand: Smoothed,
    pub tallies: Tallies,
    /// A task waits for seats that become free by time alone.
    pub alarm_set: bool,
}

#[derive(Debug)]
pub struct Level {
    pub name: String,
    state: Mutex<State>,
    meters: LevelMeters,
}

/// A waiting request.
#[derive(Debug)]
pub struct Queued {
    pub id: u64,
    pub turn: oneshot::Receiver<Running>,
}

impl Level {
    pub fn new(name: &str, discipline: Discipline, bounds: Bounds, metrics: &FlowMetrics) -> Self {
        let limit = initial_limit(discipline, bounds);
        let mut set = QueueSet::new(discipline, limit);
        set.occupancy.resize(Duration::ZERO, capacity(discipline, bounds));
        let state = State {
            set,
            discipline,
            bounds,
            demand: Smoothed { smoothed: bounds.nominal as f64, ..Smoothed::default() },
            tallies: Tallies::default(),
            alarm_set: false,
        };
        let level = Self { name: name.to_owned(), state: Mutex::new(state), meters: metrics.level(name) };
        level.meters.show_bounds(bounds);
        level.meters.limit.set(limit as i64);
        level
    }

    /// Applies a changed object, or changed shares of other levels.
    pub fn configure(&self, now: Duration, discipline: Discipline, bounds: Bounds) {
        let next = {
            let mut state = self.state.lock();
            if (state.discipline, state.bounds) == (discipline, bounds) {
                return;
            }
            (state.discipline, state.bounds) = (discipline, bounds);
            let limit = initial_limit(discipline, bounds);
            self.meters.limit.set(limit as i64);
            state.set.occupancy.resize(now, capacity(discipline, bounds));
            state.set.configure(now, discipline, limit)
        };
        self.meters.show_bounds(bounds);
        self.wake(now, next);
    }

    /// Sets the level's seats until the next allocation.
    pub fn set_limit(&self, now: Duration, limit: usize) {
        self.meters.limit.set(limit as i64);
        let next = {
            let mut state = self.state.lock();
            let discipline = state.discipline;
            state.set.configure(now, discipline, limit)
        };
        self.wake(now, next);
    }

    /// Ends a period of the demand and returns the smoothed demand.
    pub fn end_period(&self, now: Duration) -> (Discipline, Bounds, Smoothed) {
        let mut state = self.state.lock();
        let period = state.set.end_period(now);
        state.demand = state.demand.after(period);
        self.meters.show_demand(&state.demand);
        (state.discipline, state.bounds, state.demand)
    }

    pub fn nominal_seats(&self) -> usize {
        self.state.lock().bounds.nominal
    }

    pub fn look<R>(&self, look: impl FnOnce(&State) -> R) -> R {
        look(&self.state.lock())
    }

    /// Returns a seat, a place in a queue, or a rejection.
    pub fn arrive(
        &self,
        now: Duration,
        flow: impl FnOnce() -> u64,
        work: Work,
        about: impl FnOnce() -> (About, Counter),
    ) -> Result<Result<Running, Queued>, Refused> {
        let mut turn = None;
        let (arrival, next) = {
            let mut state = self.state.lock();
            let ticket = || {
                let (wake, receiver) = oneshot::channel();
                turn = Some(receiver);
                let (about, no_accommodation) = about();
                Ticket { wake, about, no_accommodation }
            };
            let (arrival, next) = state.set.arrive(now, flow, work, ticket);
            match arrival {
                Arrival::Served(_) => state.tallies.dispatched += 1,
                Arrival::Refused(_) => state.tallies.rejected += 1,
                Arrival::Queued(_) => {}
            }
            (arrival, next)
        };
        self.wake(now, next);
        match arrival {
            Arrival::Served(running) => Ok(Ok(running)),
            Arrival::Queued(id) => Ok(Err(Queued { id, turn: turn.expect("a ticket is made for each that waits") })),
            Arrival::Refused(why) => Err(why),
        }
    }

    /// Removes a waiting request; false if its turn has already come.
    pub fn abandon(&self, now: Duration, id: u64, why: Refused) -> bool {
        let next = {
            let mut state = self.state.lock();
            let Some(next) = state.set.abandon(now, id) else { return false };
            match why {
                Refused::TimeOut => state.tallies.timed_out += 1,
                _ => state.tallies.cancelled += 1,
            }
            next
        };
        self.wake(now, next);
        true
    }

    pub fn finish(&self, now: Duration, running: Running) {
        let next = self.state.lock().set.finish(now, running);
        self.wake(now, next);
    }

    /// Frees seats whose time has passed.
    pub fn pass(&self, now: Duration) {
        let next = self.state.lock().set.pass(now);
        self.wake(now, next);
    }

    /// Wakes requests whose turn has come. Seats of requests that have gone away are returned at once.
    fn wake(&self, now: Duration, mut next: Vec<Next<Ticket>>) {
        while let Some(Next { ticket, running }) = next.pop() {
            self.state.lock().tallies.dispatched += 1;
            if let Err(running) = ticket.wake.send(running) {
                next.extend(self.state.lock().set.finish(now, running));
            }
        }
    }

    /// Returns when seats become free by time alone, if a request waits for them and no task does so yet.
    pub fn set_alarm(&self) -> Option<Duration> {
        let mut state = self.state.lock();
        let at = state.set.wakes_at().filter(|_| !state.alarm_set)?;
        state.alarm_set = true;
        Some(at)
    }

    pub fn alarm(&self, now: Duration) {
        self.state.lock().alarm_set = false;
        self.pass(now);
    }

    /// Updates the metrics that change with time alone, before they are read.
    pub fn show(&self, now: Duration) {
        self.pass(now);
        let mut state = self.state.lock();
        state.set.occupancy.advance(now);
        self.meters.show(&state.set);
    }
}

/// Returns the first limit of a level. Exempt requests are not limited; the number is only shown.
fn initial_limit(discipline: Discipline, bounds: Bounds) -> usize {
    if discipline == Discipline::Exempt { bounds.lower } else { bounds.nominal }
}

/// Returns the capacity that a level's occupancy is relative to: its nominal one, whatever it has borrowed or lent.
fn capacity(discipline: Discipline, bounds: Bounds) -> Capacity {
    let queues = match discipline {
        Discipline::Queue { queues, length, .. } => queues * length.max(1),
        Discipline::Exempt | Discipline::Reject => 1,
    };
    Capacity { seats: bounds.nominal, queues }
}
