//! `Evaluations`: how often the plugins of each profile have run.
//!
//! Corresponds to the metric `plugin_evaluation_total` of pkg/scheduler/metrics.

use parking_lot::Mutex;
use scheduling_framework::cycle::Decision;
use scheduling_framework::{CycleState, Diagnosis, Profile, Rejection};
use std::collections::BTreeMap;

/// Counts by profile.
#[derive(Default)]
pub struct Evaluations {
    of_profiles: Mutex<BTreeMap<String, Tally>>,
}

/// Counts of one profile, in the order in which a cycle counts for the first time.
#[derive(Default)]
struct Tally {
    counts: Vec<Count>,
    /// The place after the last count. Cycles run plugins in the same order, so that the next count is mostly there.
    next: usize,
}

struct Count {
    point: &'static str,
    plugin: &'static str,
    calls: u64,
}

impl Tally {
    fn add(&mut self, point: &'static str, plugin: &'static str, calls: usize) {
        let is_it = |count: &Count| count.plugin == plugin && count.point == point;
        let at = match self.counts.get(self.next).is_some_and(is_it) {
            true => self.next,
            false => self.counts.iter().position(is_it).unwrap_or_else(|| {
                self.counts.push(Count { point, plugin, calls: 0 });
                self.counts.len() - 1
            }),
        };
        self.counts[at].calls += calls as u64;
        self.next = at + 1;
    }
}

impl Evaluations {
    /// Counts what a cycle has run.
    pub fn count(&self, profile: &Profile, state: &CycleState, decided: Result<&Decision, &Diagnosis>) {
        let mut all = self.of_profiles.lock();
        if !all.contains_key(&profile.scheduler_name) {
            all.insert(profile.scheduler_name.clone(), Tally::default());
        }
        let Some(tally) = all.get_mut(&profile.scheduler_name) else { return };
        tally.next = 0;
        evaluations(profile, state, decided, |point, plugin, calls| tally.add(point, plugin, calls));
    }

    /// Calls a function with each profile, extension point, plugin and number of calls.
    pub fn each(&self, mut show: impl FnMut(&str, &'static str, &'static str, u64)) {
        for (profile, tally) in &*self.of_profiles.lock() {
            tally.counts.iter().for_each(|count| show(profile, count.point, count.plugin, count.calls));
        }
    }
}

/// Calls `count` with each plugin that the cycle has run, and how often.
fn evaluations(
    profile: &Profile,
    state: &CycleState,
    decided: Result<&Decision, &Diagnosis>,
    mut count: impl FnMut(&'static str, &'static str, usize),
) {
    for plugin in profile.pre_filter.iter().filter(|plugin| !state.skip_filter.contains(plugin.name())) {
        count("PreFilter", plugin.name(), 1);
    }
    let mut rejected: BTreeMap<&str, usize> = BTreeMap::new();
    let mut reject = |(rejection, nodes): (&Rejection, usize)| {
        *rejected.entry(rejection.plugin).or_insert(0) += nodes;
    };
    let mut nodes = match decided {
        Ok(decision) => {
            decision.rejections.counts().for_each(&mut reject);
            decision.evaluated
        }
        Err(diagnosis) if !diagnosis.pre_filter_message.is_empty() => return,
        Err(diagnosis) => {
            diagnosis.rejections.counts().for_each(&mut reject);
            diagnosis.rejections.len()
        }
    };
    // A plugin runs on the nodes that no plugin before it has rejected.
    for plugin in profile.filter.iter().filter(|plugin| !state.skip_filter.contains(plugin.name())) {
        count("Filter", plugin.name(), nodes);
        nodes = nodes.saturating_sub(rejected.get(plugin.name()).copied().unwrap_or(0));
    }
    let Ok(decision) = decided else { return };
    if decision.feasible.len() > 1 {
        for plugin in profile.pre_score.iter().filter(|plugin| !state.skip_score.contains(plugin.name())) {
            count("PreScore", plugin.name(), 1);
        }
    }
    for scores in &decision.scores {
        count("Score", scores.plugin, decision.feasible.len());
    }
}
