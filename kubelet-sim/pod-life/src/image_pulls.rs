//! `ImagePulls`: the pulls of a node, one after the other or several at the same time.
//!
//! Corresponds to pkg/kubelet/images/puller.go. Pulls are planned when they are asked for: a plan says when a pull begins
//! and ends, so that nothing has to run in between.

use proto::kinds::jiff::Timestamp;
use std::collections::BTreeMap;
use std::time::Duration;

/// Returns how long a pull takes, of the time that a whole one takes; `None` where the policy is content with the image that is
/// on the node. Where it is not, the layers are there, and the registry is only asked whether they are still current.
pub fn pull_time(policy: &str, is_present: bool, whole: Duration) -> Option<Duration> {
    match (policy, is_present) {
        ("Never" | "IfNotPresent", true) => None,
        (_, true) => Some(whole / 10),
        (_, false) => Some(whole),
    }
}

/// A pull that a container asks for.
#[derive(Clone, Debug)]
pub struct PullRequest<'a> {
    pub pod_uid: &'a str,
    pub container: &'a str,
    pub image: &'a str,
    pub asked_at: Timestamp,
    /// Time that the pull takes once it has begun.
    pub takes: Duration,
}

/// When a pull begins and ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedPull {
    pub begins_at: Timestamp,
    pub ends_at: Timestamp,
}

impl PlannedPull {
    /// Plans a pull that waits for no other.
    pub fn at_once(request: &PullRequest<'_>) -> Self {
        Self { begins_at: request.asked_at, ends_at: request.asked_at + request.takes }
    }
}

/// A pull is named by its pod's uid, its container, and the time at which it was asked for.
type Key = (String, String, Timestamp);

#[derive(Clone, Debug)]
struct Planned {
    image: String,
    pull: PlannedPull,
    made_at: Timestamp,
}

/// The latest pull of each container on one node.
#[derive(Clone, Debug, Default)]
pub struct ImagePulls {
    planned: BTreeMap<Key, Planned>,
}

impl ImagePulls {
    /// Returns the plan of a pull; makes it when it is asked for the first time. At most `at_once` pulls run at the same
    /// time; 0 sets no limit. Containers that need the same image share one pull.
    ///
    /// If the clock was set back, plans from the later time hold nobody up: they are made again, for now.
    pub fn plan(&mut self, request: &PullRequest<'_>, at_once: usize, now: Timestamp) -> PlannedPull {
        self.planned.retain(|_, planned| planned.made_at <= now);
        let key = (request.pod_uid.to_owned(), request.container.to_owned(), request.asked_at);
        if let Some(planned) = self.planned.get(&key) {
            return planned.pull;
        }
        let asked_at = request.asked_at.min(now);
        self.planned.retain(|(uid, container, _), _| {
            (uid.as_str(), container.as_str()) != (request.pod_uid, request.container)
        });
        let shared = self.running(asked_at).find(|planned| planned.image == request.image).map(|planned| planned.pull);
        let pull = shared.unwrap_or_else(|| {
            let begins_at = asked_at.max(self.free_at(asked_at, at_once).unwrap_or(asked_at));
            PlannedPull { begins_at, ends_at: begins_at + request.takes }
        });
        self.planned.insert(key, Planned { image: request.image.to_owned(), pull, made_at: now });
        pull
    }

    /// Returns the pulls that have not ended at a time.
    fn running(&self, at: Timestamp) -> impl Iterator<Item = &Planned> {
        self.planned.values().filter(move |planned| planned.pull.ends_at >= at)
    }

    /// Returns when a pull may begin that is asked for now; `None` when it need not wait.
    fn free_at(&self, now: Timestamp, at_once: usize) -> Option<Timestamp> {
        let mut pulls: Vec<(Timestamp, &String)> = self.running(now).map(|it| (it.pull.ends_at, &it.image)).collect();
        pulls.sort();
        pulls.dedup();
        let waits_for = pulls.len().checked_sub(at_once).filter(|_| at_once > 0)?;
        pulls.get(waits_for).map(|(ends_at, _)| *ends_at)
    }

    /// Forgets the pulls of a pod that has gone.
    pub fn release(&mut self, pod_uid: &str) {
        self.planned.retain(|(uid, ..), _| uid != pod_uid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn planned(pulls: &mut ImagePulls, at_once: usize, pod: &str, image: &str, asked_s: i64) -> (i64, i64) {
        planned_at(pulls, at_once, pod, image, asked_s, asked_s)
    }

    fn planned_at(
        pulls: &mut ImagePulls,
        at_once: usize,
        pod: &str,
        image: &str,
        asked_s: i64,
        now_s: i64,
    ) -> (i64, i64) {
        let takes = Duration::from_secs(10);
        let request = PullRequest { pod_uid: pod, container: "c", image, asked_at: at(asked_s), takes };
        let plan = pulls.plan(&request, at_once, at(now_s));
        (plan.begins_at.as_second(), plan.ends_at.as_second())
    }

    #[test]
    fn pulls_wait_for_each_other_as_the_node_is_set_up() {
        for (at_once, expected) in [
            (1, [(0, 10), (10, 20), (0, 10), (20, 30), (30, 40)]),
            (2, [(0, 10), (1, 11), (0, 10), (10, 20), (11, 21)]),
            (0, [(0, 10), (1, 11), (0, 10), (3, 13), (4, 14)]),
        ] {
            let mut pulls = ImagePulls::default();
            let requests = [("u1", "a", 0), ("u2", "b", 1), ("u3", "a", 2), ("u4", "c", 3), ("u5", "d", 4)];
            let found = requests.map(|(pod, image, asked_s)| planned(&mut pulls, at_once, pod, image, asked_s));
            assert_eq!(found, expected, "{at_once} at once");
            assert_eq!(planned_at(&mut pulls, at_once, "u2", "b", 1, 4), expected[1], "asked again");
        }
    }

    /// A container whose image is there starts a while later, and asks again at that time.
    #[test]
    fn a_pull_that_has_ended_stays_as_it_was_planned() {
        let mut pulls = ImagePulls::default();
        assert_eq!(planned(&mut pulls, 1, "u1", "a", 0), (0, 10));
        assert_eq!(planned(&mut pulls, 1, "u2", "a", 15), (15, 25));
        assert_eq!(planned_at(&mut pulls, 1, "u1", "a", 0, 20), (0, 10));
    }

    #[test]
    fn a_clock_that_is_set_back_holds_no_pull_up() {
        let mut pulls = ImagePulls::default();
        assert_eq!(planned(&mut pulls, 1, "u1", "a", 3600), (3600, 3610));
        assert_eq!(planned(&mut pulls, 1, "u2", "b", 5), (5, 15));
        let again = planned_at(&mut pulls, 1, "u1", "a", 3600, 6);
        assert_eq!(again, (15, 25), "it was asked for in the future");
        assert_eq!(planned_at(&mut pulls, 1, "u1", "a", 3600, 20), again);
    }

    #[test]
    fn a_pull_that_has_ended_holds_nobody_up() {
        let mut pulls = ImagePulls::default();
        assert_eq!(planned(&mut pulls, 1, "u1", "a", 0), (0, 10));
        assert_eq!(planned(&mut pulls, 1, "u2", "a", 20), (20, 30), "the image was removed meanwhile");
        pulls.release("u2");
        assert_eq!(planned(&mut pulls, 1, "u3", "b", 21), (21, 31));
    }
}
