//! `Disk`: keeps the nodes of a volume outside of the process, so that they outlast it and other processes see them.
//!
//! Corresponds to a file system on a block device or a server. Nothing of it is remembered: each operation asks the disk.

use super::attributes::{AttributeChange, FileType, Metadata, Owner};
use super::error::FileError;
use std::collections::BTreeMap;
use std::fmt;

/// Number of a volume's uppermost folder.
pub const ROOT: u64 = 1;

/// A node that is about to be made.
#[derive(Clone, Copy, Debug)]
pub struct NewNode<'a> {
    /// A file, folder or link.
    pub file_type: FileType,
    /// The bytes of a file, or the target of a link.
    pub content: &'a [u8],
    pub mode: u32,
    pub owner: Owner,
}

/// A name in a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectoryEntry {
    pub id: u64,
    pub is_folder: bool,
}

pub type Directory = BTreeMap<String, DirectoryEntry>;

/// The nodes of one volume by their numbers.
///
/// A change is there for every process once the operation has returned. One that fails has changed nothing, but for a
/// write of which a part may be there. Operations of several processes on one folder, and appends to one file, come one
/// after the other. A node that was removed is gone for those who still have it open, too.
pub trait Disk: fmt::Debug + Send + Sync {
    /// Makes a node, under a number that no other node has. No folder names it yet.
    fn create(&self, node: NewNode<'_>) -> Result<u64, FileError>;

    fn metadata(&self, id: u64) -> Result<Metadata, FileError>;

    /// Changes attributes. Returns how many names the node has now.
    fn change(&self, id: u64, change: AttributeChange) -> Result<u32, FileError>;

    /// Returns at most `length` bytes of a file or link from an offset on.
    fn read(&self, id: u64, offset: usize, length: usize) -> Result<Vec<u8>, FileError>;

    /// Writes into a file; `None` as offset appends. Returns the offset after the bytes.
    fn write(&self, id: u64, offset: Option<usize>, bytes: &[u8]) -> Result<usize, FileError>;

    fn truncate(&self, id: u64, length: usize) -> Result<(), FileError>;

    fn directory(&self, id: u64) -> Result<Directory, FileError>;

    /// Gives a name in a folder to another node, or to none. Returns what had the name before.
    fn rename(&self, folder: u64, name: &str, to: Option<DirectoryEntry>) -> Result<Option<DirectoryEntry>, FileError>;

    /// Removes a node that no folder names.
    fn remove(&self, id: u64) -> Result<(), FileError>;

    /// Returns the bytes that the files hold.
    fn used_bytes(&self) -> u64;
}
