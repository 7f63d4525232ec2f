//! A pipe: bytes that one process writes and another reads.
//!
//! The ends are counted. A reader sees the end of the input once no writer is left; a writer without a reader gets
//! `SIGPIPE`.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// Bytes that a pipe holds before its writers wait.
const CAPACITY_BYTES: usize = 64 << 10;

#[derive(Debug, Default)]
struct PipeState {
    bytes: VecDeque<u8>,
    readers: usize,
    writers: usize,
    waiting: Vec<Waker>,
}

type Shared = Arc<Mutex<PipeState>>;

/// The end of a pipe that is read.
#[derive(Debug)]
pub struct ReadEnd(Shared);

/// The end of a pipe that is written.
#[derive(Debug)]
pub struct WriteEnd(Shared);

/// Nobody reads the pipe any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BrokenPipe;

/// Makes a pipe.
pub fn pipe() -> (ReadEnd, WriteEnd) {
    let shared = Shared::default();
    {
        let mut state = shared.lock();
        (state.readers, state.writers) = (1, 1);
    }
    (ReadEnd(shared.clone()), WriteEnd(shared))
}

fn wake_all(shared: &Shared) {
    let waiting = std::mem::take(&mut shared.lock().waiting);
    waiting.into_iter().for_each(Waker::wake);
}

impl ReadEnd {
    /// Takes at most `max` bytes, but none after the byte `until`. An empty answer is the end of the input.
    pub fn poll_read(&self, cx: &mut Context<'_>, max: usize, until: Option<u8>) -> Poll<Vec<u8>> {
        let taken = {
            let mut state = self.0.lock();
            if state.bytes.is_empty() && state.writers > 0 {
                state.waiting.push(cx.waker().clone());
                return Poll::Pending;
            }
            let line = until.and_then(|until| state.bytes.iter().position(|byte| *byte == until));
            let length = line.map_or(state.bytes.len(), |at| at + 1).min(max);
            state.bytes.drain(..length).collect()
        };
        wake_all(&self.0);
        Poll::Ready(taken)
    }
}

impl WriteEnd {
    /// Writes a part of the bytes and returns its length.
    pub fn poll_write(&self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize, BrokenPipe>> {
        let length = {
            let mut state = self.0.lock();
            if state.readers == 0 {
                return Poll::Ready(Err(BrokenPipe));
            }
            let free = CAPACITY_BYTES.saturating_sub(state.bytes.len());
            if free == 0 && !bytes.is_empty() {
                state.waiting.push(cx.waker().clone());
                return Poll::Pending;
            }
            let length = free.min(bytes.len());
            state.bytes.extend(&bytes[..length]);
            length
        };
        wake_all(&self.0);
        Poll::Ready(Ok(length))
    }

    /// Adds bytes from outside of the container, however many are waiting.
    pub fn push(&self, bytes: &[u8]) {
        self.0.lock().bytes.extend(bytes);
        wake_all(&self.0);
    }

    /// True while a process waits for bytes.
    pub fn has_waiting_reader(&self) -> bool {
        let state = self.0.lock();
        state.bytes.is_empty() && !state.waiting.is_empty()
    }

    /// Returns the number of bytes that nobody has read yet.
    pub fn unread_bytes(&self) -> usize {
        self.0.lock().bytes.len()
    }
}

impl Clone for ReadEnd {
    fn clone(&self) -> Self {
        self.0.lock().readers += 1;
        Self(self.0.clone())
    }
}

impl Clone for WriteEnd {
    fn clone(&self) -> Self {
        self.0.lock().writers += 1;
        Self(self.0.clone())
    }
}

impl Drop for ReadEnd {
    fn drop(&mut self) {
        self.0.lock().readers -= 1;
        wake_all(&self.0);
    }
}

impl Drop for WriteEnd {
    fn drop(&mut self) {
        self.0.lock().writers -= 1;
        wake_all(&self.0);
    }
}
