//! `Correlator`: counts equal events, combines similar ones, and limits the rate of each source.
//!
//! Corresponds to EventCorrelator of k8s.io/client-go/tools/record/events_cache.go, with its defaults.

use super::Occurrence;
use super::fingerprint::Fingerprint;
use super::lru::Lru;
use crate::token_bucket::TokenBucket;
use proto::kinds::jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// Most cached objects, reasons and messages.
const CACHE_ENTRIES: usize = 4096;
/// Most different messages of one reason that are written separately; further ones are combined.
const MAX_SIMILAR: usize = 10;
/// Similar events further apart than this are not combined.
const SIMILAR_INTERVAL: SignedDuration = SignedDuration::from_secs(600);
/// Rate limit of one source about one object: a burst, then one event in five minutes.
const SPAM_BURST: u32 = 25;
const SPAM_QPS: f64 = 1.0 / 300.0;
const COMBINED: &str = "(combined from similar events): ";

pub(super) struct Correlator {
    similar: Lru<Fingerprint, Similar>,
    seen: Lru<Fingerprint, Seen>,
    spam: Lru<Fingerprint, TokenBucket>,
}

struct Similar {
    /// Different messages, at most `MAX_SIMILAR`.
    messages: Vec<Fingerprint>,
    last_at: Timestamp,
}

#[derive(Default)]
struct Seen {
    count: u32,
    name: String,
    first_at: Timestamp,
}

/// The write that an event leads to.
#[derive(Debug)]
pub(super) enum Correlated {
    Create(Occurrence),
    /// Patch an event that exists already, according to the cache.
    Repeat(Occurrence),
    /// Write nothing: the event exceeds the rate limit, or is only counted.
    Skip,
}

impl Correlated {
    /// Returns the event that is to be written.
    pub(super) fn event(&self) -> Option<&Occurrence> {
        match self {
            Correlated::Create(event) | Correlated::Repeat(event) => Some(event),
            Correlated::Skip => None,
        }
    }
}

impl Correlator {
    pub(super) fn new() -> Self {
        Self { similar: Lru::new(CACHE_ENTRIES), seen: Lru::new(CACHE_ENTRIES), spam: Lru::new(CACHE_ENTRIES) }
    }

    pub(super) fn correlate(&mut self, event: Occurrence, now: Instant) -> Correlated {
        let source = source_key(&event);
        let (event, key) = self.combine(event, source);
        let correlated = self.count(event, key);
        let spam = self.spam.get_or_insert_with(source, || TokenBucket::new(SPAM_QPS, SPAM_BURST, now));
        if spam.try_take(now) { correlated } else { Correlated::Skip }
    }

    /// Combines messages: after ten different ones of one reason within ten minutes, further ones become one event.
    fn combine(&mut self, mut event: Occurrence, source: Fingerprint) -> (Occurrence, Fingerprint) {
        let spec = &event.spec;
        let of_reason = source.and(&[spec.event_type.as_str(), &spec.reason]);
        let now = event.last_at;
        let fresh = || Similar { messages: Vec::new(), last_at: now };
        let similar = self.similar.get_or_insert_with(of_reason, fresh);
        if now.duration_since(similar.last_at) > SIMILAR_INTERVAL {
            *similar = fresh();
        }
        let message = Fingerprint::of(&[&spec.message]);
        if !similar.messages.contains(&message) {
            similar.messages.push(message);
        }
        similar.last_at = now;
        if similar.messages.len() < MAX_SIMILAR {
            let key = of_reason.and(&[&spec.regarding.field_path, &spec.message]);
            return (event, key);
        }
        // The list need not grow beyond the limit.
        similar.messages.pop();
        event.spec.message = format!("{COMBINED}{}", event.spec.message);
        (event, of_reason)
    }

    fn count(&mut self, mut event: Occurrence, key: Fingerprint) -> Correlated {
        let seen = self.seen.get_or_insert_with(key, Seen::default);
        seen.count += 1;
        if seen.count == 1 {
            seen.name = event.name.clone();
            seen.first_at = event.first_at;
            return Correlated::Create(event);
        }
        event.count = if event.is_shared { 1 } else { seen.count };
        event.name = seen.name.clone();
        event.first_at = seen.first_at;
        Correlated::Repeat(event)
    }
}

/// Returns the key of an event's source and object.
fn source_key(event: &Occurrence) -> Fingerprint {
    let regarding = &event.spec.regarding;
    Fingerprint::of(&[
        &event.component,
        &event.host,
        &regarding.kind,
        &regarding.namespace,
        &regarding.name,
        &regarding.uid,
        &regarding.api_version,
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::{EventSpec, EventType, Form, Regarding};
    use component_base::env::Env;
    use serde_json::json;
    use std::time::Duration;

    fn event(env: &Env, object: &str, message: &str) -> Occurrence {
        let regarding = Regarding { name: object.into(), ..Regarding::default() };
        Occurrence {
            form: Form::Counted,
            spec: EventSpec::new(&regarding, EventType::Normal, "Reason", message),
            component: "test".into(),
            host: "".into(),
            agent: None,
            name: format!("{object}.{}", env.random("names").u64()),
            is_shared: false,
            count: 1,
            first_at: env.wall(),
            last_at: env.wall(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn equal_events_are_counted() {
        let env = Env::simulated(1);
        let mut correlator = Correlator::new();
        let Correlated::Create(first) = correlator.correlate(event(&env, "a", "m"), env.now()) else { panic!() };
        env.sleep(Duration::from_secs(5)).await;
        let Correlated::Repeat(second) = correlator.correlate(event(&env, "a", "m"), env.now()) else { panic!() };
        assert_eq!((second.count, &second.name, second.first_at), (2, &first.name, first.first_at));
        assert_eq!(second.patch(), json!({"count": 2, "lastTimestamp": "2026-01-01T00:00:05Z", "message": "m"}));
        assert!(matches!(correlator.correlate(event(&env, "b", "m"), env.now()), Correlated::Create(_)));
    }

    /// Each process would count for itself, and write its own count.
    #[tokio::test(start_paused = true)]
    async fn shared_events_are_not_counted() {
        let env = Env::simulated(1);
        let mut correlator = Correlator::new();
        let shared = || Occurrence { is_shared: true, ..event(&env, "a", "m") };
        assert!(matches!(correlator.correlate(shared(), env.now()), Correlated::Create(_)));
        let Correlated::Repeat(second) = correlator.correlate(shared(), env.now()) else { panic!() };
        assert_eq!((second.count, &second.patch()["count"]), (1, &json!(1)));
    }

    #[tokio::test(start_paused = true)]
    async fn the_tenth_similar_event_is_combined_until_ten_quiet_minutes_have_passed() {
        let env = Env::simulated(1);
        let mut correlator = Correlator::new();
        for n in 1..10 {
            let correlated = correlator.correlate(event(&env, "a", &format!("m{n}")), env.now());
            assert!(matches!(correlated, Correlated::Create(_)));
        }
        let Correlated::Create(tenth) = correlator.correlate(event(&env, "a", "m10"), env.now()) else { panic!() };
        assert_eq!(tenth.spec.message, "(combined from similar events): m10");
        let Correlated::Repeat(next) = correlator.correlate(event(&env, "a", "m11"), env.now()) else { panic!() };
        assert_eq!((next.spec.message.as_str(), next.count), ("(combined from similar events): m11", 2));
        env.sleep(Duration::from_secs(601)).await;
        let Correlated::Create(later) = correlator.correlate(event(&env, "a", "m12"), env.now()) else { panic!() };
        assert_eq!(later.spec.message, "m12");
    }

    #[tokio::test(start_paused = true)]
    async fn a_source_is_cut_off_after_its_burst() {
        let env = Env::simulated(1);
        let mut correlator = Correlator::new();
        let mut passed = |env: &Env| {
            (0..40)
                .filter(|_| !matches!(correlator.correlate(event(env, "a", "m"), env.now()), Correlated::Skip))
                .count()
        };
        assert_eq!(passed(&env), 25);
        env.sleep(Duration::from_secs(601)).await;
        assert_eq!(passed(&env), 2);
    }
}
