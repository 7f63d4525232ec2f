//! The target of a file descriptor: a file, a device, a pipe, a terminal, or an output that leaves the container.

use super::pipe::{ReadEnd, WriteEnd};
use super::sink::Sink;
use file_tree::error::FileError;
use file_tree::node::{Device, NodeRef};
use jiff::Timestamp;
use parking_lot::Mutex;
use std::sync::Arc;

/// A file that was opened, with the position in it. Descriptors that were copied share the position.
#[derive(Debug)]
pub struct OpenFile {
    pub node: NodeRef,
    pub path: String,
    pub offset: Mutex<usize>,
    pub appends: bool,
    pub reads: bool,
    pub writes: bool,
}

impl OpenFile {
    /// Writes at the present position, or to the end of the file.
    pub fn write(&self, bytes: &[u8], now: Timestamp) -> Result<(), FileError> {
        let mut offset = self.offset.lock();
        let at = (!self.appends).then_some(*offset);
        *offset = self.node.write(at, bytes, now)?;
        Ok(())
    }
}

#[derive(Clone, Debug)]
pub enum Descriptor {
    Reader(ReadEnd),
    Writer(WriteEnd),
    /// An output that leaves the container, as descriptor 1 or 2.
    Sink(Sink, u8),
    File(Arc<OpenFile>),
    Device(Device),
    /// A terminal: typed input and an output.
    Terminal(ReadEnd, Sink),
}

impl Descriptor {
    pub fn is_terminal(&self) -> bool {
        matches!(self, Self::Terminal(..))
    }
}
