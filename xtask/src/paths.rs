//! Files, folders and functions that the documents name are there.

use crate::source::Source;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// What a document says below such a name is Kubernetes' own.
const FOREIGN: &[&str] = &["k8s.io/", "pkg/", "cmd/", "plugin/", "staging/", "etc/", "var/"];

/// What the reader of a tutorial writes.
const WRITTEN_BY_THE_READER: &[&str] = &["controller-manager/src/node_role.rs", "scheduler/plugins/src/fewest_pods.rs"];

/// A complaint for each path of a file or folder, and for each name of a function or field, that a document has and the
/// sources have not.
pub fn check(root: &Path, sources: &[Source]) -> Vec<String> {
    let words: BTreeSet<&str> =
        sources.iter().flat_map(|source| source.text.split(|c: char| !is_part_of_a_name(c))).collect();
    let mut complaints = Vec::new();
    for page in pages(root) {
        let Ok(text) = fs::read_to_string(root.join(&page)) else { continue };
        for (number, line) in text.lines().enumerate() {
            let named = line.split('`').skip(1).step_by(2).filter(|quoted| is_path(quoted));
            let missing = named.filter(|path| !is_there(root, crate_of_row(line), path));
            complaints.extend(missing.map(|path| format!("{page}:{}: there is no `{path}`", number + 1)));
            let named = line.split('`').skip(1).step_by(2).filter(|quoted| is_snake_case(quoted));
            let missing = named.filter(|name| !words.contains(name));
            complaints.extend(missing.map(|name| format!("{page}:{}: no source has `{name}`", number + 1)));
        }
    }
    complaints
}

fn pages(root: &Path) -> Vec<String> {
    let docs = fs::read_dir(root.join("docs")).into_iter().flatten().flatten();
    let docs = docs.filter_map(|entry| entry.file_name().into_string().ok()).map(|name| format!("docs/{name}"));
    let mut pages: Vec<String> = docs.filter(|name| name.ends_with(".md")).collect();
    pages.extend(["README.md".to_owned(), "ARCHITECTURE.md".to_owned()]);
    pages.sort();
    pages
}

fn is_part_of_a_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Whether it is a name of a function, a field or a module, in several words.
fn is_snake_case(quoted: &str) -> bool {
    let is_lower = quoted.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    is_lower && quoted.trim_matches('_').contains('_')
}

/// Whether it is a Rust file in a folder, or a folder of sources.
fn is_path(quoted: &str) -> bool {
    let is_plain = quoted.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c));
    let is_source = quoted.contains('/') && (quoted.ends_with(".rs") || quoted.contains("/src/"));
    is_plain && is_source && !quoted.starts_with('/') && !FOREIGN.iter().any(|start| quoted.starts_with(start))
}

/// The crate that a row of a table is about: `| `proto` | … |`.
fn crate_of_row(line: &str) -> &str {
    line.strip_prefix("| `").and_then(|rest| rest.split('`').next()).unwrap_or_default()
}

/// Paths are those of the workspace, or below the folder that the row or the page is about.
fn is_there(root: &Path, row: &str, path: &str) -> bool {
    let below = ["controller-manager/workloads", "controller-manager/volumes", "controller-manager/devices"];
    let folders = ["", row, "apiserver", "controller-manager", "scheduler", "kubelet-sim"].into_iter().chain(below);
    let is_below = |folder: &str| {
        let folder = root.join(folder);
        holds_a_file(&folder.join(path)) || holds_a_file(&folder.join("src").join(path))
    };
    WRITTEN_BY_THE_READER.contains(&path) || folders.into_iter().any(is_below)
}

/// Whether a file is there, or a folder with a file in it. A fresh clone has no empty folders.
fn holds_a_file(path: &Path) -> bool {
    let entries = || fs::read_dir(path).into_iter().flatten().flatten();
    path.is_file() || entries().any(|entry| holds_a_file(&entry.path()))
}

#[cfg(test)]
mod tests {
    use super::{holds_a_file, is_path, is_snake_case};
    use std::fs;

    #[test]
    fn an_empty_folder_is_not_there() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("a/b");
        fs::create_dir_all(&folder).unwrap();
        assert!(!holds_a_file(&root.path().join("a")));
        fs::write(folder.join("c.rs"), "").unwrap();
        assert!(holds_a_file(&root.path().join("a")));
    }

    #[test]
    fn what_is_a_name() {
        assert!(is_snake_case("record_managed_fields") && is_snake_case("seen_by"));
        for other in ["store", "STAGES", "kubectl get", "kube-proxy", "a_b()"] {
            assert!(!is_snake_case(other), "{other}");
        }
    }

    #[test]
    fn what_is_a_path() {
        for path in ["registry/src/store.rs", "proto/src/fuzz.rs", "storage/src/etcd/"] {
            assert!(is_path(path), "{path}");
        }
        for other in ["store.rs", "k8s.io/apiserver/pkg/a.rs", "apps/v1", "fn f()", "/etc/x.rs", "admission/"] {
            assert!(!is_path(other), "{other}");
        }
    }
}
