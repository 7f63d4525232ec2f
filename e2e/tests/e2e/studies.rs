//! Scheduling studies: the same study and seed give the same bytes however many cells run at a time and however slowly, finished
//! cells are not run again after Ctrl-C or a full disk, a bad study is refused with every mistake, the studies of the repository run,
//! and every metric follows from the records.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Lines, Read};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Output, Stdio};

const PACKING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../studies/packing.yaml");
const CELL: &str = "six-nodes/small-and-large/none/most-allocated/seed-1";

fn sim(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_orrery-under-test")).arg("sim").args(arguments).output().unwrap()
}

/// Runs the study of the repository with one seed, and returns what was printed.
fn run(out: &Path, jobs: &str) -> String {
    let output = sim(&["run", PACKING, "--seeds", "1", "-j", jobs, "--out", out.to_str().unwrap()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Starts a command whose output is read while it runs.
fn start(arguments: &[&str]) -> (Child, Lines<BufReader<ChildStdout>>) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_orrery-under-test"));
    let command = command.arg("sim").args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    (child, lines)
}

fn signal(child: &Child, signal: &str) {
    assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
}

/// Ctrl-C after the first of two cells.
fn interrupt(out: &Path) {
    let (mut child, mut lines) = start(&["run", PACKING, "--seeds", "1", "-j", "1", "--out", out.to_str().unwrap()]);
    let first = lines.find(|line| line.as_ref().unwrap().contains("done (1 of 2)"));
    assert!(first.is_some());
    signal(&child, "-INT");
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(!child.wait().unwrap().success());
    assert!(said.contains("interrupted; 1 of 2 cells are done, and the same command goes on"), "{said}");
}

/// Runs a cell in a process that is stopped for a while at each of its reports.
fn run_slowly(cell: &str, out: &Path) {
    let (mut child, lines) = start(&["cell", PACKING, "--seeds", "1", "--cell", cell, "--out", out.to_str().unwrap()]);
    let mut reports = 0;
    for report in lines {
        assert!(report.is_ok());
        reports += 1;
        // The last report may come from a process that is about to end.
        if Command::new("kill").args(["-STOP", &child.id().to_string()]).status().unwrap().success() {
            assert!(sim(&["--help"]).status.success(), "the pause is as long as another process takes");
            signal(&child, "-CONT");
        }
    }
    assert!(child.wait().unwrap().success() && reports > 1, "{reports} reports");
}

/// Runs the notebook of the documentation on a finished cell: it computes every metric from the records, and compares.
fn recompute(cell: &Path) {
    let notebook = fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/recompute.ipynb")).unwrap();
    let notebook: serde_json::Value = serde_json::from_slice(&notebook).unwrap();
    let cells = notebook["cells"].as_array().unwrap().iter().filter(|cell| cell["cell_type"] == "code");
    let lines = cells
        .flat_map(|cell| cell["source"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).chain(["\n"]));
    let program: String = lines.collect();
    let output = Command::new("python3").args(["-c", &program]).env("ORRERY_CELL", cell).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}: {}", cell.display(), String::from_utf8_lossy(&output.stderr));
    let metrics: BTreeMap<String, f64> = serde_json::from_slice(&fs::read(cell.join("metrics.json")).unwrap()).unwrap();
    assert_eq!(said.trim(), format!("{} metrics recomputed; all are those of metrics.json", metrics.len()));
}

/// Returns all files below a folder by their paths, but the CPU times.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false if path.ends_with("timings.json") => {}
                false => {
                    let name = path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
                    found.insert(name, fs::read(&path).unwrap());
                }
            }
        }
    }
    found
}

#[test]
fn a_study_repeats_whatever_runs_beside_it_and_goes_on_where_it_ended() {
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (folder.path().join("one"), folder.path().join("two"));
    interrupt(&one);
    let said = run(&one, "1");
    assert!(said.contains("1 of 2 cells have finished before"), "{said}");
    assert!(one.join(CELL).join("timings.json").exists());
    recompute(&one.join(CELL));
    let first = files(&one);
    let names: Vec<&str> = first.keys().filter_map(|name| name.strip_prefix(&format!("{CELL}/"))).collect();
    let expected =
        "decisions.parquet events.jsonl manifest.json metrics.json nodes.csv pods.csv requests.csv samples.parquet";
    assert_eq!(names.join(" "), expected);
    let setting = "six-nodes/small-and-large/none";
    for plot in ["allocated-cpu", "waiting-pods"] {
        assert!(first[&format!("{setting}/{plot}.svg")].starts_with(b"<svg"));
        assert!(first[&format!("{setting}/{plot}.png")].starts_with(b"\x89PNG"));
    }
    let records = String::from_utf8_lossy(&first[&format!("{CELL}/events.jsonl")]);
    let count = |event: &str| records.lines().filter(|line| line.contains(&format!("\"event\":\"{event}\""))).count();
    assert_eq!((count("node-added"), count("pod-created"), count("pod-finished"), count("ended")), (6, 40, 40, 1));

    assert!(String::from_utf8_lossy(&first["report.html"]).contains("most-allocated"));
    assert!(String::from_utf8_lossy(&first["comparisons.csv"]).contains(",allocation.cpu,most-allocated,default,1,"));
    compares(&one);

    // The disk is full when the decisions of a cell are written. The other cell is done, and this one runs again, slowly.
    fs::create_dir_all(two.join(CELL)).unwrap();
    let decisions = two.join(CELL).join("decisions.parquet");
    symlink("/dev/full", &decisions).unwrap();
    let output = sim(&["run", PACKING, "--seeds", "1", "-j", "2", "--out", two.to_str().unwrap()]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && said.contains(&format!("{}: No space left on device", decisions.display())),
        "{said}"
    );
    assert!(said.contains("1 of 2 cells failed"), "{said}");
    assert!(!two.join(CELL).join("manifest.json").exists() && !two.join("report.html").exists());
    fs::remove_file(decisions).unwrap();
    run_slowly(CELL, &two);
    let said = run(&two, "2");
    assert!(said.contains("2 of 2 cells have finished before"), "{said}");
    let second = files(&two);
    let differ: Vec<&String> = first.keys().filter(|name| first.get(*name) != second.get(*name)).collect();
    assert!(differ.is_empty() && first.len() == second.len(), "-j 1 and -j 2 differ in {differ:?}");
}

/// Runs a study of the repository with one seed and with less in it. Returns the records of each cell.
fn run_smaller(study: &str, changes: &[(&str, &str)]) -> BTreeMap<String, String> {
    let folder = tempfile::tempdir().unwrap();
    let mut text = fs::read_to_string(Path::new(PACKING).with_file_name(study)).unwrap();
    for (from, to) in changes {
        assert!(text.contains(from), "{study} has no {from}");
        text = text.replace(from, to);
    }
    let (path, out) = (folder.path().join(study), folder.path().join("out"));
    fs::write(&path, text).unwrap();
    let output = sim(&["run", path.to_str().unwrap(), "--seeds", "1", "--out", out.to_str().unwrap()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let records: Vec<_> = files(&out).into_iter().filter(|(name, _)| name.ends_with("events.jsonl")).collect();
    records.iter().for_each(|(name, _)| recompute(out.join(name).parent().unwrap()));
    let records = records.into_iter();
    records.map(|(name, bytes)| (name, String::from_utf8(bytes).unwrap())).collect()
}

/// A fifth of the cluster: each policy gives every pod that wants GPUs places of them.
#[test]
fn policies_share_gpus() {
    let smaller = [("count: 170", "count: 34"), ("count: 6", "count: 1"), ("count: 8\n", "count: 2\n"), ("5m", "1m")];
    let cells = run_smaller("fragmentation.yaml", &smaller);
    assert_eq!(cells.len(), 6);
    for (cell, records) in cells {
        let wanting: Vec<&str> =
            records.lines().filter(|line| line.contains("gpu-milli") && line.contains("pod-c")).collect();
        let names = wanting.iter().filter_map(|line| line.split("\"pod\":\"").nth(1)?.split('"').next());
        let mut placed = 0;
        for name in names {
            let bound =
                records.lines().find(|line| line.contains("pod-scheduled") && line.contains(&format!("\"{name}\"")));
            assert!(bound.is_none_or(|line| line.contains("\"gpus\":[")), "{cell}: {bound:?}");
            placed += usize::from(bound.is_some());
        }
        assert!(placed >= 10, "{cell}: {placed} pods with GPUs have nodes");
    }
}

/// A zone that is cut off evicts its pods, and they run elsewhere.
#[test]
fn failures_evict() {
    let others = "- name: none\n- name: crashes\n  machines: [{name: crashes, failure: crash, mtbf: 4h, mttr: 10m}]\n";
    let outage = ("after: 30m, for: 15m", "after: 10m, for: 15m");
    let cells =
        run_smaller("failures.yaml", &[("count: 60", "count: 12"), ("count: 8", "count: 4"), (others, ""), outage]);
    assert_eq!(cells.len(), 2);
    for (cell, records) in cells {
        let count = |event: &str| records.lines().filter(|line| line.contains(event)).count();
        assert_eq!(count("pod-finished"), 12, "{cell}");
        assert!(count("node-removed") > 0 && count("pod-evicted") > 0, "{cell}");
    }
}

/// A Deployment whose load grows beyond its only node.
const SHOP: &str = "
apiVersion: orrery.dev/v1alpha1
kind: Study
name: shop
until: 4m
records: {decisions: plugins}
clusters: [{name: c, nodes: [{name: node, capacity: {cpu: 2, memory: 8Gi}, power: {idleW: 100, fullW: 200}}]}]
workloads:
- name: w
  deployments:
  - name: web
    requests: {cpu: 500m, memory: 1Gi}
    cpuLimit: 800m
    autoscaler: {max: 5, cpuUtilization: 50}
    load: {steps: [{at: 0s, cpu: 200m}, {at: 1m, cpu: 2}], noise: 0.1}
policies: [{name: one}, {name: two}]
";

/// Loads and the words of plugins repeat too, and the report shows them.
#[test]
fn a_load_and_the_words_of_plugins_repeat() {
    let folder = tempfile::tempdir().unwrap();
    let study = folder.path().join("shop.yaml");
    fs::write(&study, SHOP).unwrap();
    let [one, two] = ["1", "2"].map(|jobs| {
        let out = folder.path().join(jobs);
        let output = sim(&["run", study.to_str().unwrap(), "-j", jobs, "--out", out.to_str().unwrap()]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        recompute(&out.join("c/w/none/one/seed-1"));
        files(&out)
    });
    let differ: Vec<&String> = one.keys().filter(|name| one.get(*name) != two.get(*name)).collect();
    assert!(differ.is_empty() && one.len() == two.len(), "-j 1 and -j 2 differ in {differ:?}");
    let text = |name: &str| String::from_utf8_lossy(&one[name]);
    let pods = text("c/w/none/one/seed-1/pods.csv");
    assert!(pods.lines().filter(|line| line.contains(",default/web,")).count() == 5, "{pods}");
    assert!(one.contains_key("c/w/none/one/seed-1/verdicts.parquet") && one.contains_key("c/w/none/replicas.svg"));
    let report = text("report.html");
    assert!(report.contains("<li>NodeResourcesFit: Insufficient cpu: node-0</li>") && report.contains("load-excess"));
}

/// One seed shows nothing, and says so; what cannot be compared is refused.
fn compares(results: &Path) {
    let compare = |more: &[&str]| {
        let output = sim(&[&["compare", "--results", results.to_str().unwrap()], more].concat());
        let text = if output.status.success() { output.stdout } else { output.stderr };
        (output.status.success(), String::from_utf8(text).unwrap())
    };
    let (good, said) = compare(&["most-allocated", "default", "--metric", "pending.mean"]);
    assert!(good && said.contains("show no difference in pending.mean") && said.contains("1 seeds cannot"), "{said}");
    let (good, said) = compare(&["most-allocated", "default"]);
    assert!(good && said.contains("show no difference in any of"), "{said}");
    for (arguments, refusal) in [
        (&["none", "default"][..], "none has no runs"),
        (&["default", "default"], "default cannot be compared with itself"),
        (&["most-allocated", "default", "--metric", "luck"], "not all runs have the metric luck"),
    ] {
        let (good, said) = compare(arguments);
        assert!(!good && said.contains(refusal), "{said}");
    }
}

#[test]
fn a_bad_study_is_refused_with_every_mistake() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("study.yaml");
    let good = fs::read_to_string(PACKING).unwrap();
    let bad = good
        .replace("count: 6", "cuont: 6")
        .replace("rate: 4/m", "rate: 4/year")
        .replace("seeds: 1..10", "seeds: 10..1");
    refused(&path, &bad, &["seeds", "clusters[0].nodes[0]", "workloads[0].generate.arrivals.poisson.rate"]);
    // A study that is well-formed names plugins, files and columns that do not exist.
    let table = "csv: {file: jobs.csv, columns: {arrival: at, duration: runs, cpu: cores}}";
    let files = "openbPods: {file: pods.csv}";
    fs::write(folder.path().join("jobs.csv"), "at,cores\n0,1\n").unwrap();
    let bad = good
        .replace("pluginConfig:", "plugins: {score: {enabled: [{name: WorstFit}]}}\n      pluginConfig:")
        .replace("policies:\n", &format!("- {{name: table, {table}}}\n- {{name: trace, {files}}}\n\npolicies:\n"));
    let unknown = "policies[1].configuration: creating profile for scheduler name default-scheduler: ScorePlugin \"WorstFit\" does not exist";
    let places = [unknown, "jobs.csv:1: unknown column \"runs\"", "workloads[2].openbPods.file: pods.csv: "];
    refused(&path, &bad, &places);
    // All of it comes in one round.
    let bad = bad.replace("rate: 4/m", "rate: 4/year").replace("seeds: 1..10", "seeds: 10..1");
    refused(&path, &bad, &[&places[..], &["seeds", "workloads[0].generate.arrivals.poisson.rate"]].concat());
}

/// A study is refused by `check` and `run`, with each of these texts.
fn refused(path: &Path, study: &str, texts: &[&str]) {
    fs::write(path, study).unwrap();
    for command in ["check", "run"] {
        let output = sim(&[command, path.to_str().unwrap()]);
        assert!(!output.status.success());
        let said = String::from_utf8(output.stderr).unwrap();
        for text in texts {
            assert!(said.contains(text), "{command} says nothing of {text}: {said}");
        }
    }
}

#[test]
fn the_example_is_a_good_study() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("study.yaml");
    let path = path.to_str().unwrap();
    assert!(sim(&["init", path]).status.success());
    let checked = sim(&["check", path]);
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    // It overwrites nothing.
    assert!(!sim(&["init", path]).status.success());
}
