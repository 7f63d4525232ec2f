//! One file, folder, link or device, with its owner and mode.
//!
//! Corresponds to an inode. Nodes are shared: a hard link and an open file hold the same node.

use super::error::FileError;
use jiff::Timestamp;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub type NodeRef = Arc<Node>;

/// The user and group that a file belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    pub uid: u32,
    pub gid: u32,
}

/// A device that programs know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Device {
    Null,
    Zero,
    /// Bytes that look random. They are the same in every run.
    Random,
    /// A descriptor of the process that opens it: `/dev/stdout`.
    Descriptor(u8),
}

/// The content of a node.
#[derive(Debug)]
pub enum NodeKind {
    File(Vec<u8>),
    Folder(BTreeMap<String, NodeRef>),
    Symlink(String),
    Device(Device),
}

/// The part of a node that changes.
#[derive(Debug)]
pub struct NodeState {
    pub kind: NodeKind,
    /// Permission bits, with set-user-id, set-group-id and the sticky bit.
    pub mode: u32,
    pub owner: Owner,
    pub modified_at: Timestamp,
    /// Names under which folders hold the node.
    pub links: u32,
}

/// What `stat` tells of a node.
#[derive(Clone, Debug, PartialEq)]
pub struct Metadata {
    pub id: u64,
    pub file_type: FileType,
    pub mode: u32,
    pub owner: Owner,
    pub size: u64,
    pub links: u32,
    pub modified_at: Timestamp,
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

/// Counts the bytes of one volume and hands out the numbers of its nodes.
#[derive(Debug)]
pub struct Space {
    pub limit_bytes: u64,
    used_bytes: AtomicU64,
    last_id: AtomicU64,
}

impl Space {
    pub fn new(limit_bytes: u64) -> Arc<Self> {
        Arc::new(Self { limit_bytes, used_bytes: AtomicU64::new(0), last_id: AtomicU64::new(0) })
    }

    pub fn used_bytes(&self) -> u64 {
        self.used_bytes.load(Ordering::Relaxed)
    }

    /// Records that content has grown or shrunk; refuses what does not fit.
    fn resize(&self, from: usize, to: usize) -> Result<(), FileError> {
        let used = self.used_bytes().saturating_sub(from as u64) + to as u64;
        if to > from && used > self.limit_bytes {
            return Err(FileError::NoSpace);
        }
        self.used_bytes.store(used, Ordering::Relaxed);
        Ok(())
    }
}

#[derive(Debug)]
pub struct Node {
    pub id: u64,
    space: Arc<Space>,
    pub state: Mutex<NodeState>,
}

impl Node {
    pub fn new(space: &Arc<Space>, kind: NodeKind, mode: u32, owner: Owner, now: Timestamp) -> NodeRef {
        let id = space.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        if let NodeKind::File(content) = &kind {
            // The caller checks the limit; content that exists is always counted.
            space.used_bytes.fetch_add(content.len() as u64, Ordering::Relaxed);
        }
        let state = NodeState { kind, mode: mode & 0o7777, owner, modified_at: now, links: 1 };
        Arc::new(Self { id, space: space.clone(), state: Mutex::new(state) })
    }

    pub fn space(&self) -> &Arc<Space> {
        &self.space
    }

    pub fn metadata(&self) -> Metadata {
        let state = self.state.lock();
        let (file_type, size) = match &state.kind {
            NodeKind::File(content) => (FileType::File, content.len() as u64),
            NodeKind::Folder(_) => (FileType::Folder, 4096),
            NodeKind::Symlink(target) => (FileType::Symlink, target.len() as u64),
            NodeKind::Device(_) => (FileType::Device, 0),
        };
        let NodeState { mode, owner, modified_at, .. } = *state;
        let links = match &state.kind {
            // A folder is named by its parent, by itself, and by each folder in it.
            NodeKind::Folder(children) => 2 + children.values().filter(|child| child.is_folder()).count() as u32,
            _ => state.links,
        };
        Metadata { id: self.id, file_type, mode, owner, size, links, modified_at }
    }

    pub fn is_folder(&self) -> bool {
        matches!(self.state.lock().kind, NodeKind::Folder(_))
    }

    /// Returns the node with this name in a folder.
    pub fn child(&self, name: &str) -> Option<NodeRef> {
        match &self.state.lock().kind {
            NodeKind::Folder(children) => children.get(name).cloned(),
            _ => None,
        }
    }

    /// Returns the names in a folder; none for anything else.
    pub fn names(&self) -> Vec<String> {
        match &self.state.lock().kind {
            NodeKind::Folder(children) => children.keys().cloned().collect(),
            _ => Vec::new(),
        }
    }

    /// Puts a node into a folder; returns the one that had the name before.
    pub fn insert(&self, name: &str, node: NodeRef, now: Timestamp) -> Option<NodeRef> {
        let mut state = self.state.lock();
        let NodeKind::Folder(children) = &mut state.kind else { return None };
        let before = children.insert(name.to_owned(), node);
        state.modified_at = now;
        before
    }

    pub fn remove(&self, name: &str, now: Timestamp) -> Option<NodeRef> {
        let mut state = self.state.lock();
        let NodeKind::Folder(children) = &mut state.kind else { return None };
        let removed = children.remove(name);
        state.modified_at = now;
        removed
    }

    /// Returns at most `length` bytes of a file from an offset on.
    pub fn read(&self, offset: usize, length: usize) -> Vec<u8> {
        match &self.state.lock().kind {
            NodeKind::File(content) => {
                let start = offset.min(content.len());
                content[start..content.len().min(start.saturating_add(length))].to_vec()
            }
            _ => Vec::new(),
        }
    }

    /// Writes into a file; a gap is filled with zeros. `None` as offset appends. Returns the offset after the bytes.
    pub fn write(&self, offset: Option<usize>, bytes: &[u8], now: Timestamp) -> Result<usize, FileError> {
        let mut state = self.state.lock();
        let NodeKind::File(content) = &mut state.kind else { return Err(FileError::Invalid) };
        let start = offset.unwrap_or(content.len());
        let end = start.checked_add(bytes.len()).ok_or(FileError::NoSpace)?;
        let length = content.len().max(end);
        self.space.resize(content.len(), length)?;
        content.resize(length, 0);
        content[start..end].copy_from_slice(bytes);
        state.modified_at = now;
        Ok(end)
    }

    /// Sets the length of a file.
    pub fn truncate(&self, length: usize, now: Timestamp) -> Result<(), FileError> {
        let mut state = self.state.lock();
        let NodeKind::File(content) = &mut state.kind else { return Err(FileError::Invalid) };
        self.space.resize(content.len(), length)?;
        content.resize(length, 0);
        state.modified_at = now;
        Ok(())
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let NodeKind::File(content) = &self.state.get_mut().kind {
            let _ = self.space.resize(content.len(), 0);
        }
    }
}
