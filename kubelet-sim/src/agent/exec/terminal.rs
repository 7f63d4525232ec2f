//! Runs a command for a client: performs the effects that the shell lists, until the command ends or the client goes.
//!
//! Corresponds to exec in pkg/kubelet/kuberuntime, and to the line discipline of a terminal.

use super::channels::{Channel, Input, Reader, Writer};
use super::options::{StreamOptions, TerminalSize};
use crate::shell::session::{ContainerContext, Session, ShellEffect};
use component_base::env::Env;
use futures::future::BoxFuture;
use std::time::Duration;

/// The longest line of input; the rest of a longer one is dropped.
const MAX_LINE_BYTES: usize = 64 << 10;
/// Ctrl-C: interrupts what runs in a terminal.
const INTERRUPT: u8 = 3;
/// Ctrl-D: ends the input.
const END_OF_INPUT: u8 = 4;
const EXIT_INTERRUPTED: i32 = 130;

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
    /// True once the input has ended.
    ended: bool,
    /// The size that the client sent last.
    size: Option<TerminalSize>,
}

impl<'a> Terminal<'a> {
    pub fn new(env: &'a Env, options: StreamOptions, reader: &'a mut Reader, writer: &'a mut Writer) -> Self {
        Self { env, options, reader, writer, typed: Vec::new(), ended: !options.stdin, size: None }
    }

    /// Runs a program to its end; returns its exit code.
    pub async fn run(&mut self, context: &ContainerContext, argv: &[String]) -> Result<i32, ClientGone> {
        let mut session = Session::new(context).with_terminal(self.terminal());
        let outcome = session.start(argv, self.env.wall());
        let code = self.perform(&mut session, outcome.effects).await?;
        Ok(code.unwrap_or(outcome.exit_code))
    }

    /// Returns rows and columns, (0, 0) until the client sends them; `None` without a TTY.
    fn terminal(&self) -> Option<(u16, u16)> {
        self.options.tty.then(|| self.size.map_or((0, 0), |size| (size.rows, size.columns)))
    }

    /// Performs effects. Returns an exit code when one of them has its own: a shell, or an interruption.
    async fn perform(
        &mut self,
        session: &mut Session<'_>,
        effects: Vec<ShellEffect>,
    ) -> Result<Option<i32>, ClientGone> {
        let mut code = None;
        for effect in effects {
            match effect {
                ShellEffect::Out(text) => self.print(Channel::Stdout, &text).await?,
                ShellEffect::Err(text) => self.print(Channel::Stderr, &text).await?,
                ShellEffect::Sleep(time) => {
                    if self.is_interrupted_within(time).await? {
                        return Ok(Some(EXIT_INTERRUPTED));
                    }
                }
                ShellEffect::Copy => {
                    while let Some(line) = self.line().await? {
                        self.print(Channel::Stdout, &line).await?;
                    }
                }
                ShellEffect::Drain => while self.line().await?.is_some() {},
                ShellEffect::Shell => code = Some(self.shell(session).await?),
            }
        }
        Ok(code)
    }

    /// Runs an interactive shell. The future is boxed because a shell may start another.
    fn shell<'b, 's: 'b>(&'b mut self, session: &'b mut Session<'s>) -> BoxFuture<'b, Result<i32, ClientGone>> {
        Box::pin(async move {
            let mut last = 0;
            loop {
                if self.options.tty {
                    self.print(Channel::Stdout, "# ").await?;
                }
                let Some(line) = self.line().await? else { return Ok(last) };
                session.terminal = self.terminal();
                let outcome = session.line(line.trim_end_matches('\n'), self.env.wall());
                let code = self.perform(session, outcome.effects).await?;
                last = code.unwrap_or(outcome.exit_code);
                if outcome.exited {
                    return Ok(last);
                }
            }
        })
    }

    async fn print(&mut self, channel: Channel, text: &str) -> Result<(), ClientGone> {
        // A terminal has one output, and needs a carriage return before every line feed.
        let (channel, text) = match self.options.tty {
            true => (Channel::Stdout, text.replace('\n', "\r\n")),
            false => (channel, text.to_owned()),
        };
        let is_wanted = if channel == Channel::Stderr { self.options.stderr } else { self.options.stdout };
        if !is_wanted || text.is_empty() || self.writer.write(channel, text.as_bytes()).await {
            return Ok(());
        }
        Err(ClientGone)
    }

    /// Reads the next line with its line break, or the rest before the end of the input.
    async fn line(&mut self) -> Result<Option<String>, ClientGone> {
        let mut line = Vec::new();
        loop {
            let typed = std::mem::take(&mut self.typed);
            for (at, byte) in typed.iter().copied().enumerate() {
                let rest = || typed[at + 1..].to_vec();
                match byte {
                    b'\r' | b'\n' if self.options.tty => {
                        self.print(Channel::Stdout, "\n").await?;
                        self.typed = rest();
                        line.push(b'\n');
                        return Ok(Some(String::from_utf8_lossy(&line).into_owned()));
                    }
                    b'\n' => {
                        self.typed = rest();
                        line.push(byte);
                        return Ok(Some(String::from_utf8_lossy(&line).into_owned()));
                    }
                    INTERRUPT if self.options.tty => {
                        self.print(Channel::Stdout, "^C\n").await?;
                        self.typed = rest();
                        return Ok(Some("\n".to_owned()));
                    }
                    END_OF_INPUT if self.options.tty && line.is_empty() => {
                        self.typed = rest();
                        return Ok(None);
                    }
                    8 | 127 if self.options.tty => {
                        let erased = if line.pop().is_some() { "\u{8} \u{8}" } else { "" };
                        self.print(Channel::Stdout, erased).await?;
                    }
                    byte if line.len() < MAX_LINE_BYTES => {
                        line.push(byte);
                        if self.options.tty && !byte.is_ascii_control() {
                            self.writer.write(Channel::Stdout, &[byte]).await;
                        }
                    }
                    _ => {}
                }
            }
            if self.ended {
                return Ok((!line.is_empty()).then(|| String::from_utf8_lossy(&line).into_owned()));
            }
            self.read().await?;
        }
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

    /// Waits for `time` and reads meanwhile, to notice Ctrl-C and a client that disconnects.
    async fn is_interrupted_within(&mut self, time: Duration) -> Result<bool, ClientGone> {
        let env = self.env.clone();
        let deadline = env.now().checked_add(time);
        loop {
            if self.options.tty && self.typed.contains(&INTERRUPT) {
                self.typed.clear();
                self.print(Channel::Stdout, "^C\n").await?;
                return Ok(true);
            }
            let over = async {
                match deadline {
                    Some(deadline) => env.sleep_until(deadline).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = over => return Ok(false),
                read = self.read(), if self.typed.len() < MAX_LINE_BYTES => read?,
            }
        }
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
        self.print(Channel::Stdout, &String::from_utf8_lossy(&typed).replace('\r', "\n")).await
    }

    pub async fn show(&mut self, text: &str) -> Result<(), ClientGone> {
        self.print(Channel::Stdout, text).await
    }
}
