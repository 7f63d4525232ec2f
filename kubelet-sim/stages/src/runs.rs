//! `StageRuns`: which stage each object is in, and since when.
//!
//! Corresponds to the delaying queue of KWOK's controllers. It is safe to forget everything: the objects say enough to
//! go on, and only delays begin anew.

use crate::choice::Stages;
use crate::stage::{Stage, Subject};
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// The field manager of what stages write. It shows that stages have driven an object before this process has started.
pub const MANAGER: &str = "orrery-stages";

/// One object may pass this many stages in `BUSY_PERIOD`; the next one waits.
///
/// Deviation: in KWOK, stages that lead to each other without a delay change an object as fast as the API server lets.
const MAX_PLAYS: usize = 20;
const BUSY_PERIOD: SignedDuration = SignedDuration::from_secs(10);

/// Draws two numbers in `0..1`. In a simulation they depend on the name alone.
pub type Draw = Box<dyn Fn(&str) -> (f64, f64) + Send + Sync>;

/// The runs of all objects, by their keys.
pub struct StageRuns {
    draw: Draw,
    runs: Mutex<BTreeMap<String, Run>>,
}

/// One object on its way through the stages.
#[derive(Debug, Default)]
struct Run {
    uid: String,
    /// The chosen stage, and when it was chosen.
    stage: Option<(String, Timestamp)>,
    /// Decide about the next stage and its delay; each lies in `0..1`.
    draws: (f64, f64),
    /// How many stages the object has passed.
    plays: u64,
    /// When the object passed its latest stages.
    recent: VecDeque<Timestamp>,
    /// The resourceVersion after the last stage; an older object says nothing.
    revision: u64,
    /// True if the last stage has changed nothing, so that nothing follows before somebody else changes the object.
    is_idle: bool,
    reported: Option<String>,
}

/// What to do with an object.
#[derive(Clone, Debug)]
pub enum Next {
    /// No stage drives the object: it behaves as the simulated kubelet lets it.
    Kubelet,
    /// Stages drive the object, and none is due before it changes.
    Nothing,
    Wait(Duration),
    Play(Stage),
}

impl StageRuns {
    pub fn new(draw: Draw) -> Self {
        Self { draw, runs: Mutex::default() }
    }

    /// Draws for the next stage of an object.
    fn draws(&self, uid: &str, plays: u64) -> (f64, f64) {
        (self.draw)(&format!("{uid}/{plays}"))
    }

    /// Returns what to do with an object as it is now.
    pub fn next(&self, stages: &Stages, subject: Subject, key: &str, object: &Value, now: Timestamp) -> Next {
        let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
        let mut runs = self.runs.lock();
        if let Some(run) = runs.get_mut(key).filter(|run| run.uid == uid) {
            return run.next(stages, subject, object, now);
        }
        // Only objects that a stage selects are remembered.
        let mut run = Run { uid: uid.to_owned(), draws: self.draws(uid, 0), ..Run::default() };
        let next = run.next(stages, subject, object, now);
        match run.stage {
            Some(_) => drop(runs.insert(key.to_owned(), run)),
            None => drop(runs.remove(key)),
        }
        next
    }

    /// Records that an object has passed its stage. `written` is the last answer of the API server, if there was one.
    pub fn played(&self, key: &str, object: &Value, written: Option<&Value>, now: Timestamp) {
        let mut runs = self.runs.lock();
        let Some(run) = runs.get_mut(key) else { return };
        let before = revision(object);
        run.revision = written.map_or(before, revision);
        run.is_idle = run.revision <= before;
        run.stage = None;
        run.plays += 1;
        run.draws = self.draws(&run.uid, run.plays);
        run.recent.push_back(now);
        if run.recent.len() > MAX_PLAYS {
            run.recent.pop_front();
        }
    }

    /// Returns whether stages drive an object at the moment: one of them has been chosen.
    pub fn is_in_stage(&self, key: &str) -> bool {
        self.runs.lock().get(key).is_some_and(|run| run.stage.is_some() || run.is_idle)
    }

    /// Returns true if a failure of the object's stage was not the last one that was reported.
    pub fn reports(&self, key: &str, message: &str) -> bool {
        let mut runs = self.runs.lock();
        let Some(run) = runs.get_mut(key) else { return false };
        let is_new = run.reported.as_deref() != Some(message);
        run.reported = Some(message.to_owned());
        is_new
    }

    pub fn forget(&self, key: &str) {
        self.runs.lock().remove(key);
    }
}

impl Run {
    fn next(&mut self, stages: &Stages, subject: Subject, object: &Value, now: Timestamp) -> Next {
        let seen = revision(object);
        if seen < self.revision || (self.is_idle && seen == self.revision) {
            return Next::Nothing;
        }
        self.is_idle = false;
        let Some(chosen) = stages.choose(subject, object, self.draws.0) else {
            self.stage = None;
            let is_driven = subject == Subject::Pod && self.plays > 0 && !is_deleting(object);
            return if is_driven || was_driven(subject, object) { Next::Nothing } else { Next::Kubelet };
        };
        let since = match &self.stage {
            Some((name, since)) if *name == chosen.name => *since,
            _ => now,
        };
        self.stage = Some((chosen.name.clone(), since));
        let after_delay = since + chosen.delay(object, since, self.draws.1);
        let due = match self.recent.front() {
            Some(oldest) if self.recent.len() == MAX_PLAYS => after_delay.max(*oldest + BUSY_PERIOD),
            _ => after_delay,
        };
        match Duration::try_from(due.duration_since(now)) {
            Ok(Duration::ZERO) | Err(_) => Next::Play(chosen.clone()),
            Ok(left) => Next::Wait(left),
        }
    }
}

/// Returns whether stages drove a pod that none of them selects now. Without its stages a pod stays as it is; only its
/// deletion is finished by the kubelet. A node goes back to its kubelet.
fn was_driven(subject: Subject, object: &Value) -> bool {
    let managers = object["metadata"]["managedFields"].as_array();
    let is_marked = managers.is_some_and(|managers| managers.iter().any(|entry| entry["manager"] == MANAGER));
    subject == Subject::Pod && is_marked && !is_deleting(object)
}

fn is_deleting(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

/// Returns the resourceVersion as a number; 0 without one.
fn revision(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::parse;
    use serde_json::json;

    const STAGES: &str = "
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: ready}
spec:
  resourceRef: {kind: Pod}
  selector: {matchExpressions: [{key: .status.phase, operator: In, values: [Pending]}]}
  delay: {durationMilliseconds: 2000, jitterDurationMilliseconds: 4000}
  next: {statusTemplate: 'phase: Running'}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: loop}
spec:
  resourceRef: {kind: Pod}
  selector: {matchExpressions: [{key: .status.phase, operator: In, values: [Running]}]}
  next: {statusTemplate: 'phase: Running'}
";

    fn stages() -> Stages {
        Stages::new(parse(STAGES).unwrap())
    }

    fn pod(revision: u64, phase: &str) -> Value {
        json!({"metadata": {"uid": "u1", "resourceVersion": revision.to_string()}, "status": {"phase": phase}})
    }

    fn shown(next: &Next) -> String {
        match next {
            Next::Kubelet => "kubelet".to_owned(),
            Next::Nothing => "nothing".to_owned(),
            Next::Wait(_) => "wait".to_owned(),
            Next::Play(stage) => stage.name.clone(),
        }
    }

    fn runs() -> StageRuns {
        StageRuns::new(Box::new(|_| (0.5, 0.5)))
    }

    /// The time so many seconds after the beginning.
    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + second).unwrap()
    }

    #[test]
    fn an_object_waits_passes_its_stage_and_follows_the_cache() {
        let (runs, stages) = (runs(), stages());
        let next = |object: &Value, second| runs.next(&stages, Subject::Pod, "shop/web", object, at(second));
        let left = |next: Next| if let Next::Wait(left) = next { left.as_secs() } else { panic!("{next:?}") };
        assert_eq!(shown(&next(&pod(1, "Unknown"), 0)), "kubelet");
        assert_eq!(left(next(&pod(2, "Pending"), 0)), 3);
        assert_eq!(left(next(&pod(3, "Pending"), 1)), 2, "another change does not begin the delay anew");
        assert!(runs.is_in_stage("shop/web"));
        assert_eq!(shown(&next(&pod(3, "Pending"), 3)), "ready");
        runs.played("shop/web", &pod(3, "Pending"), Some(&pod(7, "Done")), at(3));
        assert_eq!(shown(&next(&pod(3, "Pending"), 4)), "nothing", "the cache lags");
        assert_eq!(shown(&next(&pod(7, "Done"), 5)), "nothing", "stages have driven it");
        let mut deleted = pod(8, "Done");
        deleted["metadata"]["deletionTimestamp"] = json!("2026-01-02T03:04:05Z");
        assert_eq!(shown(&next(&deleted, 6)), "kubelet", "without a stage for it, the kubelet ends the pod");
        let other = json!({"metadata": {"uid": "u2", "resourceVersion": "9"}, "status": {"phase": "Done"}});
        assert_eq!(shown(&next(&other, 7)), "kubelet", "another pod of the same name");
        let mut marked = other.clone();
        marked["metadata"]["managedFields"] = json!([{"manager": MANAGER}]);
        assert_eq!(shown(&next(&marked, 7)), "nothing", "an earlier process has driven it by stages");
    }

    #[test]
    fn stages_that_never_end_are_slowed_down() {
        let (runs, stages) = (runs(), stages());
        let next = |object: &Value, second| runs.next(&stages, Subject::Pod, "shop/web", object, at(second));
        for revision in 1..=20 {
            assert_eq!(shown(&next(&pod(revision, "Running"), 0)), "loop");
            runs.played("shop/web", &pod(revision, "Running"), Some(&pod(revision + 1, "Running")), at(0));
        }
        let Next::Wait(left) = next(&pod(21, "Running"), 0) else { panic!() };
        assert_eq!(left, Duration::from_secs(10));
        assert_eq!(shown(&next(&pod(21, "Running"), 10)), "loop");
        runs.played("shop/web", &pod(21, "Running"), Some(&pod(21, "Running")), at(10));
        assert_eq!(shown(&next(&pod(21, "Running"), 11)), "nothing", "a patch without effect is not sent again");
        assert_eq!(shown(&next(&pod(22, "Running"), 11)), "loop");
    }
}
