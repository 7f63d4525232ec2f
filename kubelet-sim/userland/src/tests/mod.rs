//! Tables of commands and what they print, and of processes in virtual time.

mod programs;
mod scripts;
mod time;
mod network;
mod fuzz;

use crate::image;
use crate::launch::launch;
use crate::process::processes::{ContainerSetup, Processes};
use crate::process::streams::Streams;
use file_tree::mounts::FileTree;
use file_tree::node::Owner;
use jiff::Timestamp;
use std::time::Duration;

pub const START: Timestamp = Timestamp::UNIX_EPOCH;

/// Returns the processes of a container with a few files, which run as a user.
pub fn container(uid: u32) -> Processes {
    let files = image::known("busybox").unwrap().files(START);
    let root = Owner::default();
    files.put_file("etc/hostname", "web-0\n", 0o644, root, START);
    files.put_file("etc/config/a", "1", 0o644, root, START);
    files.put_file("etc/config/b", "2\n", 0o600, root, START);
    files.put_file("data/words", "pear\napple\nfig\napple\n", 0o644, root, START);
    files.put_file("data/table", "one 1 a\ntwo 2 b\nthree 3 c\n", 0o644, root, START);
    let env =
        [("PATH", "/bin"), ("HOME", "/root"), ("A", "x")].map(|(name, value)| (name.to_owned(), value.to_owned()));
    let setup = ContainerSetup {
        hostname: "web-0".to_owned(),
        tree: FileTree::new(files, false),
        env: env.into(),
        uid,
        gid: uid,
        groups: vec![7],
        working_dir: "/".to_owned(),
        started_at: START,
    };
    Processes::new(setup, launch)
}

pub fn words(line: &[&str]) -> Vec<String> {
    line.iter().map(|word| (*word).to_owned()).collect()
}

/// Runs a command to its end; returns what it prints, with errors behind `!`, and the exit code.
pub fn run(uid: u32, argv: &[&str], input: &str) -> String {
    run_in(container(uid), argv, input)
}

pub fn run_in(mut processes: Processes, argv: &[&str], input: &str) -> String {
    let streams = Streams::of_log(!input.is_empty(), false);
    let pid = processes.start(words(argv), streams).unwrap();
    processes.write_input(pid, input.as_bytes());
    processes.close_input(pid);
    processes.advance_to(START + Duration::from_secs(3600));
    let mut shown = String::new();
    for output in processes.outputs(pid) {
        let text = String::from_utf8_lossy(&output.bytes).into_owned();
        if output.descriptor == 2 {
            shown.push('!');
        }
        shown.push_str(&text);
    }
    match processes.end_of(pid) {
        Some((_, status)) => format!("{shown}{}", status.code()),
        None => format!("{shown}running"),
    }
}

pub fn sh(line: &str) -> String {
    run(0, &["sh", "-c", line], "")
}

/// Checks that lines print what the table says.
pub fn check(table: &[(&str, &str)]) {
    let wrong: Vec<String> = table
        .iter()
        .filter_map(|(line, expected)| {
            let found = sh(line);
            (found != *expected).then(|| format!("{line}\n  expected {expected:?}\n  found    {found:?}\n"))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.concat());
}
