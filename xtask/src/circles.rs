//! Inside a crate no circle of modules importing each other, nor of folders: whoever reads a file or a folder can read
//! first what it rests on.
//!
//! For folders, the files and folders that lie beside each other are compared, at every depth: what a file imports, the
//! folder around it imports.
//!
//! Read off the text, as a person would: `use` lines and paths that begin with `crate::`, `super::`, `self::` or the
//! name of a child module. A `pub use` hands a name on and is no import; a module that lists its own children, as a
//! table does, is above them and below them at once, which is no circle; what stands in test modules does not count.

use crate::files::{declared_modules, is_root, module_folder};
use crate::source::{Source, member_of};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Which files a file imports.
type Imports = BTreeMap<PathBuf, BTreeSet<PathBuf>>;

/// A complaint for each group of files or folders that import each other in a circle.
pub fn check(sources: &[Source]) -> Vec<String> {
    let product: Vec<&Source> = sources.iter().filter(|source| !stands_for_tests(&source.path)).collect();
    let files: BTreeSet<&Path> = product.iter().map(|source| source.path.as_path()).collect();
    let imports: Imports = product.iter().map(|source| (source.path.clone(), imports(source, &files))).collect();
    let complaint = |what: &str, circle: &[&Path]| {
        let names: Vec<String> = circle.iter().map(|path| path.display().to_string()).collect();
        format!("these {what} import each other in a circle: {}", names.join(", "))
    };
    let mut complaints: Vec<String> = circles(&imports).iter().map(|circle| complaint("files", circle)).collect();
    for level in levels(&imports).values() {
        complaints.extend(circles(level).iter().map(|circle| complaint("folders", circle)));
    }
    complaints
}

/// Lines that are compiled into the product, comments included.
pub fn product_lines(source: &Source) -> usize {
    if stands_for_tests(&source.path) { 0 } else { before_tests(&source.text).lines().count() }
}

/// What is compiled into the product, without comments.
pub fn product_code(source: &Source) -> String {
    if stands_for_tests(&source.path) { String::new() } else { product_text(&source.text) }
}

/// By folder: which of the modules directly in it import each other, as paths without an ending.
fn levels(imports: &Imports) -> BTreeMap<PathBuf, Imports> {
    let mut found: BTreeMap<PathBuf, Imports> = BTreeMap::new();
    for (from, to) in imports.iter().flat_map(|(from, all)| all.iter().map(move |to| (from, to))) {
        let (from, to) = (module_folder(from), module_folder(to));
        let shared = from.iter().zip(to.iter()).take_while(|(a, b)| a == b).count();
        let side = |path: &Path| path.iter().take(shared + 1).collect::<PathBuf>();
        let is_beside = |path: &Path| path.iter().count() > shared;
        if is_beside(&from) && is_beside(&to) {
            let level = found.entry(from.iter().take(shared).collect()).or_default();
            level.entry(side(&from)).or_default().insert(side(&to));
        }
    }
    found
}

fn stands_for_tests(path: &Path) -> bool {
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    path.iter().any(|part| part == "tests") || stem.ends_with("tests") || stem == "fixture" || stem == "testing"
}

fn imports(source: &Source, files: &BTreeSet<&Path>) -> BTreeSet<PathBuf> {
    let text = product_text(&source.text);
    let children = declared_modules(&source.text);
    let mut found: BTreeSet<PathBuf> =
        paths(&text, &children).iter().filter_map(|path| resolve(&source.path, path, &children, files)).collect();
    let own_children = module_folder(&source.path);
    found.retain(|file| *file != source.path && !file.starts_with(&own_children));
    found
}

fn before_tests(text: &str) -> &str {
    let ends = ["#[cfg(test)]\nmod tests {", "#[cfg(test)]\npub mod tests {"];
    let end = ends.iter().filter_map(|mark| text.find(mark)).min();
    &text[..end.unwrap_or(text.len())]
}

/// The lines that are compiled into the product and say something: no comments, no `pub use`, nothing after `#[cfg(test)]`
/// that opens the test module.
fn product_text(text: &str) -> String {
    let code: Vec<&str> = before_tests(text).lines().map(|line| line.split("//").next().unwrap_or_default()).collect();
    let mut kept = String::new();
    let mut handing_on = false;
    for line in code {
        let begins = line.trim_start();
        handing_on |= begins.starts_with("pub") && begins.split(' ').nth(1) == Some("use");
        if !handing_on {
            kept.push_str(line);
            kept.push('\n');
        }
        handing_on &= !line.contains(';');
    }
    kept
}

/// Every path of the text that begins in this crate, as segments; groups in braces are opened.
fn paths(text: &str, children: &[String]) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let mut rest = text;
    let mut before = ' ';
    while let Some(first) = rest.chars().next() {
        let word: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        if word.is_empty() {
            before = first;
            rest = &rest[first.len_utf8()..];
            continue;
        }
        let after = &rest[word.len()..];
        let begins_here = before != ':' && before != '.' && before != '$';
        let known = matches!(word.as_str(), "crate" | "super" | "self") || children.contains(&word);
        if begins_here && known && after.starts_with("::") {
            open(after, vec![word.clone()], &mut found);
        }
        before = 'a';
        rest = after;
    }
    found
}

/// Follows `::a::{b, c::d}` behind `prefix`; answers how many bytes it took.
fn open(text: &str, prefix: Vec<String>, found: &mut Vec<Vec<String>>) -> usize {
    let Some(tail) = text.strip_prefix("::") else {
        found.push(prefix);
        return 0;
    };
    let Some(group) = tail.strip_prefix('{') else {
        let word: String = tail.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        let taken = 2 + word.len();
        let longer = prefix.into_iter().chain([word]).collect();
        return taken + open(&text[taken..], longer, found);
    };
    let mut at = 3;
    let mut rest = group;
    while let Some(next) = rest.chars().next() {
        if next == '}' {
            return at + 1;
        }
        let word: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        let mut taken = next.len_utf8();
        if !word.is_empty() {
            taken = word.len();
            let longer = prefix.iter().cloned().chain([word]).collect();
            taken += open(&rest[taken..], longer, found);
        }
        at += taken;
        rest = &rest[taken..];
    }
    at
}

/// The file of the longest prefix of a path that is a module.
fn resolve(from: &Path, path: &[String], children: &[String], files: &BTreeSet<&Path>) -> Option<PathBuf> {
    let mut folder = module_folder(from);
    let mut own = Some(from.to_owned());
    let mut rest = path;
    match path.first()?.as_str() {
        "crate" => {
            folder = Path::new(member_of(from)).join("src");
            own = file_of_folder(&folder, files);
            rest = &path[1..];
        }
        "self" => rest = &path[1..],
        "super" => {
            while rest.first().is_some_and(|word| word == "super") {
                folder = folder.parent()?.to_owned();
                if is_root(from) {
                    return None;
                }
                rest = &rest[1..];
            }
            own = file_of_folder(&folder, files);
        }
        child if children.iter().any(|known| known == child) => {}
        _ => return None,
    }
    for word in rest {
        let as_file = folder.join(format!("{word}.rs"));
        folder.push(word);
        match file_of_folder(&folder, files).or_else(|| files.contains(as_file.as_path()).then_some(as_file)) {
            Some(file) => own = Some(file),
            None => break,
        }
    }
    own
}

/// The file of the module whose children lie in `folder`.
fn file_of_folder(folder: &Path, files: &BTreeSet<&Path>) -> Option<PathBuf> {
    let candidates =
        [folder.join("mod.rs"), folder.join("lib.rs"), folder.with_extension("rs"), folder.join("main.rs")];
    candidates.into_iter().find(|file| files.contains(file.as_path()))
}

/// Groups of more than one file in which each reaches each.
fn circles(imports: &Imports) -> Vec<Vec<&Path>> {
    let reach: BTreeMap<&Path, BTreeSet<&Path>> =
        imports.keys().map(|file| (file.as_path(), reached(file, imports))).collect();
    let mut found: Vec<Vec<&Path>> = Vec::new();
    for (file, beyond) in &reach {
        let circle: Vec<&Path> =
            beyond.iter().copied().filter(|other| reach.get(other).is_some_and(|back| back.contains(file))).collect();
        if circle.len() > 1 && !found.contains(&circle) {
            found.push(circle);
        }
    }
    found
}

fn reached<'a>(from: &'a Path, imports: &'a Imports) -> BTreeSet<&'a Path> {
    let mut seen = BTreeSet::new();
    let mut open = vec![from];
    while let Some(file) = open.pop() {
        for next in imports.get(file).into_iter().flatten() {
            if seen.insert(next.as_path()) {
                open.push(next);
            }
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str, text: &str) -> Source {
        Source { path: path.into(), text: text.into() }
    }

    #[test]
    fn a_circle_is_named_once() {
        let tree = [
            source("proto/src/lib.rs", "pub mod a;\npub mod b;\npub mod c;\npub use a::A;"),
            source("proto/src/a.rs", "use crate::{\n    b::{B, deep::D},\n    c,\n};"),
            source("proto/src/b/mod.rs", "mod deep;\nfn f() { deep::list() + super::a::g() }"),
            source("proto/src/b/deep.rs", "use super::B;"),
            source("proto/src/c.rs", "#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}"),
        ];
        let circle =
            "these files import each other in a circle: proto/src/a.rs, proto/src/b/deep.rs, proto/src/b/mod.rs";
        let folders = "these folders import each other in a circle: proto/src/a, proto/src/b";
        assert_eq!(check(&tree), [circle, folders]);
    }

    #[test]
    fn a_circle_of_folders_is_named_though_no_file_is_in_one() {
        let tree = [
            source("proto/src/lib.rs", "mod a;\nmod b;\nmod c;"),
            source("proto/src/a/mod.rs", "mod one;\nmod two;"),
            source("proto/src/a/one.rs", "use crate::b::one::B;"),
            source("proto/src/a/two.rs", ""),
            source("proto/src/b/mod.rs", "pub mod one;\npub mod two;"),
            source("proto/src/b/one.rs", ""),
            source("proto/src/b/two.rs", "use crate::c::C;"),
            source("proto/src/c.rs", "use crate::a::two::A;"),
        ];
        let circle = "these folders import each other in a circle: proto/src/a, proto/src/b, proto/src/c";
        assert_eq!(check(&tree), [circle]);
    }

    #[test]
    fn one_way_is_no_circle() {
        let tree = [
            source("proto/src/lib.rs", "mod a;\nmod b;\nfn f() { a::g(); }"),
            source("proto/src/a.rs", "use super::b; // and crate::lib"),
            source("proto/src/b.rs", "pub use crate::a::A;"),
        ];
        assert_eq!(check(&tree), Vec::<String>::new());
    }
}
