//! Finds the node that a path means: follows links, enters mounts, and checks that each folder may be searched.

use super::actor::Actor;
use super::error::FileError;
use super::mounts::FileTree;
use super::place::{Access, Place, check, join};
use std::sync::atomic::Ordering;

/// Links that one path may lead through.
const MAX_LINKS: usize = 40;
const MAX_PATH_BYTES: usize = 4096;
const MAX_NAME_BYTES: usize = 255;

/// A name in a folder. The node itself may be missing.
#[derive(Clone, Debug)]
pub struct Entry {
    pub folder: Place,
    pub name: String,
    pub place: Option<Place>,
}

impl Entry {
    /// Returns the path of the entry.
    pub fn path(&self) -> String {
        join(&self.folder.path, &self.name)
    }

    /// Checks that names in the folder may be changed.
    pub fn check_change(&self, actor: &Actor) -> Result<(), FileError> {
        if self.folder.is_read_only {
            return Err(FileError::ReadOnly);
        }
        check(&self.folder.node, actor, Access::Write)?;
        check(&self.folder.node, actor, Access::Execute)
    }

    /// Checks that the existing node may be removed or renamed. In a folder with the sticky bit only an owner may.
    pub fn check_removal(&self, actor: &Actor) -> Result<(), FileError> {
        self.check_change(actor)?;
        let (folder, Some(place)) = (self.folder.node.metadata(), &self.place) else { return Ok(()) };
        let owns = [folder.owner.uid, place.node.metadata().owner.uid].contains(&actor.uid);
        if folder.mode & 0o1000 != 0 && actor.uid != 0 && !owns {
            return Err(FileError::NotPermitted);
        }
        Ok(())
    }
}

impl FileTree {
    /// Returns the node at a path. A relative path begins at the actor's working folder.
    pub fn find(&self, actor: &Actor, path: &str, follows_last: bool) -> Result<Place, FileError> {
        let must_be_folder = path.ends_with('/') || path.ends_with("/.");
        let place = self.entry(actor, path, follows_last || must_be_folder)?.place.ok_or(FileError::NotFound)?;
        if must_be_folder && !place.node.is_folder() {
            return Err(FileError::NotFolder);
        }
        Ok(place)
    }

    /// Returns the folder and the name that a path means. The folder must exist.
    pub fn entry(&self, actor: &Actor, path: &str, follows_last: bool) -> Result<Entry, FileError> {
        if path.is_empty() {
            return Err(FileError::NotFound);
        }
        if path.len() > MAX_PATH_BYTES {
            return Err(FileError::NameTooLong);
        }
        let start = if path.starts_with('/') { "/" } else { actor.working_dir.as_str() };
        // Names that are still to be walked, the next one last.
        let mut rest: Vec<String> = path.split('/').rev().map(str::to_owned).collect();
        rest.extend(start.split('/').rev().map(str::to_owned));
        rest.retain(|name| !name.is_empty() && name != ".");
        let root = self.root();
        let mut above: Vec<(Place, String)> = Vec::new();
        let mut here = root;
        let mut links = 0;
        while let Some(name) = rest.pop() {
            if name.len() > MAX_NAME_BYTES {
                return Err(FileError::NameTooLong);
            }
            if !here.node.is_folder() {
                return Err(FileError::NotFolder);
            }
            check(&here.node, actor, Access::Execute)?;
            if name == ".." {
                if let Some((parent, _)) = above.pop() {
                    here = parent;
                }
                continue;
            }
            let Some(next) = self.step(&here, &name) else {
                if self.is_incomplete {
                    self.used_unknown.store(true, Ordering::Relaxed);
                }
                return match rest.is_empty() {
                    true => Ok(Entry { folder: here, name, place: None }),
                    false => Err(FileError::NotFound),
                };
            };
            let follows = follows_last || !rest.is_empty();
            if let Some(target) = follows.then(|| next.node.target()).flatten() {
                links += 1;
                if links > MAX_LINKS {
                    return Err(FileError::TooManyLinks);
                }
                if target.starts_with('/') {
                    above.clear();
                    here = self.root();
                }
                let names = target.split('/').rev().filter(|name| !name.is_empty() && *name != ".");
                rest.extend(names.map(str::to_owned));
                continue;
            }
            above.push((std::mem::replace(&mut here, next), name));
        }
        match above.pop() {
            Some((folder, name)) => Ok(Entry { folder, name, place: Some(here) }),
            None => Ok(Entry { folder: here.clone(), name: String::new(), place: Some(here) }),
        }
    }

    /// Returns the node with this name below a folder, or what is mounted there.
    fn step(&self, folder: &Place, name: &str) -> Option<Place> {
        let path = join(&folder.path, name);
        if let Some(mount) = self.mount_at(&path) {
            if !mount.is_known {
                self.used_unknown.store(true, Ordering::Relaxed);
            }
            return Some(Place { node: mount.volume.root().clone(), path, is_read_only: mount.is_read_only });
        }
        let node = folder.node.child(name)?;
        Some(Place { node, path, is_read_only: folder.is_read_only })
    }
}
