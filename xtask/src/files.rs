//! What every file must be: short, introduced, well named, reachable, and free of the banned turns.

use crate::source::{Source, member_of};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Beyond this a file holds more than one noun.
const MAX_LINES: usize = 600;

/// Longest `main.rs` of a released program. What it does is in its library.
const MAX_MAIN_LINES: usize = 30;

/// Names that say nothing about what is inside.
const BANNED_NAMES: &[&str] = &["utils", "util", "common", "helpers", "helper", "misc"];

/// Text that has no place in the product, with the reason. Built from halves, so that this file passes itself.
fn banned_text() -> Vec<(String, &'static str)> {
    vec![
        (["/wo", "rk/"].concat(), "a path of some machine"),
        (["/ho", "me/"].concat(), "a path of some machine"),
        (["todo", "!("].concat(), "unfinished"),
        (["unimplemented", "!("].concat(), "unfinished"),
        (["TO", "DO"].concat(), "unfinished"),
        (["FIX", "ME"].concat(), "unfinished"),
        (["#[ig", "nore"].concat(), "a test that is not run"),
        (["crates", ".io"].concat(), "the host of a package registry"),
    ]
}

/// Length, header, name and banned text of each file.
pub fn check(sources: &[Source]) -> Vec<String> {
    let banned = banned_text();
    sources.iter().flat_map(|source| check_one(source, &banned)).collect()
}

fn check_one(source: &Source, banned: &[(String, &'static str)]) -> Vec<String> {
    let name = source.path.display();
    let mut complaints = Vec::new();
    let lines = source.text.lines().count();
    if lines > MAX_LINES && !source.is_test() {
        complaints.push(format!("{name}: {lines} lines; split it before {MAX_LINES}"));
    }
    if lines > MAX_MAIN_LINES && source.path.ends_with("src/main.rs") && source.member() != "xtask" {
        complaints.push(format!("{name}: {lines} lines; a program's code is in its library"));
    }
    if !source.text.starts_with("//! ") {
        complaints.push(format!("{name}: begin with a `//!` sentence that says what this is"));
    }
    if let Some(stem) = source.path.file_stem().and_then(|s| s.to_str())
        && BANNED_NAMES.contains(&stem)
    {
        complaints.push(format!("{name}: find the noun instead of `{stem}`"));
    }
    for (text, why) in banned {
        if let Some(at) = source.text.find(text.as_str()) {
            let line = source.text[..at].lines().count().max(1);
            complaints.push(format!("{name}:{line}: `{text}`: {why}"));
        }
    }
    complaints.extend(unbiased_selects(source));
    complaints.extend(examples(source));
    complaints
}

/// Examples in comments are not compiled (`doctest = false`), so a fence has to say that it is text.
fn examples(source: &Source) -> Vec<String> {
    let fence = |line: &str| {
        let comment = line.trim_start();
        let text = comment.strip_prefix("///").or_else(|| comment.strip_prefix("//!"))?;
        text.trim().strip_prefix("```").map(str::to_owned)
    };
    let fences = source.text.lines().enumerate().filter_map(|(number, line)| Some((number + 1, fence(line)?)));
    fences
        .step_by(2) // every second one closes
        .filter(|(_, language)| language != "text")
        .map(|(number, _)| {
            format!("{}:{number}: an example that nobody compiles: make it a test, or `text`", source.path.display())
        })
        .collect()
}

/// `select!` polls in random order unless it says `biased;`, and then two runs of a seed differ.
fn unbiased_selects(source: &Source) -> Vec<String> {
    let mark = ["select", "! {"].concat();
    let mut complaints = Vec::new();
    for (at, _) in source.text.match_indices(&mark) {
        let rest = source.text[at + mark.len()..].trim_start();
        if !rest.starts_with("biased;") {
            let line = source.text[..at].lines().count().max(1);
            complaints.push(format!("{}:{line}: `select!` without `biased;`", source.path.display()));
        }
    }
    complaints
}

/// Files that no `mod` line reaches are never compiled.
pub fn orphans(sources: &[Source]) -> Vec<String> {
    let mut reached: BTreeSet<PathBuf> = BTreeSet::new();
    for source in sources {
        if is_root(&source.path) {
            reached.insert(source.path.clone());
        }
        for module in declared_modules(&source.text) {
            let folder = module_folder(&source.path);
            reached.insert(folder.join(format!("{module}.rs")));
            reached.insert(folder.join(&module).join("mod.rs"));
        }
    }
    sources
        .iter()
        .filter(|source| !reached.contains(&source.path))
        .map(|source| format!("{}: no `mod` line reaches this file", source.path.display()))
        .collect()
}

/// The roots of crates and of test binaries.
pub fn is_root(path: &Path) -> bool {
    let inside = path.strip_prefix(member_of(path)).unwrap_or(path);
    let parts: Vec<&str> = inside.iter().filter_map(|p| p.to_str()).collect();
    matches!(
        parts.as_slice(),
        ["src", "lib.rs" | "main.rs"]
            | ["src", "bin", _]
            | ["tests" | "benches" | "examples", _]
            | ["tests" | "benches" | "examples", _, "main.rs"]
            | ["build.rs"]
    )
}

/// Where the children of the module in `path` lie.
pub fn module_folder(path: &Path) -> PathBuf {
    let parent = path.parent().unwrap_or(Path::new("")).to_owned();
    let stem = path.file_stem().and_then(|s| s.to_str()).unwrap_or_default();
    if is_root(path) || stem == "mod" { parent } else { parent.join(stem) }
}

/// The children that a file names in `mod` lines.
pub fn declared_modules(text: &str) -> Vec<String> {
    text.lines()
        .filter_map(|line| {
            let line = line.trim_start();
            let line = line.strip_prefix("pub(crate) ").or_else(|| line.strip_prefix("pub(super) ")).unwrap_or(line);
            let name = line.strip_prefix("pub ").unwrap_or(line).strip_prefix("mod ")?;
            Some(name.strip_suffix(';')?.trim().to_owned())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str, text: &str) -> Source {
        Source { path: path.into(), text: text.into() }
    }

    #[test]
    fn a_long_nameless_file_is_reported() {
        let long = source("proto/src/utils.rs", &"x\n".repeat(601));
        let complaints = check(&[long]);
        assert_eq!(complaints.len(), 3, "{complaints:?}");
    }

    #[test]
    fn a_long_main_is_reported() {
        let text = format!("//! x\n{}", "x\n".repeat(30));
        let complaints = check(&[source("scheduler/src/main.rs", &text), source("scheduler/src/cycle.rs", &text)]);
        assert_eq!(complaints, ["scheduler/src/main.rs: 31 lines; a program's code is in its library"]);
    }

    #[test]
    fn an_unbiased_select_is_reported() {
        let text = ["//! x\nselect", "! {\n  a = b => {}\n}\nselect", "! {\n  biased;\n}"].concat();
        assert_eq!(check(&[source("proto/src/a.rs", &text)]), ["proto/src/a.rs:1: `select!` without `biased;`"]);
    }

    #[test]
    fn an_example_that_is_not_compiled_is_reported() {
        let text = "//! x\n//! ```text\n//! a\n//! ```\n/// ```\n/// f();\n/// ```\n";
        let expected = "proto/src/a.rs:5: an example that nobody compiles: make it a test, or `text`";
        assert_eq!(check(&[source("proto/src/a.rs", text)]), [expected]);
    }

    #[test]
    fn only_unreached_files_are_orphans() {
        let tree = [
            source("proto/src/lib.rs", "pub mod a;\nmod b;"),
            source("proto/src/a.rs", "mod deep;"),
            source("proto/src/a/deep.rs", ""),
            source("proto/src/b/mod.rs", "mod inner;"),
            source("proto/src/b/inner.rs", ""),
            source("proto/src/lost.rs", ""),
        ];
        assert_eq!(orphans(&tree), ["proto/src/lost.rs: no `mod` line reaches this file"]);
    }
}
