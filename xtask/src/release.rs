//! Release builds of this tree's programs, for what is measured and what takes long.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Builds a program and answers where it is, or why there is none.
pub fn build(root: &Path, package: &str, program: &str) -> Result<PathBuf, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["build", "--release", "--message-format=json-render-diagnostics"])
        .args(["--package", package, "--bin", program])
        .current_dir(root)
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cargo build: {error}"))?;
    let messages = String::from_utf8_lossy(&output.stdout);
    let artifacts = messages.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let built = artifacts.filter_map(|message| message["executable"].as_str().map(PathBuf::from)).next_back();
    built.filter(|_| output.status.success()).ok_or_else(|| format!("the release build of {program} failed"))
}
