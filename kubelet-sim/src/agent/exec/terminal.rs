//! Runs a command for a client: passes input and output on, until the command ends or the client goes.
//!
//! Corresponds to exec in pkg/kubelet/kuberuntime, and to the line discipline of a terminal.

use super::channels::{Channel, Input, Reader, Writer};
use super::options::{StreamOptions, TerminalSize};
use crate::agent::container::running::Running;
use component_base::env::Env;
use file_tree::actor::Actor;
use std::time::Duration;
use userland::launch::start_error;
use userland::process::kernel::Pid;
use userland::process::signal::Signal;
use userland::process::streams::{Streams, TerminalSize as TerminalRows};

/// The longest line of input; the rest of a longer one is dropped.
const MAX_LINE_BYTES: usize = 64 << 10;
/// Ctrl-C: interrupts what runs in a terminal.
const INTERRUPT: u8 = 3;
/// Ctrl-D: ends the input.
const END_OF_INPUT: u8 = 4;
/// The exit code for a program that the container does not have.
const NOT_FOUND: i32 = 127;
/// The shortest time until processes are looked at again; and the longest, when nothing is due in theirs.
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The client has disconnected.
#[derive(Debug)]
pub struct ClientGone;

/// A command's connection to its client; a real terminal only when the options ask for a TTY.
pub struct Terminal<'a> {
    pub env: &'a Env,
    pub options: StreamOptions,
    pub reader: &'a mut Reader,
    pub writer: &'a mut Writer,
    /// Input that no program has read yet.
    typed: Vec<u8>,
    /// The line that is being typed into a terminal.
    line: Vec<u8>,
    /// True once the input has ended.
    ended: bool,
    /// The size that the client sent last.
    size: Option<TerminalSize>,
}

impl<'a> Terminal<'a> {
    pub fn new(env: &'a Env, options: StreamOptions, reader: &'a mut Reader, writer: &'a mut Writer) -> Self {
        Self { env, options, reader, writer, typed: Vec::new(), line: Vec::new(), ended: !options.stdin, size: None }
    }

    /// Runs a program to its end; returns its exit code.
    pub async fn run(&mut self, processes: &Running, argv: &[String]) -> Result<i32, ClientGone> {
        let now = self.env.wall();
        processes.advance().await;
        let started = {
            let mut processes = processes.lock();
            let name = argv.first().map(String::as_str).unwrap_or_default();
            let user = Actor { now, ..processes.user().clone() };
            match start_error(processes.tree(), &user, processes.env(), name) {
                Some(why) => Err(why),
                None => {
                    let streams = Streams::of_client(self.options.stdin, self.options.tty);
                    processes.start(argv.to_vec(), streams).ok_or("too many processes".to_owned())
                }
            }
        };
        let pid = match started {
            Ok(pid) => pid,
            Err(why) => {
                let text = format!(
                    "OCI runtime exec failed: exec failed: unable to start container process: {why}: unknown\n"
                );
                self.print(Channel::Stderr, text.as_bytes()).await?;
                return Ok(NOT_FOUND);
            }
        };
        let ended = self.drive(processes, pid).await;
        processes.lock().forget(pid);
        ended
    }

    /// Passes input and output on until the process ends.
    async fn drive(&mut self, processes: &Running, pid: Pid) -> Result<i32, ClientGone> {
        let env = self.env.clone();
        loop {
            let now = env.wall();
            self.pass_input(processes, pid).await?;
            if let Some(size) = self.size {
                processes.lock().resize(TerminalRows { rows: size.rows, columns: size.columns });
            }
            processes.advance().await;
            let next = processes.next_wake();
            let (outputs, end, has_room) = {
                let processes = processes.lock();
                (processes.take_outputs(pid), processes.end_of(pid), processes.write_input(pid, &[]))
            };
            for output in &outputs {
                let channel = if output.descriptor == 2 { Channel::Stderr } else { Channel::Stdout };
                self.print(channel, &output.bytes).await?;
            }
            match end {
                Some((_, status)) => return Ok(status.code()),
                // A process that waited for room may go on.
                None if !outputs.is_empty() => continue,
                None => {}
            }
            let due = next.map(|at| Duration::try_from(at.duration_since(now)).unwrap_or_default().max(SHORTEST_PAUSE));
            let over = async {
                match due {
                    Some(due) => env.sleep(due).await,
                    None => env.sleep(LONGEST_PAUSE).await,
                }
            };
            tokio::select! {
                biased;
                () = over => {}
                read = self.read(), if has_room => read?,
            }
        }
    }

    /// Gives what the client has sent to the process: as it is, or line by line from a terminal.
    async fn pass_input(&mut self, processes: &Running, pid: Pid) -> Result<(), ClientGone> {
        let typed = std::mem::take(&mut self.typed);
        if !self.options.tty {
            processes.lock().write_input(pid, &typed);
        } else {
            for byte in typed {
                match byte {
                    b'\r' | b'\n' => {
                        self.print(Channel::Stdout, b"\n").await?;
                        let mut line = std::mem::take(&mut self.line);
                        line.push(b'\n');
                        processes.lock().write_input(pid, &line);
                    }
                    INTERRUPT => {
                        self.line.clear();
                        self.print(Channel::Stdout, b"^C\n").await?;
                        processes.lock().signal(pid, Signal::Interrupt);
                    }
                    END_OF_INPUT if self.line.is_empty() => processes.lock().close_input(pid),
                    8 | 127 => {
                        let erased: &[u8] = if self.line.pop().is_some() { b"\x08 \x08" } else { b"" };
                        self.print(Channel::Stdout, erased).await?;
                    }
                    byte if self.line.len() < MAX_LINE_BYTES => {
                        self.line.push(byte);
                        if !byte.is_ascii_control() {
                            self.writer.write(Channel::Stdout, &[byte]).await;
                        }
                    }
                    _ => {}
                }
            }
        }
        if self.ended && self.options.stdin && !self.options.tty {
            processes.lock().close_input(pid);
        }
        Ok(())
    }

    async fn print(&mut self, channel: Channel, bytes: &[u8]) -> Result<(), ClientGone> {
        let mut with_returns = Vec::new();
        // A terminal has one output, and needs a carriage return before every line feed.
        let (channel, bytes) = match self.options.tty {
            true => {
                let parts = bytes.split_inclusive(|byte| *byte == b'\n');
                parts.for_each(|part| match part.strip_suffix(b"\n") {
                    Some(line) => with_returns.extend([line, b"\r\n"].concat()),
                    None => with_returns.extend(part),
                });
                (Channel::Stdout, with_returns.as_slice())
            }
            false => (channel, bytes),
        };
        let is_wanted = if channel == Channel::Stderr { self.options.stderr } else { self.options.stdout };
        if !is_wanted || bytes.is_empty() || self.writer.write(channel, bytes).await {
            return Ok(());
        }
        Err(ClientGone)
    }

    async fn read(&mut self) -> Result<(), ClientGone> {
        let end = self.env.shutdown().clone();
        let input = tokio::select! {
            biased;
            () = end.cancelled() => Input::Gone,
            input = self.reader.next() => input,
        };
        match input {
            Input::Bytes(bytes) => self.typed.extend_from_slice(&bytes),
            Input::Resize(size) => self.size = Some(size),
            Input::End => self.ended = true,
            Input::Gone => return Err(ClientGone),
        }
        Ok(())
    }

    /// Echoes what is typed while a log is shown instead of a command. Waits for ever once the input has ended. It may
    /// be dropped while it waits, and nothing is lost.
    pub async fn echo(&mut self) -> Result<(), ClientGone> {
        if self.ended && !self.options.stdin {
            self.read().await?;
        }
        if self.typed.is_empty() && !self.ended {
            self.read().await?;
        }
        if self.typed.is_empty() && self.ended {
            return std::future::pending().await;
        }
        let typed = std::mem::take(&mut self.typed);
        let text = String::from_utf8_lossy(&typed).replace('\r', "\n");
        self.print(Channel::Stdout, text.as_bytes()).await
    }

    pub async fn show(&mut self, text: &str) -> Result<(), ClientGone> {
        self.print(Channel::Stdout, text.as_bytes()).await
    }
}
