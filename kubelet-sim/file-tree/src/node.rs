//! One file, folder, link or device, with its owner and mode.
//!
//! Corresponds to an inode. Nodes are shared: a hard link and an open file hold the same node. A node lies in memory, or
//! on the disk of its volume.

use super::disk::{Directory, DirectoryEntry, Disk, NewNode};
use super::error::FileError;
use jiff::Timestamp;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

pub use super::attributes::{AttributeChange, FileType, Metadata, Owner};
pub use super::space::Space;

pub type NodeRef = Arc<Node>;

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

/// The part of a node in memory that changes.
#[derive(Debug)]
struct NodeState {
    kind: NodeKind,
    /// Permission bits, with set-user-id, set-group-id and the sticky bit.
    mode: u32,
    owner: Owner,
    modified_at: Timestamp,
    /// Names under which folders hold the node.
    links: u32,
}

#[derive(Debug)]
pub struct Node {
    pub id: u64,
    space: Arc<Space>,
    /// `None` for a node on the disk of the volume.
    state: Option<Mutex<NodeState>>,
}

/// Where a node is.
enum Home<'a> {
    Memory(&'a Mutex<NodeState>),
    Disk(&'a dyn Disk),
}

impl Node {
    /// Makes a node in memory.
    pub fn new(space: &Arc<Space>, kind: NodeKind, mode: u32, owner: Owner, now: Timestamp) -> NodeRef {
        if let NodeKind::File(content) = &kind {
            // The caller checks the limit; content that exists is always counted.
            space.add(content.len());
        }
        let state = NodeState { kind, mode: mode & 0o7777, owner, modified_at: now, links: 1 };
        Arc::new(Self { id: space.next_id(), space: space.clone(), state: Some(Mutex::new(state)) })
    }

    /// Makes a node where those of its volume are.
    pub fn create(
        space: &Arc<Space>,
        kind: NodeKind,
        mode: u32,
        owner: Owner,
        now: Timestamp,
    ) -> Result<NodeRef, FileError> {
        let Some(disk) = &space.disk else { return Ok(Self::new(space, kind, mode, owner, now)) };
        let (file_type, content) = match &kind {
            NodeKind::File(content) => (FileType::File, content.as_slice()),
            NodeKind::Folder(_) => (FileType::Folder, &[][..]),
            NodeKind::Symlink(target) => (FileType::Symlink, target.as_bytes()),
            NodeKind::Device(_) => return Err(FileError::NotPermitted),
        };
        let id = disk.create(NewNode { file_type, content, mode: mode & 0o7777, owner })?;
        if file_type == FileType::File {
            space.add(content.len());
        }
        Ok(Self::at(space, id))
    }

    /// Returns the node with this number on the volume's disk.
    pub fn at(space: &Arc<Space>, id: u64) -> NodeRef {
        Arc::new(Self { id, space: space.clone(), state: None })
    }

    pub fn space(&self) -> &Arc<Space> {
        &self.space
    }

    /// Returns true if a change of the node at this time is without effect, since it was made before.
    pub fn is_replayed(&self, at: Timestamp) -> bool {
        self.state.is_none() && self.space.is_replayed(at)
    }

    fn home(&self) -> Home<'_> {
        match (&self.state, &self.space.disk) {
            (Some(state), _) => Home::Memory(state),
            (None, Some(disk)) => Home::Disk(&**disk),
            (None, None) => unreachable!("a node without a state is made for a space with a disk"),
        }
    }

    /// Returns what `stat` tells. A node that is gone from the disk looks like an empty file that nobody may use.
    pub fn metadata(&self) -> Metadata {
        let state = match self.home() {
            Home::Memory(state) => state.lock(),
            Home::Disk(disk) => return disk.metadata(self.id).unwrap_or_else(|_| gone(self.id)),
        };
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
        match self.home() {
            Home::Memory(state) => matches!(state.lock().kind, NodeKind::Folder(_)),
            Home::Disk(_) => self.metadata().file_type == FileType::Folder,
        }
    }

    /// Returns where a link leads; `None` for anything else.
    pub fn target(&self) -> Option<String> {
        match self.home() {
            Home::Memory(state) => match &state.lock().kind {
                NodeKind::Symlink(target) => Some(target.clone()),
                _ => None,
            },
            Home::Disk(disk) => {
                let is_link = self.metadata().file_type == FileType::Symlink;
                let target = is_link.then(|| disk.read(self.id, 0, usize::MAX))?.ok()?;
                String::from_utf8(target).ok()
            }
        }
    }

    /// Returns the device that the node is.
    pub fn device(&self) -> Option<Device> {
        match &self.state.as_ref()?.lock().kind {
            NodeKind::Device(device) => Some(*device),
            _ => None,
        }
    }

    /// Returns the node with this name in a folder.
    pub fn child(&self, name: &str) -> Option<NodeRef> {
        match self.home() {
            Home::Memory(state) => match &state.lock().kind {
                NodeKind::Folder(children) => children.get(name).cloned(),
                _ => None,
            },
            Home::Disk(disk) => directory(disk, self.id).get(name).map(|entry| Self::at(&self.space, entry.id)),
        }
    }

    /// Returns the names in a folder; none for anything else.
    pub fn names(&self) -> Vec<String> {
        match self.home() {
            Home::Memory(state) => match &state.lock().kind {
                NodeKind::Folder(children) => children.keys().cloned().collect(),
                _ => Vec::new(),
            },
            Home::Disk(disk) => directory(disk, self.id).into_keys().collect(),
        }
    }

    /// Puts a node of the same volume into a folder; returns the one that had the name before.
    pub fn insert(&self, name: &str, node: NodeRef, now: Timestamp) -> Result<Option<NodeRef>, FileError> {
        match self.home() {
            Home::Memory(state) => {
                let mut state = state.lock();
                let NodeKind::Folder(children) = &mut state.kind else { return Err(FileError::NotFolder) };
                let before = children.insert(name.to_owned(), node);
                state.modified_at = now;
                Ok(before)
            }
            Home::Disk(disk) => {
                let entry = DirectoryEntry { id: node.id, is_folder: node.is_folder() };
                Ok(disk.rename(self.id, name, Some(entry))?.map(|before| Self::at(&self.space, before.id)))
            }
        }
    }

    /// Takes a name out of a folder; returns the node that had it.
    pub fn remove(&self, name: &str, now: Timestamp) -> Result<Option<NodeRef>, FileError> {
        match self.home() {
            Home::Memory(state) => {
                let mut state = state.lock();
                let NodeKind::Folder(children) = &mut state.kind else { return Err(FileError::NotFolder) };
                let removed = children.remove(name);
                state.modified_at = now;
                Ok(removed)
            }
            Home::Disk(disk) => Ok(disk.rename(self.id, name, None)?.map(|removed| Self::at(&self.space, removed.id))),
        }
    }

    /// Returns at most `length` bytes of a file from an offset on.
    pub fn read(&self, offset: usize, length: usize) -> Vec<u8> {
        match self.home() {
            Home::Memory(state) => match &state.lock().kind {
                NodeKind::File(content) => {
                    let start = offset.min(content.len());
                    content[start..content.len().min(start.saturating_add(length))].to_vec()
                }
                _ => Vec::new(),
            },
            Home::Disk(disk) => disk.read(self.id, offset, length).unwrap_or_default(),
        }
    }

    /// Writes into a file; a gap is filled with zeros. `None` as offset appends. Returns the offset after the bytes.
    pub fn write(&self, offset: Option<usize>, bytes: &[u8], now: Timestamp) -> Result<usize, FileError> {
        match self.home() {
            Home::Memory(state) => {
                let mut state = state.lock();
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
            Home::Disk(_) if self.is_replayed(now) => Ok(offset.unwrap_or_default() + bytes.len()),
            Home::Disk(disk) => {
                let before = self.length(disk)?;
                let end = offset.unwrap_or(before).checked_add(bytes.len()).ok_or(FileError::NoSpace)?;
                let after = before.max(end);
                self.space.resize(before, after)?;
                disk.write(self.id, offset, bytes).inspect_err(|_| {
                    let _ = self.space.resize(after, before);
                })
            }
        }
    }

    /// Sets the length of a file.
    pub fn truncate(&self, length: usize, now: Timestamp) -> Result<(), FileError> {
        match self.home() {
            Home::Memory(state) => {
                let mut state = state.lock();
                let NodeKind::File(content) = &mut state.kind else { return Err(FileError::Invalid) };
                self.space.resize(content.len(), length)?;
                content.resize(length, 0);
                state.modified_at = now;
                Ok(())
            }
            Home::Disk(_) if self.is_replayed(now) => Ok(()),
            Home::Disk(disk) => {
                let before = self.length(disk)?;
                self.space.resize(before, length)?;
                disk.truncate(self.id, length).inspect_err(|_| {
                    let _ = self.space.resize(length, before);
                })
            }
        }
    }

    /// Returns the length of a file on the disk.
    fn length(&self, disk: &dyn Disk) -> Result<usize, FileError> {
        let metadata = disk.metadata(self.id)?;
        if metadata.file_type != FileType::File {
            return Err(FileError::Invalid);
        }
        usize::try_from(metadata.size).map_err(|_| FileError::NoSpace)
    }

    /// Changes mode, owner or time.
    pub fn change(&self, change: AttributeChange, now: Timestamp) -> Result<(), FileError> {
        match self.home() {
            Home::Memory(state) => {
                let mut state = state.lock();
                state.mode = change.mode.map_or(state.mode, |mode| mode & 0o7777);
                state.owner = change.owner.unwrap_or(state.owner);
                state.modified_at = change.modified_at.unwrap_or(state.modified_at);
                state.links = state.links.saturating_add_signed(change.links);
                Ok(())
            }
            Home::Disk(_) if self.is_replayed(now) => Ok(()),
            Home::Disk(disk) => disk.change(self.id, change).map(drop),
        }
    }

    /// Records that a folder no longer names the node. Without a name it is removed.
    pub fn unlink(&self, now: Timestamp) -> Result<(), FileError> {
        let change = AttributeChange { links: -1, ..AttributeChange::default() };
        let Home::Disk(disk) = self.home() else { return self.change(change, now) };
        let metadata = disk.metadata(self.id)?;
        let is_folder = metadata.file_type == FileType::Folder;
        if is_folder || disk.change(self.id, change)? == 0 {
            disk.remove(self.id)?;
            if metadata.file_type == FileType::File {
                self.space.resize(usize::try_from(metadata.size).unwrap_or(usize::MAX), 0)?;
            }
        }
        Ok(())
    }
}

/// Returns the names in a folder on a disk; none when it is gone.
fn directory(disk: &dyn Disk, id: u64) -> Directory {
    disk.directory(id).unwrap_or_default()
}

fn gone(id: u64) -> Metadata {
    let modified_at = Timestamp::UNIX_EPOCH;
    Metadata { id, file_type: FileType::File, mode: 0, owner: Owner::default(), size: 0, links: 0, modified_at }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(state) = &mut self.state
            && let NodeKind::File(content) = &state.get_mut().kind
        {
            let _ = self.space.resize(content.len(), 0);
        }
    }
}
