//! The state that the processes of one container share: the clock, the process table, and the files.

use super::machine::Machine;
use super::network::NetworkStack;
use super::privileges::Privileges;
pub use super::signal::Pid;
use super::signal::{ExitStatus, Signal};
use super::sink::Sink;
use super::streams::TerminalSize;
use file_tree::mounts::FileTree;
use jiff::Timestamp;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Wake, Waker};

/// A process that runs.
pub type Task = Pin<Box<dyn Future<Output = ExitStatus> + Send>>;

/// The first process of a container. The container ends with it.
pub const FIRST: Pid = 1;
/// Processes that may exist at one time.
const MAX_PROCESSES: usize = 512;

/// A row of the process table.
#[derive(Debug)]
pub struct Entry {
    /// The process that started it; 0 for one that was started from outside.
    pub parent: Pid,
    pub command: String,
    pub uid: u32,
    pub started_at: Timestamp,
    pub status: Option<ExitStatus>,
    /// Signals for which the process has a handler, or which it ignores.
    pub caught: BTreeSet<Signal>,
    pub ignored: BTreeSet<Signal>,
    /// Caught signals that the process has not handled yet.
    pub pending: VecDeque<Signal>,
    /// Set once a signal ends the process.
    killed_by: Option<Signal>,
    waiting: Vec<Waker>,
}

impl Entry {
    fn wake_later(&mut self, waker: &Waker) {
        if !self.waiting.iter().any(|waiting| waiting.will_wake(waker)) {
            self.waiting.push(waker.clone());
        }
    }
}

#[derive(Debug)]
pub struct Clock {
    pub now: Timestamp,
    pub timers: BTreeMap<(Timestamp, u64), Waker>,
    pub last_timer: u64,
}

/// The queue of processes that can go on.
#[derive(Debug, Default)]
pub struct Ready(Mutex<VecDeque<Pid>>);

impl Ready {
    pub fn push(&self, pid: Pid) {
        let mut queue = self.0.lock();
        if !queue.contains(&pid) {
            queue.push_back(pid);
        }
    }

    pub fn pop(&self) -> Option<Pid> {
        self.0.lock().pop_front()
    }

    pub fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }
}

/// Puts its process into the queue.
pub struct ProcessWaker {
    pub pid: Pid,
    pub ready: Arc<Ready>,
}

impl Wake for ProcessWaker {
    fn wake(self: Arc<Self>) {
        self.ready.push(self.pid);
    }
}

pub struct Kernel {
    pub hostname: String,
    pub tree: FileTree,
    pub clock: Mutex<Clock>,
    pub ready: Arc<Ready>,
    /// The output of the first process: `/proc/1/fd/1`.
    pub first_output: Mutex<Option<Sink>>,
    pub terminal_size: Mutex<TerminalSize>,
    pub network: NetworkStack,
    pub machine: Mutex<Machine>,
    pub privileges: Mutex<Privileges>,
    /// The first program that a process asked for and that does not exist here.
    pub missing_program: Mutex<Option<String>>,
    table: Mutex<BTreeMap<Pid, Entry>>,
    last_pid: Mutex<Pid>,
    spawned: Mutex<Vec<(Pid, Task)>>,
}

impl Kernel {
    pub fn new(hostname: String, tree: FileTree, now: Timestamp) -> Arc<Self> {
        Arc::new(Self {
            hostname,
            tree,
            clock: Mutex::new(Clock { now, timers: BTreeMap::new(), last_timer: 0 }),
            ready: Arc::default(),
            first_output: Mutex::default(),
            terminal_size: Mutex::default(),
            network: NetworkStack::default(),
            machine: Mutex::default(),
            privileges: Mutex::default(),
            missing_program: Mutex::default(),
            table: Mutex::default(),
            last_pid: Mutex::new(0),
            spawned: Mutex::default(),
        })
    }

    pub fn now(&self) -> Timestamp {
        self.clock.lock().now
    }

    /// Adds a row for a new process; `None` when there are too many.
    pub fn add(&self, parent: Pid, command: String, uid: u32) -> Option<Pid> {
        let now = self.now();
        let mut table = self.table.lock();
        if table.len() >= MAX_PROCESSES {
            return None;
        }
        let mut last = self.last_pid.lock();
        *last += 1;
        let entry = Entry {
            parent,
            command,
            uid,
            started_at: now,
            status: None,
            caught: BTreeSet::new(),
            ignored: table.get(&parent).map(|entry| entry.ignored.clone()).unwrap_or_default(),
            pending: VecDeque::new(),
            killed_by: None,
            waiting: Vec::new(),
        };
        table.insert(*last, entry);
        Some(*last)
    }

    /// Hands a process to the scheduler.
    pub fn run(&self, pid: Pid, task: Task) {
        self.spawned.lock().push((pid, task));
        self.ready.push(pid);
    }

    pub fn take_spawned(&self) -> Vec<(Pid, Task)> {
        std::mem::take(&mut *self.spawned.lock())
    }

    /// Reads or changes a row; `None` when there is no such process.
    pub fn entry<T>(&self, pid: Pid, read: impl FnOnce(&mut Entry) -> T) -> Option<T> {
        self.table.lock().get_mut(&pid).map(read)
    }

    /// Returns the processes that run: number, parent, user, start and command.
    pub fn list(&self) -> Vec<(Pid, Pid, u32, Timestamp, String)> {
        let table = self.table.lock();
        let running = table.iter().filter(|(_, entry)| entry.status.is_none());
        running.map(|(pid, e)| (*pid, e.parent, e.uid, e.started_at, e.command.clone())).collect()
    }

    /// Returns the processes that another one has started and that run.
    pub fn children(&self, pid: Pid) -> Vec<Pid> {
        let table = self.table.lock();
        let children = table.iter().filter(|(_, entry)| entry.parent == pid && entry.status.is_none());
        children.map(|(child, _)| *child).collect()
    }

    /// Returns how a process ended; registers the waker while it runs. The row of a process that has ended is removed.
    pub fn poll_status(&self, pid: Pid, waker: &Waker) -> Option<ExitStatus> {
        let mut table = self.table.lock();
        let Some(entry) = table.get_mut(&pid) else { return Some(ExitStatus::Code(127)) };
        match entry.status {
            Some(status) => {
                table.remove(&pid);
                Some(status)
            }
            None => {
                entry.wake_later(waker);
                None
            }
        }
    }

    /// Registers a waker for the next signal to a process.
    pub fn wake_on_signal(&self, pid: Pid, waker: &Waker) {
        self.entry(pid, |entry| entry.wake_later(waker));
    }

    /// Sends a signal; false when there is no such process.
    pub fn signal(&self, pid: Pid, signal: Signal) -> bool {
        let waiting = {
            let mut table = self.table.lock();
            let Some(entry) = table.get_mut(&pid).filter(|entry| entry.status.is_none()) else { return false };
            let is_caught = entry.caught.contains(&signal);
            // The kernel protects the first process from signals that it does not handle.
            let is_ignored = entry.ignored.contains(&signal) || pid == FIRST && !is_caught;
            if signal == Signal::Kill {
                entry.killed_by = Some(signal);
            } else if is_caught {
                entry.pending.push_back(signal);
            } else if !is_ignored && signal.ends_by_default() {
                entry.killed_by = Some(signal);
            }
            std::mem::take(&mut entry.waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
        true
    }

    /// Takes the next process that a signal ends.
    pub fn take_killed(&self) -> Option<(Pid, Signal)> {
        let mut table = self.table.lock();
        table.iter_mut().find_map(|(pid, entry)| Some((*pid, entry.killed_by.take()?)))
    }

    /// Records the end of a process. With the first one all others end.
    pub fn finish(&self, pid: Pid, status: ExitStatus) {
        self.network.close_all_of(pid);
        let mut waiting = Vec::new();
        {
            let mut table = self.table.lock();
            let parent = table.get(&pid).map_or(0, |entry| entry.parent);
            if let Some(entry) = table.get_mut(&pid) {
                entry.status = Some(status);
                waiting.append(&mut entry.waiting);
            }
            let has_parent = table.get(&parent).is_some_and(|entry| entry.status.is_none());
            // Nobody waits for the children of a process that has ended.
            if parent != 0 && !has_parent {
                table.remove(&pid);
            }
            table.retain(|_, entry| entry.parent != pid || entry.status.is_none());
            if pid == FIRST {
                let others = table.iter_mut().filter(|(other, entry)| **other != FIRST && entry.status.is_none());
                others.for_each(|(_, entry)| entry.killed_by = Some(Signal::Kill));
            }
        }
        waiting.into_iter().for_each(Waker::wake);
    }
}
