//! Starts a shell: `sh -c`, a script, or commands that are typed.

use super::parser;
use super::state::{Flow, Shell, State};
use super::syntax::SyntaxError;
use super::variables::Variables;
use crate::process::descriptor::Descriptor;
use crate::process::kernel::{Kernel, Pid};
use crate::process::proc::{Outcome, Proc, Running};
use crate::process::signal::Signal;
use std::future::poll_fn;
use std::task::{Poll, Waker};

/// The exit code of a command that Ctrl-C has ended.
const EXIT_INTERRUPTED: i32 = 130;

/// Runs `sh` and its like.
pub fn sh<'a>(proc: &'a mut Proc, argv: &'a [String]) -> Running<'a> {
    Box::pin(async move {
        let mut state = State {
            variables: Variables::of(&proc.env),
            name: argv.first().cloned().unwrap_or_default(),
            shell_pid: proc.pid,
            ..State::default()
        };
        let _ = state.variables.set("PWD", proc.user.working_dir.clone());
        let before = proc.kernel.entry(proc.pid, |entry| entry.caught.clone()).unwrap_or_default();
        let mut shell = Shell { proc, state };
        let outcome = shell.invoke(&argv[1.min(argv.len())..]).await;
        let pid = shell.proc.pid;
        shell.proc.kernel.entry(pid, |entry| entry.caught = before);
        outcome
    })
}

impl Shell<'_> {
    async fn invoke(&mut self, words: &[String]) -> Outcome {
        let (mut runs_text, mut reads_input, mut at) = (false, false, 0);
        while let Some(word) = words.get(at).filter(|word| word.len() > 1 && word.starts_with(['-', '+'])) {
            at += 1;
            if word == "--" {
                break;
            }
            let is_on = word.starts_with('-');
            for letter in word.chars().skip(1) {
                let switch = match letter {
                    'c' => &mut runs_text,
                    's' => &mut reads_input,
                    'i' => &mut self.state.options.is_interactive,
                    'l' => continue,
                    'o' => {
                        at += 1;
                        let name = words.get(at - 1).map(String::as_str).unwrap_or_default();
                        match self.state.options.by_name(name) {
                            Some(switch) => switch,
                            None => return self.proc.fail(&format!("sh: illegal option -o {name}"), 2).await,
                        }
                    }
                    letter => match self.state.options.by_letter(letter) {
                        Some(switch) => switch,
                        None => return self.proc.fail(&format!("sh: illegal option -{letter}"), 2).await,
                    },
                };
                *switch = is_on;
            }
        }
        let mut rest = words[at.min(words.len())..].iter().cloned();
        let ended = if runs_text {
            let Some(text) = rest.next() else { return self.proc.fail("sh: -c requires an argument", 2).await };
            if let Some(name) = rest.next() {
                self.state.name = name;
            }
            self.state.positional = rest.collect();
            self.whole_script(&text).await
        } else if let Some(path) = rest.next().filter(|_| !reads_input) {
            let content = self.proc.tree().read(&self.proc.actor(), &path);
            let text = match content {
                Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
                Err(error) => return self.proc.fail(&format!("sh: can't open '{path}': {error}"), 2).await,
            };
            (self.state.name, self.state.positional) = (path, rest.collect());
            self.whole_script(&text).await
        } else {
            self.state.positional = rest.collect();
            let is_terminal = self.proc.descriptors.get(&0).is_some_and(Descriptor::is_terminal);
            self.state.options.is_interactive |= is_terminal;
            self.typed(is_terminal).await
        };
        self.end(ended).await
    }

    /// Runs a script. What stands before a mistake runs, as a shell reads its script piece by piece.
    async fn whole_script(&mut self, text: &str) -> Result<i32, Flow> {
        match parser::parse(text) {
            Ok(list) if self.state.options.only_reads => {
                drop(list);
                Ok(0)
            }
            Ok(list) => self.list(&list).await,
            Err(error) => self.give_up(&error.to_string()).await,
        }
    }

    /// Runs commands that come from the input, each as soon as it is complete.
    async fn typed(&mut self, is_terminal: bool) -> Result<i32, Flow> {
        let mut text = String::new();
        if is_terminal {
            self.proc.kernel.entry(self.proc.pid, |entry| entry.caught.insert(Signal::Interrupt));
        }
        loop {
            if is_terminal {
                let own = if self.proc.user.uid == 0 { "# " } else { "$ " };
                let prompt = if text.is_empty() { self.state.variables.get("PS1").unwrap_or(own) } else { "> " };
                let prompt = prompt.to_owned();
                self.proc.error(&prompt).await?;
            }
            let Some(line) = self.typed_line().await else {
                // Ctrl-C at the prompt: what was typed so far is dropped.
                text.clear();
                continue;
            };
            let is_over = line.is_none();
            text.push_str(&String::from_utf8_lossy(&line.unwrap_or_default()));
            let list = match parser::parse(&text) {
                Ok(list) => list,
                Err(SyntaxError::Incomplete(_)) if !is_over => continue,
                Err(error) if self.state.options.is_interactive => {
                    self.complain(&error.to_string()).await?;
                    self.state.status = 2;
                    text.clear();
                    if is_over {
                        return Ok(2);
                    }
                    continue;
                }
                Err(error) => return self.give_up(&error.to_string()).await,
            };
            text.clear();
            let ended = if is_terminal { self.interruptible(&list).await } else { self.list(&list).await };
            match ended {
                Ok(_) => {}
                // Mistakes do not end a shell that somebody uses.
                Err(Flow::Break(_) | Flow::Continue(_) | Flow::Return(_)) => {}
                Err(flow) => return Err(flow),
            }
            if is_over {
                return Ok(self.state.status);
            }
        }
    }

    /// Reads a line; `Some(None)` at the end of the input, `None` when Ctrl-C arrives first.
    async fn typed_line(&mut self) -> Option<Option<Vec<u8>>> {
        let (kernel, pid) = (self.proc.kernel.clone(), self.proc.pid);
        let mut reading = Box::pin(self.proc.read_line(0));
        poll_fn(|cx| match take_interrupt(&kernel, pid, cx.waker()) {
            true => Poll::Ready(None),
            false => reading.as_mut().poll(cx).map(|line| Some(line.ok().flatten())),
        })
        .await
    }

    /// Runs a list until it ends or Ctrl-C arrives.
    async fn interruptible(&mut self, list: &super::syntax::List) -> Result<i32, Flow> {
        let (descriptors, user, depth) = (self.proc.descriptors.clone(), self.proc.user.clone(), self.proc.depth);
        let (kernel, pid) = (self.proc.kernel.clone(), self.proc.pid);
        let state = self.state.clone();
        let ended = {
            let mut running = self.list(list);
            poll_fn(|cx| {
                if take_interrupt(&kernel, pid, cx.waker()) {
                    return Poll::Ready(None);
                }
                running.as_mut().poll(cx).map(Some)
            })
            .await
        };
        match ended {
            Some(ended) => ended,
            None => {
                (self.proc.descriptors, self.proc.user, self.proc.depth) = (descriptors, user, depth);
                self.state = state;
                for child in kernel.children(pid) {
                    kernel.signal(child, Signal::Interrupt);
                }
                self.state.status = EXIT_INTERRUPTED;
                Ok(EXIT_INTERRUPTED)
            }
        }
    }
}

/// Takes a Ctrl-C that has arrived, or registers for the next signal.
fn take_interrupt(kernel: &Kernel, pid: Pid, waker: &Waker) -> bool {
    kernel.wake_on_signal(pid, waker);
    let taken = kernel.entry(pid, |entry| {
        let before = entry.pending.len();
        entry.pending.retain(|signal| *signal != Signal::Interrupt);
        entry.pending.len() < before
    });
    taken == Some(true)
}
