//! `ProcPoller`: polls `/proc` for the open files and connections of every process.
//!
//! It complements [`crate::strace`]: it needs no tracer and covers every process of the machine, but misses a file that
//! is opened and closed between two polls.

use crate::strace::Access;
use crate::wait;
use component_base::env::Env;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};

/// Greatest number of polls: half an hour with the pauses, longer than any test.
const MAX_POLLS: usize = 18_000;

/// Observed accesses, each with the command of its process.
pub type Accesses = BTreeSet<(String, Access)>;

/// A thread that polls until it is stopped.
#[derive(Debug)]
pub struct ProcPoller {
    stopped: Arc<AtomicBool>,
    observed: Receiver<Accesses>,
}

impl ProcPoller {
    /// Starts polling. Returns `None` if there is no `/proc`.
    pub fn start() -> Option<Self> {
        if !Path::new("/proc/self/fd").exists() {
            return None;
        }
        let stopped = Arc::new(AtomicBool::new(false));
        let (result, observed) = sync_channel(1);
        let should_stop = stopped.clone();
        let poll_on = move || {
            let mut accesses = Accesses::new();
            for _ in 0..MAX_POLLS {
                let is_last = should_stop.load(Ordering::Acquire);
                accesses.extend(poll());
                if is_last {
                    let _ = result.send(accesses);
                    return;
                }
                wait::pause();
            }
        };
        Env::system().thread("proc-poller", poll_on).expect("the system has room for a thread");
        Some(Self { stopped, observed })
    }

    /// Polls once more, and returns everything observed since the start.
    pub fn stop(&self) -> Accesses {
        self.stopped.store(true, Ordering::Release);
        self.observed.recv().expect("no test outlasts the polls")
    }
}

impl Drop for ProcPoller {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Release);
    }
}

/// Returns the files and connections that are open at this moment. Skips processes of other users, and processes that
/// end meanwhile.
pub fn poll() -> Accesses {
    let mut accesses = Accesses::new();
    let Ok(processes) = fs::read_dir("/proc") else { return accesses };
    for process in processes.flatten().map(|entry| entry.path()) {
        let Ok(descriptors) = fs::read_dir(process.join("fd")) else { continue };
        let links: Vec<_> = descriptors.flatten().filter_map(|entry| fs::read_link(entry.path()).ok()).collect();
        let Some(command) = fs::read(process.join("cmdline")).ok().and_then(|line| command(&line)) else { continue };
        let tables = ["net/tcp", "net/tcp6"].map(|name| fs::read_to_string(process.join(name)).unwrap_or_default());
        let ports: BTreeMap<&str, u16> = tables.iter().flat_map(|table| table.lines().filter_map(peer)).collect();
        for link in links {
            let link = link.to_string_lossy();
            let access = match link.strip_prefix("socket:[").and_then(|rest| rest.strip_suffix(']')) {
                Some(inode) => ports.get(inode).copied().map(Access::Connect),
                None => link.starts_with('/').then(|| Access::Open(link.into_owned())),
            };
            accesses.extend(access.map(|access| (command.clone(), access)));
        }
    }
    accesses
}

/// Returns the sub-command in a command line, or the program's name if there is no sub-command.
fn command(line: &[u8]) -> Option<String> {
    let line = String::from_utf8_lossy(line);
    let mut words = line.split('\0').filter(|word| !word.is_empty());
    let program = words.next()?;
    let command = words.next().filter(|word| !word.starts_with('-'));
    Some(command.unwrap_or_else(|| program.rsplit('/').next().unwrap_or(program)).to_owned())
}

/// Returns a socket's inode and its remote port from a line of `/proc/net/tcp`; `None` if the socket only listens.
fn peer(line: &str) -> Option<(&str, u16)> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let port = u16::from_str_radix(fields.get(2)?.rsplit_once(':')?.1, 16).ok()?;
    Some((*fields.get(9)?, port)).filter(|(_, port)| *port != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_known_by_the_port_at_its_other_end() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:094B 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 31 1 0 100 0 0 10 0
   1: 0100007F:D2F0 0100007F:094B 01 00000000:00000000 00:00000000 00000000     0        0 32 1 0 20 4 30 10 -1
";
        assert_eq!(table.lines().filter_map(peer).collect::<Vec<_>>(), [("32", 2379)]);
    }

    #[test]
    fn a_process_is_known_by_its_command() {
        let cases = [
            ("/bin/orrery\0scheduler\0--x\0", Some("scheduler")),
            ("/usr/bin/etcd\0--name=m0\0", Some("etcd")),
            ("sh\0", Some("sh")),
            ("", None),
        ];
        for (line, expected) in cases {
            assert_eq!(command(line.as_bytes()).as_deref(), expected, "{line:?}");
        }
    }
}
