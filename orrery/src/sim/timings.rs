//! `Timings`: the CPU time of decisions. It depends on the machine, so it is in a file of its own that is neither hashed nor
//! compared, and no other file has anything of it.

use cpu_time::{ProcessTime, ThreadTime};
use experiments::statistics::{mean, quantile, sorted};
use experiments::units::rounded;
use serde_json::{Value, json};
use std::time::Duration;

pub const TIMINGS: &str = "timings.json";

#[derive(Clone, Debug, Default)]
pub struct Timings {
    /// CPU time of each attempt of the scheduler.
    pub decisions: Vec<Duration>,
}

/// Returns the CPU time of this thread.
pub fn thread_cpu() -> Duration {
    ThreadTime::now().as_duration()
}

impl Timings {
    /// Returns the document, with the CPU time of the process until now.
    pub fn document(&self) -> Value {
        self.with_process(ProcessTime::now().as_duration())
    }

    fn with_process(&self, process: Duration) -> Value {
        let numbers = sorted(self.decisions.iter().map(|cpu| cpu.as_secs_f64() * 1e6).collect());
        let of = |q: f64| rounded(quantile(&numbers, q));
        json!({
            "decisions": numbers.len(),
            "decisionCpuUs": {
                "mean": rounded(mean(&numbers)), "p50": of(0.5), "p95": of(0.95), "p99": of(0.99), "max": of(1.0),
            },
            "processCpuS": rounded(process.as_secs_f64()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worked_by_hand() {
        let timings = Timings { decisions: [10, 20, 60].map(Duration::from_micros).to_vec() };
        let document = timings.with_process(Duration::from_millis(1500));
        assert_eq!(document["decisions"], 3);
        let expected = json!({"mean": 30.0, "p50": 20.0, "p95": 56.0, "p99": 59.2, "max": 60.0});
        assert_eq!(document["decisionCpuUs"], expected);
        assert_eq!(document["processCpuS"], 1.5);
    }
}
