//! `Trace`: records the system calls of a program and of its child processes with `strace`.

use crate::programs::install;
use crate::wait;
use std::collections::BTreeMap;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A trace of a program that will run, runs or has ended.
#[derive(Debug)]
pub struct Trace {
    file: PathBuf,
    /// Script that runs the program under strace. It passes its arguments on.
    pub program: PathBuf,
}

impl Trace {
    /// Prepares a trace of the system calls `calls`, with its files in `folder`. Returns the reason if it is not
    /// possible.
    pub fn prepare(folder: &Path, program: &Path, options: &str, calls: &str) -> Result<Self, String> {
        install("strace", "strace")?;
        let (file, script) = (folder.join("trace"), folder.join("traced"));
        let line = format!(
            "#!/bin/sh\nexec strace -D -f -q {options} -e trace={calls} -o {} {} \"$@\"\n",
            file.display(),
            program.display()
        );
        std::fs::write(&script, line).map_err(|error| error.to_string())?;
        std::fs::set_permissions(&script, Permissions::from_mode(0o755)).map_err(|error| error.to_string())?;
        Ok(Self { file, program: script })
    }

    /// Waits until the program has ended, and returns all lines. Each has a thread ID, a space and a call.
    pub fn text(&self) -> String {
        let mut text = String::new();
        wait::until("strace has written down the end", || {
            text = std::fs::read_to_string(&self.file).unwrap_or_default();
            let first = text.split(' ').next().unwrap_or_default();
            !first.is_empty()
                && text.lines().any(|line| line.starts_with(&format!("{first} ")) && line.contains("+++ "))
        });
        text
    }
}

/// An access of a process to a file or to a port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// The process opened the file with this path.
    Open(String),
    /// The process connected to this port of this machine.
    Connect(u16),
}

/// Returns the accesses in a trace, each with the sub-command of its process.
///
/// The trace must have the calls `execve`, `clone`, `clone3`, `fork`, `vfork`, `open`, `openat` and `connect`.
pub fn accesses(trace: &str) -> Vec<(String, Access)> {
    let lines = || trace.lines().filter_map(|line| line.split_once(' ').map(|(id, call)| (id, call.trim_start())));
    // A new thread may appear before its parent's call has returned, so the parents are collected first.
    let is_fork = |call: &str| {
        ["clone", "fork", "vfork", "<... clone", "<... fork", "<... vfork"].iter().any(|name| call.starts_with(name))
    };
    let forks = lines().filter(|(_, call)| is_fork(call));
    let parents: BTreeMap<&str, &str> =
        forks.filter_map(|(parent, call)| Some((call.rsplit_once("= ")?.1, parent))).collect();
    let mut commands: BTreeMap<&str, String> = BTreeMap::new();
    let mut accesses = Vec::new();
    for (thread, call) in lines() {
        if let Some(command) = call.strip_prefix("execve(").and_then(sub_command) {
            commands.insert(thread, command);
            continue;
        }
        let access = match call.split_once('(') {
            Some(("open" | "openat", arguments)) => quoted(arguments).next().map(|path| Access::Open(path.to_owned())),
            Some(("connect", arguments)) => port(arguments).map(Access::Connect),
            _ => None,
        };
        let Some(access) = access else { continue };
        let mut ancestor = Some(thread);
        let command = loop {
            match ancestor {
                None => break String::new(),
                Some(id) => match commands.get(id) {
                    Some(command) => break command.clone(),
                    None => ancestor = parents.get(id).copied(),
                },
            }
        };
        accesses.push((command, access));
    }
    accesses
}

/// Returns the sub-command in the arguments of `execve`: `scheduler` for `"program", ["program", "scheduler", …`.
fn sub_command(arguments: &str) -> Option<String> {
    quoted(arguments).nth(2).map(str::to_owned)
}

/// Returns the texts between quotation marks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('"').skip(1).step_by(2)
}

fn port(arguments: &str) -> Option<u16> {
    arguments.split_once("htons(")?.1.split_once(')')?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accesses_belong_to_the_command_of_their_process() {
        let trace = r#"10 execve("/bin/orrery", ["orrery", "up", "--port=1"], 0x7ff /* 3 vars */) = 0
10 openat(AT_FDCWD, "/data/lock", O_RDWR) = 3
12 openat(AT_FDCWD, "/data/early", O_RDONLY <unfinished ...>
10 clone3({flags=CLONE_VM}, 88) = 11
11 vfork( <unfinished ...>
12 execve("/bin/orrery", ["orrery", "apiserver", "--x"], 0x7ff /* 3 vars */) = 0
11 <... vfork resumed>) = 12
12 clone3({flags=CLONE_VM} => {parent_tid=[13]}, 88) = 13
13 connect(9, {sa_family=AF_INET, sin_port=htons(2379), sin_addr=inet_addr("127.0.0.1")}, 16) = -1 EINPROGRESS
"#;
        let open = |path: &str| Access::Open(path.to_owned());
        let expected = [("up", open("/data/lock")), ("up", open("/data/early")), ("apiserver", Access::Connect(2379))];
        assert_eq!(accesses(trace), expected.map(|(command, access)| (command.to_owned(), access)));
    }
}
