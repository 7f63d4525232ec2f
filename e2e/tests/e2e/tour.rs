//! Runs the tour of README.md command by command, and checks that the commands print every line that the page shows.

use crate::kubectl_output::Mask;
use crate::{cluster, program};
use e2e::processes::Cluster;
use e2e::store::Store;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
const HEADING: &str = "## A ten-minute tour";
/// Beginnings of lines that are not checked, since they depend on the cluster's speed or on the chosen node.
const VARYING: [&str; 4] = ["Waiting for ", "evicting pod ", "…", "pod/"];

#[test]
fn the_tour_of_the_readme() {
    let directory = tempfile::tempdir().unwrap();
    let cluster = cluster(directory.path(), Store::Embedded);
    walk(&cluster, program(), directory.path());
    cluster.stop();
}

/// Runs every command of the tour on a cluster of this program. The working directory is a new folder in `directory`.
pub fn walk(cluster: &Cluster, program: &Path, directory: &Path) {
    let here = directory.join("reader");
    fs::create_dir(&here).unwrap();
    symlink(&cluster.data_dir, here.join("orrery-data")).unwrap();
    symlink(Path::new(ROOT).join("e2e"), here.join("e2e")).unwrap();
    // The test does not compile. Its `pkill` must end neither schedulers of other clusters nor the shell that runs it.
    let replaced = [
        ("cargo run --release --", format!("{} ", program.display())),
        ("pkill -f 'orrery scheduler'", format!("pkill -f 'schedule[r] .*{}'", cluster.data_dir.display())),
    ];
    let kubectl = cluster.kubectl();
    let mask = Mask::default();
    let readme = fs::read_to_string(Path::new(ROOT).join("README.md")).unwrap();
    let steps = steps(&readme);
    assert!(steps.len() > 15, "the tour has its commands: {steps:?}");
    for (command, shown) in steps {
        let script = replaced.iter().fold(command.clone(), |script, (written, run)| script.replace(written, run));
        let output = kubectl.shell(&here, &script);
        let printed = String::from_utf8_lossy(&output.stdout);
        // A command that shows nothing must succeed. Others may fail: `kubectl auth can-i` also says "no" by its exit
        // status.
        assert!(output.status.success() || !shown.is_empty(), "$ {command}\n{printed}");
        let lines: BTreeSet<String> = printed.lines().map(|line| without_nodes(&mask.apply(line))).collect();
        for line in shown.iter().filter(|line| !VARYING.iter().any(|beginning| line.starts_with(beginning))) {
            let wanted = without_nodes(&mask.apply(line));
            assert!(lines.contains(&wanted), "$ {command}\nshould print\n  {wanted}\nand printed\n{printed}");
        }
    }
}

/// Returns a line with a placeholder for the name of a node, since the scheduler may choose any.
fn without_nodes(line: &str) -> String {
    line.split(' ').map(|word| if word.starts_with("node-") { "<node>" } else { word }).collect::<Vec<_>>().join(" ")
}

/// Returns the commands of the tour, each with the lines that the page shows below it.
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
