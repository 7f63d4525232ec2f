//! Programs of this machine that tests use: run them, and install those that are missing if tests are asked for everything.

use component_base_testing::test_needs;
use parking_lot::Mutex;
use std::process::{Command, Output, Stdio};

/// Makes sure that a program is there: from its Debian package, where tests were asked for everything.
pub fn install(program: &str, package: &str) -> Result<(), String> {
    let there = || succeeds(Command::new("sh").args(["-c", "command -v \"$1\"", "sh", program]));
    if there() {
        return Ok(());
    }
    if test_needs::is_everything_asked_for() {
        install_package(package);
    }
    if there() { Ok(()) } else { Err(format!("needs {program} (Debian: {package})")) }
}

/// Returns whether the calling test has a program, installed if need be; records the test as skipped otherwise.
#[must_use]
#[track_caller]
pub fn needs(program: &str, package: &str) -> bool {
    let there = install(program, package);
    if let Err(why) = &there {
        test_needs::skip(why);
    }
    there.is_ok()
}

/// A Debian package, where this machine can install one; whoever needs it finds out by itself.
pub fn install_package(package: &str) {
    // The package manager serves one at a time, and turns others away.
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock();
    for arguments in [&["update", "-qq"][..], &["install", "-y", "-qq", "--no-install-recommends", package]] {
        let mut command = Command::new("apt-get");
        succeeds(command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive"));
    }
}

/// Whether a command can be run and ends well.
pub fn succeeds(command: &mut Command) -> bool {
    command.stdin(Stdio::null()).output().is_ok_and(|output| output.status.success())
}

/// Runs a command that has to succeed; answers what it printed. Panics with everything that it said.
pub fn must(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let Output { status, stdout, stderr } = output;
    let stdout = String::from_utf8_lossy(&stdout).into_owned();
    assert!(status.success(), "{command:?}: {status}\n{stdout}\n{}", String::from_utf8_lossy(&stderr));
    stdout
}
