//! `FailureSchedule`: which failures begin and end next. The same seed gives the same failures.

use crate::machines::failure_model::{FailureModel, Timing};
use crate::machines::state::MachineState;
use component_base::rng::Random;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::time::Duration;

/// The failures of a fleet, by the time since the schedule began.
pub struct FailureSchedule {
    models: Vec<FailureModel>,
    courses: Vec<Course>,
    /// When each course changes next.
    due: BinaryHeap<Reverse<(Duration, usize)>>,
    known: BTreeSet<(usize, String)>,
    random: Box<dyn Fn(&str) -> Random + Send + Sync>,
}

/// The failures of one target of one model, one after another.
struct Course {
    model: usize,
    target: String,
    random: Random,
    has_failed: bool,
}

impl FailureSchedule {
    /// `random` returns the draws of a stream that has a name.
    pub fn new(models: Vec<FailureModel>, random: impl Fn(&str) -> Random + Send + Sync + 'static) -> Self {
        let random = Box::new(random);
        Self { models, courses: Vec::new(), due: BinaryHeap::new(), known: BTreeSet::new(), random }
    }

    /// Lets a node fail from now on. Targets that are known already go on as they were.
    pub fn add_node(&mut self, node: &str, zone: &str, now: Duration) {
        for (at, model) in self.models.iter().enumerate() {
            let Some(target) = model.target_of(node, zone) else { continue };
            if !self.known.insert((at, target.clone())) {
                continue;
            }
            let random = (self.random)(&format!("{}/{target}", model.name));
            let first = match model.timing {
                Timing::Random { mean_between, .. } => exponential(mean_between, &random),
                Timing::Planned { after, .. } => after.saturating_sub(now),
            };
            self.due.push(Reverse((now.saturating_add(first), self.courses.len())));
            self.courses.push(Course { model: at, target, random, has_failed: false });
        }
    }

    /// Returns when the next failure begins or ends.
    pub fn next_at(&self) -> Option<Duration> {
        self.due.peek().map(|Reverse((at, _))| *at)
    }

    /// Lets everything begin and end that is due. Returns whether something has changed.
    pub fn advance(&mut self, now: Duration) -> bool {
        let mut changed = false;
        while let Some(&Reverse((at, index))) = self.due.peek().filter(|Reverse((at, _))| *at <= now) {
            self.due.pop();
            let course = &mut self.courses[index];
            course.has_failed = !course.has_failed;
            changed = true;
            let next = match (self.models[course.model].timing, course.has_failed) {
                (Timing::Random { mean_to_repair, .. }, true) => Some(exponential(mean_to_repair, &course.random)),
                (Timing::Random { mean_between, .. }, false) => Some(exponential(mean_between, &course.random)),
                (Timing::Planned { lasts, .. }, true) => Some(lasts),
                (Timing::Planned { lasts, every, .. }, false) => every.map(|every| every.saturating_sub(lasts)),
            };
            if let Some(next) = next {
                self.due.push(Reverse((at.saturating_add(next), index)));
            }
        }
        changed
    }

    /// Returns the present failures by target.
    pub fn present(&self) -> BTreeMap<&str, MachineState> {
        let mut present: BTreeMap<&str, MachineState> = BTreeMap::new();
        for course in self.courses.iter().filter(|course| course.has_failed) {
            let state = present.entry(&course.target).or_default();
            *state = state.and(&self.models[course.model].failure);
        }
        present
    }

    /// Returns the state that the present failures give to a node.
    pub fn state_of(&self, present: &BTreeMap<&str, MachineState>, node: &str, zone: &str) -> MachineState {
        let mut targets: Vec<String> = self.models.iter().filter_map(|model| model.target_of(node, zone)).collect();
        targets.sort();
        targets.dedup();
        let states = targets.iter().filter_map(|target| present.get(target.as_str()));
        states.fold(MachineState::default(), |sum, state| sum.and(state))
    }
}

/// Draws from an exponential distribution; at least a millisecond, so that a course always goes on.
fn exponential(mean: Duration, random: &Random) -> Duration {
    let drawn = -(1.0 - random.unit()).ln();
    Duration::try_from_secs_f64(mean.as_secs_f64() * drawn).unwrap_or(mean).max(Duration::from_millis(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machines::state::Power;
    use serde_json::{Value, json};

    fn schedule(models: &[Value], seed: u64) -> FailureSchedule {
        let models = models.iter().map(|model| FailureModel::read(model, "").unwrap()).collect();
        FailureSchedule::new(models, move |stream| Random::from_seed(seed, stream))
    }

    fn crashed(schedule: &FailureSchedule, node: &str, zone: &str) -> bool {
        schedule.state_of(&schedule.present(), node, zone).power == Power::Off
    }

    #[test]
    fn a_planned_outage_of_a_zone_hits_its_nodes() {
        let model = json!({
            "name": "outage", "failure": "crash", "scope": "zone", "zones": ["a"], "after": "10s", "for": "5s",
            "every": "60s",
        });
        let mut schedule = schedule(&[model], 1);
        for (node, zone) in [("n0", "a"), ("n1", "b"), ("n2", "a")] {
            schedule.add_node(node, zone, Duration::ZERO);
        }
        let mut seen = Vec::new();
        while let Some(at) = schedule.next_at().filter(|at| at.as_secs() < 80) {
            schedule.advance(at);
            let nodes = [("n0", "a"), ("n1", "b"), ("n2", "a")].map(|(node, zone)| crashed(&schedule, node, zone));
            seen.push((at.as_secs(), nodes));
        }
        let (failed, fine) = ([true, false, true], [false; 3]);
        assert_eq!(seen, [(10, failed), (15, fine), (70, failed), (75, fine)]);
    }

    #[test]
    fn the_same_seed_gives_the_same_failures_with_the_means_of_the_model() {
        let model = || [json!({"name": "crashes", "failure": "crash", "mtbf": "100s", "mttr": "10s"})];
        let run = |seed: u64| {
            let mut schedule = schedule(&model(), seed);
            schedule.add_node("n", "", Duration::ZERO);
            let mut times = Vec::new();
            while times.len() < 4_000 {
                let at = schedule.next_at().unwrap();
                schedule.advance(at);
                times.push(at);
            }
            times
        };
        assert_eq!(run(7), run(7));
        assert_ne!(run(7), run(8));
        let times = run(7);
        let down: f64 = times.chunks(2).map(|pair| (pair[1] - pair[0]).as_secs_f64()).sum();
        let part = down / times.last().unwrap().as_secs_f64();
        assert!((0.08..0.10).contains(&part), "10 of 110 seconds, and not {part}");
    }

    #[test]
    fn nodes_that_join_later_fail_by_draws_of_their_own() {
        let model = json!({"name": "crashes", "failure": "crash", "mtbf": "100s", "mttr": "10s"});
        let models = [model];
        let (mut together, mut later) = (schedule(&models, 1), schedule(&models, 1));
        together.add_node("n0", "", Duration::ZERO);
        together.add_node("n1", "", Duration::ZERO);
        later.add_node("n0", "", Duration::ZERO);
        let first = later.next_at();
        later.add_node("n1", "", Duration::ZERO);
        later.add_node("n0", "", Duration::from_secs(5));
        assert_eq!(together.next_at(), later.next_at());
        assert!(later.next_at() <= first);
    }
}
