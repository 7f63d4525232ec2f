//! `Call`: a call to the simulated storage system, which takes its time, and is repeated after a while when it fails.
//!
//! The calls are known to this process alone: after a restart each begins anew, which does no harm. Corresponds to the
//! rate-limited queues of sig-storage-lib-external-provisioner.

use client::{Action, Backoff, EventType, Plan};
use controller_base::clock;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Waits after failures, those of the external-provisioner.
const RETRIES: Backoff =
    Backoff { initial: Duration::from_secs(1), factor: 2.0, max: Duration::from_secs(300), jitter: 0.0 };

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Call {
    state: State,
    failures: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum State {
    #[default]
    Idle,
    Running {
        since: Timestamp,
    },
    BackingOff {
        until: Timestamp,
    },
    Done,
}

/// What a round may do about a call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Stage {
    /// Begin it. It ends after the latency.
    Begins,
    /// Wait: it runs, or has failed a short time ago.
    Waits(Duration),
    Ends,
    /// It has succeeded; the cache will show what it did.
    Over,
}

impl Call {
    pub fn stage(&self, latency: Duration, now: Timestamp) -> Stage {
        let until = |time| match clock::until(time, now) {
            Duration::ZERO => None,
            rest => Some(Stage::Waits(rest)),
        };
        match self.state {
            State::Idle => Stage::Begins,
            State::Running { since } => until(later(since, latency)).unwrap_or(Stage::Ends),
            State::BackingOff { until: time } => until(time).unwrap_or(Stage::Begins),
            State::Done => Stage::Over,
        }
    }

    /// Returns the plan of a round that has to wait; `None` once the call has ended. A call without latency ends at once.
    pub fn wait(&self, latency: Duration, now: Timestamp) -> Option<Plan> {
        match self.stage(latency, now) {
            Stage::Begins if latency.is_zero() => None,
            Stage::Begins => Some(Plan { requeue_after: Some(latency), ..Plan::default() }),
            Stage::Waits(rest) => Some(Plan { requeue_after: Some(rest), ..Plan::default() }),
            Stage::Over => Some(Plan::default()),
            Stage::Ends => None,
        }
    }

    /// Returns true if the call has succeeded.
    pub fn is_over(&self) -> bool {
        self.state == State::Done
    }

    /// Returns the wait after the next failure.
    pub fn next_retry(&self) -> Duration {
        RETRIES.delay(self.failures)
    }

    /// Returns the call after a plan was carried out: a warning says that it failed, a write that it succeeded, and a plan
    /// that only comes back later that it has begun.
    #[must_use]
    fn after(self, plan: &Plan, now: Timestamp) -> Self {
        let is_warning =
            |action: &Action| matches!(action, Action::Event(event) if event.event_type == EventType::Warning);
        if plan.actions.iter().any(is_warning) {
            let until = later(now, self.next_retry());
            return Self { state: State::BackingOff { until }, failures: self.failures + 1 };
        }
        if plan.actions.iter().any(|action| action.gvr().is_some()) {
            return Self { state: State::Done, failures: 0 };
        }
        match (self.state, plan.requeue_after) {
            (State::Idle, Some(_)) => Self { state: State::Running { since: now }, ..self },
            (State::BackingOff { until }, Some(_)) if until <= now => {
                Self { state: State::Running { since: now }, ..self }
            }
            _ => self,
        }
    }
}

fn later(time: Timestamp, duration: Duration) -> Timestamp {
    let duration = SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX);
    time.saturating_add(duration).unwrap_or(Timestamp::MAX)
}

/// The calls of one kind, by the uid of the object that each is about. Clones share them.
#[derive(Clone, Default)]
pub struct Calls(Arc<Mutex<BTreeMap<String, Call>>>);

impl Calls {
    pub fn get(&self, uid: &str) -> Call {
        self.0.lock().get(uid).copied().unwrap_or_default()
    }

    pub fn record(&self, uid: &str, plan: &Plan, now: Timestamp) {
        let mut calls = self.0.lock();
        let call = calls.get(uid).copied().unwrap_or_default().after(plan, now);
        if call != Call::default() {
            calls.insert(uid.to_owned(), call);
        }
    }

    /// Call it when the object is gone, or when the cache shows what the call did.
    pub fn forget(&self, uid: &str) {
        self.0.lock().remove(uid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volume::fixture::claim;
    use controller_base::actions;
    use controller_base::fixture::at;

    const LATENCY: Duration = Duration::from_secs(5);

    #[test]
    fn a_call_takes_its_time_and_is_repeated_after_a_growing_wait() {
        let later = |seconds| Plan { actions: Vec::new(), requeue_after: Some(Duration::from_secs(seconds)) };
        let failed = Plan::of([actions::warning(&claim("c", None), "Failed", "why")]);
        let done = Plan::of([actions::delete_exactly(&claim("c", None))]);
        let idle = Call::default();
        assert_eq!(idle.stage(LATENCY, at(0)), Stage::Begins);
        let running = idle.after(&later(5), at(0));
        assert_eq!(running.stage(LATENCY, at(2)), Stage::Waits(Duration::from_secs(3)));
        assert_eq!(running.after(&later(3), at(2)), running);
        assert_eq!(running.stage(LATENCY, at(5)), Stage::Ends);
        let waiting = running.after(&failed, at(5));
        assert_eq!(waiting.stage(LATENCY, at(5)), Stage::Waits(Duration::from_secs(1)));
        assert_eq!(waiting.stage(LATENCY, at(6)), Stage::Begins);
        let again = waiting.after(&later(5), at(6));
        assert_eq!(again.after(&failed, at(11)).stage(LATENCY, at(11)), Stage::Waits(Duration::from_secs(2)));
        let over = again.after(&done, at(11));
        assert_eq!(over.stage(LATENCY, at(99)), Stage::Over);
        assert_eq!(over.after(&Plan::default(), at(99)), over);
    }
}
