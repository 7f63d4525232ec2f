//! Runs programs of this machine for tests, and installs missing ones if `ORRERY_TESTS=all` is set.

use component_base_testing::test_needs;
use parking_lot::Mutex;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Installs a program from its Debian package, if it is missing and `ORRERY_TESTS=all` is set.
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

/// Returns true if the calling test has a program, installed if necessary; otherwise records the test as skipped.
#[must_use]
#[track_caller]
pub fn needs(program: &str, package: &str) -> bool {
    let there = install(program, package);
    if let Err(why) = &there {
        test_needs::skip(why);
    }
    there.is_ok()
}

/// Tries to install a Debian package. It reports no failure: the test fails when it uses the program.
pub fn install_package(package: &str) {
    // The package manager refuses parallel runs.
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock();
    for arguments in [&["update", "-qq"][..], &["install", "-y", "-qq", "--no-install-recommends", package]] {
        let mut command = Command::new("apt-get");
        succeeds(command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive"));
    }
}

/// Returns the interpreter of a virtual environment in a folder, in which a module can be imported. If it cannot, makes the environment
/// and lets pip install with these arguments.
pub fn python(home: &Path, module: &str, install: &[&str]) -> PathBuf {
    let python = home.join("bin/python");
    if !succeeds(Command::new(&python).args(["-c", &format!("import {module}")])) {
        if !succeeds(Command::new("python3").args(["-m", "venv"]).arg(home)) {
            install_package("python3-venv");
            must(Command::new("python3").args(["-m", "venv"]).arg(home));
        }
        must(Command::new(&python).args(["-m", "pip", "install", "--quiet"]).args(install));
    }
    python
}

/// Returns true if a command starts and succeeds.
pub fn succeeds(command: &mut Command) -> bool {
    command.stdin(Stdio::null()).output().is_ok_and(|output| output.status.success())
}

/// Runs a command that must succeed, and returns its output. Panics with all its output otherwise.
pub fn must(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let Output { status, stdout, stderr } = output;
    let stdout = String::from_utf8_lossy(&stdout).into_owned();
    assert!(status.success(), "{command:?}: {status}\n{stdout}\n{}", String::from_utf8_lossy(&stderr));
    stdout
}
