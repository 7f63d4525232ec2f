//! The Rust files of the workspace.

use std::fs;
use std::path::{Path, PathBuf};

/// The folders of the members, in the order in which they may depend on each other.
pub const CRATES: &[&str] = &[
    "proto",
    "proto/component-helpers",
    "component-base",
    "component-base/testing",
    "cel",
    "client/testing",
    "client",
    "apiserver/storage",
    "apiserver/patch",
    "apiserver/openapi",
    "apiserver/request",
    "apiserver/cacher",
    "apiserver/remote",
    "apiserver/access",
    "apiserver/admission",
    "apiserver/field-checks",
    "apiserver/strategy",
    "apiserver/registry",
    "apiserver/flow-control",
    "apiserver/extension",
    "apiserver",
    "controller-manager/controller-base",
    "controller-manager/workloads",
    "controller-manager/volumes",
    "controller-manager/simulated-cloud",
    "controller-manager/cloud",
    "controller-manager/devices",
    "controller-manager",
    "scheduler/device-allocation",
    "scheduler/framework",
    "scheduler/plugins",
    "scheduler/reference",
    "scheduler/scripts",
    "scheduler/explanation",
    "scheduler/bench",
    "scheduler/policies",
    "scheduler/comparison",
    "scheduler",
    "kubelet-sim/file-tree",
    "kubelet-sim/userland",
    "kubelet-sim/stages",
    "kubelet-sim/metrics-server",
    "kubelet-sim/pod-life",
    "kubelet-sim",
    "proxy-sim",
    "labs/refrigerator",
    "labs/policies/rust",
    "simulator/experiments",
    "simulator/exploration",
    "simulator/modelled-api",
    "simulator",
    "orrery",
    "e2e",
    "xtask",
];

/// The folder of the member that a path belongs to: of nested members the innermost.
pub fn member_of(path: &Path) -> &'static str {
    let around = CRATES.iter().filter(|member| path.starts_with(member));
    around.max_by_key(|member| member.len()).copied().unwrap_or_default()
}

/// One file: its path relative to the root, and its text.
#[derive(Debug)]
pub struct Source {
    pub path: PathBuf,
    pub text: String,
}

impl Source {
    /// The folder of the crate that the file belongs to.
    pub fn member(&self) -> &'static str {
        member_of(&self.path)
    }

    pub fn is_test(&self) -> bool {
        self.path.iter().any(|part| part == "tests" || part == "tests.rs")
    }
}

/// All `.rs` files of all members, sorted by path.
pub fn read_all(root: &Path) -> Vec<Source> {
    let mut found = Vec::new();
    for member in CRATES {
        collect(root, &root.join(member), &mut found);
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found.dedup_by(|a, b| a.path == b.path); // a nested member is inside the one around it
    found
}

fn collect(root: &Path, folder: &Path, found: &mut Vec<Source>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(root, &path, found);
        } else if path.extension().is_some_and(|e| e == "rs")
            && let (Ok(text), Ok(relative)) = (fs::read_to_string(&path), path.strip_prefix(root))
        {
            found.push(Source { path: relative.to_owned(), text });
        }
    }
}
