//! A table of what is written and what has happened, and a small trial that repeats.

use super::observed::Observer;
use super::pod_state::PodState;
use super::stored::Stored;
use super::*;
use kubelet_sim::template::NodeTemplate;
use scheduler::Settings;
use scheduler::framework::configuration::Configuration;
use std::collections::{BTreeMap, BTreeSet};

/// Lets an observer see the writes to one pod, and returns what has happened.
fn seen(writes: &[Option<Value>]) -> (Vec<String>, Observer) {
    let mut observer = Observer::new(BTreeSet::from(["n".to_owned()]));
    observer.remember(&json!({"metadata": {"name": "p", "annotations": {"orrery.dev/run-for": "1s"}}}));
    let mut happenings = Vec::new();
    for write in writes {
        let stored = |write: &Value| Stored::read(write.to_string().as_bytes()).unwrap();
        let state = write.as_ref().map(|write| PodState::of_stored(&stored(write)));
        let (found, again) = observer.see_pod("default/p", state.as_ref());
        happenings
            .extend(found.iter().map(|one| format!("{one:?}").split([' ', '(']).next().unwrap_or_default().to_owned()));
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
pub struct Lines(pub Vec<String>);

impl Audience for Lines {
    fn happened(&mut self, at: Duration, event: Event) {
        self.0.push(format!("{} {event:?}", at.as_millis()));
    }

    fn progress(&mut self, _: Progress) {}
}

pub fn template(name: &str, cpu: &str) -> NodeTemplate {
    let document = json!({"name": name, "nodeName": name, "capacity": {"cpu": cpu, "memory": "8Gi", "pods": 10}});
    NodeTemplate::read(&document).unwrap()
}

pub fn submission(name: &str, at_s: u64, cpu: &str, priority: i32) -> Submission {
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
    // `low` is created twice, and bound twice.
    let answered = first.iter().find(|line| line.contains("RequestsAnswered"));
    let has = |what: &str| answered.is_some_and(|line| line.contains(what));
    assert!(has("\"create pods\": 5,") && has("\"create pods/binding\": 4,"), "{answered:?}");
}

/// Every attempt is told, and what is told changes nothing. A preemption names the pod in whose favour it is.
#[test]
fn attempts_are_told_in_both_depths() {
    #[derive(Default)]
    struct Attempts(Lines, Vec<Told>);
    impl Audience for Attempts {
        fn happened(&mut self, at: Duration, event: Event) {
            self.0.happened(at, event);
        }
        fn decided(&mut self, told: Told) {
            self.1.push(told);
        }
        fn progress(&mut self, _: Progress) {}
    }
    for depth in [Depth::Full, Depth::Scheduler] {
        let play = |decisions| {
            let templates = vec![template("a", "2"), template("b", "1")];
            let setup = Setup { depth, templates, decisions, ..Setup::default() };
            let submissions = vec![submission("low", 0, "2", 0), submission("high", 10, "2", 100)];
            let mut heard = Attempts::default();
            run(setup, submissions, &mut heard).unwrap();
            (heard.0.0, heard.1)
        };
        let ((lines, none), (of_attempts, attempts)) = (play(None), play(Some(Detail::Attempts)));
        let (of_plugins, plugins) = play(Some(Detail::Plugins));
        assert!(none.is_empty() && lines == of_attempts && lines == of_plugins, "{depth:?}");
        let preempted = r#"PodPreempted { pod: "default/low", by: "default/high" }"#;
        assert!(lines.iter().any(|line| line.ends_with(preempted)), "{depth:?}: {lines:#?}");
        // A binding takes one request.
        assert!(lines.iter().any(|line| line.contains("\"default/low\"") && line.contains("decided_us: Some(")));

        let decided: Vec<_> = attempts.iter().map(|told| told.decided.clone()).collect();
        assert_eq!(decided, plugins.iter().map(|told| told.decided.clone()).collect::<Vec<_>>());
        let first = &decided[0];
        assert_eq!((first.pod.as_str(), first.result.as_str(), first.node.as_str()), ("default/low", "scheduled", "a"));
        assert_eq!((first.evaluated, first.feasible, first.ties, first.attempt), (2, 1, 1, 1));
        assert_eq!(first.reason, "1 of 2 nodes fit");
        let second = &decided[1];
        assert_eq!((second.pod.as_str(), second.result.as_str()), ("default/high", "unschedulable"));
        assert_eq!((second.victims, second.at_us / 1_000_000), (1, 10));
        let words = |number: u64, node: &str| {
            let of = plugins.iter().flat_map(|told| &told.verdicts);
            let of = of.filter(|one| one.number == number && one.node == node && one.result != "Success");
            of.map(|one| format!("{} {} {}", one.point, one.plugin, one.reasons)).collect::<Vec<_>>()
        };
        assert_eq!(words(1, "b"), ["Filter NodeResourcesFit Insufficient cpu"], "{depth:?}");
        assert!(words(1, "a").is_empty());
    }
}

#[test]
fn pods_of_every_namespace_run() {
    for depth in [Depth::Full, Depth::Scheduler] {
        let setup = Setup { depth, templates: vec![template("a", "4")], ..Setup::default() };
        let mut pods = vec![submission("one", 0, "1", 0), submission("one", 0, "1", 0)];
        pods[1].pod["metadata"]["namespace"] = json!("team");
        let placed = placements(setup, pods);
        let count = |what: &str| placed.iter().filter(|line| line.contains(what)).count();
        assert_eq!((count("default/one"), count("team/one")), (2, 2), "{depth:?}: {placed:#?}");
    }
}

/// The second pod comes long after the first has finished, and nothing else happens.
#[test]
fn pods_that_come_late_run() {
    for depth in [Depth::Full, Depth::Scheduler] {
        let setup = Setup { depth, templates: vec![template("a", "4")], ..Setup::default() };
        let placed = placements(setup, vec![submission("one", 0, "1", 0), submission("two", 5000, "1", 0)]);
        assert!(placed.iter().any(|line| line.contains("PodFinished") && line.contains("default/two")), "{placed:#?}");
    }
}

/// As in the lists of a real cluster: a node with a taint of its own, and a pod of the system.
#[test]
fn nodes_with_taints_and_pods_of_the_system_run() {
    let taint = json!([{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}]);
    let capacity = json!({"cpu": "4", "memory": "8Gi", "pods": 10});
    let node = json!({"name": "control", "nodeName": "control", "capacity": capacity, "taints": taint});
    for depth in [Depth::Full, Depth::Scheduler] {
        let templates = vec![NodeTemplate::read(&node).unwrap(), template("a", "4")];
        let mut pods = vec![submission("dns", 0, "1", 2_000_000_000), submission("web", 0, "1", 0)];
        pods[0].pod["spec"]["tolerations"] = taint_tolerated();
        pods[0].pod["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": "control"});
        let placed = placements(Setup { depth, templates, ..Setup::default() }, pods);
        let bound = |pod: &str, node: &str| placed.iter().any(|line| line.contains(pod) && line.contains(node));
        assert!(bound("default/dns", "\"control\"") && bound("default/web", "\"a\""), "{depth:?}: {placed:#?}");
    }
}

fn taint_tolerated() -> Value {
    json!([{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}])
}

/// Machines fail again and again, and a pod fits on none. The trial ends all the same.
#[test]
fn a_trial_ends_while_machines_fail() {
    let failure = json!({"name": "f", "failure": "crash", "mtbf": "5m", "mttr": "1m"});
    let model = kubelet_sim::machines::failure_model::FailureModel::read(&failure, "f").unwrap();
    let templates = (0..6).map(|number| template(&format!("n-{number}"), "4")).collect();
    let setup = Setup { depth: Depth::Scheduler, templates, failures: vec![model], ..Setup::default() };
    let mut lines = Lines::default();
    let took = run(setup, vec![submission("one", 0, "1", 0), submission("giant", 0, "64", 0)], &mut lines).unwrap();
    assert!(took < Duration::from_secs(4 * 3600), "{took:?}");
}

/// What happened to the placements of pods: each binding, preemption and end, without its time.
#[derive(Default)]
struct Placements(Vec<String>);

impl Audience for Placements {
    fn happened(&mut self, _: Duration, event: Event) {
        match event {
            Event::PodScheduled { .. } | Event::PodPreempted { .. } | Event::PodFinished { .. } => {
                self.0.push(format!("{event:?}"));
            }
            _ => {}
        }
    }

    fn progress(&mut self, _: Progress) {}
}

fn placements(setup: Setup, submissions: Vec<Submission>) -> Vec<String> {
    let mut placements = Placements::default();
    run(setup, submissions, &mut placements).unwrap();
    placements.0.sort();
    placements.0
}

/// Draws pods of several sizes and two priorities that arrive all the time, up to so many milliseconds after each other.
fn drawn(seed: u64, count: u64, gap_ms: u64) -> Vec<Submission> {
    let random = component_base::rng::Random::from_seed(seed, "trial/tests");
    let mut at_ms = 0;
    let one = |number: u64| {
        at_ms += random.u64() % gap_ms;
        let (cpu, priority) = [("500m", 0), ("1", 0), ("2", 0), ("2", 10)][(random.u64() % 4) as usize];
        let mut one = submission(&format!("p-{number}"), 0, cpu, priority);
        one.at = Duration::from_millis(at_ms);
        one.pod["metadata"]["annotations"]["orrery.dev/run-for"] =
            json!(format!("{}ms", 20_000 + random.u64() % 90_000));
        // Some have a second container, or one that comes first, with images that are pulled once or each time.
        let spec = &mut one.pod["spec"];
        if number.is_multiple_of(5) {
            let first = spec["containers"][0].clone();
            spec["containers"] = json!([first, {"name": "d", "image": "j:1"}]);
        }
        if number.is_multiple_of(7) {
            spec["initContainers"] = json!([{"name": "first", "image": "k"}]);
        }
        one
    };
    (0..count).map(one).collect()
}

fn most_allocated() -> Settings {
    let args = json!({"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}]}});
    with_profile(json!({"pluginConfig": [{"name": "NodeResourcesFit", "args": args}]}))
}

fn random_nodes() -> Settings {
    with_profile(json!({"plugins": {"score": {"disabled": [{"name": "*"}], "enabled": [{"name": "Random"}]}}}))
}

fn with_profile(profile: Value) -> Settings {
    let fields = BTreeMap::from([("profiles", json!([profile]))]);
    let mut settings = Setup::default().scheduler;
    settings.configuration = Configuration::read(&fields).unwrap();
    settings
}

/// Where no controller intervenes, both depths place every pod on the same node.
#[test]
fn both_depths_place_alike() {
    let templates = || (0..4).map(|number| template(&format!("n-{number}"), "8")).collect::<Vec<_>>();
    for (seed, scheduler) in [(1, Setup::default().scheduler), (2, most_allocated()), (3, random_nodes())] {
        let place = |depth| {
            let setup = Setup { seed, depth, templates: templates(), scheduler: scheduler.clone(), ..Setup::default() };
            placements(setup, drawn(seed, 70, 8_000))
        };
        let (full, alone) = (place(Depth::Full), place(Depth::Scheduler));
        let differ = full.iter().zip(&alone).find(|(full, alone)| full != alone);
        assert_eq!((differ, full.len()), (None, alone.len()), "seed {seed}");
        assert!(full.len() >= 140, "seed {seed}: {}", full.len());
    }
}

/// In a busy cluster as well, and every pod starts and ends at the same moment. Nodes pull an image while pods wait for it, and pods
/// share what nodes have read for others.
#[test]
fn both_depths_take_the_same_time_in_a_busy_cluster() {
    let templates = || (0..16).map(|number| template(&format!("n-{number}"), "8")).collect::<Vec<_>>();
    let told = |depth| {
        let mut lines = Lines::default();
        run(Setup { depth, templates: templates(), ..Setup::default() }, drawn(3, 150, 700), &mut lines).unwrap();
        lines.0.retain(|line| line.contains("default/"));
        lines.0.sort();
        lines.0
    };
    let (full, alone) = (told(Depth::Full), told(Depth::Scheduler));
    let differ: Vec<_> = full.iter().zip(&alone).filter(|(full, alone)| full != alone).take(4).collect();
    assert!(differ.is_empty() && full.len() == alone.len(), "{differ:#?}");
    assert!(full.len() >= 600, "{}", full.len());
}

/// A machine that loses its power takes its pods with it, in both depths.
#[test]
fn both_depths_lose_the_pods_of_a_machine() {
    let failure = json!({"name": "f", "failure": "crash", "nodes": ["a"], "after": "70s", "for": "400s"});
    let model = kubelet_sim::machines::failure_model::FailureModel::read(&failure, "f").unwrap();
    let count = |depth| {
        let templates = vec![template("a", "2"), template("b", "1")];
        let setup = Setup { depth, templates, failures: vec![model.clone()], ..Setup::default() };
        let mut submissions = vec![submission("big", 0, "2", 0), submission("small", 0, "1", 0)];
        submissions[0].pod["metadata"]["annotations"]["orrery.dev/run-for"] = json!("200s");
        let mut lines = Lines::default();
        run(setup, submissions, &mut lines).unwrap();
        let names = ["NodeAdded", "NodeRemoved", "PodEvicted", "PodDeleted", "PodScheduled", "PodFinished"];
        names.map(|what| lines.0.iter().filter(|line| line.contains(what)).count())
    };
    assert_eq!(count(Depth::Scheduler), count(Depth::Full));
}

/// The caller of a stepper decides, sees what the nodes have left, and may let a pod wait.
#[test]
fn a_stepper_asks_for_each_pod() {
    let setup = Setup { templates: vec![template("a", "2"), template("b", "1")], ..Setup::default() };
    let submissions =
        vec![submission("first", 1, "1", 0), submission("big", 2, "2", 0), submission("late", 100, "1", 0)];
    let mut stepper = Stepper::new(setup, submissions, Lines::default());
    let mut seen = Vec::new();
    while let Some(decision) = stepper.next_decision().unwrap() {
        let names: Vec<&str> = decision.feasible.iter().map(|at| decision.nodes[*at].name()).collect();
        seen.push(format!(
            "{} {} {}",
            decision.at.as_secs(),
            decision.pod.metadata.name.clone().unwrap(),
            names.join(",")
        ));
        assert!(stepper.apply(Some("c")).is_err(), "no such node");
        stepper.apply(names.last().copied()).unwrap();
    }
    assert_eq!(seen, ["1 first a,b", "2 big a", "100 late a,b"]);
    assert!(stepper.took() >= Duration::from_secs(160), "{:?}", stepper.took());
}

/// Two pods find no place. The scan at 10 s orders a node for both, which starts at 45 s. It is idle from 105 s on, and leaves at the
/// first scan after 205 s.
#[test]
fn nodes_of_groups_come_and_go_in_both_depths() {
    let run_at = |depth| {
        let node = |number| json!({"name": format!("s-{number}"), "nodeName": format!("s-{number}"), "capacity": {"cpu": 2, "pods": 10}});
        let group = NodeGroup {
            nodes: (0..2).map(node).collect(),
            min: 0,
            price_per_hour: 1.0,
            provision_delay: Duration::from_secs(35),
            scale_down_after: Duration::from_secs(100),
        };
        let setup = Setup { depth, templates: vec![template("a", "1")], groups: vec![group], ..Setup::default() };
        let pods = [("a", 0), ("b", 5), ("c", 10), ("d", 400)];
        let pods = pods.map(|(name, at_s)| submission(name, at_s, "1", 0)).to_vec();
        let mut lines = Lines::default();
        run(setup, pods, &mut lines).unwrap();
        // Seconds, the kind and the names.
        let short = |line: &String| {
            let (at_ms, rest) = line.split_once(' ').unwrap_or_default();
            let kind = rest.split([' ', '(']).next().unwrap_or_default();
            let names: Vec<&str> = rest.split('"').skip(1).step_by(2).filter(|name| !name.is_empty()).collect();
            format!("{} {kind} {}", at_ms.parse::<u64>().unwrap_or_default() / 1000, names.join(" "))
        };
        let is_kept = |line: &String| ["Node", "Scheduled", "Finished"].iter().any(|what| line.contains(what));
        let shown: Vec<String> = lines.0.iter().map(short).collect();
        shown.into_iter().filter(is_kept).collect::<Vec<String>>()
    };
    let expected = [
        "0 NodeAdded a",
        "0 PodScheduled default/a a",
        "45 NodeAdded s-0",
        "45 PodScheduled default/b s-0",
        "45 PodScheduled default/c s-0",
        "60 PodFinished default/a",
        "105 PodFinished default/b",
        "105 PodFinished default/c",
        "210 NodeRemoved s-0",
        "400 PodScheduled default/d a",
        "460 PodFinished default/d",
    ];
    assert_eq!(run_at(Depth::Scheduler), expected);
    assert_eq!(run_at(Depth::Full), expected);
}

/// A gang that does not fit whole gets no node, also while events come late, and another scheduler has its own pods.
#[test]
fn a_gang_with_a_pod_group_is_placed_whole() {
    let member = |gang: &str, number: u64, at_s: u64| {
        let mut one = submission(&format!("{gang}-{number}"), at_s, "1", 0);
        one.pod["spec"]["schedulingGroup"] = json!({"podGroupName": gang});
        one
    };
    let mut submissions: Vec<Submission> = (0..3).map(|number| member("large", number, 0)).collect();
    submissions.extend((0..2).map(|number| member("small", number, 5)));
    let profiles = BTreeMap::from([("profiles", json!([{"schedulerName": "other"}]))]);
    let mut other = Setup::default().scheduler;
    other.configuration = Configuration::read(&profiles).unwrap();
    let mut named = submission("named", 100, "1", 0);
    named.pod["spec"]["schedulerName"] = json!("other");
    submissions.push(named);
    let setup = Setup {
        more_schedulers: vec![other],
        templates: vec![template("a", "2")],
        watch_delay: Duration::from_secs(2),
        controllers: vec!["*".to_owned(), "-disruption".to_owned()],
        ..Setup::default()
    };
    let mut lines = Lines::default();
    run(setup, submissions, &mut lines).unwrap();
    let placed: Vec<&String> = lines.0.iter().filter(|line| line.contains("PodScheduled")).collect();
    assert_eq!(placed.len(), 3, "{placed:?}");
    assert!(placed[2].contains("default/named"), "{placed:?}");
    for line in &placed[..2] {
        let at_ms: u64 = line.split(' ').next().unwrap().parse().unwrap();
        assert!(line.contains("default/small-") && at_ms >= 7_000, "{line}");
    }
}

#[test]
fn controllers_that_do_not_exist_are_reported() {
    let of = |names: &[&str]| controllers_problem(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
    assert_eq!(of(&["*", "-disruption"]), None);
    assert_eq!(of(&["*", "-disrupt"]), Some("\"disrupt\" is not in the list of known controllers".to_owned()));
}

/// Pods of a PodGroup preempt one by one, and each record of a preemption names one of them. As a whole they preempt with the priority
/// of their group, and the record names none.
#[test]
fn a_preemption_by_a_gang_is_named() {
    let mut submissions = vec![submission("low-0", 0, "1", 0), submission("low-1", 0, "1", 0)];
    for number in 0..2 {
        let mut one = submission(&format!("gang-{number}"), 10, "1", 100);
        one.pod["spec"]["schedulingGroup"] = json!({"podGroupName": "gang"});
        submissions.push(one);
    }
    let together = ["GenericWorkload", "GangScheduling", "WorkloadAwarePreemption"];
    for gates in [&[][..], &together] {
        let feature_gates = gates.iter().map(|gate| ((*gate).to_owned(), true)).collect();
        let setup = Setup { templates: vec![template("a", "2")], feature_gates, ..Setup::default() };
        let mut lines = Lines::default();
        run(setup, submissions.clone(), &mut lines).unwrap();
        let preempted: Vec<&String> = lines.0.iter().filter(|line| line.contains("PodPreempted")).collect();
        assert_eq!(preempted.len(), 2, "{gates:?}: {:#?}", lines.0);
        let by = if gates.is_empty() { "by: \"default/gang-" } else { "by: \"\"" };
        assert!(preempted.iter().all(|line| line.contains(by)), "{preempted:#?}");
    }
}

/// Whoever asks the API server may be the scheduler of a trial. Nothing comes before it is there, and nothing else places its pods.
#[test]
fn a_trial_is_scheduled_from_outside() {
    use client::{Client, ListOptions};
    let setup = Setup { templates: vec![template("a", "4")], ..Setup::default() };
    let submissions = vec![submission("one", 0, "2", 0), submission("two", 10, "2", 0)];
    let lines = Rc::new(RefCell::new(Lines::default()));
    let mut cluster = Steered::scheduled_from_outside(setup, submissions, lines.clone());
    cluster.go_on(Duration::from_secs(60), std::future::pending()).unwrap();
    assert!(lines.borrow().0.is_empty(), "{:?}", lines.borrow().0);
    cluster.arrive();
    cluster.go_on(Duration::from_secs(90), std::future::pending()).unwrap();
    let count = |what: &str| lines.borrow().0.iter().filter(|line| line.contains(what)).count();
    assert_eq!((count("PodCreated"), count("PodScheduled")), (2, 0));
    let bind = async |client: Client, _: Env| {
        let pods = client.api::<Pod>("default");
        let names = pods.list(&ListOptions::default()).await.unwrap().items.into_iter().map(|pod| pod.metadata.name);
        for name in names.flatten() {
            let binding = json!({
                "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": {"kind": "Node", "name": "a"},
            });
            pods.create_subresource(&name, "binding", &binding).await.unwrap();
        }
    };
    cluster.stand(bind).unwrap();
    let stop = Duration::from_secs(300);
    cluster.go_on(stop, std::future::pending()).unwrap();
    assert_eq!((count("PodScheduled"), count("PodFinished"), count("Ended")), (2, 2, 1), "{:?}", lines.borrow().0);
}
