//! A command as it runs: what the pure shell says is printed, slept and read, until it ends or the client goes.
//!
//! Corresponds to pkg/kubelet/kuberuntime's exec and to the line discipline of a terminal.

use super::channels::{Channel, Input, Reader, Writer};
use super::options::{StreamOptions, TerminalSize};
use crate::shell::session::{ContainerContext, Effect, Session};
use component_base::env::Env;
use futures::future::BoxFuture;
use std::time::Duration;

/// A line that is longer is cut.
const MAX_LINE_BYTES: usize = 64 << 10;
/// Ends what runs in a terminal.
const INTERRUPT: u8 = 3;
const END_OF_INPUT: u8 = 4;
const EXIT_INTERRUPTED: i32 = 130;

/// The client is not there any more.
#[derive(Debug)]
pub struct ClientGone;

pub struct Terminal<'a> {
    pub env: &'a Env,
    pub options: StreamOptions,
    pub reader: &'a mut Reader,
    pub writer: &'a mut Writer,
    /// Typed, and read by nobody yet.
    typed: Vec<u8>,
    ended: bool,
    /// What the client has said of it.
    size: Option<TerminalSize>,
}

impl<'a> Terminal<'a> {
    pub fn new(env: &'a Env, options: StreamOptions, reader: &'a mut Reader, writer: &'a mut Writer) -> Self {
        Self { env, options, reader, writer, typed: Vec::new(), ended: !options.stdin, size: None }
    }

    /// Runs a program to its end; answers its exit code.
    pub async fn run(&mut self, context: &ContainerContext, argv: &[String]) -> Result<i32, ClientGone> {
        let mut session = Session::new(context).with_terminal(self.terminal());
        let outcome = session.start(argv, self.env.wall());
        let code = self.perform(&mut session, outcome.effects).await?;
        Ok(code.unwrap_or(outcome.exit_code))
    }

    /// Rows and columns, where there is a terminal; none of either until the client has told.
    fn terminal(&self) -> Option<(u16, u16)> {
        self.options.tty.then(|| self.size.map_or((0, 0), |size| (size.rows, size.columns)))
    }

    /// Carries acts out. An exit code where one of them has its own: a shell, or an interruption.
    async fn perform(&mut self, session: &mut Session<'_>, effects: Vec<Effect>) -> Result<Option<i32>, ClientGone> {
        let mut code = None;
        for effect in effects {
            match effect {
                Effect::Out(text) => self.print(Channel::Stdout, &text).await?,
                Effect::Err(text) => self.print(Channel::Stderr, &text).await?,
                Effect::Sleep(time) => {
                    if self.is_interrupted_within(time).await? {
                        return Ok(Some(EXIT_INTERRUPTED));
                    }
                }
                Effect::Copy => {
                    while let Some(line) = self.line().await? {
                        self.print(Channel::Stdout, &line).await?;
                    }
                }
                Effect::Drain => while self.line().await?.is_some() {},
                Effect::Shell => code = Some(self.shell(session).await?),
            }
        }
        Ok(code)
    }

    /// A shell may be started from a shell: hence the box.
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
        // A terminal has one output, and wants to be told of both halves of a line's end.
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

    /// The next line with its end, or what is left before the end of the input.
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

    /// Waits, and reads meanwhile: for the one who goes away, and for Ctrl-C.
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

    /// Where a log is shown instead of a command: what is typed comes back. Waits for ever once nothing more comes; may be
    /// dropped while it waits, and nothing is lost.
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
