//! `Restarts`: the delays before restarts, which double each time a component ends again soon.
//!
//! Corresponds to the crash-loop back-off by which kubelet restarts the static pods of a control plane.

use std::collections::BTreeMap;
use std::time::Duration;

const FIRST: Duration = Duration::from_millis(200);
const LAST: Duration = Duration::from_secs(30);
/// Running time after which the delay starts anew.
const QUIET: Duration = Duration::from_secs(60);

/// The last delay of each component.
#[derive(Debug, Default)]
pub struct Restarts {
    delays: BTreeMap<&'static str, Duration>,
}

impl Restarts {
    /// Returns the delay for a component that ended after running for `lived`.
    pub fn delay(&mut self, component: &'static str, lived: Duration) -> Duration {
        let known = self.delays.get(component).filter(|_| lived < QUIET);
        let delay = known.map_or(FIRST, |last| (*last * 2).min(LAST));
        self.delays.insert(component, delay);
        delay
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_keeps_ending_waits_longer_until_a_long_life() {
        let mut restarts = Restarts::default();
        let (soon, long) = (Duration::from_secs(1), Duration::from_secs(61));
        for (component, lived, expected_ms) in [
            ("scheduler", soon, 200),
            ("scheduler", soon, 400),
            ("apiserver", soon, 200),
            ("scheduler", soon, 800),
            ("scheduler", long, 200),
            ("scheduler", soon, 400),
        ] {
            assert_eq!(restarts.delay(component, lived), Duration::from_millis(expected_ms), "{component}");
        }
        for _ in 0..10 {
            restarts.delay("scheduler", soon);
        }
        assert_eq!(restarts.delay("scheduler", soon), LAST);
    }
}
