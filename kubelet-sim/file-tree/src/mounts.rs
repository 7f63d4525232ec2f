//! The file tree of one container: its image, and the volumes that are mounted into it.
//!
//! Corresponds to the root file system and the mounts of a container.

use super::place::Place;
use super::volume::Volume;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A volume that is visible at a path.
#[derive(Clone, Debug)]
pub struct Mount {
    pub volume: Volume,
    pub is_read_only: bool,
    /// The type of the file system, as `mount` lists it.
    pub fs_type: String,
    /// False where a stand-in is mounted: what a process does with its files says nothing about the real ones.
    pub is_known: bool,
}

/// The files that a container sees. Clones share the files, but not later mounts.
#[derive(Clone, Debug)]
pub struct FileTree {
    pub(super) mounts: BTreeMap<String, Mount>,
    /// Set once a path has led into a mount whose content is not known.
    pub(super) used_unknown: Arc<AtomicBool>,
    /// True for a tree that lacks files of the real one: a file that is missing here says nothing.
    pub(super) is_incomplete: bool,
}

impl FileTree {
    /// Makes a tree whose root is a volume: the image and the layer that a container writes to.
    pub fn new(root: Volume, is_read_only: bool) -> Self {
        let mount = Mount { volume: root, is_read_only, fs_type: "overlay".to_owned(), is_known: true };
        Self { mounts: [("/".to_owned(), mount)].into(), used_unknown: Arc::default(), is_incomplete: false }
    }

    pub fn root(&self) -> Place {
        let mount = &self.mounts["/"];
        Place { node: mount.volume.root().clone(), path: "/".to_owned(), is_read_only: mount.is_read_only }
    }

    /// Returns the mounts by their paths.
    pub fn mounts(&self) -> &BTreeMap<String, Mount> {
        &self.mounts
    }

    /// Returns the same tree, as one that lacks files of the real one.
    pub fn incomplete(self) -> Self {
        Self { is_incomplete: true, ..self }
    }

    /// True when a path has led to a file that is not known, since this was asked last.
    pub fn take_used_unknown(&self) -> bool {
        self.used_unknown.swap(false, Ordering::Relaxed)
    }

    /// Records that a process depends on something that is not known.
    pub fn mark_used_unknown(&self) {
        self.used_unknown.store(true, Ordering::Relaxed);
    }

    pub fn mount_at(&self, path: &str) -> Option<&Mount> {
        self.mounts.get(path)
    }

    /// Returns the mount that a path without links lies in, with its own path.
    pub fn mount_of(&self, path: &str) -> (&str, &Mount) {
        let holds = |at: &str| at == "/" || path == at || path.starts_with(&format!("{at}/"));
        let found = self.mounts.iter().filter(|(at, _)| holds(at)).max_by_key(|(at, _)| at.len());
        found.map_or_else(|| ("/", &self.mounts["/"]), |(at, mount)| (at.as_str(), mount))
    }
}
