//! `Names`: generates the names of one recorder's events.
//!
//! Corresponds to makeEvent of k8s.io/client-go/tools/record: the object's name, and the time in hexadecimal.

use super::EventSpec;
use super::fingerprint::Fingerprint;
use component_base::rng::Random;
use proto::kinds::jiff::Timestamp;
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of the last bits of the nanoseconds (65 µs) that identify the recorder.
const TAIL_BITS: u32 = 16;
const DIGITS: usize = 16;
/// Longest name that the API server accepts.
const LONGEST: usize = 253;

/// Deviation: client-go takes the nanoseconds as they are. In virtual time many events fall into one instant, so here
/// each is a step later than the one before, whatever the clock says, and the last digits are the recorder's own. The
/// names of one recorder sort in the order of what happened.
#[derive(Debug)]
pub(super) struct Names {
    last: AtomicU64,
    tail: u64,
}

impl Names {
    pub fn new(random: &Random) -> Self {
        Self { last: AtomicU64::new(0), tail: random.u64() & ((1 << TAIL_BITS) - 1) }
    }

    pub fn next(&self, object: &str, now: Timestamp) -> String {
        let clock = now.as_nanosecond().unsigned_abs() as u64 >> TAIL_BITS;
        let later = |last: u64| Some(clock.max(last + 1));
        let last = self.last.fetch_update(Ordering::Relaxed, Ordering::Relaxed, later);
        let step = later(last.expect("there is always a later one")).expect("there is always a later one");
        name(object, step << TAIL_BITS | self.tail)
    }
}

/// Returns the name of an event that several processes may record: it follows from what the event says about which object.
pub(super) fn shared(spec: &EventSpec) -> String {
    let says = Fingerprint::of(&[&spec.regarding.uid, spec.event_type.as_str(), &spec.reason, &spec.message]);
    name(&spec.regarding.name, says.short())
}

/// Returns the number that ends the name of an event.
pub(super) fn number(name: &str) -> u64 {
    let digits = name.rsplit('.').next().unwrap_or_default();
    u64::from_str_radix(digits, 16).unwrap_or_default()
}

/// Returns the name of an event about the object.
pub(super) fn name(object: &str, number: u64) -> String {
    // Valid names are ASCII; the server refuses others.
    let object = object.get(..LONGEST - DIGITS - 1).unwrap_or(object);
    format!("{object}.{number:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::{EventType, Regarding};
    use component_base::env::Env;

    #[test]
    fn names_sort_as_things_happened_and_differ_between_recorders() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let random = Env::simulated(1).random("names");
        let (one, other) = (Names::new(&random), Names::new(&random));
        let times = [now, now, now, now + jiff::SignedDuration::from_millis(1), now];
        let names: Vec<String> = times.map(|at| one.next("web", at)).into();
        assert!(names.is_sorted() && names.windows(2).all(|two| two[0] != two[1]), "{names:?}");
        assert!(!names.contains(&other.next("web", now)));
        assert_eq!(names[0].len(), "web.".len() + DIGITS);
        assert_eq!(name("web", number(&names[0])), names[0]);
        assert_eq!(one.next(&"x".repeat(300), now).len(), LONGEST);
    }

    #[test]
    fn the_name_of_a_shared_event_follows_from_what_it_says() {
        let event = |uid: &str, reason: &str, message: &str| {
            let regarding = Regarding { name: "rules".to_owned(), uid: uid.to_owned(), ..Regarding::default() };
            shared(&EventSpec::new(&regarding, EventType::Warning, reason, message))
        };
        let first = event("u", "Invalid", "a: unknown");
        assert_eq!(first, event("u", "Invalid", "a: unknown"));
        assert_eq!(first.len(), "rules.".len() + DIGITS);
        for other in
            [event("v", "Invalid", "a: unknown"), event("u", "Invalida", ": unknown"), event("u", "Invalid", "b")]
        {
            assert_ne!(first, other);
        }
    }
}
