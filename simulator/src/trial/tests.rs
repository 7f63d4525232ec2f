//! A table of what is written and what has happened, and a small trial that repeats.

use super::observed::Observer;
use super::*;
use kubelet_sim::template::NodeTemplate;
use std::collections::BTreeSet;

/// Lets an observer see the writes to one pod, and returns what has happened.
fn seen(writes: &[Option<Value>]) -> (Vec<String>, Observer) {
    let mut observer = Observer::new(BTreeSet::from(["n".to_owned()]));
    observer.remember(&json!({"metadata": {"name": "p", "annotations": {"orrery.dev/run-for": "1s"}}}));
    let mut happenings = Vec::new();
    for write in writes {
        let (found, again) = observer.see("/registry/pods/default/p", write.as_ref());
        happenings.extend(found.iter().map(|one| format!("{one:?}").split(' ').next().unwrap_or_default().to_owned()));
        happenings.extend(again.map(|_| "again".to_owned()));
    }
    (happenings, observer)
}

fn pod(node: Option<&str>, phase: &str, conditions: Value) -> Option<Value> {
    Some(json!({"metadata": {}, "spec": {"nodeName": node}, "status": {"phase": phase, "conditions": conditions}}))
}

#[test]
fn each_step_of_a_pod_happens_once() {
    let failed = json!([{"type": "PodScheduled", "status": "False", "message": "no room"}]);
    let writes = [
        pod(None, "Pending", json!([])),
        pod(None, "Pending", failed.clone()),
        pod(None, "Pending", failed),
        pod(Some("n"), "Pending", json!([])),
        pod(Some("n"), "Running", json!([])),
        pod(Some("n"), "Running", json!([])),
        pod(Some("n"), "Succeeded", json!([])),
        None,
    ];
    let (happenings, observer) = seen(&writes);
    assert_eq!(happenings, ["PodCreated", "AttemptFailed", "PodScheduled", "PodStarted", "PodFinished"]);
    assert_eq!((observer.finished(), observer.unfinished(), observer.to_finish()), (1, 0, 0));
}

#[test]
fn a_preempted_pod_is_created_again() {
    let target = json!([{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]);
    let writes = [
        pod(Some("n"), "Running", json!([])),
        pod(Some("n"), "Running", target.clone()),
        pod(Some("n"), "Failed", target),
        None,
        pod(None, "Pending", json!([])),
    ];
    let (happenings, observer) = seen(&writes);
    let expected = ["PodCreated", "PodScheduled", "PodStarted", "PodPreempted", "PodDeleted", "again", "PodCreated"];
    assert_eq!(happenings, expected);
    assert_eq!((observer.finished(), observer.unfinished(), observer.to_finish()), (0, 1, 0));
}

#[derive(Default)]
struct Lines(Vec<String>);

impl Audience for Lines {
    fn happened(&mut self, at: Duration, happening: Happening) {
        self.0.push(format!("{} {happening:?}", at.as_millis()));
    }

    fn progress(&mut self, _: Progress) {}
}

fn template(name: &str, cpu: &str) -> NodeTemplate {
    let document = json!({"name": name, "nodeName": name, "capacity": {"cpu": cpu, "memory": "8Gi", "pods": 10}});
    NodeTemplate::read(&document).unwrap()
}

fn submission(name: &str, at_s: u64, cpu: &str, priority: i32) -> Submission {
    let container = json!({"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}});
    let metadata = json!({"name": name, "namespace": "default", "annotations": {"orrery.dev/run-for": "60s"}});
    let spec = json!({"restartPolicy": "Never", "priority": priority, "containers": [container]});
    Submission { at: Duration::from_secs(at_s), pod: json!({"metadata": metadata, "spec": spec}) }
}

fn lines(seed: u64) -> Vec<String> {
    let setup = Setup { seed, templates: vec![template("a", "2"), template("b", "1")], ..Setup::default() };
    let submissions = vec![
        submission("low", 0, "2", 0),
        submission("high", 10, "2", 100),
        submission("small", 20, "1", 0),
        submission("giant", 30, "64", 0),
    ];
    let mut lines = Lines::default();
    run(setup, submissions, &mut lines).unwrap();
    lines.0
}

/// `high` takes the place of `low`, which comes again. `giant` fits nowhere, and the trial ends all the same.
#[test]
fn a_trial_repeats_and_ends() {
    let first = lines(1);
    assert_eq!(first, lines(1));
    let count = |what: &str| first.iter().filter(|line| line.contains(what)).count();
    assert_eq!((count("NodeAdded"), count("PodPreempted"), count("PodFinished")), (2, 1, 3), "{first:#?}");
    assert!(first.iter().any(|line| line.contains("AttemptFailed") && line.contains("giant")), "{first:#?}");
    assert!(first.last().is_some_and(|line| line.ends_with(" Ended")), "{first:#?}");
}
