//! The client's side of a connection that no process has: it comes from outside of all containers.

use super::network::Connection;
use super::pipe::BrokenPipe;
use std::task::{Context, Poll, Waker};

impl Connection {
    /// Sends as many of the bytes as the server takes for now; returns their number.
    pub fn push(&self, bytes: &[u8]) -> Result<usize, BrokenPipe> {
        let Some(output) = &self.output else { return Err(BrokenPipe) };
        match output.poll_write(&mut Context::from_waker(Waker::noop()), bytes) {
            Poll::Ready(written) => written,
            Poll::Pending => Ok(0),
        }
    }

    /// Takes what has arrived; `None` when nothing has, and no bytes at the end of the server's output.
    pub fn pull(&self) -> Option<Vec<u8>> {
        match self.input.poll_read(&mut Context::from_waker(Waker::noop()), usize::MAX, None) {
            Poll::Ready(bytes) => Some(bytes),
            Poll::Pending => None,
        }
    }
}
