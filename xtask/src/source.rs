//! The Rust files of the workspace.

use std::fs;
use std::path::{Path, PathBuf};

/// The members, in the order in which they may depend on each other.
pub const CRATES: &[&str] = &[
    "proto",
    "component-base",
    "cel",
    "client",
    "apiserver",
    "controller-manager",
    "scheduler",
    "kubelet-sim",
    "proxy-sim",
    "orrery",
    "e2e",
    "xtask",
];

/// One file: its path relative to the root, and its text.
#[derive(Debug)]
pub struct Source {
    pub path: PathBuf,
    pub text: String,
}

impl Source {
    /// The crate that the file belongs to.
    pub fn member(&self) -> &str {
        self.path.iter().next().and_then(|part| part.to_str()).unwrap_or_default()
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
