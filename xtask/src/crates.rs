//! The arrows between crates point one way: a member depends only on those before it, no component on another. Some
//! libraries belong to one crate alone, and ARCHITECTURE.md lists the crates that there are. A crate that has grown too
//! large is a house with floors, and each floor is to be a crate.

use crate::circles::{product_code, product_lines};
use crate::source::{CRATES, Source, member_of};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Programs that talk only through the API server. The crates below a component's folder belong to it.
const COMPONENTS: &[&str] = &["apiserver", "controller-manager", "scheduler", "kubelet-sim", "proxy-sim"];

/// The folder of labs: programs that people start beside a cluster. They are built on these members alone, as anybody's would
/// be, and no released program contains one.
const LABS: &str = "labs/";
const FOR_LABS: &[&str] = &["proto", "component-base", "cel", "client", "scheduler"];

/// Libraries that only one crate may use, each with the law behind it.
const RESERVED: &[(&str, &str, &str)] = &[
    ("etcd-client", "apiserver/storage", "only the store's engines touch the store"),
    ("redb", "apiserver/storage", "only the store's engines touch the store"),
    ("rand", "component-base", "randomness is injected"),
    ("rand_chacha", "component-base", "randomness is injected"),
];

/// Crates that read no clock and no file and open no connection, and what they would need for it.
pub const PURE: &[&str] = &[
    "proto",
    "proto/component-helpers",
    "cel",
    "apiserver/patch",
    "apiserver/openapi",
    "scheduler/device-allocation",
    "scheduler/reference",
    "kubelet-sim/stages",
];
const IMPURE: &[&str] = &["component-base", "client", "tokio", "futures", "hyper", "axum", "rustls", "tracing"];

/// Crates for tests alone, and the members that may use them in product code because they are not released.
const TEST_EQUIPMENT: &[&str] = &["component-base/testing", "client/testing"];
const NOT_RELEASED: &[&str] = &["e2e", "xtask"];

/// Lines of product code of one crate: everything but tests.
const MAX_LINES: usize = 15_000;

/// Complaints about the workspace's own dependency graph: arrows that point upwards, and dependencies that no file names.
pub fn check(root: &Path, sources: &[Source]) -> Vec<String> {
    match dependencies(root) {
        Ok(all) => all
            .iter()
            .filter_map(|found| forbidden(&found.from, found.to.as_deref()?))
            .chain(all.iter().filter(|found| !found.is_for_tests).filter_map(misplaced))
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

/// A complaint about a library in product code of a crate that may not use it.
fn misplaced(Dependency { from, name, to, .. }: &Dependency) -> Option<String> {
    if let Some((_, owner, law)) = RESERVED.iter().find(|(reserved, owner, _)| reserved == name && owner != from) {
        return Some(format!("{from} depends on {name}, which is for {owner} alone: {law}"));
    }
    if PURE.contains(&from.as_str()) && IMPURE.contains(&name.as_str()) {
        return Some(format!("{from} depends on {name}, but it is pure"));
    }
    let to = to.as_deref()?;
    if from.starts_with(LABS) && !FOR_LABS.contains(&to) {
        return Some(format!("{from} depends on {to}: a lab is built on the client alone"));
    }
    if to.starts_with(LABS) && !NOT_RELEASED.contains(&from.as_str()) {
        return Some(format!("{from} depends on {to}, which is a lab"));
    }
    let is_misused = TEST_EQUIPMENT.contains(&to) && !NOT_RELEASED.contains(&from.as_str());
    is_misused.then(|| format!("{from} depends on {to}, which is for tests"))
}

/// Complaints about ARCHITECTURE.md, if its map or its list of the API server's crates is not that of the workspace.
pub fn documented(root: &Path) -> Vec<String> {
    let page = fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap_or_default();
    undocumented(&page, CRATES)
}

fn undocumented(page: &str, members: &[&str]) -> Vec<String> {
    let is_on_map = |member: &str| page.lines().any(|line| line.starts_with(&format!("| `{member}` |")));
    let product = members.iter().filter(|member| !TEST_EQUIPMENT.contains(member));
    let mut complaints: Vec<String> = product
        .filter(|member| !is_on_map(member))
        .map(|member| format!("ARCHITECTURE.md: the code map has no row for {member}"))
        .collect();
    let floors = members.iter().filter(|member| component(member) == Some("apiserver"));
    let floors = floors.map(|member| member.trim_start_matches("apiserver/")).collect::<Vec<_>>().join(", ");
    if !page.split_whitespace().collect::<Vec<_>>().join(" ").contains(&floors) {
        complaints.push(format!("ARCHITECTURE.md: the API server's crates, in their order, are {floors}"));
    }
    complaints
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
    use super::{Dependency, forbidden, misplaced, sizes, undocumented};
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
    fn a_library_in_the_wrong_crate_is_reported() {
        let complaint = |from: &str, name: &str, to: Option<&str>| {
            let (from, name, to) = (from.to_owned(), name.to_owned(), to.map(str::to_owned));
            misplaced(&Dependency { from, name, to, is_for_tests: false, is_for_build: false })
        };
        assert_eq!(complaint("apiserver/storage", "redb", None), None);
        assert!(complaint("orrery", "redb", None).is_some());
        assert!(complaint("scheduler", "rand", None).is_some());
        assert_eq!(complaint("scheduler", "tokio", None), None);
        assert!(complaint("cel", "tokio", None).is_some());
        assert_eq!(complaint("e2e", "client-testing", Some("client/testing")), None);
        assert!(complaint("kubelet-sim", "client-testing", Some("client/testing")).is_some());
        assert_eq!(complaint("labs/fridge", "client", Some("client")), None);
        assert_eq!(complaint("labs/fridge", "scheduler", Some("scheduler")), None);
        assert!(complaint("labs/fridge", "apiserver", Some("apiserver")).is_some());
        assert_eq!(complaint("e2e", "fridge", Some("labs/fridge")), None);
        assert!(complaint("orrery", "fridge", Some("labs/fridge")).is_some());
    }

    #[test]
    fn the_map_has_every_crate() {
        let page = "| `proto` | nouns |\n| `apiserver` | top |\nA stack of `storage,\napiserver`.";
        let complaints = undocumented(page, &["proto", "client/testing", "apiserver/storage", "apiserver"]);
        assert_eq!(complaints, ["ARCHITECTURE.md: the code map has no row for apiserver/storage"]);
        assert_eq!(undocumented(page, &["proto", "apiserver"]).len(), 0);
        assert_eq!(
            undocumented("| `apiserver/storage` |\n| `apiserver` |", &["apiserver/storage", "apiserver"]).len(),
            1
        );
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
