//! `QueueSet`: the queues of one priority level; decides which waiting request is served next.
//!
//! It implements fair queuing, which imitates a server that serves all queues at once with an equal part of the seats.
//! Virtual time R is the work that this imagined server has done for each active queue. The virtual finish of a request is
//! the value of R when its work would be done; the request with the least virtual finish is next. The type is pure: time is
//! an argument, and each method returns the tickets of the requests that may run now.
//! Corresponds to k8s.io/apiserver/pkg/util/flowcontrol/fairqueuing/queueset.

use super::dealer::Dealer;
use super::demand::{Demand, Period};
use super::occupancy::{Capacity, Occupancy, Usage};
use super::priority_level::Discipline;
use super::work::{ESTIMATED_SERVICE_S, Work};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

/// Why a request is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Refused {
    QueueFull,
    ConcurrencyLimit,
    /// It waited for the longest time allowed.
    TimeOut,
    /// The client has gone away.
    Cancelled,
}

impl Refused {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::QueueFull => "queue-full",
            Self::ConcurrencyLimit => "concurrency-limit",
            Self::TimeOut => "time-out",
            Self::Cancelled => "cancelled",
        }
    }
}

/// The seats of a running request, to be passed to [`QueueSet::finish`].
#[derive(Debug, PartialEq)]
pub struct Running {
    queue: Option<usize>,
    work: Work,
    began: Duration,
}

/// The immediate result of an arriving request.
#[derive(Debug, PartialEq)]
pub enum Arrival {
    Served(Running),
    /// It waits under this id; its ticket may already be among those returned.
    Queued(u64),
    Refused(Refused),
}

/// Observes the dispatch of a waiting request, as its ticket.
pub trait DispatchObserver {
    /// Called when the request was first in order and too few seats were free.
    fn not_accommodated(&self) {}
}

/// A request whose turn it is.
#[derive(Debug)]
pub struct Next<T> {
    pub ticket: T,
    pub running: Running,
}

#[derive(Debug)]
pub struct Waiting<T> {
    id: u64,
    pub work: Work,
    arrival_r: f64,
    pub ticket: T,
}

/// One queue.
#[derive(Debug)]
pub struct Queue<T> {
    pub waiting: VecDeque<Waiting<T>>,
    /// Work of the waiting requests, in seat-seconds.
    waiting_work: f64,
    pub executing: usize,
    pub seats_in_use: usize,
    /// The virtual time at which the next request would begin.
    pub next_dispatch_r: f64,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self { waiting: VecDeque::new(), waiting_work: 0.0, executing: 0, seats_in_use: 0, next_dispatch_r: 0.0 }
    }
}

impl<T> Queue<T> {
    fn is_active(&self) -> bool {
        !self.waiting.is_empty() || self.executing > 0
    }

    fn is_idle(&self) -> bool {
        !self.is_active() && self.seats_in_use == 0
    }

    /// Raises the next virtual start to the arrival of the first waiting request.
    fn bound_next_dispatch(&mut self) {
        if let Some(first) = self.waiting.front() {
            self.next_dispatch_r = self.next_dispatch_r.max(first.arrival_r);
        }
    }

    pub fn initial_seats(&self) -> usize {
        self.waiting.iter().map(|waiting| waiting.work.initial_seats).sum()
    }

    pub fn max_seats(&self) -> usize {
        self.waiting.iter().map(|waiting| waiting.work.max_seats()).sum()
    }

    pub fn total_work(&self) -> f64 {
        self.waiting_work.max(0.0)
    }
}

/// Seats that stay in use after the response: until when, id, number of seats, and queue.
type Lingering = Reverse<(Duration, u64, usize, Option<usize>)>;

#[derive(Debug)]
pub struct QueueSet<T> {
    discipline: Discipline,
    limit: usize,
    pub queues: Vec<Queue<T>>,
    active: usize,
    pub waiting: usize,
    pub waiting_seats: usize,
    pub executing: usize,
    pub seats_in_use: usize,
    lingering: BinaryHeap<Lingering>,
    demand: Demand,
    pub occupancy: Occupancy,
    pub current_r: f64,
    /// Virtual time of the last dispatch from a queue, and the virtual start of that request.
    pub dispatch_r: f64,
    pub latest_s: f64,
    synced: Duration,
    /// The queue that was served last. Among equal queues, the search begins after it.
    robin: usize,
    enqueued: usize,
    next_id: u64,
}

impl<T: DispatchObserver> QueueSet<T> {
    pub fn new(discipline: Discipline, limit: usize) -> Self {
        let mut set = Self {
            discipline,
            limit,
            queues: Vec::new(),
            active: 0,
            waiting: 0,
            waiting_seats: 0,
            executing: 0,
            seats_in_use: 0,
            lingering: BinaryHeap::new(),
            demand: Demand::default(),
            occupancy: Occupancy::new(Capacity { seats: limit, queues: 1 }),
            current_r: 0.0,
            dispatch_r: 0.0,
            latest_s: 0.0,
            synced: Duration::ZERO,
            robin: 0,
            enqueued: 0,
            next_id: 0,
        };
        set.fit_queues();
        set
    }

    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Returns the number of queues with waiting or executing requests.
    pub fn active_queues(&self) -> usize {
        self.active
    }

    /// Changes the configuration. Requests in a queue that is removed are still served from it.
    #[must_use]
    pub fn configure(&mut self, now: Duration, discipline: Discipline, limit: usize) -> Vec<Next<T>> {
        self.sync(now);
        self.discipline = discipline;
        self.limit = limit;
        self.fit_queues();
        self.serve(now)
    }

    fn fit_queues(&mut self) {
        let wanted = match self.discipline {
            Discipline::Queue { queues, .. } => queues,
            Discipline::Exempt | Discipline::Reject => 0,
        };
        while self.queues.len() > wanted && self.queues.last().is_some_and(Queue::is_idle) {
            self.queues.pop();
        }
        if self.queues.len() < wanted {
            self.queues.resize_with(wanted, Queue::default);
        }
    }

    /// Adds a request. `flow` is evaluated only if the level has queues, and the ticket is made only if the request waits.
    #[must_use]
    pub fn arrive(
        &mut self,
        now: Duration,
        flow: impl FnOnce() -> u64,
        work: Work,
        ticket: impl FnOnce() -> T,
    ) -> (Arrival, Vec<Next<T>>) {
        let mut next = if self.sync(now) { self.serve(now) } else { Vec::new() };
        let Discipline::Queue { queues, hand, length } = self.discipline else {
            let arrival = if self.discipline == Discipline::Exempt || self.fits(work.max_seats()) {
                Arrival::Served(self.begin(now, None, work))
            } else {
                Arrival::Refused(Refused::ConcurrencyLimit)
            };
            return (arrival, next);
        };
        let at = self.least_loaded(Dealer::new(queues, hand), flow());
        if self.seats_in_use >= self.limit && self.queues[at].waiting.len() >= length {
            return (Arrival::Refused(Refused::QueueFull), next);
        }
        let queue = &mut self.queues[at];
        if !queue.is_active() {
            queue.next_dispatch_r = self.current_r;
            self.active += 1;
        }
        // No request is ahead of it: it need not wait.
        if self.waiting == 0 && self.fits(work.max_seats()) {
            self.robin = at;
            return (Arrival::Served(self.begin(now, Some(at), work.within(self.limit))), next);
        }
        let id = self.next_id;
        self.next_id += 1;
        let arrival_r = self.current_r;
        let queue = &mut self.queues[at];
        queue.waiting.push_back(Waiting { id, work, arrival_r, ticket: ticket() });
        queue.waiting_work += work.total();
        self.waiting += 1;
        self.waiting_seats += work.max_seats();
        self.note_demand(now);
        next.extend(self.serve(now));
        (Arrival::Queued(id), next)
    }

    /// Returns the queue of the flow's hand with the least waiting work.
    fn least_loaded(&mut self, dealer: Dealer, flow: u64) -> usize {
        let hand = dealer.deal(flow);
        let cards = hand.cards();
        let offset = self.enqueued % cards.len();
        self.enqueued += 1;
        let from_offset = cards[offset..].iter().chain(&cards[..offset]);
        let work = |at: &usize| self.queues[*at].total_work();
        *from_offset.min_by(|a, b| work(a).total_cmp(&work(b))).expect("a hand has a queue")
    }

    fn fits(&self, seats: usize) -> bool {
        // A request that wants more seats than the limit runs alone.
        if seats > self.limit { self.executing == 0 } else { self.seats_in_use + seats <= self.limit }
    }

    fn begin(&mut self, now: Duration, queue: Option<usize>, work: Work) -> Running {
        let seats = work.max_seats();
        self.executing += 1;
        self.seats_in_use += seats;
        if let Some(queue) = queue.map(|at| &mut self.queues[at]) {
            queue.executing += 1;
            queue.seats_in_use += seats;
            (self.dispatch_r, self.latest_s) = (self.current_r, queue.next_dispatch_r);
            queue.next_dispatch_r += work.total();
            queue.bound_next_dispatch();
        }
        self.note_demand(now);
        Running { queue, work, began: now }
    }

    /// Removes a waiting request; `None` if its turn has already come.
    #[must_use]
    pub fn abandon(&mut self, now: Duration, id: u64) -> Option<Vec<Next<T>>> {
        self.sync(now);
        let place = |(at, queue): (usize, &Queue<T>)| {
            queue.waiting.iter().position(|waiting| waiting.id == id).map(|index| (at, index))
        };
        let (at, index) = self.queues.iter().enumerate().find_map(place)?;
        self.leave(at, index)?;
        if !self.queues[at].is_active() {
            self.active -= 1;
        }
        self.note_demand(now);
        // It may have blocked requests that want fewer seats.
        Some(self.serve(now))
    }

    fn leave(&mut self, at: usize, index: usize) -> Option<Waiting<T>> {
        let queue = &mut self.queues[at];
        let left = queue.waiting.remove(index)?;
        queue.waiting_work -= left.work.total();
        queue.bound_next_dispatch();
        self.waiting -= 1;
        self.waiting_seats -= left.work.max_seats();
        Some(left)
    }

    /// Ends a running request.
    #[must_use]
    pub fn finish(&mut self, now: Duration, running: Running) -> Vec<Next<T>> {
        self.sync(now);
        let Running { queue, work, began } = running;
        self.executing -= 1;
        if let Some(queue) = queue.map(|at| &mut self.queues[at]) {
            queue.executing -= 1;
            // Replaces the estimated duration by the measured one.
            let service_s = now.saturating_sub(began).as_secs_f64();
            queue.next_dispatch_r -= work.initial_seats as f64 * (ESTIMATED_SERVICE_S - service_s);
            queue.bound_next_dispatch();
            if !queue.is_active() {
                self.active -= 1;
            }
        }
        if work.additional_latency.is_zero() {
            self.release(work.max_seats(), queue);
        } else {
            self.next_id += 1;
            let until = now + work.additional_latency;
            self.lingering.push(Reverse((until, self.next_id, work.max_seats(), queue)));
        }
        self.note_demand(now);
        self.serve(now)
    }

    fn release(&mut self, seats: usize, queue: Option<usize>) {
        self.seats_in_use -= seats;
        if let Some(at) = queue {
            self.queues[at].seats_in_use -= seats;
            self.fit_queues();
        }
    }

    /// Returns when seats become free by time alone, if a request waits for them.
    pub fn wakes_at(&self) -> Option<Duration> {
        self.lingering.peek().filter(|_| self.waiting > 0).map(|Reverse((until, ..))| *until)
    }

    /// Frees seats whose time has passed.
    #[must_use]
    pub fn pass(&mut self, now: Duration) -> Vec<Next<T>> {
        self.sync(now);
        self.serve(now)
    }

    /// Advances virtual time to `now`, and frees seats whose time has passed. Tells whether there were any.
    fn sync(&mut self, now: Duration) -> bool {
        let lingering = self.lingering.len();
        while let Some(Reverse((until, _, seats, queue))) = self.lingering.peek().copied() {
            if until > now {
                break;
            }
            self.lingering.pop();
            self.advance(until);
            self.release(seats, queue);
            self.note_demand(until);
        }
        self.advance(now);
        self.lingering.len() < lingering
    }

    fn advance(&mut self, now: Duration) {
        let elapsed_s = now.saturating_sub(self.synced).as_secs_f64();
        self.synced = self.synced.max(now);
        if self.active > 0 {
            let seats = self.limit.min(self.seats_in_use + self.waiting_seats);
            self.current_r += elapsed_s * seats as f64 / self.active as f64;
        }
    }

    fn note_demand(&mut self, now: Duration) {
        let seats_wanted = self.seats_in_use + self.waiting_seats;
        self.demand.set(now, seats_wanted);
        let Self { executing, waiting, seats_in_use, .. } = *self;
        self.occupancy.set(now, Usage { executing, waiting, seats_in_use, seats_wanted });
    }

    /// Returns the demand since the last call.
    pub fn end_period(&mut self, now: Duration) -> Period {
        self.demand.end_period(now)
    }

    /// Dispatches requests in the order of virtual finish while seats are free. A request that wants fewer seats does not
    /// overtake the next one.
    fn serve(&mut self, now: Duration) -> Vec<Next<T>> {
        let mut served = Vec::new();
        while self.waiting > 0 {
            let at = self.next_queue();
            let first = self.queues[at].waiting.front().expect("a queue that is next has somebody");
            if self.discipline != Discipline::Exempt && !self.fits(first.work.max_seats()) {
                first.ticket.not_accommodated();
                break;
            }
            self.robin = at;
            let Some(left) = self.leave(at, 0) else { break };
            let running = self.begin(now, Some(at), left.work.within(self.limit));
            served.push(Next { ticket: left.ticket, running });
        }
        served
    }

    /// Returns the queue whose first waiting request has the least virtual finish.
    fn next_queue(&self) -> usize {
        let queues = self.queues.len();
        let mut least: Option<(f64, usize)> = None;
        for step in 1..=queues {
            let at = (self.robin + step) % queues;
            let Some(first) = self.queues[at].waiting.front() else { continue };
            let finish = self.queues[at].next_dispatch_r + first.work.total();
            if least.is_none_or(|(known, _)| finish < known) {
                least = Some((finish, at));
            }
        }
        least.expect("somebody waits").1
    }

    /// Returns the least and the greatest next virtual start among queues with waiting requests.
    pub fn next_dispatch_bounds(&self) -> Option<(f64, f64)> {
        self.bounds_of_waiting(|queue| queue.next_dispatch_r)
    }

    /// Returns the bounds without the estimated work of executing requests.
    pub fn discounted_bounds(&self) -> Option<(f64, f64)> {
        self.bounds_of_waiting(|queue| queue.next_dispatch_r - queue.seats_in_use as f64 * ESTIMATED_SERVICE_S)
    }

    fn bounds_of_waiting(&self, of: impl Fn(&Queue<T>) -> f64) -> Option<(f64, f64)> {
        let waiting = self.queues.iter().filter(|queue| !queue.waiting.is_empty()).map(of);
        waiting.fold(None, |bounds, r| match bounds {
            None => Some((r, r)),
            Some((least, most)) => Some((r.min(least), r.max(most))),
        })
    }
}

#[cfg(test)]
mod tests;
