//! `Deviation:` comments, collected into docs/deviations.md so that a reader finds every deliberate difference.

use crate::source::{self, Source};
use std::fmt::Write;
use std::fs;
use std::path::Path;

const PAGE: &str = "docs/deviations.md";
const BEGIN: &str = "<!-- collected from `Deviation:` comments by `cargo xtask tidy --fix` -->";

/// The page is out of date, or not there.
pub fn check(root: &Path, sources: &[Source]) -> Vec<String> {
    let Ok(page) = fs::read_to_string(root.join(PAGE)) else { return vec![format!("{PAGE} is missing")] };
    let written = page.split_once(BEGIN).map(|(_, tail)| tail.trim());
    if written == Some(collected(sources).trim()) {
        return Vec::new();
    }
    vec![format!("{PAGE} is not what the comments say: run `cargo xtask tidy --fix`")]
}

/// Rewrites the collected part; what stands above it is written by hand.
pub fn write(root: &Path) -> Result<(), String> {
    let path = root.join(PAGE);
    let page = fs::read_to_string(&path).map_err(|error| format!("{PAGE}: {error}"))?;
    let head = page.split_once(BEGIN).map_or(page.as_str(), |(head, _)| head);
    let text = format!("{}\n\n{BEGIN}\n\n{}", head.trim_end(), collected(&source::read_all(root)));
    fs::write(&path, text).map_err(|error| format!("{PAGE}: {error}"))
}

fn collected(sources: &[Source]) -> String {
    let mut page = String::new();
    for source in sources.iter().filter(|source| source.member() != "xtask") {
        for text in tags(&source.text) {
            writeln!(page, "- `{}`: {text}", source.path.display()).expect("writing to a String cannot fail");
        }
    }
    page
}

/// The text of each tag: the rest of its line and the comment lines that follow directly.
fn tags(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let Some(comment) = comment(line) else { continue };
        let Some((_, first)) = comment.split_once("Deviation:") else { continue };
        let mut whole = first.trim().to_owned();
        while let Some(next) = lines.peek().and_then(|line| self::comment(line)) {
            if next.is_empty() || next.contains("Deviation:") {
                break;
            }
            whole.push(' ');
            whole.push_str(next);
            lines.next();
        }
        found.push(whole);
    }
    found
}

fn comment(line: &str) -> Option<&str> {
    let at = line.find("//")?;
    Some(line[at..].trim_start_matches('/').trim_start_matches('!').trim())
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_tag_runs_to_the_end_of_its_comment() {
        let text =
            "/// What it does.\n/// Deviation: it hums\n/// while it works.\nfn hum() {} // Deviation: off key\n";
        assert_eq!(super::tags(text), ["it hums while it works.", "off key"]);
    }
}
