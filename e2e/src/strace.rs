//! `Trace`: the system calls of a tree of processes, recorded by `strace`.

use crate::programs::install;
use crate::wait;
use std::collections::BTreeMap;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A trace, complete or still being written.
#[derive(Debug)]
pub struct Trace {
    file: PathBuf,
    /// A script that runs the program under strace with its arguments.
    pub program: PathBuf,
}

impl Trace {
    /// Prepares a trace of these calls in a folder, or returns the reason why it is not possible.
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

    /// Returns all lines once the program has ended: thread, space, call.
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

/// An access of a process to a file or a port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Deed {
    Open(String),
    /// A connection to a port of this machine.
    Connect(u16),
}

/// Returns every opened file and every connection, with the sub-command of the process.
///
/// Needs the calls `execve`, `clone`, `clone3`, `fork`, `vfork`, `open`, `openat` and `connect`.
pub fn deeds(trace: &str) -> Vec<(String, Deed)> {
    let lines = || trace.lines().filter_map(|line| line.split_once(' ').map(|(id, call)| (id, call.trim_start())));
    // A new thread may appear before its parent's call has returned.
    let is_birth = |call: &str| {
        ["clone", "fork", "vfork", "<... clone", "<... fork", "<... vfork"].iter().any(|name| call.starts_with(name))
    };
    let births = lines().filter(|(_, call)| is_birth(call));
    let parents: BTreeMap<&str, &str> =
        births.filter_map(|(parent, call)| Some((call.rsplit_once("= ")?.1, parent))).collect();
    let mut commands: BTreeMap<&str, String> = BTreeMap::new();
    let mut deeds = Vec::new();
    for (thread, call) in lines() {
        if let Some(command) = call.strip_prefix("execve(").and_then(sub_command) {
            commands.insert(thread, command);
            continue;
        }
        let deed = match call.split_once('(') {
            Some(("open" | "openat", arguments)) => quoted(arguments).next().map(|path| Deed::Open(path.to_owned())),
            Some(("connect", arguments)) => port(arguments).map(Deed::Connect),
            _ => None,
        };
        let Some(deed) = deed else { continue };
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
        deeds.push((command, deed));
    }
    deeds
}

/// Returns `scheduler` for `"program", ["program", "scheduler", …`.
fn sub_command(arguments: &str) -> Option<String> {
    quoted(arguments).nth(2).map(str::to_owned)
}

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
    fn deeds_belong_to_the_command_that_did_them() {
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
        let open = |path: &str| Deed::Open(path.to_owned());
        let expected = [("up", open("/data/lock")), ("up", open("/data/early")), ("apiserver", Deed::Connect(2379))];
        assert_eq!(deeds(trace), expected.map(|(command, deed)| (command.to_owned(), deed)));
    }
}
