//! The arrows between crates point one way: a member depends only on those before it, no component on another.

use crate::source::CRATES;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// Programs that talk only through the API server.
const COMPONENTS: &[&str] = &["apiserver", "controller-manager", "scheduler", "kubelet-sim", "proxy-sim"];

/// Complaints about edges of the workspace's own dependency graph.
pub fn check(root: &Path) -> Vec<String> {
    match edges(root) {
        Ok(edges) => edges.iter().filter_map(|(from, to)| forbidden(from, to)).collect(),
        Err(error) => vec![format!("cargo metadata: {error}")],
    }
}

fn forbidden(from: &str, to: &str) -> Option<String> {
    let order = |name: &str| CRATES.iter().position(|member| *member == name);
    if COMPONENTS.contains(&from) && COMPONENTS.contains(&to) {
        return Some(format!("{from} depends on {to}: components only meet at the API"));
    }
    if order(from) <= order(to) {
        return Some(format!("{from} depends on {to}, which stands after it in the order of crates"));
    }
    None
}

fn edges(root: &Path) -> Result<Vec<(String, String)>, String> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let output = Command::new(cargo)
        .args(["metadata", "--no-deps", "--format-version=1", "--offline"])
        .current_dir(root)
        .output()
        .map_err(|error| error.to_string())?;
    let metadata: Value = serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())?;
    let mut edges = Vec::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let from = package["name"].as_str().unwrap_or_default();
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let to = dependency["name"].as_str().unwrap_or_default();
            if CRATES.contains(&to) && dependency["path"].is_string() {
                edges.push((from.to_owned(), to.to_owned()));
            }
        }
    }
    Ok(edges)
}

#[cfg(test)]
mod tests {
    use super::forbidden;

    #[test]
    fn arrows_point_one_way() {
        assert_eq!(forbidden("client", "proto"), None);
        assert!(forbidden("proto", "client").is_some());
        assert!(forbidden("scheduler", "apiserver").is_some());
        assert_eq!(forbidden("orrery", "scheduler"), None);
    }
}
