//! Checks for what a test needs besides Rust and `kubectl`, and records the tests that are skipped.
//!
//! By default tests do not change the machine. `ORRERY_TESTS=all` lets them install programs and start engines, and fails
//! those that cannot run. Such a test calls [`everything`] or [`etcd`] first and returns if the answer is `false`. The last
//! test binary of `cargo test --workspace` lists the skipped tests.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::panic::Location;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The environment variable that asks for everything.
pub const VARIABLE: &str = "ORRERY_TESTS";

/// Returns whether `ORRERY_TESTS=all` is set.
pub fn is_everything_asked_for() -> bool {
    std::env::var_os(VARIABLE).is_some_and(|value| value == "all")
}

/// Returns whether the calling test may use what `need` names, such as "a Docker engine of its own". Where nobody asked
/// for everything, the test is recorded as skipped.
#[must_use]
#[track_caller]
pub fn everything(need: &str) -> bool {
    let asked = is_everything_asked_for();
    if !asked {
        record(&format!("needs {need}"), Location::caller());
    }
    asked
}

/// Returns whether the calling test has an `etcd` to start: the one in PATH, or `$ETCD`. Where there is none, the test is
/// recorded as skipped, or fails if everything was asked for.
#[must_use]
#[track_caller]
pub fn etcd() -> bool {
    let program = std::env::var_os("ETCD").unwrap_or_else(|| "etcd".into());
    let there = succeeds(Command::new(program).arg("--version"));
    if !there {
        skip("needs etcd (Debian: etcd-server, or name the program in $ETCD)");
    }
    there
}

/// Returns `$ETCD_NEWER`, an etcd whose progress can be trusted (3.5.13 or newer). Where there is none, the test is recorded
/// as skipped, or fails if everything was asked for.
#[must_use]
#[track_caller]
pub fn newer_etcd() -> Option<String> {
    let program = std::env::var("ETCD_NEWER").ok().filter(|program| succeeds(Command::new(program).arg("--version")));
    if program.is_none() {
        skip("needs an etcd of 3.5.13 or newer in $ETCD_NEWER (.ci/newer-etcd fetches one)");
    }
    program
}

/// Records that the calling test, or a part of it, cannot run here. Panics if everything was asked for.
#[track_caller]
pub fn skip(why: &str) {
    assert!(!is_everything_asked_for(), "{VARIABLE}=all, and this test cannot run: {why}");
    record(why, Location::caller());
}

/// Returns the tests that were skipped since the last call, as `name: why`, of all test binaries that one `cargo test` ran.
pub fn take_skipped() -> Vec<String> {
    let record = record_path();
    let text = fs::read_to_string(&record).unwrap_or_default();
    let _ = fs::remove_file(&record);
    text.lines().map(str::to_owned).collect()
}

fn record(why: &str, caller: &Location<'_>) {
    // The test harness names each test's thread after it, unless it runs one test at a time on its own thread.
    let thread = std::thread::current();
    let name = thread.name().filter(|name| *name != "main");
    let name = name.map_or_else(|| format!("{}:{}", caller.file(), caller.line()), str::to_owned);
    let line = format!("{name}: {why}\n");
    // Not `eprintln!`, since the harness hides that output of a passing test.
    let _ = write!(std::io::stderr(), "SKIPPED {line}");
    let mut file =
        OpenOptions::new().create(true).append(true).open(record_path()).expect("the target directory is ours");
    file.write_all(line.as_bytes()).expect("the target directory takes a line");
}

/// Returns the path of the record: one per `cargo test`, which is the parent of its test binaries, beside their `deps`.
fn record_path() -> PathBuf {
    let binary = std::env::current_exe().expect("a process knows its program");
    let profile = binary.ancestors().nth(2).expect("test binaries lie in a folder of the target directory");
    profile.join(format!("skipped-tests-{}", std::os::unix::process::parent_id()))
}

/// Returns true if a command starts and succeeds.
fn succeeds(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}
