//! The outputs of a process that leave the container: its log, or the streams of `kubectl exec`.

use jiff::Timestamp;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// Bytes that were written at one time to descriptor 1 or 2.
#[derive(Clone, Debug, PartialEq)]
pub struct Output {
    pub at: Timestamp,
    pub descriptor: u8,
    pub bytes: Vec<u8>,
}

/// What happens when more is written than a sink keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overflow {
    /// The oldest output is dropped, as the log of a container is rotated.
    DropOldest,
    /// The writer waits until somebody takes the output.
    Wait,
}

#[derive(Debug)]
struct SinkState {
    outputs: VecDeque<Output>,
    kept_bytes: usize,
    waiting: Vec<Waker>,
}

/// Keeps outputs until they are taken. Clones share them.
#[derive(Clone, Debug)]
pub struct Sink {
    state: Arc<Mutex<SinkState>>,
    limit_bytes: usize,
    overflow: Overflow,
}

impl Sink {
    pub fn new(limit_bytes: usize, overflow: Overflow) -> Self {
        let state = SinkState { outputs: VecDeque::new(), kept_bytes: 0, waiting: Vec::new() };
        Self { state: Arc::new(Mutex::new(state)), limit_bytes, overflow }
    }

    /// Writes all bytes, or waits for room.
    pub fn poll_write(&self, cx: &mut Context<'_>, descriptor: u8, bytes: &[u8], at: Timestamp) -> Poll<()> {
        let mut state = self.state.lock();
        if self.overflow == Overflow::Wait && state.kept_bytes >= self.limit_bytes {
            state.waiting.push(cx.waker().clone());
            return Poll::Pending;
        }
        state.kept_bytes += bytes.len();
        match state.outputs.back_mut() {
            Some(last) if last.at == at && last.descriptor == descriptor => last.bytes.extend_from_slice(bytes),
            _ => state.outputs.push_back(Output { at, descriptor, bytes: bytes.to_vec() }),
        }
        while self.overflow == Overflow::DropOldest && state.kept_bytes > self.limit_bytes && state.outputs.len() > 1 {
            let dropped = state.outputs.pop_front().map_or(0, |output| output.bytes.len());
            state.kept_bytes -= dropped;
        }
        Poll::Ready(())
    }

    /// Returns a copy of what is kept.
    pub fn outputs(&self) -> Vec<Output> {
        self.state.lock().outputs.iter().cloned().collect()
    }

    /// Takes what is kept, so that writers may go on.
    pub fn take(&self) -> Vec<Output> {
        let mut state = self.state.lock();
        state.kept_bytes = 0;
        state.waiting.drain(..).for_each(Waker::wake);
        state.outputs.drain(..).collect()
    }
}
