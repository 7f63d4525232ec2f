//! What `stat` tells of a file: its type, owner, mode, size and time.
//!
//! Corresponds to stat(2).

use jiff::Timestamp;

/// The user and group that a file belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    pub uid: u32,
    pub gid: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileType {
    File,
    Folder,
    Symlink,
    Device,
}

impl FileType {
    /// Returns the letter with which `ls -l` begins a line.
    pub fn letter(self) -> char {
        match self {
            Self::File => '-',
            Self::Folder => 'd',
            Self::Symlink => 'l',
            Self::Device => 'c',
        }
    }
}

/// What `stat` tells of a node.
#[derive(Clone, Debug, PartialEq)]
pub struct Metadata {
    pub id: u64,
    pub file_type: FileType,
    /// Permission bits, with set-user-id, set-group-id and the sticky bit.
    pub mode: u32,
    pub owner: Owner,
    pub size: u64,
    pub links: u32,
    pub modified_at: Timestamp,
}

/// A change of attributes; `None` leaves one as it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct AttributeChange {
    pub mode: Option<u32>,
    pub owner: Option<Owner>,
    pub modified_at: Option<Timestamp>,
    /// Names that are added or removed.
    pub links: i32,
}
