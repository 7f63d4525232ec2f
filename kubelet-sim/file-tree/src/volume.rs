//! A volume: a tree of nodes that containers of a pod may share.
//!
//! Corresponds to what pkg/volume sets up on a node. A volume is not bound to a path: a `FileTree` mounts it.

use super::disk::ROOT;
use super::error::FileError;
use super::node::{Metadata, Node, NodeKind, NodeRef, Owner, Space};
use super::space::MountedDisk;
use jiff::Timestamp;

/// Bytes that a volume without a limit of its own holds.
pub const DEFAULT_LIMIT_BYTES: u64 = 64 << 20;

/// A tree of nodes. Clones share it.
#[derive(Clone, Debug)]
pub struct Volume {
    root: NodeRef,
}

impl Volume {
    /// Makes an empty volume: one folder.
    pub fn new(mode: u32, owner: Owner, limit_bytes: u64, now: Timestamp) -> Self {
        let space = Space::new(limit_bytes);
        Self { root: Node::new(&space, NodeKind::Folder(Default::default()), mode, owner, now) }
    }

    /// Makes a volume that is a single file, such as `/etc/hosts` and a termination log.
    pub fn of_file(content: Vec<u8>, mode: u32, owner: Owner, now: Timestamp) -> Self {
        let space = Space::new(DEFAULT_LIMIT_BYTES);
        Self { root: Node::new(&space, NodeKind::File(content), mode, owner, now) }
    }

    /// Returns the volume on a disk. Changes before `replayed_until` are without effect.
    pub fn on_disk(mounted: MountedDisk, limit_bytes: u64, replayed_until: Timestamp) -> Self {
        Self { root: Node::at(&Space::of_disk(mounted, limit_bytes, replayed_until), ROOT) }
    }

    /// Returns the volume that a node is the root of.
    pub fn at(root: NodeRef) -> Self {
        Self { root }
    }

    pub fn root(&self) -> &NodeRef {
        &self.root
    }

    /// Returns the bytes that the files of the volume hold.
    pub fn used_bytes(&self) -> u64 {
        self.root.space().used_bytes()
    }

    /// Returns the part of the volume at a path: another view of the same files. `None` when nothing is there. Links
    /// are not followed.
    pub fn sub_path(&self, path: &str) -> Option<Self> {
        let mut node = self.root.clone();
        for name in names(path) {
            node = node.child(name)?;
        }
        Some(Self { root: node })
    }

    /// Returns the part of the volume at a path, and makes folders that are missing, as the kubelet does for `subPath`.
    pub fn sub_folder(&self, path: &str, mode: u32, owner: Owner, now: Timestamp) -> Result<Self, FileError> {
        let mut node = self.root.clone();
        for name in names(path) {
            node = folder_in(&node, name, mode, owner, now)?;
        }
        Ok(Self { root: node })
    }

    /// Makes a folder at a path of a volume in memory.
    pub fn put_folder(&self, path: &str, mode: u32, owner: Owner, now: Timestamp) {
        let _ = self.sub_folder(path, mode, owner, now);
    }

    /// Puts a node at a path of a volume in memory, with the folders above it. An existing node is replaced.
    pub fn put(&self, path: &str, kind: NodeKind, mode: u32, owner: Owner, now: Timestamp) {
        let mut names: Vec<&str> = names(path).collect();
        let Some(last) = names.pop() else { return };
        let mut folder = self.root.clone();
        for name in names {
            let Ok(next) = folder_in(&folder, name, 0o755, Owner::default(), now) else { return };
            folder = next;
        }
        let _ = folder.insert(last, Node::new(self.root.space(), kind, mode, owner, now), now);
    }

    pub fn put_file(&self, path: &str, content: impl Into<Vec<u8>>, mode: u32, owner: Owner, now: Timestamp) {
        self.put(path, NodeKind::File(content.into()), mode, owner, now);
    }

    pub fn put_link(&self, path: &str, target: &str, now: Timestamp) {
        self.put(path, NodeKind::Symlink(target.to_owned()), 0o777, Owner::default(), now);
    }

    /// Returns what is at a path. Links are not followed.
    pub fn metadata(&self, path: &str) -> Option<Metadata> {
        Some(self.sub_path(path)?.root.metadata())
    }
}

/// Returns the folder with this name; makes it when it is missing.
fn folder_in(folder: &NodeRef, name: &str, mode: u32, owner: Owner, now: Timestamp) -> Result<NodeRef, FileError> {
    if let Some(child) = folder.child(name) {
        return Ok(child);
    }
    let child = Node::create(folder.space(), NodeKind::Folder(Default::default()), mode, owner, now)?;
    folder.insert(name, child.clone(), now)?;
    Ok(child)
}

/// Returns the parts of a path.
pub fn names(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|name| !name.is_empty() && *name != ".")
}
