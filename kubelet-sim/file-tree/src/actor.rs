//! The user who performs a file operation.

use super::node::Owner;
use jiff::Timestamp;

/// The user who performs an operation, from which folder, and when.
#[derive(Clone, Debug, PartialEq)]
pub struct Actor {
    pub uid: u32,
    pub gid: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
    /// An absolute path.
    pub working_dir: String,
    /// Permission bits that new files do not get.
    pub umask: u32,
    pub now: Timestamp,
}

impl Actor {
    /// Returns root at the root folder.
    pub fn root(now: Timestamp) -> Self {
        Self { uid: 0, gid: 0, groups: Vec::new(), working_dir: "/".to_owned(), umask: 0o022, now }
    }

    pub fn owner(&self) -> Owner {
        Owner { uid: self.uid, gid: self.gid }
    }
}

/// How a file is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenOptions {
    pub reads: bool,
    pub writes: bool,
    pub creates: bool,
    /// Fails when the file exists.
    pub is_new: bool,
    pub truncates: bool,
    /// Permission bits of a new file, before the umask.
    pub mode: u32,
}

impl OpenOptions {
    pub const READ: Self =
        Self { reads: true, writes: false, creates: false, is_new: false, truncates: false, mode: 0o666 };
    /// For `>`.
    pub const CREATE: Self = Self { reads: false, writes: true, creates: true, truncates: true, ..Self::READ };
    /// For `>>`.
    pub const APPEND: Self = Self { truncates: false, ..Self::CREATE };
    /// For `<>`.
    pub const UPDATE: Self = Self { reads: true, ..Self::APPEND };
}
