//! Schedulers of another make in a study, in real time: Orrery's own as a process, the program of the documentation, one that the user
//! starts, and one that dies.

use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

const EXPERIMENTS: &str = include_str!("../../../docs/experiments.md");
const ORRERY: &str = env!("CARGO_BIN_EXE_orrery-under-test");
/// Three pods that one node has room for. Those of seconds pass at once.
const STUDY: &str = r#"
apiVersion: orrery.dev/v1alpha1
kind: Study
name: outside
clusters: [{name: one, nodes: [{name: node, capacity: {cpu: 4, memory: 8Gi}}]}]
workloads:
- name: three
  generate:
    count: 3
    arrivals: {waves: {size: 1, every: 5s}}
    sizes: [{name: pod, requests: {cpu: 1}, duration: {constant: 10s}}]
policies:
"#;

fn sim(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(ORRERY);
    command.arg("sim").args(arguments).current_dir(folder);
    command
}

/// Writes a study with these policies and runs it.
fn run(folder: &Path, policies: &str) -> Output {
    fs::write(folder.join("outside.yaml"), format!("{STUDY}{policies}")).unwrap();
    sim(folder, &["run", "outside.yaml", "-j", "1"]).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Reads a file of the only cell of a policy.
fn read(folder: &Path, policy: &str, name: &str) -> Value {
    let path = folder.join("results/outside/one/three/none").join(policy).join("seed-1").join(name);
    serde_json::from_slice(&fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))).unwrap()
}

/// Writes the program of the documentation, which says its process before.
fn write_program(folder: &Path) {
    let block = EXPERIMENTS.split("```python\n").find(|block| block.contains("/binding\"")).unwrap();
    let program = block.split("```").next().unwrap();
    fs::write(folder.join("mine.py"), format!("import os\nprint(os.getpid(), flush=True)\n{program}")).unwrap();
}

#[test]
fn a_process_of_any_make_schedules_a_study() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write_program(folder);
    let own = format!("exec '{ORRERY}' scheduler --secure-port=0 --kubeconfig \"$KUBECONFIG\"");
    let policies = format!(
        "- name: default\n\
         - {{name: process, external: {{command: [sh, -c, {own:?}], speed: 20}}}}\n\
         - {{name: python, external: {{command: [python3, mine.py], schedulerName: mine, speed: 20}}}}\n"
    );
    let output = run(folder, &policies);
    let log = |policy: &str| {
        let path = folder.join("results/outside/one/three/none").join(policy).join("seed-1/scheduler.log");
        fs::read_to_string(path).unwrap_or_default()
    };
    let said = format!("{}{}", text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{said}\n{}\n{}", log("process"), log("python"));
    for policy in ["process", "python"] {
        assert!(said.contains(&format!("one/three/none/{policy}/seed-1: the scheduler is there")), "{said}");
        assert_eq!(read(folder, policy, "manifest.json")["repeatable"], false);
        let metrics = read(folder, policy, "metrics.json");
        assert_eq!((&metrics["repeatable"], &metrics["pods-finished"]), (&false.into(), &3.0.into()), "{metrics}");
    }
    assert_eq!(read(folder, "default", "manifest.json")["repeatable"], true);
    let inputs = |policy: &str| read(folder, policy, "manifest.json")["inputs"].clone();
    assert_eq!((inputs("process"), inputs("python")), (inputs("default"), inputs("default")));
    let process = log("python").lines().next().unwrap().to_owned();
    assert!(!Path::new("/proc").join(&process).exists(), "{process} has outlived its cell");
    let report = fs::read_to_string(folder.join("results/outside/report.html")).unwrap();
    assert!(report.contains("<th>python<br>(not repeatable)</th>"), "{report}");

    let compare = |more: &[&str]| {
        let arguments = ["compare", "python", "default", "--results", "results/outside", "--metric", "pods-finished"];
        sim(folder, &[&arguments[..], more].concat()).output().unwrap()
    };
    assert!(text(&compare(&[]).stderr).contains("runs of python are not repeatable"));
    assert!(text(&compare(&["--not-repeatable"]).stdout).trim_end().ends_with("; not repeatable"));
    let again = text(&run(folder, &policies).stdout);
    assert!(again.contains("3 of 3 cells have finished before; not repeatable: 2"), "{again}");
    let cell = "results/outside/one/three/none/python/seed-1";
    let replay = sim(folder, &["replay", cell, "--until", "1s", "--study", "outside.yaml"]).output().unwrap();
    assert!(text(&replay.stderr).contains("not repeatable"), "{}", text(&replay.stderr));
}

#[test]
fn a_scheduler_that_dies_fails_its_cell() {
    let folder = tempfile::tempdir().unwrap();
    let policies = "- {name: dies, external: {command: [sh, -c, 'echo out of ideas; exit 3']}}\n\
                    - {name: absent, external: {command: [./no-such-program]}}\n";
    let output = run(folder.path(), policies);
    let said = text(&output.stderr);
    let dies =
        "one/three/none/dies/seed-1: policy dies: the scheduler has ended: exit status: 3; its last line: out of ideas";
    assert!(!output.status.success() && said.contains(dies), "{said}");
    assert!(
        said.contains("policy absent: the scheduler has ended: ") && said.contains("no-such-program: No such file"),
        "{said}"
    );
}

/// The program that a user starts.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_cell_waits_for_a_scheduler_that_the_user_starts() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write_program(folder);
    let policies = "- {name: later, external: {schedulerName: mine, speed: 20}}\n";
    fs::write(folder.join("outside.yaml"), format!("{STUDY}{policies}")).unwrap();
    let mut study = sim(folder, &["run", "outside.yaml"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(study.stdout.take().unwrap()).lines().map(Result::unwrap);
    let export = lines.find_map(|line| line.split_once("export KUBECONFIG=").map(|(_, rest)| rest.to_owned())).unwrap();
    let (kubeconfig, server) = export.split_once(" # ").unwrap();
    assert!(server.trim().starts_with("https://127.0.0.1:"), "{export}");
    let mut command = Command::new("python3");
    let command = command.arg("mine.py").current_dir(folder).env("KUBECONFIG", kubeconfig.trim());
    let _program = Program(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let rest: Vec<String> = lines.collect();
    assert!(study.wait().unwrap().success(), "{rest:?}");
    assert!(rest.iter().any(|line| line.contains("later/seed-1: done (1 of 1)")), "{rest:?}");
    assert!(!Path::new(kubeconfig.trim()).exists());
}
