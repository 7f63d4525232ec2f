//! `FaultPlan`: counts the writes of components and the deliveries of their watches, and finds those at which a planned fault
//! happens.
//!
//! A run without a planned fault counts all points. Then every one of them can be tried: the same seed leads to the same
//! writes and deliveries up to it.

pub mod fault;
pub mod crash_point;
pub mod point;

use crate::part::Part;
use crash_point::CrashPoint;
use fault::{FROZEN_FOR, Fault, Moment, SWAP_LIMIT};
use point::{Point, PointKind};
use request::info::RequestInfo;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

/// What happens to a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// The watch stands still for this time.
    Freeze(Duration),
    /// The delivery waits for the next one of another watch.
    Swap,
}

/// A write or a delivery that was counted.
#[derive(Debug)]
struct Seen {
    component: Part,
    name: String,
    occurrence: u32,
    /// The request line of a write.
    request: String,
    /// The revision and the time of a delivery.
    revision: u64,
    at: Option<Instant>,
}

/// The planned faults of a run, and what was counted so far.
#[derive(Debug, Default)]
pub struct FaultPlan {
    /// False until the story begins.
    is_counting: bool,
    faults: Vec<Fault>,
    numbered: Option<CrashPoint>,
    writes: Vec<Seen>,
    deliveries: Vec<Seen>,
    counts: BTreeMap<(Part, String), u32>,
    reached: Vec<String>,
}

impl FaultPlan {
    /// Makes a plan that counts from now.
    pub fn new(faults: &[Fault], numbered: Option<CrashPoint>) -> Self {
        Self { is_counting: true, faults: faults.to_vec(), numbered, ..Self::default() }
    }

    pub fn is_counting(&self) -> bool {
        self.is_counting
    }

    /// Returns the number of writes so far.
    pub fn writes(&self) -> usize {
        self.writes.len()
    }

    /// Returns the faults that have happened, each with the request or the revision.
    pub fn reached(&self) -> &[String] {
        &self.reached
    }

    fn seen(&mut self, component: Part, name: &str) -> Seen {
        let count = self.counts.entry((component, name.to_owned())).or_default();
        *count += 1;
        let (name, occurrence) = (name.to_owned(), *count);
        Seen { component, name, occurrence, request: String::new(), revision: 0, at: None }
    }

    /// Counts a request if it is a write. Returns the moment of the kill if its component is to be killed.
    pub fn write(&mut self, caller: Part, info: &RequestInfo) -> Option<Moment> {
        if !self.is_counting || !is_counted_write(info) {
            return None;
        }
        let subresource = if info.subresource.is_empty() { "" } else { "/" };
        let name = format!("{} {}{subresource}{}", info.verb, info.resource, info.subresource);
        let request = format!("{} {}", info.verb, info.path);
        let seen = Seen { request: request.clone(), ..self.seen(caller, &name) };
        let occurrence = seen.occurrence;
        self.writes.push(seen);
        let numbered = self.numbered.filter(|point| point.write as usize == self.writes.len());
        if let Some(point) = numbered {
            self.reached.push(format!("{caller} is killed {point}: {request}"));
            return Some(point.moment);
        }
        let planned = self.faults.iter().filter_map(|fault| fault.crash.as_ref().map(|crash| (fault, crash)));
        let mut due = planned
            .filter(|(_, crash)| crash.component == caller && crash.occurrence == occurrence && crash.write == name);
        let (fault, crash) = due.next()?;
        self.reached.push(format!("{fault}: {request}"));
        Some(crash.moment)
    }

    /// Counts a delivery to a component. Returns what happens to it if it is held back.
    pub fn delivery(&mut self, component: Part, watch: &str, revision: u64, at: Instant) -> Option<Hold> {
        if !self.is_counting {
            return None;
        }
        let seen = Seen { revision, at: Some(at), ..self.seen(component, watch) };
        let occurrence = seen.occurrence;
        self.deliveries.push(seen);
        let is_due = |due: (Part, &str, u32)| due == (component, watch, occurrence);
        let hold = |fault: &Fault| {
            let freeze = fault.freeze.as_ref().filter(|it| is_due((it.component, it.watch.as_str(), it.occurrence)));
            let swap = fault.swap.as_ref().filter(|it| is_due((it.component, it.watch.as_str(), it.occurrence)));
            let frozen = freeze.map(|it| Hold::Freeze(it.how_long.as_ref().map_or(FROZEN_FOR, |span| span.duration)));
            frozen.or(swap.map(|_| Hold::Swap))
        };
        let (fault, hold) = self.faults.iter().find_map(|fault| Some((fault, hold(fault)?)))?;
        self.reached.push(format!("{fault}: revision {revision}"));
        Some(hold)
    }

    /// Returns every point of the run so far: two for each write, one or two for each delivery.
    pub fn points(&self) -> Vec<Point> {
        let mut points = Vec::new();
        for (index, seen) in self.writes.iter().enumerate() {
            for moment in [Moment::Before, Moment::After] {
                points.push(Point {
                    moment: Some(moment),
                    request: Some(seen.request.clone()),
                    ..point(PointKind::Crash, index, seen)
                });
            }
        }
        for (index, seen) in self.deliveries.iter().enumerate() {
            points.push(Point { revision: Some(seen.revision), ..point(PointKind::Freeze, index, seen) });
        }
        for (index, seen) in self.deliveries.iter().enumerate() {
            if self.is_swappable(index) {
                points.push(Point { revision: Some(seen.revision), ..point(PointKind::Swap, index, seen) });
            }
        }
        points
    }

    /// Returns true if the next delivery to the component comes soon and by another watch.
    fn is_swappable(&self, index: usize) -> bool {
        let seen = &self.deliveries[index];
        let next = self.deliveries[index + 1..].iter().find(|next| next.component == seen.component);
        next.is_some_and(|next| next.name != seen.name && next.at < seen.at.map(|at| at + SWAP_LIMIT))
    }
}

fn point(kind: PointKind, index: usize, seen: &Seen) -> Point {
    Point {
        kind,
        component: seen.component,
        moment: None,
        number: u32::try_from(index + 1).unwrap_or(u32::MAX),
        name: seen.name.clone(),
        occurrence: seen.occurrence,
        revision: None,
        request: None,
    }
}

/// Returns true for resources on which nothing depends. A Lease renewal leaves nothing to resume, and a kill after an Event
/// finds the same objects as a kill before the next write.
fn is_left_out(resource: &str) -> bool {
    matches!(resource, "leases" | "events" | "tokenreviews" | "subjectaccessreviews")
}

fn is_counted_write(info: &RequestInfo) -> bool {
    info.is_mutating() && !is_left_out(&info.resource) && info.subresource != "token"
}

/// Returns the name of a watch, or `None` if its deliveries are not counted. A watch of metadata alone has a name of its own.
pub fn watch_name(info: &RequestInfo, is_partial: bool) -> Option<String> {
    if is_left_out(&info.resource) {
        return None;
    }
    let mut name = info.resource.clone();
    if !info.namespace.is_empty() {
        name = format!("{name} in {}", info.namespace);
    }
    for selector in ["labelSelector", "fieldSelector"] {
        let text = info.query.text(selector);
        if !text.is_empty() {
            name = format!("{name} with {text}");
        }
    }
    if is_partial {
        name.push_str(" (metadata)");
    }
    Some(name)
}

#[cfg(test)]
mod tests;
