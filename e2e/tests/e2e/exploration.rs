//! Runs `orrery sim explore` on a controller with a planted mistake, and replays what it finds.

use crate::program;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// The crash after the cashier's first write, before it has noted on the order that it has paid.
const POINT: &str = "2";

fn explore(arguments: &[&str], out: &Path) -> Output {
    let mut command = Command::new(program());
    command.args(["sim", "explore"]).args(arguments).arg("--out").arg(out);
    command.output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_planted_mistake_is_found_and_replayed() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path();
    let found = explore(
        &["--story", "cashier-pays-again", "--kind", "crash", "--component", "cashier", "--points", POINT],
        out,
    );
    let (stdout, stderr) = (text(&found.stdout), text(&found.stderr));
    assert!(!found.status.success(), "{stdout}{stderr}");
    let promise = "until configmaps/ledger has size(object.data) == 1";
    assert!(stdout.starts_with("1/1, 1 found, 0 left: crash-after-"), "{stdout}");
    assert!(stderr.contains(promise), "{stderr}");
    let lines = fs::read_to_string(out.join("points.jsonl")).unwrap();
    let line: Value = serde_json::from_str(lines.trim()).unwrap();
    for (field, value) in [
        ("kind", "crash"),
        ("component", "cashier"),
        ("moment", "after"),
        ("request", "patch /api/v1/namespaces/default/configmaps/ledger"),
        ("outcome", "broken"),
        ("promise", promise),
    ] {
        assert_eq!(line[field], value, "{line}");
    }
    let folder = out.join(line["point"].as_str().unwrap());
    both_logs_say_the_same(&folder);
    let scenario = folder.join("scenario.yaml");
    let replayed = explore(&["--scenario", scenario.to_str().unwrap()], &out.join("again"));
    let stderr = text(&replayed.stderr);
    assert!(!replayed.status.success() && stderr.contains(&format!("a promise was broken: {promise}")), "{stderr}");
    assert!(!stderr.contains("WARN"), "{stderr}");
}

/// A process has a limit of CPU time. What does not end is reported with its scenario, and not tried again.
#[test]
fn a_run_that_does_not_end_is_a_finding() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path();
    let tried = || explore(&["--story", "survive", "--cpu-seconds", "1"], out);
    let (first, again) = (tried(), tried());
    let (stdout, stderr) = (text(&first.stdout), text(&first.stderr));
    assert_eq!(stdout, "1/1, 1 found, 0 left: seed-1: did not end within 1 CPU seconds\n", "{stderr}");
    assert!(stderr.starts_with("error: 1 runs did not end within 1 CPU seconds: seed-1\n"), "{stderr}");
    assert!(!first.status.success() && !again.status.success() && again.stdout.is_empty());
    let scenario = fs::read_to_string(out.join("seed-1/scenario.yaml")).unwrap();
    assert!(scenario.contains("promise: did not end within 1 CPU seconds\n") && scenario.contains("story: survive"));
    assert!(scenario.starts_with("actions:") && scenario.contains("\nfaults:"), "{scenario}");
    let again = explore(&["--scenario", out.join("seed-1/scenario.yaml").to_str().unwrap(), "--cpu-seconds", "1"], out);
    assert_eq!(text(&again.stderr), "error: a promise was broken: did not end within 1 CPU seconds\n");
}

/// The log has as many rows as lines. The crash is one of them, and so is its reason.
fn both_logs_say_the_same(folder: &Path) {
    let (text, rows) = ["run.log", "run.jsonl"].map(|name| fs::read_to_string(folder.join(name)).unwrap()).into();
    assert_eq!(text.lines().count(), rows.lines().count());
    let rows: Vec<Value> = rows.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |what: &str| rows.iter().filter(|row| row["what"] == what).collect::<Vec<_>>();
    assert!(of("request").len() > 100 && of("delivery").len() > 100);
    let (faults, killed) = (of("fault"), of("killed"));
    assert!(faults.len() == 1 && faults[0]["said"].as_str().unwrap().contains("configmaps/ledger"), "{faults:?}");
    assert!(killed.len() == 1 && killed[0]["component"] == "cashier" && killed[0]["at_us"].as_u64() > Some(0));
    assert!(rows.is_sorted_by_key(|row| row["at_us"].as_u64()));
}
