//! Repeated attempts with growing delays, whose times follow from the first one.
//!
//! Corresponds to k8s.io/client-go/util/flowcontrol.Backoff and to pkg/util/goroutinemap/exponentialbackoff. The kubelet
//! counts in memory; here the time alone decides, so that an agent that restarts goes on.

use proto::kinds::jiff::Timestamp;
use std::time::Duration;

/// Delays that double from `initial` up to `max`.
#[derive(Clone, Copy, Debug)]
pub struct BackOff {
    pub initial: Duration,
    pub max: Duration,
}

/// An attempt, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attempt {
    pub number: u32,
    pub began: Timestamp,
    /// When the next attempt begins.
    pub next: Timestamp,
}

impl BackOff {
    /// Returns the delay after so many doublings.
    pub fn delay(&self, doublings: u32) -> Duration {
        (self.initial * 2_u32.pow(doublings.min(16))).min(self.max)
    }

    /// Returns the latest attempt at `now`, if the first was at `first` and each one fails at once.
    pub fn attempt(&self, first: Timestamp, now: Timestamp) -> Attempt {
        let (mut number, mut began) = (0, first);
        loop {
            let wait = self.delay(number);
            let next = began + wait;
            if next > now {
                return Attempt { number, began, next };
            }
            if wait < self.max {
                (number, began) = (number + 1, next);
                continue;
            }
            let waited_ms = now.as_millisecond() - began.as_millisecond();
            let skipped = u32::try_from(waited_ms / self.max.as_millis() as i64).unwrap_or(u32::MAX);
            (number, began) = (number.saturating_add(skipped), began + self.max * skipped);
            return Attempt { number, began, next: began + self.max };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_come_more_and_more_slowly() {
        let at = |s: i64| Timestamp::from_second(1000 + s).unwrap();
        let back_off = BackOff { initial: Duration::from_secs(10), max: Duration::from_secs(300) };
        for (now_s, number, began_s, next_s) in [
            (0, 0, 0, 10),
            (9, 0, 0, 10),
            (10, 1, 10, 30),
            (30, 2, 30, 70),
            (70, 3, 70, 150),
            (310, 5, 310, 610),
            (609, 5, 310, 610),
            (610, 6, 610, 910),
            (1509, 8, 1210, 1510),
            (1510, 9, 1510, 1810),
        ] {
            let expected = Attempt { number, began: at(began_s), next: at(next_s) };
            assert_eq!(back_off.attempt(at(0), at(now_s)), expected, "at {now_s} s");
        }
    }
}
