//! Scheduling studies: the same study and seed give the same bytes however many cells run at a time, finished cells are not
//! run again, and a bad study is refused with every mistake.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

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

/// Returns all files below a folder by their paths.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
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
    run(&one, "1");
    run(&two, "2");
    let first = files(&one);
    let names: Vec<&str> = first.keys().filter_map(|name| name.strip_prefix(&format!("{CELL}/"))).collect();
    let expected = ["events.jsonl", "manifest.json", "metrics.json", "nodes.csv", "pods.csv", "samples.parquet"];
    assert_eq!(names, expected);
    assert!(first == files(&two), "-j 1 and -j 2 differ");
    let records = String::from_utf8_lossy(&first[&format!("{CELL}/events.jsonl")]);
    let count = |event: &str| records.lines().filter(|line| line.contains(&format!("\"event\":\"{event}\""))).count();
    assert_eq!((count("node-added"), count("pod-created"), count("pod-finished"), count("ended")), (6, 40, 40, 1));

    assert!(String::from_utf8_lossy(&first["report.html"]).contains("most-allocated"));
    assert!(String::from_utf8_lossy(&first["comparisons.csv"]).contains(",allocation.cpu,most-allocated,default,1,"));
    compares(&one);

    // A cell without its manifest has not finished.
    fs::remove_file(two.join(CELL).join("manifest.json")).unwrap();
    let said = run(&two, "1");
    assert!(said.contains("1 of 2 cells have finished before"), "{said}");
    assert!(first == files(&two), "the second run differs");
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
    fs::write(&path, bad).unwrap();
    for command in ["check", "run"] {
        let output = sim(&[command, path.to_str().unwrap()]);
        assert!(!output.status.success());
        let said = String::from_utf8(output.stderr).unwrap();
        for place in ["seeds", "clusters[0].nodes[0]", "workloads[0].generate.arrivals.poisson.rate"] {
            assert!(said.contains(place), "{command} says nothing of {place}: {said}");
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
