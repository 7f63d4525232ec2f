//! Runs the processes of one container up to a virtual time.

use super::descriptor::Descriptor;
use super::kernel::{FIRST, Kernel, Pid, ProcessWaker, Task};
use super::machine::Machine;
use super::network::NetworkStack;
use super::pipe::{WriteEnd, pipe};
use super::privileges::Privileges;
use super::proc::{Launcher, Proc};
use super::signal::{ExitStatus, Signal};
use super::sink::{Output, Sink};
use super::streams::{Streams, TerminalSize};
use file_tree::actor::Actor;
use file_tree::mounts::FileTree;
use file_tree::node::Device;
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// Times that processes may go on within one call of `advance_to`.
pub const MAX_TURNS: u32 = 200_000;
/// Bytes of input that may wait to be read.
const MAX_UNREAD_BYTES: usize = 1 << 20;

/// What the processes of a container see, and who they are.
#[derive(Clone, Debug)]
pub struct ContainerSetup {
    pub hostname: String,
    pub tree: FileTree,
    pub env: BTreeMap<String, String>,
    pub uid: u32,
    pub gid: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
    /// An absolute path.
    pub working_dir: String,
    pub started_at: Timestamp,
}

impl ContainerSetup {
    /// Returns a container of root with these files, and without variables.
    pub fn bare(hostname: &str, tree: FileTree, started_at: Timestamp) -> Self {
        Self {
            hostname: hostname.to_owned(),
            tree,
            env: BTreeMap::new(),
            uid: 0,
            gid: 0,
            groups: Vec::new(),
            working_dir: "/".to_owned(),
            started_at,
        }
    }
}

/// A process that was started from outside.
struct Started {
    input: Option<WriteEnd>,
    sink: Sink,
    end: Option<(Timestamp, ExitStatus)>,
}

/// The processes of one container. The same calls at the same times give the same outputs.
pub struct Processes {
    kernel: Arc<Kernel>,
    user: Actor,
    env: BTreeMap<String, String>,
    launcher: Launcher,
    tasks: BTreeMap<Pid, (Task, Waker)>,
    started: BTreeMap<Pid, Started>,
}

impl Processes {
    pub fn new(setup: ContainerSetup, launcher: Launcher) -> Self {
        let ContainerSetup { hostname, tree, env, uid, gid, groups, working_dir, started_at } = setup;
        let user = Actor { uid, gid, groups, working_dir, ..Actor::root(started_at) };
        let kernel = Kernel::new(hostname, tree, started_at);
        Self { kernel, user, env, launcher, tasks: BTreeMap::new(), started: BTreeMap::new() }
    }

    /// Starts a process; the first one is the container's own. Returns `None` when there are too many.
    pub fn start(&mut self, argv: Vec<String>, streams: Streams) -> Option<Pid> {
        self.start_task(argv.clone(), streams, |mut proc| {
            Box::pin(async move {
                match proc.launch(&argv).await {
                    Ok(code) => ExitStatus::Code(code),
                    Err(stop) => ExitStatus::Code(stop.code()),
                }
            })
        })
    }

    /// Starts a process that does what `run` returns. `argv` is what others see of it.
    pub fn start_task(&mut self, argv: Vec<String>, streams: Streams, run: impl FnOnce(Proc) -> Task) -> Option<Pid> {
        let pid = self.kernel.add(0, argv.join(" "), self.user.uid)?;
        let (reader, writer) = pipe();
        let Streams { has_input, is_terminal, sink } = streams;
        let descriptors = match is_terminal {
            true => {
                let terminal = Descriptor::Terminal(reader, sink.clone());
                [(0, terminal.clone()), (1, terminal.clone()), (2, terminal)]
            }
            false => {
                let input = if has_input { Descriptor::Reader(reader) } else { Descriptor::Device(Device::Null) };
                [(0, input), (1, Descriptor::Sink(sink.clone(), 1)), (2, Descriptor::Sink(sink.clone(), 2))]
            }
        };
        if pid == FIRST {
            *self.kernel.first_output.lock() = Some(sink.clone());
        }
        let kernel = self.kernel.clone();
        let proc = Proc::new(kernel, pid, self.user.clone(), self.env.clone(), descriptors.into(), self.launcher);
        self.kernel.run(pid, run(proc));
        let input = (has_input || is_terminal).then_some(writer);
        self.started.insert(pid, Started { input, sink, end: None });
        Some(pid)
    }

    /// Starts a process that only waits: it stands for a program that is not simulated.
    pub fn start_idle(&mut self, argv: &[String]) -> Option<Pid> {
        let pid = self.kernel.add(0, argv.join(" "), self.user.uid)?;
        self.kernel.run(pid, Box::pin(std::future::pending()));
        Some(pid)
    }

    /// Returns the environment with which processes are started.
    pub fn env(&self) -> &BTreeMap<String, String> {
        &self.env
    }

    /// Returns the user as which processes are started.
    pub fn user(&self) -> &Actor {
        &self.user
    }

    pub fn now(&self) -> Timestamp {
        self.kernel.now()
    }

    pub fn tree(&self) -> &FileTree {
        &self.kernel.tree
    }

    /// Says on which machine the container runs.
    pub fn set_machine(&self, machine: Machine) {
        *self.kernel.machine.lock() = machine;
    }

    /// Says what the container may do.
    pub fn set_privileges(&self, privileges: Privileges) {
        *self.kernel.privileges.lock() = privileges;
    }

    /// Returns the sockets of the container.
    pub fn network(&self) -> &NetworkStack {
        &self.kernel.network
    }

    /// True while a process can go on without any time passing.
    pub fn is_ready(&self) -> bool {
        !self.kernel.ready.is_empty()
    }

    /// Runs until nothing is due at `now`. Returns false when the processes did too much for one call, or wait for an
    /// answer of the network: the next call goes on where this one stopped.
    pub fn advance_to(&mut self, now: Timestamp) -> bool {
        self.advance(now, MAX_TURNS)
    }

    /// Like `advance_to`, with a number of turns.
    pub fn advance(&mut self, now: Timestamp, turns: u32) -> bool {
        let mut turns = turns;
        loop {
            self.settle();
            while !self.kernel.ready.is_empty() {
                if turns == 0 {
                    return false;
                }
                turns -= 1;
                self.turn();
            }
            if self.kernel.network.holds_clock() {
                return false;
            }
            let mut clock = self.kernel.clock.lock();
            let next = clock.timers.first_key_value().map(|(timer, _)| *timer).filter(|(at, _)| *at <= now);
            let Some(timer) = next else {
                clock.now = clock.now.max(now);
                return true;
            };
            clock.now = clock.now.max(timer.0);
            let waker = clock.timers.remove(&timer);
            drop(clock);
            waker.into_iter().for_each(Waker::wake);
        }
    }

    /// Lets the next process in the queue go on.
    fn turn(&mut self) {
        let Some(pid) = self.kernel.ready.pop() else { return };
        if let Some((task, waker)) = self.tasks.get_mut(&pid)
            && let Poll::Ready(status) = task.as_mut().poll(&mut Context::from_waker(waker))
        {
            self.end(pid, status);
        }
        self.settle();
    }

    /// Takes new processes in and ends those that a signal has ended.
    fn settle(&mut self) {
        for (pid, task) in self.kernel.take_spawned() {
            let waker = Waker::from(Arc::new(ProcessWaker { pid, ready: self.kernel.ready.clone() }));
            self.tasks.insert(pid, (task, waker));
        }
        while let Some((pid, signal)) = self.kernel.take_killed() {
            self.end(pid, ExitStatus::Signal(signal));
        }
    }

    fn end(&mut self, pid: Pid, status: ExitStatus) {
        // The process's descriptors are closed before others learn that it has ended.
        self.tasks.remove(&pid);
        if let Some(started) = self.started.get_mut(&pid) {
            started.end = Some((self.kernel.now(), status));
            started.input = None;
        }
        self.kernel.finish(pid, status);
    }

    /// Returns the next time at which something is due: the present one when processes are ready.
    pub fn next_wake(&self) -> Option<Timestamp> {
        let clock = self.kernel.clock.lock();
        if !self.kernel.ready.is_empty() {
            return Some(clock.now);
        }
        clock.timers.first_key_value().map(|((at, _), _)| *at)
    }

    /// Sends a signal; false when there is no such process.
    pub fn signal(&mut self, pid: Pid, signal: Signal) -> bool {
        let is_sent = self.kernel.signal(pid, signal);
        self.settle();
        is_sent
    }

    /// Adds input to a process; false when it takes no more for now.
    pub fn write_input(&self, pid: Pid, bytes: &[u8]) -> bool {
        let Some(input) = self.started.get(&pid).and_then(|started| started.input.as_ref()) else { return true };
        let has_room = input.unread_bytes() < MAX_UNREAD_BYTES;
        if has_room {
            input.push(bytes);
        }
        has_room
    }

    /// True while a process waits for the input of one that was started from outside.
    pub fn waits_for_input(&self, pid: Pid) -> bool {
        self.started.get(&pid).and_then(|started| started.input.as_ref()).is_some_and(WriteEnd::has_waiting_reader)
    }

    /// Returns a program that a process asked for and that the container does not have.
    pub fn missing_program(&self) -> Option<String> {
        self.kernel.missing_program.lock().clone()
    }

    /// True when a process has used a file whose content is not known, since this was asked last.
    pub fn take_used_unknown(&self) -> bool {
        self.kernel.tree.take_used_unknown()
    }

    /// Ends the input of a process.
    pub fn close_input(&mut self, pid: Pid) {
        if let Some(started) = self.started.get_mut(&pid) {
            started.input = None;
        }
    }

    /// Sets the size of the terminal.
    pub fn resize(&self, size: TerminalSize) {
        *self.kernel.terminal_size.lock() = size;
    }

    /// Returns everything that is kept of the output of a process.
    pub fn outputs(&self, pid: Pid) -> Vec<Output> {
        self.started.get(&pid).map(|started| started.sink.outputs()).unwrap_or_default()
    }

    /// Takes the output of a process, so that it may write more.
    pub fn take_outputs(&self, pid: Pid) -> Vec<Output> {
        self.started.get(&pid).map(|started| started.sink.take()).unwrap_or_default()
    }

    /// Returns when and how a process ended; `None` while it runs.
    pub fn end_of(&self, pid: Pid) -> Option<(Timestamp, ExitStatus)> {
        self.started.get(&pid)?.end
    }

    /// Forgets a process that was started from outside; kills it when it still runs.
    pub fn forget(&mut self, pid: Pid) {
        self.signal(pid, Signal::Kill);
        self.started.remove(&pid);
        self.kernel.poll_status(pid, Waker::noop());
    }
}
