//! `orrery sim replay`: stock kubectl sees the cluster of a finished cell as its records tell it, at one moment after another.

use e2e::kubectl::Kubectl;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Lines, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

/// Three pods on two nodes: the last one waits for the end of the first.
const STUDY: &str = "
apiVersion: orrery.dev/v1alpha1
kind: Study
name: small
clusters: [{name: two, nodes: [{name: node, count: 2, capacity: {cpu: 2, memory: 4Gi}}]}]
workloads:
- name: three
  generate:
    count: 3
    arrivals: {waves: {size: 1, every: 20s}}
    sizes: [{name: pod, requests: {cpu: 2}, duration: {constant: 100s}}]
policies: [{name: default}]
";
const CELL: &str = "two/three/none/default/seed-1";

fn sim() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_orrery-under-test"));
    command.arg("sim");
    command
}

/// Runs the study below a folder.
fn run(folder: &Path, study: &str) {
    let path = folder.join("small.yaml");
    fs::write(&path, study).unwrap();
    e2e::programs::must(sim().arg("run").arg(path).arg("--out").arg(folder.join("results")));
}

/// A replay that runs until it is dropped.
struct Replay {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Replay {
    fn start(folder: &Path, until: &str) -> Self {
        let mut command = sim();
        command.arg("replay").arg(folder.join("results").join(CELL)).args(["--until", until]);
        command.arg("--study").arg(folder.join("small.yaml"));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// Reads the next line that has a word.
    fn line(&mut self, word: &str) -> String {
        let mut lines = self.lines.by_ref().map(Result::unwrap);
        lines.find(|line| line.contains(word)).unwrap_or_else(|| panic!("no line has {word:?}"))
    }

    fn say(&mut self, command: &str) -> String {
        writeln!(self.child.stdin.as_mut().unwrap(), "{command}").unwrap();
        self.line("at ")
    }
}

impl Drop for Replay {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the nodes of the pods at a moment, after the records until then; a pod without a node has none.
fn recorded(folder: &Path, until_us: u64) -> BTreeMap<String, String> {
    let text = fs::read_to_string(folder.join("results").join(CELL).join("events.jsonl")).unwrap();
    let mut pods = BTreeMap::new();
    for line in text.lines() {
        let record: Value = serde_json::from_str(line).unwrap();
        let pod = record["pod"].as_str().unwrap_or_default().trim_start_matches("default/").to_owned();
        match record["event"].as_str().unwrap() {
            _ if record["at_us"].as_u64().unwrap() > until_us => break,
            "pod-created" => drop(pods.insert(pod, "<none>".to_owned())),
            "pod-scheduled" => drop(pods.insert(pod, record["node"].as_str().unwrap().to_owned())),
            _ => {}
        }
    }
    pods
}

/// Returns the same as kubectl prints it.
fn printed(kubectl: &Kubectl) -> BTreeMap<String, String> {
    let table = kubectl.ok("get pods -o wide");
    let columns = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let mut rows = table.lines().skip(1).map(columns);
    // NAME READY STATUS RESTARTS AGE IP NODE
    let pods = rows.by_ref().map(|row| (row[0].clone(), row[6].clone()));
    pods.collect()
}

#[test]
fn kubectl_sees_the_cluster_of_a_moment() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    run(folder, STUDY);
    let mut replay = Replay::start(folder, "attempt-failed");
    let place = replay.line("at ");
    assert!(place.starts_with("at 40.") && place.contains(r#""event":"attempt-failed""#), "{place}");
    let export = replay.line("export KUBECONFIG=");
    let kubectl = Kubectl::new(Path::new(export.split_once('=').unwrap().1), folder);
    let full = printed(&kubectl);
    assert_eq!(full, recorded(folder, 41_000_000));
    assert_eq!(full.values().filter(|node| *node == "<none>").count(), 1, "{full:?}");
    assert!(kubectl.ok("get pods -o yaml").contains("Insufficient cpu"));
    assert_eq!(kubectl.ok("get pods -o wide"), kubectl.ok("get pods -o wide"), "the clock stands");
    // Each node has a pod that uses all its cores.
    for (what, expected) in [("nodes", "2000m"), ("nodes", "100%"), ("pods", "2000m")] {
        let table = kubectl.ok(&format!("top {what} --no-headers"));
        assert_eq!(table.lines().filter(|line| line.contains(expected)).count(), 2, "{table}");
    }

    let place = replay.say("until pod-finished");
    assert!(place.contains(r#""event":"pod-finished""#), "{place}");
    replay.say("step 5s");
    let later = printed(&kubectl);
    assert_eq!(later, recorded(folder, u64::MAX));
    assert!(later.values().all(|node| node.starts_with("node-")), "{later:?}");
    let place = replay.say("back 80s");
    assert!(place.starts_with("at 2") || place.starts_with("at 3"), "{place}");
    let before = printed(&kubectl);
    assert_eq!((before.len(), &before), (2, &recorded(folder, 35_000_000)));
    let place = replay.say("until ended");
    assert!(place.contains(r#""event":"ended""#), "{place}");
    assert_eq!(kubectl.ok("get pods --field-selector=status.phase=Succeeded -o name").lines().count(), 3);
    writeln!(replay.child.stdin.as_mut().unwrap(), "quit").unwrap();
    assert!(replay.child.wait().unwrap().success());
}

#[test]
fn a_cell_without_an_api_server_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    run(folder, &STUDY.replace("name: small", "name: small\ndepth: scheduler"));
    let refused = |more: &[&str]| {
        let mut command = sim();
        command.arg("replay").arg(folder.join("results").join(CELL)).args(["--until", "10s"]).args(more);
        let output = command.current_dir(folder).output().unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(refused(&[]).contains("depth: scheduler has no API server"), "{}", refused(&[]));
    fs::write(folder.join("small.yaml"), STUDY).unwrap();
    assert!(refused(&[]).contains("run the study again"), "{}", refused(&[]));
    fs::remove_file(folder.join("small.yaml")).unwrap();
    assert!(refused(&[]).contains("--study: Required value"), "{}", refused(&[]));
}
