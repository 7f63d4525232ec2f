//! `Backoff`: the waits between attempts.
//!
//! Corresponds to wait.Backoff of k8s.io/apimachinery/pkg/util/wait.

use component_base::rng::Random;
use std::time::Duration;

/// Attempt 0 waits `initial`, and each further one `factor` times as long, up to `max`. Each wait is lengthened by up to
/// `jitter` of itself, so that clients that failed together do not retry together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Backoff {
    pub initial: Duration,
    pub factor: f64,
    pub max: Duration,
    pub jitter: f64,
}

impl Backoff {
    /// Returns the wait without jitter.
    pub fn delay(&self, attempt: u32) -> Duration {
        let exponent = i32::try_from(attempt).unwrap_or(i32::MAX);
        let delay_s = self.initial.as_secs_f64() * self.factor.powi(exponent);
        if delay_s.is_finite() && delay_s < self.max.as_secs_f64() {
            Duration::from_secs_f64(delay_s)
        } else {
            self.max
        }
    }

    pub fn jittered(&self, attempt: u32, random: &Random) -> Duration {
        random.jitter(self.delay(attempt), self.jitter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACKOFF: Backoff =
        Backoff { initial: Duration::from_millis(800), factor: 2.0, max: Duration::from_secs(30), jitter: 1.0 };

    #[test]
    fn doubles_up_to_the_limit() {
        let delays_ms: Vec<u128> = (0..8).map(|n| BACKOFF.delay(n).as_millis()).collect();
        assert_eq!(delays_ms, [800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000]);
        assert_eq!(BACKOFF.delay(u32::MAX), BACKOFF.max);
    }

    #[test]
    fn jitter_only_lengthens() {
        let random = Random::from_seed(1, "test");
        for attempt in 0..20 {
            let (plain, jittered) = (BACKOFF.delay(attempt), BACKOFF.jittered(attempt, &random));
            assert!(jittered >= plain && jittered <= plain * 2);
        }
    }
}
