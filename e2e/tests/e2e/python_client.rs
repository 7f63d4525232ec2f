//! Runs the official Python client against a cluster. The tests are in `e2e/python/flows.py`.

use crate::cluster;
use component_base_testing::test_needs;
use e2e::programs::{self, must};
use e2e::store::Store;
use std::path::{Path, PathBuf};
use std::process::Command;

const PYTHON: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/python");

/// Returns an interpreter with the client, installed once from PyPI.
fn interpreter() -> PathBuf {
    let requirements = format!("{PYTHON}/requirements.txt");
    // The folder's name is the requirement, so that another release of the client gets its own environment.
    let wanted = std::fs::read_to_string(&requirements).unwrap();
    let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join(wanted.trim());
    programs::python(&home, "kubernetes", &["--requirement", &requirements])
}

#[test]
fn the_python_clients_flows_succeed() {
    if !test_needs::everything("the Python client from PyPI") {
        return;
    }
    let python = interpreter();
    let directory = tempfile::tempdir().unwrap();
    let cluster = cluster(directory.path(), Store::Embedded);
    let mut command = Command::new(python);
    command.arg(format!("{PYTHON}/flows.py")).env("KUBECONFIG", cluster.data_dir.join("kubeconfig"));
    print!("{}", must(&mut command));
}
