//! The streams with which a process is started from outside of the container.

use super::sink::{Overflow, Sink};

/// Bytes that the log of a container keeps; older ones are rotated away.
pub const LOG_LIMIT_BYTES: usize = 1 << 20;
/// Bytes that wait for the client of `kubectl exec`.
const EXEC_LIMIT_BYTES: usize = 64 << 10;

/// Rows and columns of a terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TerminalSize {
    pub rows: u16,
    pub columns: u16,
}

/// The streams of a process that is started from outside.
#[derive(Clone, Debug)]
pub struct Streams {
    /// True when input may come; without, the process reads the end of its input at once.
    pub has_input: bool,
    pub is_terminal: bool,
    pub sink: Sink,
}

impl Streams {
    /// Returns the streams of a container's first process.
    pub fn of_log(has_input: bool, is_terminal: bool) -> Self {
        Self { has_input, is_terminal, sink: Sink::new(LOG_LIMIT_BYTES, Overflow::DropOldest) }
    }

    /// Returns the streams of a process that a client waits for.
    pub fn of_client(has_input: bool, is_terminal: bool) -> Self {
        Self { has_input, is_terminal, sink: Sink::new(EXEC_LIMIT_BYTES, Overflow::Wait) }
    }
}
