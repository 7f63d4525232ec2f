//! The exact output of stock `kubectl` with this server, for common commands.
//!
//! The expected output was printed by a run against this server and then read by people who know what Kubernetes prints;
//! none of it was recorded from another server. The files of `e2e/kubectl_output` are run from top to bottom, each in a namespace of its name. A line with `$ ` is
//! a command, `> ` goes on with it, `# ` is for people, and everything else is what was printed.
//! What a run chooses (ages, names, addresses) is written as `<age>`, columns are two spaces apart. With
//! `KUBECTL_OUTPUT=overwrite` the files are written anew, to be read before they are committed.

use crate::cluster;
use e2e::kubectl::Kubectl;
use e2e::processes::Cluster;
use e2e::store::Store;
use regex::Regex;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

const EXPECTED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/kubectl_output");

/// What is chosen anew in each run, and how it is written; applied in this order.
const CHOSEN: &[(&str, &str)] = &[
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
    let chosen = Chosen::default();
    let wrong: Vec<String> =
        files.iter().filter_map(|file| differs(&cluster, directory.path(), file, &chosen)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    cluster.stop();
}

/// The table of what is chosen anew, ready for use.
pub struct Chosen(Vec<(Regex, &'static str)>);

impl Default for Chosen {
    fn default() -> Self {
        let compile =
            |(pattern, word): &(&str, &'static str)| (Regex::new(pattern).expect("the table is well-formed"), *word);
        Self(CHOSEN.iter().map(compile).collect())
    }
}

impl Chosen {
    /// The line with placeholders for what its run has chosen.
    pub fn masked(&self, line: &str) -> String {
        let replace = |line: String, (pattern, word): &(Regex, &str)| pattern.replace_all(&line, *word).into_owned();
        self.0.iter().fold(line.to_owned(), replace)
    }
}

/// Runs one file; where it differs, from which line on.
fn differs(cluster: &Cluster, directory: &Path, file: &Path, chosen: &Chosen) -> Option<String> {
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
            writeln!(actual, "{}", chosen.masked(line)).unwrap();
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

/// A command, and the lines that stand before and with it.
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
