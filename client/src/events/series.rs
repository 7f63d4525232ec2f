//! `SeriesKeeper`: makes equal events a series. The second one starts it with a patch, further ones are only counted, and
//! their number is written when the series has ended, or every half an hour.
//!
//! Corresponds to the cache of k8s.io/client-go/tools/events/event_broadcaster.go. The note is not part of what makes events
//! equal: a series has the note of its first event.

use super::correlator::Correlated;
use super::fingerprint::Fingerprint;
use super::{Occurrence, Regarding, names};
use proto::kinds::jiff::{SignedDuration, Timestamp};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use tokio::time::Instant;

/// Time without a repeat after which a series has ended, and an event that occurred once is forgotten. So often both are
/// looked for.
const FINISH_PERIOD: Duration = Duration::from_secs(6 * 60);
/// Time after which the present number of a series is written, which also lets its event expire later.
const REFRESH_PERIOD: Duration = Duration::from_secs(30 * 60);
/// Most events that are remembered after they occurred once, and most series. client-go has no limit.
const MAX_ONCE: usize = 1 << 16;
const MAX_SERIES: usize = 1 << 16;

pub(super) struct SeriesKeeper {
    /// Events that occurred once.
    once: BTreeMap<Fingerprint, Once>,
    /// The same in the order in which they occurred. Some have become series meanwhile.
    order: VecDeque<(Fingerprint, Once)>,
    series: BTreeMap<Fingerprint, Occurrence>,
    next_finish: Instant,
    next_refresh: Instant,
}

/// What is kept of an event that occurred once: the next one has all else but the note.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Once {
    /// The number that ends the event's name.
    number: u64,
    at: Timestamp,
}

impl SeriesKeeper {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            once: BTreeMap::new(),
            order: VecDeque::new(),
            series: BTreeMap::new(),
            next_finish: now + FINISH_PERIOD,
            next_refresh: now + REFRESH_PERIOD,
        }
    }

    pub(super) fn correlate(&mut self, mut event: Occurrence) -> Correlated {
        let key = key(&event);
        if let Some(known) = self.series.get_mut(&key) {
            known.count += 1;
            known.last_at = event.last_at;
            return Correlated::Skip;
        }
        let Some(first) = self.once.remove(&key) else {
            self.remember(key, &event);
            return Correlated::Create(event);
        };
        event.name = names::name(&event.spec.regarding.name, first.number);
        event.first_at = first.at;
        event.count = 2;
        if self.series.len() < MAX_SERIES {
            self.series.insert(key, event.clone());
        }
        Correlated::Repeat(event)
    }

    fn remember(&mut self, key: Fingerprint, event: &Occurrence) {
        if self.order.len() >= MAX_ONCE {
            self.forget_oldest();
        }
        let once = Once { number: names::number(&event.name), at: event.first_at };
        self.once.insert(key, once);
        self.order.push_back((key, once));
    }

    fn forget_oldest(&mut self) {
        let Some((key, once)) = self.order.pop_front() else { return };
        if self.once.get(&key) == Some(&once) {
            self.once.remove(&key);
        }
    }

    /// Returns when to call `due`; `None` if nothing is remembered.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let is_empty = self.order.is_empty() && self.series.is_empty();
        (!is_empty).then(|| self.next_finish.min(self.next_refresh))
    }

    /// Returns the series whose number is to be written. Forgets what has ended.
    pub(super) fn due(&mut self, now: Instant, wall: Timestamp) -> Vec<Correlated> {
        let mut due = Vec::new();
        if is_over(&mut self.next_refresh, REFRESH_PERIOD, now) {
            due.extend(self.series.values().cloned().map(Correlated::Repeat));
        }
        if is_over(&mut self.next_finish, FINISH_PERIOD, now) {
            let long_ago = |at: Timestamp| {
                wall.duration_since(at) > SignedDuration::try_from(FINISH_PERIOD).expect("a few minutes are in range")
            };
            while self.order.front().is_some_and(|(_, once)| long_ago(once.at)) {
                self.forget_oldest();
            }
            let (ended, lasting) =
                std::mem::take(&mut self.series).into_iter().partition(|(_, event)| long_ago(event.last_at));
            self.series = lasting;
            due.extend(BTreeMap::into_values(ended).map(Correlated::Repeat));
        }
        due
    }
}

/// Returns true if the time has come, and sets the next one.
fn is_over(next: &mut Instant, period: Duration, now: Instant) -> bool {
    let is_over = *next <= now;
    while *next <= now {
        *next += period;
    }
    is_over
}

/// Returns what equal events have in common. The recorder is the same for all.
fn key(event: &Occurrence) -> Fingerprint {
    let spec = &event.spec;
    let key = Fingerprint::of(&[spec.event_type.as_str(), &spec.action, &spec.reason]);
    let and = |key: Fingerprint, object: &Regarding| {
        let Regarding { api_version, kind, namespace, name, uid, resource_version, field_path } = object;
        key.and(&[api_version, kind, namespace, name, uid, resource_version, field_path])
    };
    spec.related.iter().fold(and(key, &spec.regarding), and)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::{EventSpec, EventType, Form};
    use component_base::env::Env;

    const START: &str = "2026-01-01T00:00:00Z";

    /// A keeper in its own time.
    struct Clock {
        keeper: SeriesKeeper,
        began: Instant,
        passed: Duration,
    }

    impl Clock {
        fn new() -> Self {
            let began = Env::simulated(1).now();
            Self { keeper: SeriesKeeper::new(began), began, passed: Duration::ZERO }
        }

        fn wall(&self) -> Timestamp {
            START.parse::<Timestamp>().unwrap() + self.passed
        }

        fn records(&mut self, resource_version: &str, note: &str, number: u64) -> String {
            let regarding = Regarding {
                name: "web".to_owned(),
                resource_version: resource_version.to_owned(),
                ..Regarding::default()
            };
            let at = self.wall();
            let event = Occurrence {
                form: Form::Series,
                spec: EventSpec::new(&regarding, EventType::Warning, "FailedScheduling", note).action("Scheduling"),
                component: "default-scheduler".into(),
                host: "default-scheduler-m1".into(),
                agent: None,
                name: names::name("web", number),
                is_shared: false,
                count: 1,
                first_at: at,
                last_at: at,
            };
            show(&self.keeper.correlate(event))
        }

        /// Returns what is written until the time has passed.
        fn passes(&mut self, minutes: u64) -> Vec<String> {
            let until = self.passed + Duration::from_secs(60 * minutes);
            let mut written = Vec::new();
            while let Some(due) = self.keeper.next_due().filter(|due| *due <= self.began + until) {
                self.passed = due - self.began;
                written.extend(self.keeper.due(due, self.wall()).iter().map(show));
            }
            self.passed = until;
            written
        }
    }

    fn show(correlated: &Correlated) -> String {
        match correlated {
            Correlated::Create(event) => format!("create {}", event.name),
            Correlated::Repeat(event) => format!("patch {} {}", event.name, event.patch()["series"]),
            Correlated::Skip => "-".to_owned(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_second_event_starts_a_series_and_the_last_number_is_written_when_it_has_ended() {
        let mut clock = Clock::new();
        assert_eq!(clock.records("7", "a", 1), "create web.0000000000000001");
        assert_eq!(clock.passes(1), [""; 0]);
        // Another note is no other event.
        assert_eq!(
            clock.records("7", "b", 2),
            r#"patch web.0000000000000001 {"count":2,"lastObservedTime":"2026-01-01T00:01:00.000000Z"}"#
        );
        assert_eq!(clock.records("7", "a", 3), "-");
        assert_eq!(clock.passes(1), [""; 0]);
        assert_eq!(clock.records("7", "a", 4), "-");
        // Another version of the object is.
        assert_eq!(clock.records("8", "a", 5), "create web.0000000000000005");
        // At 6 minutes the series is too young.
        assert_eq!(
            clock.passes(12),
            [r#"patch web.0000000000000001 {"count":4,"lastObservedTime":"2026-01-01T00:02:00.000000Z"}"#]
        );
        assert_eq!(clock.records("7", "a", 6), "create web.0000000000000006");
        assert_eq!(clock.records("8", "a", 7), "create web.0000000000000007");
    }

    #[tokio::test(start_paused = true)]
    async fn a_long_series_is_written_every_half_an_hour() {
        let mut clock = Clock::new();
        clock.records("7", "a", 1);
        let mut written = Vec::new();
        for _ in 0..15 {
            written.extend(clock.passes(5));
            clock.records("7", "a", 2);
        }
        assert_eq!(
            written,
            [
                r#"patch web.0000000000000001 {"count":6,"lastObservedTime":"2026-01-01T00:25:00.000000Z"}"#,
                r#"patch web.0000000000000001 {"count":12,"lastObservedTime":"2026-01-01T00:55:00.000000Z"}"#
            ]
        );
        assert_eq!(clock.passes(60).len(), 1, "the end");
        assert_eq!(clock.keeper.next_due(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn single_events_are_remembered_up_to_a_limit() {
        let mut clock = Clock::new();
        for number in 0..=MAX_ONCE as u64 {
            clock.records(&number.to_string(), "a", number);
        }
        assert_eq!(clock.keeper.once.len(), MAX_ONCE);
        assert!(clock.records("0", "a", 0).starts_with("create"));
        assert!(clock.records("2", "a", 0).starts_with("patch"));
    }
}
