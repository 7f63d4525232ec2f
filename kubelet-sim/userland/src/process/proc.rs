//! A process as its program sees it: descriptors, environment, user, working folder, and the calls of the system.

use super::descriptor::{Descriptor, OpenFile};
use super::kernel::{FIRST, Kernel, Pid};
use super::pipe::{BrokenPipe, pipe};
use super::proc_files::{self, Reader};
use super::signal::{ExitStatus, Signal};
use super::sleep::Sleep;
use file_tree::actor::{Actor, OpenOptions};
use file_tree::error::FileError;
use file_tree::mounts::FileTree;
use file_tree::node::Device;
use jiff::Timestamp;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

/// Ends a program before its own end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Nobody reads what the program writes.
    BrokenPipe,
    Exit(i32),
}

impl Stop {
    /// Returns the exit code as a shell shows it.
    pub fn code(self) -> i32 {
        match self {
            Self::BrokenPipe => ExitStatus::Signal(Signal::Pipe).code(),
            Self::Exit(code) => code,
        }
    }
}

pub type Outcome = Result<i32, Stop>;
/// A program that runs in a process.
pub type Running<'a> = Pin<Box<dyn Future<Output = Outcome> + Send + 'a>>;
/// Runs the program that words name.
pub type Launcher = for<'a> fn(&'a mut Proc, &'a [String]) -> Running<'a>;

/// Commands since the last pause that take no time, so that a short script prints at once.
const FREE_COMMANDS: u32 = 100;
/// Virtual time that every further command takes.
const COMMAND_TIME: Duration = Duration::from_millis(1);
/// Commands after which a process that never sleeps becomes half as fast.
const BUSY_COMMANDS: u32 = 10_000;
/// Bytes that are read or written at once.
pub const CHUNK_BYTES: usize = 32 << 10;
/// Levels to which commands of a shell may be nested in one process. A program that another one runs counts for some.
const MAX_DEPTH: u32 = 64;
const DEPTH_OF_LAUNCH: u32 = 4;

pub struct Proc {
    pub pid: Pid,
    pub kernel: Arc<Kernel>,
    /// The user, the working folder and the umask. `now` is set by `actor()`.
    pub user: Actor,
    pub env: BTreeMap<String, String>,
    pub descriptors: BTreeMap<u8, Descriptor>,
    launcher: Launcher,
    busy_commands: u32,
    /// Levels to which commands are nested now: each one takes a part of the thread's stack.
    pub depth: u32,
}

impl Proc {
    pub fn new(
        kernel: Arc<Kernel>,
        pid: Pid,
        user: Actor,
        env: BTreeMap<String, String>,
        descriptors: BTreeMap<u8, Descriptor>,
        launcher: Launcher,
    ) -> Self {
        Self { pid, kernel, user, env, descriptors, launcher, busy_commands: 0, depth: 0 }
    }

    pub fn now(&self) -> Timestamp {
        self.kernel.now()
    }

    pub fn tree(&self) -> &FileTree {
        &self.kernel.tree
    }

    /// Returns the user as the one who performs a file operation now.
    pub fn actor(&self) -> Actor {
        Actor { now: self.now(), ..self.user.clone() }
    }

    /// Waits until the time has passed.
    pub async fn sleep(&mut self, time: Duration) {
        if time < COMMAND_TIME {
            return self.tick().await;
        }
        self.busy_commands = 0;
        let until = self.now().checked_add(time).ok();
        Sleep::new(&self.kernel, until).await;
    }

    /// Lets the time of one command pass, if it takes any. A process that never sleeps becomes slower and slower.
    pub async fn tick(&mut self) {
        self.busy_commands = self.busy_commands.saturating_add(1);
        if self.busy_commands <= FREE_COMMANDS {
            return self.give_way().await;
        }
        let time = COMMAND_TIME * (1 << (self.busy_commands / BUSY_COMMANDS).min(10));
        let until = self.now().checked_add(time).ok();
        Sleep::new(&self.kernel, until).await;
    }

    /// Lets the other processes go on, and ends here when a signal has ended this one.
    async fn give_way(&self) {
        let mut has_waited = false;
        poll_fn(|cx| {
            if std::mem::replace(&mut has_waited, true) {
                return Poll::Ready(());
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }

    /// Goes down some levels; false, and nothing is done, when there are too many.
    pub fn enter(&mut self, levels: u32) -> bool {
        let fits = self.depth + levels <= MAX_DEPTH;
        self.depth += if fits { levels } else { 0 };
        fits
    }

    /// Runs a program in this process.
    pub fn launch<'a>(&'a mut self, argv: &'a [String]) -> Running<'a> {
        Box::pin(async move {
            if !self.enter(DEPTH_OF_LAUNCH) {
                let name = argv.first().map(String::as_str).unwrap_or_default();
                self.error(&format!("{name}: too many programs run each other\n")).await?;
                return Ok(126);
            }
            self.tick().await;
            let launcher = self.launcher;
            let outcome = launcher(self, argv).await;
            self.depth -= DEPTH_OF_LAUNCH;
            outcome
        })
    }

    /// Makes a child with copies of the descriptors; `None` when there are too many processes.
    pub fn fork(&self, command: String) -> Option<Self> {
        let pid = self.kernel.add(self.pid, command, self.user.uid)?;
        Some(Self { pid, depth: 0, ..self.thread() })
    }

    /// Returns a thread of this process: it has the same number, and its own copies of everything else.
    pub fn thread(&self) -> Self {
        Self {
            pid: self.pid,
            kernel: self.kernel.clone(),
            user: self.user.clone(),
            env: self.env.clone(),
            descriptors: self.descriptors.clone(),
            launcher: self.launcher,
            busy_commands: self.busy_commands,
            depth: self.depth,
        }
    }

    /// Starts a program in a child.
    pub fn spawn(&self, argv: Vec<String>) -> Option<Pid> {
        let mut child = self.fork(argv.join(" "))?;
        let pid = child.pid;
        let task = Box::pin(async move { child.finish_with(|proc| Box::pin(proc.launch_owned(argv))).await });
        self.kernel.run(pid, task);
        Some(pid)
    }

    async fn launch_owned(&mut self, argv: Vec<String>) -> Outcome {
        self.launch(&argv).await
    }

    /// Runs something as the whole life of the process.
    pub async fn finish_with(&mut self, run: impl for<'a> FnOnce(&'a mut Self) -> Running<'a>) -> ExitStatus {
        match run(self).await {
            Ok(code) | Err(Stop::Exit(code)) => ExitStatus::Code(code),
            Err(Stop::BrokenPipe) => ExitStatus::Signal(Signal::Pipe),
        }
    }

    /// Waits until a process ends.
    pub async fn wait(&self, pid: Pid) -> ExitStatus {
        poll_fn(|cx| match self.kernel.poll_status(pid, cx.waker()) {
            Some(status) => Poll::Ready(status),
            None => Poll::Pending,
        })
        .await
    }

    /// Waits until a process ends, at most until a time. A caught signal ends the wait too.
    pub async fn wait_until(&self, pid: Pid, until: Option<Timestamp>, wakes_on_signal: bool) -> Option<ExitStatus> {
        let mut sleep = Box::pin(Sleep::new(&self.kernel, until));
        poll_fn(|cx| {
            if wakes_on_signal && self.kernel.entry(self.pid, |entry| !entry.pending.is_empty()) == Some(true) {
                return Poll::Ready(None);
            }
            if let Some(status) = self.kernel.poll_status(pid, cx.waker()) {
                return Poll::Ready(Some(status));
            }
            self.kernel.wake_on_signal(self.pid, cx.waker());
            sleep.as_mut().poll(cx).map(|()| None)
        })
        .await
    }

    /// Opens a file as a descriptor.
    pub fn open(&self, path: &str, options: OpenOptions) -> Result<Descriptor, FileError> {
        if let Some(descriptor) = self.open_process_file(path) {
            return descriptor;
        }
        let place = self.tree().open(&self.actor(), path, options)?;
        match place.node.device() {
            Some(Device::Descriptor(number)) => self.descriptors.get(&number).cloned().ok_or(FileError::BadDescriptor),
            Some(device) => Ok(Descriptor::Device(device)),
            None => Ok(Descriptor::File(Arc::new(OpenFile {
                node: place.node,
                path: place.path,
                offset: Mutex::new(0),
                appends: options.writes && !options.truncates,
                reads: options.reads,
                writes: options.writes,
            }))),
        }
    }

    /// Opens `/proc/self/fd/N`, `/dev/fd/N`, `/proc/1/fd/N`, and the files that tell about processes.
    fn open_process_file(&self, path: &str) -> Option<Result<Descriptor, FileError>> {
        let reader = Reader { pid: self.pid, user: &self.user, env: &self.env };
        if let Some(text) = proc_files::content(&self.kernel, reader, path) {
            // A container that runs ahead of its time knows neither its machine nor its privileges.
            self.tree().mark_used_unknown();
            let (reader, writer) = pipe();
            writer.push(text.as_bytes());
            return Some(Ok(Descriptor::Reader(reader)));
        }
        let own = ["/proc/self/fd/", "/dev/fd/"].into_iter().find_map(|folder| path.strip_prefix(folder));
        if let Some(number) = own {
            let found = number.parse().ok().and_then(|number: u8| self.descriptors.get(&number).cloned());
            return Some(found.ok_or(FileError::NotFound));
        }
        let number: u8 = path.strip_prefix(&format!("/proc/{FIRST}/fd/"))?.parse().ok()?;
        let sink = self.kernel.first_output.lock().clone();
        let is_allowed = self.user.uid == 0 || self.kernel.entry(FIRST, |first| first.uid) == Some(self.user.uid);
        Some(match (sink, number) {
            (Some(sink), 1 | 2) if is_allowed => Ok(Descriptor::Sink(sink, number)),
            (Some(_), 1 | 2) => Err(FileError::PermissionDenied),
            _ => Err(FileError::NotFound),
        })
    }

    /// Reads at most `max` bytes; none at the end of the input.
    pub async fn read(&mut self, number: u8, max: usize) -> Result<Vec<u8>, FileError> {
        self.read_until(number, max, None).await
    }

    /// Reads up to the end of a line, with its line break; `None` at the end of the input.
    pub async fn read_line(&mut self, number: u8) -> Result<Option<Vec<u8>>, FileError> {
        let mut line = Vec::new();
        loop {
            let part = self.read_until(number, CHUNK_BYTES, Some(b'\n')).await?;
            let is_over = part.is_empty() || part.ends_with(b"\n");
            line.extend(part);
            if is_over {
                return Ok((!line.is_empty()).then_some(line));
            }
        }
    }

    async fn read_until(&mut self, number: u8, max: usize, until: Option<u8>) -> Result<Vec<u8>, FileError> {
        match self.descriptors.get(&number) {
            Some(Descriptor::Reader(end) | Descriptor::Terminal(end, _)) => {
                let end = end.clone();
                Ok(poll_fn(|cx| end.poll_read(cx, max, until)).await)
            }
            Some(Descriptor::File(file)) if file.reads => {
                if file.node.is_folder() {
                    return Err(FileError::IsFolder);
                }
                let mut offset = file.offset.lock();
                let mut bytes = file.node.read(*offset, max);
                if let Some(at) = until.and_then(|until| bytes.iter().position(|byte| *byte == until)) {
                    bytes.truncate(at + 1);
                }
                *offset += bytes.len();
                Ok(bytes)
            }
            Some(Descriptor::Device(device)) => {
                let device = *device;
                if !matches!(device, Device::Null) {
                    self.tick().await;
                }
                Ok(device_bytes(device, max.min(CHUNK_BYTES)))
            }
            _ => Err(FileError::BadDescriptor),
        }
    }

    /// Reads to the end of the input, but no more than a limit.
    pub async fn read_all(&mut self, number: u8) -> Result<Vec<u8>, FileError> {
        const LIMIT_BYTES: usize = 64 << 20;
        let mut whole = Vec::new();
        while whole.len() < LIMIT_BYTES {
            let part = self.read(number, CHUNK_BYTES).await?;
            if part.is_empty() {
                break;
            }
            whole.extend(part);
        }
        Ok(whole)
    }

    /// Writes all bytes to a descriptor.
    pub async fn write(&mut self, number: u8, bytes: &[u8]) -> Result<(), Stop> {
        for (turn, chunk) in bytes.chunks(CHUNK_BYTES).enumerate() {
            if turn > 0 {
                self.tick().await;
            }
            let Some(descriptor) = self.descriptors.get(&number).cloned() else { return Err(Stop::Exit(1)) };
            let now = self.now();
            match descriptor {
                Descriptor::Writer(end) => {
                    let mut rest = chunk;
                    while !rest.is_empty() {
                        let written = poll_fn(|cx| end.poll_write(cx, rest)).await;
                        rest = &rest[written.map_err(|BrokenPipe| Stop::BrokenPipe)?..];
                    }
                }
                Descriptor::Sink(sink, number) => poll_fn(|cx| sink.poll_write(cx, number, chunk, now)).await,
                Descriptor::Terminal(_, sink) => poll_fn(|cx| sink.poll_write(cx, 1, chunk, now)).await,
                Descriptor::File(file) if file.writes => {
                    if let Err(error) = file.write(chunk, now) {
                        return Err(self.write_error(number, error).await);
                    }
                }
                Descriptor::Device(_) => {}
                Descriptor::File(_) | Descriptor::Reader(_) => return Err(Stop::Exit(1)),
            }
        }
        Ok(())
    }

    /// Says on standard error that a file could not be written, and returns how the program ends.
    async fn write_error(&mut self, number: u8, error: FileError) -> Stop {
        if number != 2 {
            let command = self.kernel.entry(self.pid, |entry| entry.command.clone()).unwrap_or_default();
            let program = command.split_whitespace().next().unwrap_or_default();
            let program = program.rsplit('/').next().unwrap_or_default();
            let message = format!("{program}: write error: {error}\n");
            // Boxed, since this is a write within a write.
            let _ = Box::pin(self.write(2, message.as_bytes())).await;
        }
        Stop::Exit(1)
    }

    /// Writes to standard output.
    pub async fn print(&mut self, text: &str) -> Result<(), Stop> {
        self.write(1, text.as_bytes()).await
    }

    /// Writes to standard error. Nothing happens when it is closed.
    pub async fn error(&mut self, text: &str) -> Result<(), Stop> {
        match self.write(2, text.as_bytes()).await {
            Err(Stop::BrokenPipe) => Err(Stop::BrokenPipe),
            _ => Ok(()),
        }
    }

    /// Writes a message and returns an exit code, as a program does that gives up.
    pub async fn fail(&mut self, message: &str, code: i32) -> Outcome {
        self.error(&format!("{message}\n")).await?;
        Ok(code)
    }
}

/// Returns bytes of a device.
fn device_bytes(device: Device, length: usize) -> Vec<u8> {
    match device {
        Device::Zero => vec![0; length],
        Device::Random => {
            let mut state = 0x9e37_79b9_7f4a_7c15_u64;
            let next = || {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state.to_le_bytes()[3]
            };
            std::iter::repeat_with(next).take(length).collect()
        }
        Device::Null | Device::Descriptor(_) => Vec::new(),
    }
}
