//! `Embedded`: the default engine, durable on one disk, without any set-up.
//!
//! A write is decided at once against the head, which includes writes that are not durable yet, and waits in the
//! queue. The writer thread takes all writes that arrived during its previous sync and makes them durable in one
//! commit. Only then it publishes them: entries, watches, answers. Reads never touch the disk.
//!
//! ```text
//!   write ──decide──> queue + overlay ──commit──> disk ──publish──> Mvcc, watches, answer
//!                     (the head)       (1 sync)             (what readers see)
//! ```
//!
//! In simulation there is no thread: the caller commits each write.

mod directory;
mod disk;
mod deferred_writes;
mod space;
#[cfg(test)]
mod tests;

use super::expiry::{self, Expiry};
use super::mvcc::Mvcc;
use super::watchers::Watchers;
use super::{Entry, Error, Event, Key, Outcome, Range, RangeRequest, Read, Storage, Watch, Write, keep_from_ms};
use async_trait::async_trait;
use component_base::claim::ClaimError;
use component_base::env::Env;
use component_base::panics::caught;
use deferred_writes::DeferredWrites;
use directory::Directory;
use disk::{Disk, DiskError, DiskWrite, Loaded};
use parking_lot::{Condvar, Mutex};
use redb::StorageBackend;
use redb::backends::FileBackend;
use space::Space;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::{Notify, Semaphore, oneshot};
use tokio_util::sync::CancellationToken;

/// Largest number of writes that wait for the disk. Further writes wait in order before they are decided.
const QUEUED_WRITES: usize = 4096;

/// The reasons for which a store cannot be opened. Each prints as one line, and nothing has been overwritten.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(transparent)]
    Claim(#[from] ClaimError),
    #[error("{}: damaged: {reason}", path.display())]
    Damaged { path: PathBuf, reason: String },
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

/// The engine. Reads are answered from memory; see the head of this file for the path of a write.
#[derive(Debug)]
pub struct Embedded {
    env: Env,
    state: Mutex<State>,
    /// The queue is no longer empty, or the store is closing.
    work: Condvar,
    /// Locked during a commit; None once closed.
    disk: Mutex<Option<Device>>,
    /// One permit for each write that may be in the queue.
    turns: Semaphore,
    space: Space,
    /// Notified when a key gets an earlier deadline than the one that the expiry task waits for.
    earlier_deadline: Notify,
    /// The engine has stopped for good.
    ended: CancellationToken,
    /// A panic left the database in an unknown state.
    has_panicked: AtomicBool,
    /// None when the store is not a file.
    data_path: Option<PathBuf>,
    /// Files and locks have been given up.
    released: CancellationToken,
}

/// The disk, and the lock that keeps other processes from it. Fields drop in this order.
#[derive(Debug)]
struct Device {
    disk: Disk,
    directory: Option<Directory>,
}

#[derive(Debug)]
struct State {
    /// The durable state: all that readers see.
    store: Mvcc,
    watchers: Watchers,
    expiry: Expiry,
    /// Keys with writes that are not durable yet: the entry after the last of them, and its revision.
    overlay: BTreeMap<Key, (Option<Entry>, u64)>,
    queue: Vec<PendingAnswer>,
    /// Bytes of the values in the queue and in the commit under way.
    queued_bytes: u64,
    /// Bytes of the durable values.
    live_bytes: u64,
    /// The last revision assigned to a write.
    head: u64,
    closing: bool,
    stopped: Option<Error>,
}

/// An answer that waits for the disk: to a write, or to a write that was refused because of one in the queue.
#[derive(Debug)]
struct PendingAnswer {
    write: Option<DiskWrite>,
    outcome: Outcome,
    answer: oneshot::Sender<Result<Outcome, Error>>,
}

impl Embedded {
    /// Opens or creates the store in a directory. Its tasks end with `env`.
    pub async fn open(env: &Env, root: &Path) -> Result<Arc<Self>, OpenError> {
        let root = root.to_owned();
        let space = Space::of(root.join(directory::DATA));
        let (device, loaded) = env.blocking(move || open_directory(&root)).await?;
        Ok(Self::start(env, device, loaded, space))
    }

    /// Opens or creates the store in any storage backend of redb. Tests pass backends that lose or tear writes.
    pub fn open_backend(env: &Env, backend: impl StorageBackend) -> Result<Arc<Self>, OpenError> {
        Self::open_with_space(env, backend, Space::measured_by(|| None, || 0))
    }

    fn open_with_space(env: &Env, backend: impl StorageBackend, space: Space) -> Result<Arc<Self>, OpenError> {
        let path = PathBuf::from("backend");
        let is_new = backend.len().map_err(|source| OpenError::Io { path: path.clone(), source })? == 0;
        let (disk, loaded) = open_disk(backend, is_new).map_err(|error| open_error(error, &path))?;
        Ok(Self::start(env, Device { disk, directory: None }, loaded, space))
    }

    fn start(env: &Env, device: Device, loaded: Loaded, space: Space) -> Arc<Self> {
        let data_path = device.directory.as_ref().map(Directory::data_path);
        let mut expiry = Expiry::default();
        for (entry, deadline_ms) in &loaded.entries {
            expiry.set(&entry.key, entry.mod_revision, *deadline_ms);
        }
        let live_bytes = loaded.entries.iter().map(|(entry, _)| value_bytes(Some(entry))).sum();
        let state = State {
            store: Mvcc::loaded(loaded.revision, loaded.entries.into_iter().map(|(entry, _)| entry)),
            watchers: Watchers::default(),
            expiry,
            overlay: BTreeMap::new(),
            queue: Vec::new(),
            queued_bytes: 0,
            live_bytes,
            head: loaded.revision,
            closing: false,
            stopped: None,
        };
        let engine = Arc::new(Self {
            env: env.clone(),
            state: Mutex::new(state),
            work: Condvar::new(),
            disk: Mutex::new(Some(device)),
            turns: Semaphore::new(QUEUED_WRITES),
            space,
            earlier_deadline: Notify::new(),
            ended: CancellationToken::new(),
            has_panicked: AtomicBool::new(false),
            data_path,
            released: CancellationToken::new(),
        });
        if !env.is_simulated() {
            let writer = engine.clone();
            let write = move || {
                if let Err(why) = caught(|| writer.write_batches()) {
                    writer.has_panicked.store(true, Ordering::Relaxed);
                    writer.fail(format!("its writer panicked: {why}"));
                    writer.release();
                }
            };
            if let Err(error) = env.thread("store-writer", write) {
                engine.fail(format!("its writer thread cannot start: {error}"));
                engine.release();
            }
        }
        let expiring = engine.clone();
        env.spawn(async move {
            let take_due = |now_ms| {
                let mut state = expiring.state.lock();
                (state.expiry.take_due(now_ms), state.expiry.next_deadline_ms())
            };
            expiry::run(&expiring.env, &*expiring, &expiring.earlier_deadline, take_due).await;
        });
        engine
    }

    /// Runs on the writer thread. A batch holds all that arrived during the previous sync.
    fn write_batches(&self) {
        loop {
            {
                let mut state = self.state.lock();
                while state.queue.is_empty() && !state.closing {
                    self.work.wait(&mut state);
                }
                if state.queue.is_empty() || state.stopped.is_some() {
                    break;
                }
            }
            self.commit_queue();
        }
        self.release();
    }

    /// Makes the queue durable, publishes it and answers. This is one function, so that the order cannot be broken.
    fn commit_queue(&self) {
        let device = self.disk.lock();
        let answers = std::mem::take(&mut self.state.lock().queue);
        let writes: Vec<DiskWrite> = answers.iter().filter_map(|pending| pending.write.clone()).collect();
        if let Some(device) = &*device
            && let Err(why) = self.commit(device, &writes)
        {
            // The content of the disk is now unknown, so nothing more may be promised.
            let error = self.fail(why);
            for pending in answers {
                let _ = pending.answer.send(Err(error.clone()));
            }
            return;
        }
        for pending in answers {
            // The caller may be gone; the write stands.
            let _ = pending.answer.send(Ok(pending.outcome));
        }
    }

    /// Commits and publishes. A panic is a failure like any other: every waiting caller gets the error, and the process
    /// ends.
    fn commit(&self, device: &Device, writes: &[DiskWrite]) -> Result<(), String> {
        let Some(last) = writes.last() else { return Ok(()) };
        let done = caught(|| {
            let committed = device.disk.commit(writes, last.event.revision);
            committed.map_err(|error| format!("writing to disk failed: {}", error.reason))?;
            self.publish(writes);
            Ok(())
        });
        done.unwrap_or_else(|why| {
            self.has_panicked.store(true, Ordering::Relaxed);
            Err(format!("writing panicked: {why}"))
        })
    }

    fn publish(&self, writes: &[DiskWrite]) {
        let now_ms = self.env.wall().as_millisecond();
        let mut state = self.state.lock();
        let first_deadline_ms = state.expiry.next_deadline_ms();
        for DiskWrite { event, deadline_ms } in writes {
            state.queued_bytes -= value_bytes(event.current.as_ref());
            state.live_bytes += value_bytes(event.current.as_ref());
            state.live_bytes -= value_bytes(event.previous.as_ref());
            state.store.apply(event.clone(), now_ms, keep_from_ms(now_ms));
            state.expiry.set(&event.key, event.revision, *deadline_ms);
            if state.overlay.get(&event.key).is_some_and(|(_, revision)| *revision == event.revision) {
                state.overlay.remove(&event.key);
            }
        }
        if state.expiry.next_deadline_ms() != first_deadline_ms {
            self.earlier_deadline.notify_one();
        }
        let events: Vec<Arc<Event>> = writes.iter().map(|write| write.event.clone()).collect();
        state.watchers.publish(&events);
    }

    /// Stops for good: every waiting and later call fails with `reason`.
    fn fail(&self, reason: String) -> Error {
        let mut state = self.state.lock();
        let error = state.stopped.get_or_insert(Error::Stopped(reason)).clone();
        for pending in state.queue.drain(..) {
            let _ = pending.answer.send(Err(error.clone()));
        }
        state.watchers.fail(&error);
        state.closing = true;
        self.work.notify_one();
        self.ended.cancel();
        error
    }

    /// Releases the disk and its lock.
    fn release(&self) {
        self.fail("it was closed".to_owned());
        if let Some(Device { disk, directory }) = self.disk.lock().take() {
            if self.has_panicked.load(Ordering::Relaxed) {
                // Closing would write an unknown state. The next start repairs what is on disk.
                std::mem::forget(disk);
            } else {
                drop(disk);
            }
            drop(directory);
        }
        self.released.cancel();
    }

    /// Decides a write against the head and queues it. The receiver gets the answer once it may be visible.
    fn submit(&self, write: Write) -> Result<oneshot::Receiver<Result<Outcome, Error>>, Error> {
        let (answer, receiver) = oneshot::channel();
        let now_ms = self.env.wall().as_millisecond();
        let mut state = self.state.lock();
        if let Some(error) = &state.stopped {
            return Err(error.clone());
        }
        if state.closing {
            return Err(Error::Stopped("it is being closed".to_owned()));
        }
        let overlaid = state.overlay.get(&write.key);
        let is_pending = overlaid.is_some();
        let current = overlaid.map_or_else(|| state.store.get(&write.key), |(entry, _)| entry.as_ref());
        let revision = state.head + 1;
        let pending = match Mvcc::decide(current, &write, revision) {
            Ok(event) => {
                let bytes = value_bytes(event.current.as_ref());
                if event.current.is_some() {
                    self.space.check_room(state.queued_bytes + bytes, state.live_bytes).map_err(Error::Rejected)?;
                }
                let event = Arc::new(event);
                state.queued_bytes += bytes;
                state.head = revision;
                state.overlay.insert(write.key.clone(), (event.current.clone(), revision));
                let outcome = Outcome::Written { revision, previous: event.previous.clone() };
                let deadline_ms = expiry::deadline_ms(&write.change, now_ms);
                PendingAnswer { write: Some(DiskWrite { event, deadline_ms }), outcome, answer }
            }
            // This refusal would reveal a write that is not durable yet, so it waits for that write.
            Err(refused) if is_pending => PendingAnswer { write: None, outcome: refused, answer },
            Err(refused) => {
                let _ = answer.send(Ok(refused));
                return Ok(receiver);
            }
        };
        state.queue.push(pending);
        drop(state);
        self.work.notify_one();
        Ok(receiver)
    }

    /// Reads the durable state, unless the engine has stopped.
    fn read<T>(&self, read: impl FnOnce(&mut State) -> Result<T, Error>) -> Result<T, Error> {
        let mut state = self.state.lock();
        match &state.stopped {
            Some(error) => Err(error.clone()),
            None => read(&mut state),
        }
    }
}

fn value_bytes(entry: Option<&Entry>) -> u64 {
    entry.map_or(0, |entry| entry.value.len() as u64)
}

fn open_directory(root: &Path) -> Result<(Device, Loaded), OpenError> {
    let directory = Directory::claim(root)?;
    let (file, is_new) = directory.open_data()?;
    let path = directory.data_path();
    let backend = FileBackend::new(file).map_err(|error| open_error(error.into(), &path))?;
    let (disk, loaded) = open_disk(backend, is_new).map_err(|error| open_error(error, &path))?;
    if is_new {
        directory.keep_new_data()?;
    }
    Ok((Device { disk, directory: Some(directory) }, loaded))
}

fn open_disk(backend: impl StorageBackend, is_new: bool) -> Result<(Disk, Loaded), DiskError> {
    let held = DeferredWrites::new(backend)?;
    let reading = || {
        let disk = Disk::open(held.clone())?;
        if is_new {
            disk.prepare()?;
        }
        let loaded = disk.load()?;
        Ok((disk, loaded))
    };
    // redb panics at some kinds of garbage. Its writes until then are deferred and never reach the file.
    let opened = caught(reading).unwrap_or_else(|_| Err(DiskError::damage("its pages make no sense")))?;
    held.release()?;
    Ok(opened)
}

fn open_error(error: DiskError, path: &Path) -> OpenError {
    let DiskError { is_damage, reason } = error;
    let path = path.to_owned();
    if is_damage {
        OpenError::Damaged { path, reason }
    } else {
        OpenError::Io { path, source: io::Error::other(reason) }
    }
}

#[async_trait]
impl Storage for Embedded {
    async fn get(&self, key: &str) -> Result<Read, Error> {
        self.read(|state| Ok(Read { entry: state.store.get(key).cloned(), revision: state.store.revision() }))
    }

    async fn range(&self, request: RangeRequest) -> Result<Range, Error> {
        let now_ms = self.env.wall().as_millisecond();
        self.read(|state| {
            state.store.forget_before(keep_from_ms(now_ms));
            state.store.range(&request)
        })
    }

    async fn write(&self, write: Write) -> Result<Outcome, Error> {
        let _turn = self.turns.acquire().await.expect("the semaphore is never closed");
        let answer = self.submit(write)?;
        if self.env.is_simulated() {
            self.commit_queue();
        }
        answer.await.unwrap_or_else(|_| Err(Error::Stopped("its writer has ended".to_owned())))
    }

    async fn watch(&self, prefix: &str, after: u64) -> Result<Watch, Error> {
        let now_ms = self.env.wall().as_millisecond();
        self.read(|state| {
            state.store.forget_before(keep_from_ms(now_ms));
            let history = state.store.events_after(prefix, after)?;
            Ok(state.watchers.add(prefix, after, history))
        })
    }

    fn trouble(&self) -> Option<String> {
        self.state.lock().stopped.as_ref().map(ToString::to_string)
    }

    async fn size_bytes(&self) -> Option<u64> {
        let path = self.data_path.clone()?;
        self.env.blocking(move || std::fs::metadata(path)).await.ok().map(|data| data.len())
    }

    async fn current_revision(&self) -> Result<u64, Error> {
        self.read(|state| Ok(state.store.revision()))
    }

    async fn request_progress(&self, prefix: &str) -> Result<(), Error> {
        self.read(|state| {
            let revision = state.store.revision();
            state.watchers.progress(prefix, revision);
            Ok(())
        })
    }

    async fn compact(&self, revision: u64) -> Result<(), Error> {
        self.read(|state| state.store.compact(revision))
    }

    async fn stopped(&self) -> Error {
        self.ended.cancelled().await;
        self.state.lock().stopped.clone().unwrap_or_else(|| Error::Stopped("it was closed".to_owned()))
    }

    async fn close(&self) {
        self.state.lock().closing = true;
        self.work.notify_one();
        if self.env.is_simulated() {
            self.release();
        }
        self.released.cancelled().await;
    }
}
