//! Subshells, pipelines, jobs in the background, and traps.

use super::parser;
use super::state::{Flow, Shell, State, outcome};
use super::syntax::{Command, CommandKind, Item, List};
use crate::process::descriptor::Descriptor;
use crate::process::kernel::Pid;
use crate::process::pipe::pipe;
use crate::process::proc::{CHUNK_BYTES, Outcome, Proc, Stop};
use crate::process::signal::{ExitStatus, Signal};
use file_tree::node::Device;
use std::sync::Arc;

/// Bytes that a command substitution keeps.
const MAX_SUBSTITUTION_BYTES: usize = 4 << 20;
/// Jobs in the background whose end is remembered.
const MAX_FINISHED_JOBS: usize = 100;

/// What a child of the shell runs.
enum Work {
    List(List),
    Command(Arc<Command>),
}

impl Work {
    /// True for one simple command: a program takes the place of the child that runs it.
    fn is_simple(&self) -> bool {
        let command = match self {
            Self::Command(command) => Some(command),
            Self::List(list) => match list.as_slice() {
                [only] if only.rest.is_empty() && !only.is_background => match only.first.commands.as_slice() {
                    [command] if !only.first.is_negated => Some(command),
                    _ => None,
                },
                _ => None,
            },
        };
        command.is_some_and(|command| matches!(command.kind, CommandKind::Simple { .. }))
    }
}

impl Shell<'_> {
    async fn fork(&mut self) -> Result<Proc, Flow> {
        self.proc.tick().await;
        match self.proc.fork("sh".to_owned()) {
            Some(child) => Ok(child),
            None => self.give_up("can't fork: Resource temporarily unavailable").await,
        }
    }

    /// Starts a child that runs a part of the script with a copy of the state.
    fn spawn(&self, child: Proc, work: Work) -> Pid {
        let mut state = self.state.clone();
        state.jobs.clear();
        // Ignored signals stay ignored; other traps belong to the parent.
        state.traps.retain(|_, command| command.is_empty());
        state.is_replaceable = work.is_simple();
        let (pid, kernel) = (child.pid, child.kernel.clone());
        kernel.run(pid, Box::pin(run_child(child, state, work)));
        pid
    }

    pub(super) async fn subshell(&mut self, list: List) -> Result<i32, Flow> {
        let child = self.fork().await?;
        let pid = self.spawn(child, Work::List(list));
        Ok(self.proc.wait(pid).await.code())
    }

    /// Runs commands that are joined by pipes; each one is a process.
    pub(super) async fn pipeline(&mut self, commands: &[Arc<Command>]) -> Result<i32, Flow> {
        let (mut pids, mut input) = (Vec::new(), None);
        for (number, command) in commands.iter().enumerate() {
            let mut child = self.fork().await?;
            if let Some(input) = input.take() {
                child.descriptors.insert(0, Descriptor::Reader(input));
            }
            if number + 1 < commands.len() {
                let (reader, writer) = pipe();
                input = Some(reader);
                child.descriptors.insert(1, Descriptor::Writer(writer));
            }
            pids.push(self.spawn(child, Work::Command(command.clone())));
        }
        let (mut last, mut failed) = (0, 0);
        for pid in pids {
            last = self.proc.wait(pid).await.code();
            failed = if last == 0 { failed } else { last };
        }
        Ok(if self.state.options.fails_with_pipe { failed } else { last })
    }

    /// Runs commands and returns what they print, without the line breaks at the end.
    pub(super) async fn substitute(&mut self, list: List) -> Result<String, Flow> {
        let mut child = self.fork().await?;
        let (reader, writer) = pipe();
        child.descriptors.insert(1, Descriptor::Writer(writer));
        let pid = self.spawn(child, Work::List(list));
        let mut printed = Vec::new();
        // The pipe is read through a descriptor that no program uses.
        const OWN: u8 = 200;
        self.proc.descriptors.insert(OWN, Descriptor::Reader(reader));
        while printed.len() < MAX_SUBSTITUTION_BYTES {
            match self.proc.read(OWN, CHUNK_BYTES).await {
                Ok(part) if !part.is_empty() => printed.extend(part),
                _ => break,
            }
        }
        self.proc.descriptors.remove(&OWN);
        let code = self.proc.wait(pid).await.code();
        self.state.substituted = Some(code);
        self.state.status = code;
        let mut text = String::from_utf8_lossy(&printed).replace('\0', "");
        text.truncate(text.trim_end_matches('\n').len());
        Ok(text)
    }

    pub(super) async fn start_job(&mut self, item: &Item) -> Result<i32, Flow> {
        let mut child = self.fork().await?;
        if !self.state.options.is_interactive {
            child.descriptors.insert(0, Descriptor::Device(Device::Null));
        }
        let item = Item { is_background: false, ..item.clone() };
        let pid = self.spawn(child, Work::List(Arc::new(vec![item])));
        self.state.last_background = Some(pid);
        self.forget_finished();
        self.state.jobs.push(pid);
        self.state.status = 0;
        Ok(0)
    }

    /// Takes the jobs that have ended out of the process table.
    fn forget_finished(&mut self) {
        let kernel = self.proc.kernel.clone();
        let finished = &mut self.state.finished_jobs;
        self.state.jobs.retain(|pid| {
            let has_ended = kernel.entry(*pid, |entry| entry.status.is_some()).unwrap_or(true);
            if has_ended && let Some(status) = kernel.poll_status(*pid, std::task::Waker::noop()) {
                finished.insert(*pid, status);
            }
            !has_ended
        });
        while finished.len() > MAX_FINISHED_JOBS {
            finished.pop_first();
        }
    }

    /// Waits for a job, or until a signal with a trap arrives. Returns the exit code.
    pub(super) async fn wait_for(&mut self, pid: Pid) -> Result<i32, Flow> {
        self.forget_finished();
        if let Some(status) = self.state.finished_jobs.remove(&pid) {
            return Ok(status.code());
        }
        if !self.state.jobs.contains(&pid) {
            return Ok(127);
        }
        match self.proc.wait_until(pid, None, true).await {
            Some(status) => {
                self.state.jobs.retain(|job| *job != pid);
                Ok(status.code())
            }
            None => {
                let signal = self.proc.kernel.entry(self.proc.pid, |entry| entry.pending.front().copied()).flatten();
                Ok(128 + signal.map_or(0, Signal::number))
            }
        }
    }

    /// Runs the commands of the signals that have arrived.
    pub(super) async fn run_traps(&mut self) -> Result<(), Flow> {
        loop {
            let next = self.proc.kernel.entry(self.proc.pid, |entry| entry.pending.pop_front()).flatten();
            let Some(signal) = next else { return Ok(()) };
            let Some(command) = self.state.traps.get(&Some(signal)).cloned() else { continue };
            let status = self.state.status;
            self.script(&command).await?;
            self.state.status = status;
        }
    }

    /// Runs a text as commands of this shell.
    pub(super) async fn script(&mut self, text: &str) -> Result<i32, Flow> {
        match parser::parse(text) {
            Ok(list) => self.list(&list).await,
            Err(error) => self.give_up(&error.to_string()).await,
        }
    }

    /// Ends the shell: runs the trap of its end.
    pub(super) async fn end(&mut self, ended: Result<i32, Flow>) -> Outcome {
        let ended = outcome(ended, self.state.status);
        let Some(command) = self.state.traps.remove(&None) else { return ended };
        let Ok(code) = ended else { return ended };
        self.state.status = code;
        match self.script(&command).await {
            Err(Flow::Exit(code)) => Ok(code),
            Err(Flow::BrokenPipe) => Err(Stop::BrokenPipe),
            _ => Ok(code),
        }
    }
}

async fn run_child(mut child: Proc, state: State, work: Work) -> ExitStatus {
    let mut shell = Shell { proc: &mut child, state };
    let ended = match &work {
        Work::List(list) => shell.list(list).await,
        Work::Command(command) => shell.command(command).await,
    };
    match shell.end(ended).await {
        Ok(code) | Err(Stop::Exit(code)) => ExitStatus::Code(code),
        Err(Stop::BrokenPipe) => ExitStatus::Signal(Signal::Pipe),
    }
}
