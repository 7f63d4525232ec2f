//! The state of a shell: what a subshell copies.

use super::syntax::Command;
use super::variables::Variables;
use crate::process::kernel::Pid;
use crate::process::proc::{Outcome, Proc, Stop};
use crate::process::signal::{ExitStatus, Signal};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// The options that `set` changes.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// `-e`
    pub exits_on_error: bool,
    /// `-u`
    pub refuses_unset: bool,
    /// `-x`
    pub traces: bool,
    /// `-f`
    pub without_globs: bool,
    /// `-n`
    pub only_reads: bool,
    /// `-a`
    pub exports_all: bool,
    /// `-C`
    pub keeps_files: bool,
    pub fails_with_pipe: bool,
    pub is_interactive: bool,
}

impl Options {
    /// Returns the switch of a letter.
    pub fn by_letter(&mut self, letter: char) -> Option<&mut bool> {
        Some(match letter {
            'e' => &mut self.exits_on_error,
            'u' => &mut self.refuses_unset,
            'x' => &mut self.traces,
            'f' => &mut self.without_globs,
            'n' => &mut self.only_reads,
            'a' => &mut self.exports_all,
            'C' => &mut self.keeps_files,
            _ => return None,
        })
    }

    /// Returns the switch of a name behind `-o`.
    pub fn by_name(&mut self, name: &str) -> Option<&mut bool> {
        let letter = match name {
            "errexit" => 'e',
            "nounset" => 'u',
            "xtrace" => 'x',
            "noglob" => 'f',
            "noexec" => 'n',
            "allexport" => 'a',
            "noclobber" => 'C',
            "pipefail" => return Some(&mut self.fails_with_pipe),
            _ => return None,
        };
        self.by_letter(letter)
    }

    /// Returns the letters that are on: `$-`.
    pub fn letters(&mut self) -> String {
        let mut letters: String = "eufxnaC".chars().filter(|c| self.by_letter(*c).is_some_and(|on| *on)).collect();
        if self.is_interactive {
            letters.push('i');
        }
        letters
    }
}

#[derive(Clone, Debug, Default)]
pub struct State {
    pub variables: Variables,
    pub functions: BTreeMap<String, Arc<Command>>,
    /// `$0`
    pub name: String,
    /// `$1` and following.
    pub positional: Vec<String>,
    pub options: Options,
    /// Commands by signal; `None` stands for the end of the shell. An empty command ignores the signal.
    pub traps: BTreeMap<Option<Signal>, String>,
    /// `$?`
    pub status: i32,
    /// `$$`: the shell's own number, in its subshells too.
    pub shell_pid: Pid,
    /// `$!`
    pub last_background: Option<Pid>,
    /// Processes in the background that nobody has waited for.
    pub jobs: Vec<Pid>,
    pub finished_jobs: BTreeMap<Pid, ExitStatus>,
    /// True in a child that runs one simple command: a program may take its place.
    pub is_replaceable: bool,
    pub loops: u32,
    pub functions_deep: u32,
    /// Greater than 0 where a failure is expected, as in the condition of an `if`.
    pub tolerates_failure: u32,
    /// The exit code of the last command substitution.
    pub substituted: Option<i32>,
    /// Where `getopts` stands inside of a word.
    pub getopts_at: usize,
}

/// Leaves commands early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    Break(u32),
    Continue(u32),
    Return(i32),
    Exit(i32),
    BrokenPipe,
}

impl From<Stop> for Flow {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::BrokenPipe => Self::BrokenPipe,
            Stop::Exit(code) => Self::Exit(code),
        }
    }
}

/// Returns the outcome of a whole shell.
pub fn outcome(ended: Result<i32, Flow>, status: i32) -> Outcome {
    match ended {
        Ok(code) | Err(Flow::Return(code) | Flow::Exit(code)) => Ok(code),
        Err(Flow::Break(_) | Flow::Continue(_)) => Ok(status),
        Err(Flow::BrokenPipe) => Err(Stop::BrokenPipe),
    }
}

/// A part of the interpreter that may call itself.
pub type Boxed<'a, T> = Pin<Box<dyn Future<Output = Result<T, Flow>> + Send + 'a>>;

/// A shell that runs in a process.
pub struct Shell<'p> {
    pub proc: &'p mut Proc,
    pub state: State,
}

impl Shell<'_> {
    /// Returns the value of a variable or of a special parameter.
    pub fn parameter(&mut self, name: &str) -> Option<String> {
        let state = &mut self.state;
        Some(match name {
            "?" => state.status.to_string(),
            "#" => state.positional.len().to_string(),
            "$" => state.shell_pid.to_string(),
            "!" => state.last_background?.to_string(),
            "-" => state.options.letters(),
            "0" => state.name.clone(),
            "@" | "*" => return (!state.positional.is_empty()).then(|| state.positional.join(" ")),
            "PPID" => self.proc.kernel.entry(self.state.shell_pid, |entry| entry.parent)?.to_string(),
            name => match name.parse::<usize>() {
                Ok(number) => state.positional.get(number.checked_sub(1)?)?.clone(),
                Err(_) => state.variables.get(name)?.to_owned(),
            },
        })
    }

    /// Prints a message as the shell's own.
    pub async fn complain(&mut self, message: &str) -> Result<(), Flow> {
        let name = self.state.name.rsplit('/').next().unwrap_or_default().to_owned();
        let name = if name.is_empty() { "sh".to_owned() } else { name };
        Ok(self.proc.error(&format!("{name}: {message}\n")).await?)
    }

    /// Prints a message and ends the shell.
    pub async fn give_up<T>(&mut self, message: &str) -> Result<T, Flow> {
        self.complain(message).await?;
        Err(Flow::Exit(2))
    }

    /// Sets a variable; a read-only one ends the shell.
    pub async fn assign(&mut self, name: &str, value: String) -> Result<(), Flow> {
        if let Err(message) = self.state.variables.set(name, value) {
            return self.give_up(&message).await;
        }
        if self.state.options.exports_all {
            self.state.variables.mark(name, |variable| variable.is_exported = true);
        }
        Ok(())
    }
}
