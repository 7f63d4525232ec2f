//! `Level`: a priority level at work: its queues, its seats, and what it has counted.
//!
//! The edge of the pure queues: here whoever waits is woken. Corresponds to priorityLevelState in
//! k8s.io/apiserver/pkg/util/flowcontrol/apf_controller.go.

use super::demand::Smoothed;
use super::occupancy::Room;
use super::priority_level::{Bounds, Discipline};
use super::queue_set::{Arrival, Next, QueueSet, Refused, Running, Waits};
use super::work::Work;
use crate::metrics::{FlowMetrics, LevelMeters};
use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use std::time::Duration;
use tokio::sync::oneshot;

/// What a request that waits can be told by.
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
    /// As it is shown.
    pub arrived: String,
}

/// How a request that waits hears that it is its turn.
#[derive(Debug)]
pub struct Ticket {
    pub wake: oneshot::Sender<Running>,
    pub about: About,
    /// Counts when there is no room for it, although it is first.
    pub no_room: Counter,
}

impl Waits for Ticket {
    fn found_no_room(&self) {
        self.no_room.inc();
    }
}

/// What became of the requests of a level so far.
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
    /// Somebody looks after the seats that come free with time.
    pub alarm_set: bool,
}

#[derive(Debug)]
pub struct Level {
    pub name: String,
    state: Mutex<State>,
    meters: LevelMeters,
}

/// A request that has to wait for its turn.
#[derive(Debug)]
pub struct Queued {
    pub id: u64,
    pub turn: oneshot::Receiver<Running>,
}

impl Level {
    pub fn new(name: &str, discipline: Discipline, bounds: Bounds, metrics: &FlowMetrics) -> Self {
        let limit = initial_limit(discipline, bounds);
        let mut set = QueueSet::new(discipline, limit);
        set.occupancy.resize(Duration::ZERO, room(discipline, bounds));
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

    /// Its object has changed, or others' shares have.
    pub fn configure(&self, now: Duration, discipline: Discipline, bounds: Bounds) {
        let next = {
            let mut state = self.state.lock();
            if (state.discipline, state.bounds) == (discipline, bounds) {
                return;
            }
            (state.discipline, state.bounds) = (discipline, bounds);
            let limit = initial_limit(discipline, bounds);
            self.meters.limit.set(limit as i64);
            state.set.occupancy.resize(now, room(discipline, bounds));
            state.set.configure(now, discipline, limit)
        };
        self.meters.show_bounds(bounds);
        self.wake(now, next);
    }

    /// As many seats as it has until the next time that they are shared out.
    pub fn set_limit(&self, now: Duration, limit: usize) {
        self.meters.limit.set(limit as i64);
        let next = {
            let mut state = self.state.lock();
            let discipline = state.discipline;
            state.set.configure(now, discipline, limit)
        };
        self.wake(now, next);
    }

    /// Ends a period of looking at what is wanted.
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

    /// A seat at once, a place in a queue, or neither.
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
                let (about, no_room) = about();
                Ticket { wake, about, no_room }
            };
            let (arrival, next) = state.set.arrive(now, flow, work, ticket);
            match arrival {
                Arrival::Served(_) => state.tallies.dispatched += 1,
                Arrival::Refused(_) => state.tallies.rejected += 1,
                Arrival::Waits(_) => {}
            }
            (arrival, next)
        };
        self.wake(now, next);
        match arrival {
            Arrival::Served(running) => Ok(Ok(running)),
            Arrival::Waits(id) => Ok(Err(Queued { id, turn: turn.expect("a ticket is made for each that waits") })),
            Arrival::Refused(why) => Err(why),
        }
    }

    /// It does not wait any more. False where it has been its turn before.
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

    /// Seats may have come free with time.
    pub fn pass(&self, now: Duration) {
        let next = self.state.lock().set.pass(now);
        self.wake(now, next);
    }

    /// Tells them that it is their turn. Whoever has gone gives the seats back at once.
    fn wake(&self, now: Duration, mut next: Vec<Next<Ticket>>) {
        while let Some(Next { ticket, running }) = next.pop() {
            self.state.lock().tallies.dispatched += 1;
            if let Err(running) = ticket.wake.send(running) {
                next.extend(self.state.lock().set.finish(now, running));
            }
        }
    }

    /// When to look again, if anybody waits only for time to pass and nobody looks yet.
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

    /// Brings what follows from time alone up to date for who looks at metrics.
    pub fn show(&self, now: Duration) {
        self.pass(now);
        let mut state = self.state.lock();
        state.set.occupancy.advance(now);
        self.meters.show(&state.set);
    }
}

/// Nobody limits what is exempt; what is shown is what it leaves others.
fn initial_limit(discipline: Discipline, bounds: Bounds) -> usize {
    if discipline == Discipline::Exempt { bounds.lower } else { bounds.nominal }
}

/// What a level's occupancy is measured by, whatever it has borrowed or lent.
fn room(discipline: Discipline, bounds: Bounds) -> Room {
    let queues = match discipline {
        Discipline::Queue { queues, length, .. } => queues * length.max(1),
        Discipline::Exempt | Discipline::Reject => 1,
    };
    Room { seats: bounds.nominal, queues }
}
