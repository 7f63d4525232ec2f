//! The tour of README.md, command by command: the commands print every line in the page.

use crate::kubectl_output::Chosen;
use crate::{cluster, program};
use e2e::processes::Cluster;
use e2e::store::Store;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
const HEADING: &str = "## A ten-minute tour";
/// Lines that depend on how fast the cluster is, or on which node the scheduler has chosen.
const BY_CHANCE: [&str; 4] = ["Waiting for ", "evicting pod ", "…", "pod/"];

#[test]
fn the_tour_of_the_readme() {
    let directory = tempfile::tempdir().unwrap();
    let cluster = cluster(directory.path(), Store::Embedded);
    walk(&cluster, program(), directory.path());
    cluster.stop();
}

/// Runs every command of the tour on a cluster of this program; `directory` becomes the reader's working directory.
pub fn walk(cluster: &Cluster, program: &Path, directory: &Path) {
    let here = directory.join("reader");
    fs::create_dir(&here).unwrap();
    symlink(&cluster.data_dir, here.join("orrery-data")).unwrap();
    symlink(Path::new(ROOT).join("e2e"), here.join("e2e")).unwrap();
    // A test has no time to compile, and must end neither the schedulers of others nor the shell that says so.
    let here_alone = [
        ("cargo run --release --", format!("{} ", program.display())),
        ("pkill -f 'orrery scheduler'", format!("pkill -f 'schedule[r] .*{}'", cluster.data_dir.display())),
    ];
    let kubectl = cluster.kubectl();
    let chosen = Chosen::default();
    let readme = fs::read_to_string(Path::new(ROOT).join("README.md")).unwrap();
    let steps = steps(&readme);
    assert!(steps.len() > 15, "the tour has its commands: {steps:?}");
    for (command, shown) in steps {
        let script = here_alone.iter().fold(command.clone(), |script, (written, run)| script.replace(written, run));
        let output = kubectl.shell(&here, &script);
        let printed = String::from_utf8_lossy(&output.stdout);
        // `kubectl auth can-i` says "no" by its exit status, too; what shows nothing has to succeed.
        assert!(output.status.success() || !shown.is_empty(), "$ {command}\n{printed}");
        let lines: BTreeSet<String> = printed.lines().map(|line| placeless(&chosen.masked(line))).collect();
        for line in shown.iter().filter(|line| !BY_CHANCE.iter().any(|chance| line.starts_with(chance))) {
            let wanted = placeless(&chosen.masked(line));
            assert!(lines.contains(&wanted), "$ {command}\nshould print\n  {wanted}\nand printed\n{printed}");
        }
    }
}

/// The same line whichever node a pod came to.
fn placeless(line: &str) -> String {
    line.split(' ').map(|word| if word.starts_with("node-") { "<node>" } else { word }).collect::<Vec<_>>().join(" ")
}

/// The commands of the tour, each with the lines that the page shows below it.
fn steps(readme: &str) -> Vec<(String, Vec<&str>)> {
    let tour = readme.split_once(HEADING).map_or("", |(_, tour)| tour);
    let mut steps: Vec<(String, Vec<&str>)> = Vec::new();
    for line in tour.lines().filter_map(|line| line.strip_prefix("    ")) {
        match (line.strip_prefix("$ "), steps.last_mut()) {
            (Some(command), _) => steps.push((command.to_owned(), Vec::new())),
            (None, Some((_, shown))) => shown.push(line),
            (None, None) => {}
        }
    }
    steps
}

#[test]
fn a_tour_is_commands_and_what_they_print() {
    let read = steps("## A ten-minute tour\n\nDo:\n\n    $ a b\n    c\n    d\n\nand\n\n    $ e\n");
    assert_eq!(read, [("a b".to_owned(), vec!["c", "d"]), ("e".to_owned(), vec![])]);
}
