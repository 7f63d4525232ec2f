//! Golden runs: replicas follow a load within their bounds, and nodes of a group follow the replicas.

use super::super::tests::{Lines, submission, template};
use super::*;
use crate::trial::{Audience, Event, NodeGroup, Progress, Setup, run};
use experiments::files::Folder;
use experiments::study::{Deployment as Wanted, Workload};
use proto::serializer::yaml;
use serde_json::json;

/// Pods of half a core that are to use half of it, so one pod for each quarter of a core.
const WEB: &str = "
name: web
requests: {cpu: 500m, memory: 64Mi}
autoscaler: {min: 2, max: 6, cpuUtilization: 50}
load: {steps: [{at: 0s, cpu: 500m}, {at: 10m, cpu: 1}, {at: 20m, cpu: 2}, {at: 30m, cpu: 0}]}
";

fn deployment(text: &str, until: Duration) -> Deployment {
    let wanted: Wanted = serde_json::from_value(yaml::parse(text.as_bytes()).unwrap().value).unwrap();
    let workload = Workload { deployments: vec![wanted], ..Workload::default() };
    let mut made = experiments::workload::deployments(&workload, &Folder(".".into()), until, &mut || 7, "").unwrap();
    made.remove(0)
}

/// The lines of a run, and what it says about its progress.
#[derive(Default)]
struct Heard(Lines, Vec<f64>);

impl Audience for Heard {
    fn happened(&mut self, at: Duration, event: Event) {
        self.0.happened(at, event);
    }

    fn progress(&mut self, progress: Progress) {
        self.1.push(progress.part);
    }
}

/// Returns the number of pods that run at each full minute.
fn replicas(lines: &[String], minutes: &[u64]) -> Vec<i64> {
    let changes: Vec<(u64, i64)> = lines
        .iter()
        .filter_map(|line| {
            let change = match () {
                () if line.contains("PodStarted") && line.contains("\"default/web-") => 1,
                () if line.contains("PodDeleted") && line.contains("\"default/web-") => -1,
                () => return None,
            };
            Some((line.split(' ').next()?.parse().ok()?, change))
        })
        .collect();
    let at = |minute: &u64| changes.iter().filter(|(at_ms, _)| *at_ms <= minute * 60_000).map(|(_, by)| by).sum();
    minutes.iter().map(at).collect()
}

/// The load doubles twice: 500m are two pods, 1 core four, and 2 cores would be eight, but `max` is six. Without load there are `min`,
/// once the autoscaler has waited five minutes. The cluster has one node for four pods, and a group whose node comes for the others.
#[test]
fn replicas_follow_the_load_within_their_bounds() {
    let until = Duration::from_secs(40 * 60);
    let node = json!({"name": "s-0", "nodeName": "s-0", "capacity": {"cpu": 2, "memory": "8Gi", "pods": 10}});
    let group = NodeGroup {
        nodes: vec![node],
        min: 0,
        price_per_hour: 1.0,
        provision_delay: Duration::from_secs(30),
        scale_down_after: Duration::from_secs(60),
    };
    let setup = Setup {
        templates: vec![template("a", "2")],
        groups: vec![group],
        deployments: vec![deployment(WEB, until)],
        until: Some(until),
        ..Setup::default()
    };
    let mut heard = Heard::default();
    run(setup, Vec::new(), &mut heard).unwrap();
    let Heard(Lines(lines), parts) = heard;
    assert_eq!(parts, [0.25, 0.5, 0.75, 1.0, 1.0], "Deployments end with the time of the run");
    assert_eq!(replicas(&lines, &[1, 9, 12, 19, 22, 29, 34, 39]), [2, 2, 4, 4, 6, 6, 6, 2], "{lines:#?}");
    let loads: Vec<&String> = lines.iter().filter(|line| line.contains("LoadChanged")).collect();
    assert_eq!(loads.len(), 4, "{loads:?}");
    assert!(loads[1].starts_with("600000 ") && loads[1].contains("cpu_milli: 1000"), "{loads:?}");
    let on_group = lines.iter().filter(|line| line.contains("PodScheduled") && line.contains("\"s-0\"")).count();
    assert_eq!(on_group, 2, "{lines:#?}");
}

/// Without an autoscaler the number of pods stays, and a user's pods arrive beside them. The metrics server divides the load between the
/// pods that are ready, up to their limit.
#[test]
fn a_load_is_shared_by_the_pods_that_are_ready() {
    let text = "
name: web
requests: {cpu: 500m, memory: 1Gi}
cpuLimit: 800m
replicas: 3
priority: 7
load: {steps: [{at: 0s, cpu: 1500m}, {at: 1m, cpu: 3}]}
";
    let until = Duration::from_secs(120);
    let web = deployment(text, until);
    let setup = Setup {
        templates: vec![template("a", "4")],
        deployments: vec![web.clone()],
        until: Some(until),
        ..Setup::default()
    };
    let mut lines = Lines::default();
    run(setup, vec![submission("job", 10, "1", 0)], &mut lines).unwrap();
    assert_eq!(replicas(&lines.0, &[1, 2]), [3, 3]);
    assert!(lines.0.iter().any(|line| line.contains("PodFinished") && line.contains("default/job")), "{:#?}", lines.0);

    let loads = Loads::new(&Env::simulated(1), &[web], Some(BTreeSet::from(["n1".to_owned(), "n2".to_owned()])));
    let shown = || {
        let query = BTreeMap::from([("labelSelector".to_owned(), "orrery.dev/deployment=web".to_owned())]);
        let scope = Scope::Pods { namespace: Some("default".to_owned()) };
        let items = loads.items(&scope, &Selection::of(&query).unwrap());
        items.iter().map(|item| format!("{} {:?}", item.name, item.usages[0].cpu_cores)).collect::<Vec<_>>()
    };
    let ready = PodState {
        deployment: Some("default/web".to_owned()),
        is_ready: true,
        node: Some("n1".to_owned()),
        phase: "Running".to_owned(),
        ..PodState::default()
    };
    loads.advance(Duration::ZERO);
    loads.see_pod("default/web-1", Some(&ready));
    loads.see_pod("default/other", Some(&PodState { deployment: None, ..ready.clone() }));
    assert_eq!(shown(), ["web-1 0.8"]);
    loads.see_pod("default/web-2", Some(&ready));
    loads.see_pod("default/web-3", Some(&ready));
    assert_eq!(shown(), ["web-1 0.5", "web-2 0.5", "web-3 0.5"]);
    assert_eq!(loads.next_at(), Some(Duration::from_secs(60)));
    loads.see_pod("default/web-3", None);
    assert_eq!(shown(), ["web-1 0.75", "web-2 0.75"]);

    // Whoever looks at the whole cluster sees its nodes, and pods that use what they request.
    loads.remember(&submission("job", 0, "250m", 0).pod);
    let nodes = || {
        let items = loads.items(&Scope::Nodes, &Selection::of(&BTreeMap::new()).unwrap());
        let of_node = |item: &Item| format!("{} {:?}", item.name, item.usages[0].cpu_cores);
        items.iter().map(of_node).collect::<Vec<_>>()
    };
    assert_eq!(nodes(), ["n1 1.5", "n2 0.0"]);
    let job = PodState { deployment: None, node: Some("n2".to_owned()), ..ready };
    loads.see_pod("default/job", Some(&job));
    loads.see_node("n3", true);
    assert_eq!(nodes(), ["n1 1.5", "n2 0.25", "n3 0.0"]);
    loads.see_pod("default/job", Some(&PodState { phase: "Succeeded".to_owned(), ..job }));
    loads.see_node("n3", false);
    assert_eq!(nodes(), ["n1 1.5", "n2 0.0"]);
}
