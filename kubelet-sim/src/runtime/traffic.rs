//! `Traffic`: the connections that containers have served, from which the usage of some follows.
//!
//! Each connection counts as one request. The rate is that of the last 15 seconds, the resolution of metrics-server.

use super::RunKey;
use parking_lot::Mutex;
use pod_life::story::usage::Requests;
use proto::kinds::jiff::Timestamp;
use std::collections::{BTreeMap, VecDeque};

const WINDOW_S: i64 = 15;

/// What was served, by the uid of the pod and the name of the container.
#[derive(Debug, Default)]
pub struct Traffic(Mutex<BTreeMap<(String, String), Served>>);

/// What one run has served.
#[derive(Debug)]
struct Served {
    started_at: Timestamp,
    total: u64,
    /// Connections of the last seconds, each with its second.
    recent: VecDeque<(i64, u32)>,
}

impl Served {
    fn drop_old(&mut self, second: i64) {
        while self.recent.front().is_some_and(|(at, _)| *at <= second - WINDOW_S) {
            self.recent.pop_front();
        }
    }
}

impl Traffic {
    /// Counts a connection to a run.
    pub fn count(&self, run: &RunKey, now: Timestamp) {
        let mut all = self.0.lock();
        let new = || Served { started_at: run.started_at, total: 0, recent: VecDeque::new() };
        let served = all.entry((run.pod_uid.clone(), run.container.clone())).or_insert_with(new);
        if served.started_at != run.started_at {
            *served = new();
        }
        served.total += 1;
        served.drop_old(now.as_second());
        match served.recent.back_mut() {
            Some((second, count)) if *second == now.as_second() => *count += 1,
            _ => served.recent.push_back((now.as_second(), 1)),
        }
    }

    /// Returns what the run that began in this second has served.
    pub fn requests(&self, pod_uid: &str, container: &str, started_at: Timestamp, now: Timestamp) -> Requests {
        let mut all = self.0.lock();
        let served = all.get_mut(&(pod_uid.to_owned(), container.to_owned()));
        let Some(served) = served.filter(|served| served.started_at.as_second() == started_at.as_second()) else {
            return Requests::default();
        };
        served.drop_old(now.as_second());
        let recent: u32 = served.recent.iter().map(|(_, count)| count).sum();
        Requests { total: served.total as f64, per_second: f64::from(recent) / WINDOW_S as f64 }
    }

    /// Forgets a pod.
    pub fn release(&self, pod_uid: &str) {
        self.0.lock().retain(|(of, _), _| of != pod_uid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_that_of_the_last_seconds_and_a_new_run_begins_at_nothing() {
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        let run = |number: i32, started_s: i64| RunKey {
            pod_uid: "u".to_owned(),
            container: "c".to_owned(),
            number,
            started_at: at(started_s),
        };
        let traffic = Traffic::default();
        (0..30).for_each(|second| traffic.count(&run(0, 0), at(second)));
        let requests = |started_s: i64, now_s: i64| traffic.requests("u", "c", at(started_s), at(now_s));
        assert_eq!(requests(0, 29), Requests { total: 30.0, per_second: 1.0 });
        assert_eq!(requests(0, 60), Requests { total: 30.0, per_second: 0.0 });
        assert_eq!(requests(50, 60), Requests::default());
        traffic.count(&run(1, 50), at(60));
        assert_eq!(requests(50, 60).total, 1.0);
        traffic.release("u");
        assert_eq!(requests(50, 60), Requests::default());
    }
}
