//! The arrows between crates point one way: a member depends only on those before it, no component on another. A crate
//! that has grown too large is a house with floors, and each floor is to be a crate.

use crate::circles::{product_code, product_lines};
use crate::source::{CRATES, Source, member_of};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// Programs that talk only through the API server. The crates below a component's folder belong to it.
const COMPONENTS: &[&str] = &["apiserver", "controller-manager", "scheduler", "kubelet-sim", "proxy-sim"];

/// Lines of product code of one crate: everything but tests.
const MAX_LINES: usize = 15_000;

/// Complaints about the workspace's own dependency graph: arrows that point upwards, and dependencies that no file names.
pub fn check(root: &Path, sources: &[Source]) -> Vec<String> {
    match dependencies(root) {
        Ok(all) => all
            .iter()
            .filter_map(|found| forbidden(&found.from, found.to.as_deref()?))
            .chain(unused(&all, sources))
            .collect(),
        Err(error) => vec![format!("cargo metadata: {error}")],
    }
}

/// One line of a manifest.
struct Dependency {
    /// The folder of the member that names it.
    from: String,
    name: String,
    /// The folder of the member that it is, if it is one.
    to: Option<String>,
    /// Whether only tests may use it.
    is_for_tests: bool,
    is_for_build: bool,
}

fn unused(all: &[Dependency], sources: &[Source]) -> Vec<String> {
    let names = |code: &str, name: &str| {
        let name = name.replace('-', "_");
        let is_part = |c: char| c.is_alphanumeric() || c == '_';
        code.match_indices(&name)
            .any(|(at, _)| !code[..at].ends_with(is_part) && !code[at + name.len()..].starts_with(is_part))
    };
    let is_used = |dependency: &&Dependency| {
        sources.iter().filter(|source| source.member() == dependency.from).any(|source| {
            let code = if dependency.is_for_tests { source.text.clone() } else { product_code(source) };
            names(&code, &dependency.name)
        })
    };
    let unused = all.iter().filter(|dependency| !dependency.is_for_build && !is_used(dependency));
    unused.map(|dependency| format!("{}: no file names the dependency {}", dependency.from, dependency.name)).collect()
}

/// Complaints about crates that are too large.
pub fn sizes(sources: &[Source]) -> Vec<String> {
    let mut lines: BTreeMap<&str, usize> = BTreeMap::new();
    for source in sources {
        *lines.entry(source.member()).or_default() += product_lines(source);
    }
    let large = lines.into_iter().filter(|(_, lines)| *lines > MAX_LINES);
    large.map(|(member, lines)| format!("{member}: {lines} lines of product code; cut it before {MAX_LINES}")).collect()
}

fn component(member: &str) -> Option<&str> {
    let top = member.split('/').next()?;
    COMPONENTS.contains(&top).then_some(top)
}

fn forbidden(from: &str, to: &str) -> Option<String> {
    let order = |name: &str| CRATES.iter().position(|member| *member == name);
    if let (Some(one), Some(other)) = (component(from), component(to))
        && one != other
    {
        return Some(format!("{from} depends on {to}: components only meet at the API"));
    }
    if order(from) <= order(to) {
        return Some(format!("{from} depends on {to}, which stands after it in the order of crates"));
    }
    None
}

fn dependencies(root: &Path) -> Result<Vec<Dependency>, String> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let output = Command::new(cargo)
        .args(["metadata", "--no-deps", "--format-version=1", "--offline"])
        .current_dir(root)
        .output()
        .map_err(|error| error.to_string())?;
    let metadata: Value = serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())?;
    let folder = |path: &Value| {
        let inside = Path::new(path.as_str()?).strip_prefix(root).ok()?;
        Some(member_of(inside).to_owned())
    };
    let mut found = Vec::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let Some(from) = folder(&package["manifest_path"]) else { continue };
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            found.push(Dependency {
                from: from.clone(),
                name: dependency["name"].as_str().unwrap_or_default().to_owned(),
                to: folder(&dependency["path"]),
                is_for_tests: dependency["kind"] == "dev" || dependency["optional"] == true,
                is_for_build: dependency["kind"] == "build",
            });
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::{forbidden, sizes};
    use crate::source::Source;

    #[test]
    fn arrows_point_one_way() {
        assert_eq!(forbidden("client", "proto"), None);
        assert!(forbidden("proto", "client").is_some());
        assert!(forbidden("scheduler", "apiserver").is_some());
        assert!(forbidden("scheduler", "apiserver/storage").is_some());
        assert_eq!(forbidden("apiserver", "apiserver/storage"), None);
        assert!(forbidden("apiserver/storage", "apiserver/registry").is_some());
        assert_eq!(forbidden("orrery", "scheduler"), None);
    }

    #[test]
    fn a_large_crate_is_reported() {
        let source = |path: &str, lines: usize| Source { path: path.into(), text: "x\n".repeat(lines) };
        let tree = [
            source("proto/src/a.rs", 15_001),
            source("cel/src/a.rs", 8000),
            source("cel/src/tests.rs", 8000),
            source("client/src/a.rs", 8000),
        ];
        assert_eq!(sizes(&tree), ["proto: 15001 lines of product code; cut it before 15000"]);
    }
}
