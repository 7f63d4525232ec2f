//! Compares the output of a stock `kubectl` for common commands with expected pages, line by line.
//!
//! The expected output was printed by a run against this server and then reviewed by people who know what Kubernetes
//! prints; none of it was recorded from another server. The commands of a file in `e2e/kubectl_output` run from top to
//! bottom, in a namespace of the file's name. A line with `$ ` is a command, a line with `> ` continues it, a line with
//! `# ` is a comment, and all other lines are output. Values that differ between runs (ages, names, addresses) are
//! masked as `<age>`, and columns are two spaces apart. `KUBECTL_OUTPUT=overwrite` replaces the files, for a review
//! before the commit.

use crate::cluster;
use e2e::kubectl::Kubectl;
use e2e::processes::Cluster;
use e2e::store::Store;
use regex::Regex;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

const EXPECTED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/kubectl_output");

/// Patterns of values that differ between runs, with their placeholders. They are applied in this order.
const VARYING: &[(&str, &str)] = &[
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "<time>"),
    (r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d [+-]\d{4}", "<time>"),
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "<uid>"),
    (r#"(resourceVersion"?: ")\d+""#, r#"$1<version>""#),
    (r"https://127\.0\.0\.1:\d+", "<server>"),
    (r"/tmp/[^ /]+", "<directory>"),
    (r"-[bcdfghjklmnpqrstvwxz2456789]{8,10}-[bcdfghjklmnpqrstvwxz2456789]{5}\b", "-<hash>-<id>"),
    (r"-[bcdfghjklmnpqrstvwxz2456789]{8,10}\b", "-<hash>"),
    (r"pod-template-hash=\w+", "pod-template-hash=<hash>"),
    (r"KUBE-SEP-\w{16}", "KUBE-SEP-<hash>"),
    (r"kube-api-access-\w{5}", "kube-api-access-<id>"),
    (r"X509SHA256=\w+", "X509SHA256=<digest>"),
    (r"\b10\.96\.\d+\.\d+", "<cluster-ip>"),
    (r"\b10\.244\.\d+\.\d+", "<pod-ip>"),
    (r":3[0-2]\d{3}\b", ":<node-port>"),
    (r"in \d+(\.\d+)?m?s \(\d+(\.\d+)?m?s including waiting\)", "in <duration>"),
    (r"(^|\s)(\d+[smh]){1,2}(\s|$)", "$1<age>$3"),
    (r"(\S) {2,}", "$1  "),
    (r"[ \t]+$", ""),
];

#[test]
fn kubectl_prints_what_is_expected() {
    let directory = tempfile::tempdir().unwrap();
    let cluster = cluster(directory.path(), Store::Memory);
    let mut files: Vec<_> = fs::read_dir(EXPECTED).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mask = Mask::default();
    let wrong: Vec<String> =
        files.iter().filter_map(|file| first_difference(&cluster, directory.path(), file, &mask)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    cluster.stop();
}

/// The compiled patterns of values that differ between runs.
pub struct Mask(Vec<(Regex, &'static str)>);

impl Default for Mask {
    fn default() -> Self {
        let compile =
            |(pattern, word): &(&str, &'static str)| (Regex::new(pattern).expect("the table is well-formed"), *word);
        Self(VARYING.iter().map(compile).collect())
    }
}

impl Mask {
    /// Returns the line with placeholders for the values that differ between runs.
    pub fn apply(&self, line: &str) -> String {
        let replace = |line: String, (pattern, word): &(Regex, &str)| pattern.replace_all(&line, *word).into_owned();
        self.0.iter().fold(line.to_owned(), replace)
    }
}

/// Runs the commands of one file. Returns the first line that differs, if any.
fn first_difference(cluster: &Cluster, directory: &Path, file: &Path, mask: &Mask) -> Option<String> {
    let name = file.file_stem().and_then(|name| name.to_str()).expect("files have names");
    let here = directory.join(name);
    fs::create_dir(&here).unwrap();
    let kubeconfig = here.join("kubeconfig");
    fs::copy(cluster.data_dir.join("kubeconfig"), &kubeconfig).unwrap();
    let kubectl = Kubectl::new(&kubeconfig, &here);
    kubectl.ok(&format!("create namespace {name}"));
    kubectl.ok(&format!("config set-context --current --namespace={name}"));
    kubectl.ok("wait --for=create serviceaccount/default --timeout=60s");

    let expected = fs::read_to_string(file).unwrap();
    let mut actual = String::new();
    for step in steps(&expected) {
        let output = kubectl.shell(&here, &step.script);
        actual.push_str(&step.text);
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            writeln!(actual, "{}", mask.apply(line)).unwrap();
        }
        if let Some(code) = output.status.code().filter(|code| *code != 0) {
            writeln!(actual, "[exit {code}]").unwrap();
        }
    }
    if std::env::var("KUBECTL_OUTPUT").is_ok_and(|wish| wish == "overwrite") {
        fs::write(file, &actual).unwrap();
        return None;
    }
    let at = (0..).zip(expected.lines().map(Some).chain([None]).zip(actual.lines().map(Some).chain([None])));
    let (at, (expected, actual)) = at.into_iter().find(|(_, (expected, actual))| expected != actual)?;
    let (expected, actual) = (expected.unwrap_or("the end"), actual.unwrap_or("the end"));
    Some(format!("{}:{}: wanted\n  {expected}\ngot\n  {actual}", file.display(), at + 1))
}

/// A command with the lines of the file that belong to it, and the script that runs it.
#[derive(Debug, Default, PartialEq)]
struct CommandBlock {
    text: String,
    script: String,
}

fn steps(text: &str) -> Vec<CommandBlock> {
    let mut steps: Vec<CommandBlock> = Vec::new();
    let mut before = String::new();
    for line in text.lines() {
        if let Some(command) = line.strip_prefix("$ ") {
            steps.push(CommandBlock { text: format!("{before}{line}\n"), script: format!("{command}\n") });
            before.clear();
        } else if let Some((step, more)) = steps.last_mut().zip(line.strip_prefix("> ")) {
            writeln!(step.text, "{line}").unwrap();
            writeln!(step.script, "{more}").unwrap();
        } else if line.starts_with("# ") {
            let apart = if steps.is_empty() { "" } else { "\n" };
            before = format!("{apart}{line}\n\n");
        }
    }
    steps
}

#[test]
fn files_are_read_in_steps() {
    let read = steps("# Two.\n$ a <<EOF\n> b\n> EOF\nprinted\n\n\n# Other.\n\n$ c\n");
    let expected = [("# Two.\n\n$ a <<EOF\n> b\n> EOF\n", "a <<EOF\nb\nEOF\n"), ("\n# Other.\n\n$ c\n", "c\n")];
    let expected = expected.map(|(text, script)| CommandBlock { text: text.into(), script: script.into() });
    assert_eq!(read, expected);
}
