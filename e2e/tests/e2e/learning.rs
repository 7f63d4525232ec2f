//! The Gymnasium environment: its wheel is built and installed, and `e2e/python/gym_checks.py` looks on.

use component_base_testing::test_needs;
use e2e::programs::{self, must};
use std::path::Path;
use std::process::Command;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

#[test]
fn the_gymnasium_environment_is_one() {
    if !test_needs::everything("Gymnasium from PyPI") {
        return;
    }
    let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join("orrery-gym");
    let python = programs::python(&home, "gymnasium, numpy, setuptools", &["gymnasium", "numpy", "setuptools>=70.1"]);
    // Built from a copy, because setuptools leaves files beside the sources.
    let folder = tempfile::tempdir().unwrap();
    let sources = folder.path().join("orrery_gym");
    must(Command::new("cp").arg("-r").arg(format!("{ROOT}/python/orrery_gym")).arg(&sources));
    let pip = || {
        let mut command = Command::new(&python);
        command.args(["-m", "pip", "--disable-pip-version-check"]);
        command
    };
    let wheels = folder.path().join("wheels");
    must(pip().args(["wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w"]).arg(&wheels).arg(&sources));
    let wheel = std::fs::read_dir(&wheels).unwrap().next().unwrap().unwrap().path();
    let installed = folder.path().join("installed");
    must(pip().args(["install", "--quiet", "--no-deps", "--target"]).arg(&installed).arg(&wheel));
    let mut checks = Command::new(&python);
    checks.arg(format!("{ROOT}/e2e/python/gym_checks.py")).arg(format!("{ROOT}/studies/learning.yaml"));
    checks.env("PYTHONPATH", &installed).env("ORRERY", env!("CARGO_BIN_EXE_orrery-under-test"));
    print!("{}", must(&mut checks));
}
