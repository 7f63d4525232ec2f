//! The operations on files. Each one checks the permissions of the user who asks for it.

use super::actor::{Actor, OpenOptions};
use super::error::FileError;
use super::lookup::Entry;
use super::mounts::{FileTree, Mount};
use super::node::{AttributeChange, Metadata, Node, NodeKind, NodeRef, Owner};
use super::place::{Access, Place, check, join};
use super::volume::names;
use jiff::Timestamp;
use std::collections::BTreeMap;

impl FileTree {
    /// Makes a volume visible at an absolute path. The mount point is made when it is missing, as a runtime does. The
    /// path's own links are followed, so that `/var/run/x` is mounted at `/run/x` where the first leads to the second.
    pub fn mount(&mut self, path: &str, mount: Mount, now: Timestamp) {
        let actor = Actor { umask: 0, ..Actor::root(now) };
        let mut at = "/".to_owned();
        let parts: Vec<&str> = names(path).filter(|name| *name != "..").collect();
        for (number, name) in parts.iter().enumerate() {
            let wanted = join(&at, name);
            at = match self.find(&actor, &wanted, true) {
                Ok(place) => place.path,
                Err(_) => {
                    let is_last = number + 1 == parts.len();
                    let kind = match is_last && !mount.volume.root().is_folder() {
                        true => NodeKind::File(Vec::new()),
                        false => NodeKind::Folder(BTreeMap::new()),
                    };
                    let Ok(entry) = self.entry(&actor, &wanted, true) else { return };
                    let space = entry.folder.node.space();
                    let made = Node::create(space, kind, 0o755, Owner::default(), now);
                    if made.and_then(|node| entry.folder.node.insert(&entry.name, node, now)).is_err() {
                        return;
                    }
                    entry.path()
                }
            };
        }
        self.mounts.insert(at, mount);
    }

    pub fn metadata(&self, actor: &Actor, path: &str, follows: bool) -> Result<Metadata, FileError> {
        Ok(self.find(actor, path, follows)?.node.metadata())
    }

    pub fn is_folder(&self, actor: &Actor, path: &str) -> bool {
        self.find(actor, path, true).is_ok_and(|place| place.node.is_folder())
    }

    /// True when the actor has this right to the file.
    pub fn allows(&self, actor: &Actor, path: &str, access: Access) -> bool {
        let Ok(place) = self.find(actor, path, true) else { return false };
        let is_refused = access == Access::Write && place.is_read_only;
        !is_refused && check(&place.node, actor, access).is_ok()
    }

    /// Returns the names in a folder, sorted.
    pub fn read_folder(&self, actor: &Actor, path: &str) -> Result<Vec<String>, FileError> {
        let place = self.find(actor, path, true)?;
        if !place.node.is_folder() {
            return Err(FileError::NotFolder);
        }
        check(&place.node, actor, Access::Read)?;
        Ok(place.node.names())
    }

    pub fn read_link(&self, actor: &Actor, path: &str) -> Result<String, FileError> {
        self.find(actor, path, false)?.node.target().ok_or(FileError::Invalid)
    }

    /// Returns the content of a file.
    pub fn read(&self, actor: &Actor, path: &str) -> Result<Vec<u8>, FileError> {
        Ok(self.open(actor, path, OpenOptions::READ)?.node.read(0, usize::MAX))
    }

    /// Writes a whole file.
    pub fn write(&self, actor: &Actor, path: &str, content: &[u8]) -> Result<(), FileError> {
        self.open(actor, path, OpenOptions::CREATE)?.node.write(None, content, actor.now).map(drop)
    }

    /// Returns the file at a path; makes or empties it when the options say so.
    pub fn open(&self, actor: &Actor, path: &str, options: OpenOptions) -> Result<Place, FileError> {
        let entry = self.entry(actor, path, true)?;
        let Some(place) = entry.place.clone() else {
            if !options.creates {
                return Err(FileError::NotFound);
            }
            if path.ends_with('/') {
                return Err(FileError::IsFolder);
            }
            let node = self.create(actor, path, NodeKind::File(Vec::new()), options.mode & !actor.umask)?;
            return Ok(Place { node, path: entry.path(), is_read_only: false });
        };
        if options.is_new && !place.node.is_replayed(actor.now) {
            return Err(FileError::Exists);
        }
        let is_device = place.node.device().is_some();
        if options.writes {
            if place.node.is_folder() {
                return Err(FileError::IsFolder);
            }
            if place.is_read_only && !is_device {
                return Err(FileError::ReadOnly);
            }
            check(&place.node, actor, Access::Write)?;
        }
        if options.reads {
            check(&place.node, actor, Access::Read)?;
        }
        if options.truncates && !is_device {
            place.node.truncate(0, actor.now)?;
        }
        Ok(place)
    }

    pub fn create_folder(&self, actor: &Actor, path: &str, mode: u32) -> Result<(), FileError> {
        let kind = NodeKind::Folder(BTreeMap::new());
        self.create(actor, path.trim_end_matches('/'), kind, mode & !actor.umask).map(drop)
    }

    pub fn create_link(&self, actor: &Actor, path: &str, target: &str) -> Result<(), FileError> {
        self.create(actor, path, NodeKind::Symlink(target.to_owned()), 0o777).map(drop)
    }

    fn create(&self, actor: &Actor, path: &str, kind: NodeKind, mode: u32) -> Result<NodeRef, FileError> {
        let follows = matches!(kind, NodeKind::File(_));
        let entry = self.entry(actor, if path.is_empty() { "/" } else { path }, follows)?;
        if entry.folder.node.is_replayed(actor.now) {
            // What was made then is there; what is not was removed later.
            let made = entry.place.map(|place| place.node);
            let space = entry.folder.node.space();
            return Ok(made.unwrap_or_else(|| Node::new(space, kind, mode, actor.owner(), actor.now)));
        }
        if entry.place.is_some() {
            return Err(FileError::Exists);
        }
        entry.check_change(actor)?;
        let folder = entry.folder.node.metadata();
        let (mut owner, mut mode) = (actor.owner(), mode);
        // A folder with the set-group-id bit passes on its group, and the bit to folders.
        if folder.mode & 0o2000 != 0 {
            owner.gid = folder.owner.gid;
            if matches!(kind, NodeKind::Folder(_)) {
                mode |= 0o2000;
            }
        }
        let node = Node::create(entry.folder.node.space(), kind, mode, owner, actor.now)?;
        entry.folder.node.insert(&entry.name, node.clone(), actor.now)?;
        Ok(node)
    }

    /// Removes a file or link.
    pub fn remove_file(&self, actor: &Actor, path: &str) -> Result<(), FileError> {
        let entry = self.entry(actor, path, false)?;
        if entry.folder.node.is_replayed(actor.now) {
            return Ok(());
        }
        let place = entry.place.as_ref().ok_or(FileError::NotFound)?;
        if place.node.is_folder() {
            return Err(FileError::IsFolder);
        }
        self.remove(actor, &entry)
    }

    /// Removes an empty folder.
    pub fn remove_folder(&self, actor: &Actor, path: &str) -> Result<(), FileError> {
        let entry = self.entry(actor, path, false)?;
        if entry.folder.node.is_replayed(actor.now) {
            return Ok(());
        }
        let place = entry.place.as_ref().ok_or(FileError::NotFound)?;
        if !place.node.is_folder() {
            return Err(FileError::NotFolder);
        }
        if !place.node.names().is_empty() {
            return Err(FileError::NotEmpty);
        }
        self.remove(actor, &entry)
    }

    fn remove(&self, actor: &Actor, entry: &Entry) -> Result<(), FileError> {
        entry.check_removal(actor)?;
        if self.mounts.contains_key(&entry.path()) || entry.name.is_empty() {
            return Err(FileError::Busy);
        }
        entry.folder.node.remove(&entry.name, actor.now)?.map_or(Ok(()), |node| node.unlink(actor.now))
    }

    /// Moves a file or folder within one volume; an existing file is replaced.
    pub fn rename(&self, actor: &Actor, from: &str, to: &str) -> Result<(), FileError> {
        let (source, target) = (self.entry(actor, from, false)?, self.entry(actor, to, false)?);
        if source.folder.node.is_replayed(actor.now) && target.folder.node.is_replayed(actor.now) {
            return Ok(());
        }
        let moved = source.place.as_ref().ok_or(FileError::NotFound)?;
        source.check_removal(actor)?;
        target.check_removal(actor)?;
        let (from, to) = (source.path(), target.path());
        if self.mounts.contains_key(&from) || self.mounts.contains_key(&to) {
            return Err(FileError::Busy);
        }
        if self.mount_of(&from).0 != self.mount_of(&to).0 {
            return Err(FileError::CrossDevice);
        }
        if to.starts_with(&format!("{from}/")) {
            return Err(FileError::Invalid);
        }
        match &target.place {
            Some(place) if place.node.id == moved.node.id => return Ok(()),
            Some(place) if place.node.is_folder() => match moved.node.is_folder() {
                false => return Err(FileError::IsFolder),
                true if !place.node.names().is_empty() => return Err(FileError::NotEmpty),
                true => {}
            },
            Some(_) if moved.node.is_folder() => return Err(FileError::NotFolder),
            _ => {}
        }
        // First the new name: if the process ends in between, the file has two names rather than none.
        let replaced = target.folder.node.insert(&target.name, moved.node.clone(), actor.now)?;
        source.folder.node.remove(&source.name, actor.now)?;
        replaced.map_or(Ok(()), |node| node.unlink(actor.now))
    }

    /// Gives a file a second name.
    pub fn hard_link(&self, actor: &Actor, from: &str, to: &str) -> Result<(), FileError> {
        let target = self.entry(actor, to, false)?;
        if target.folder.node.is_replayed(actor.now) {
            return Ok(());
        }
        let place = self.find(actor, from, false)?;
        if place.node.is_folder() {
            return Err(FileError::NotPermitted);
        }
        if target.place.is_some() {
            return Err(FileError::Exists);
        }
        target.check_change(actor)?;
        if self.mount_of(&place.path).0 != self.mount_of(&target.path()).0 {
            return Err(FileError::CrossDevice);
        }
        place.node.change(AttributeChange { links: 1, ..AttributeChange::default() }, actor.now)?;
        target.folder.node.insert(&target.name, place.node, actor.now).map(drop)
    }

    pub fn set_mode(&self, actor: &Actor, path: &str, mode: u32) -> Result<(), FileError> {
        let place = self.changeable(actor, path, true)?;
        place.node.change(AttributeChange { mode: Some(mode), ..AttributeChange::default() }, actor.now)
    }

    /// Changes the owner; only root gives a file to another user.
    pub fn set_owner(
        &self,
        actor: &Actor,
        path: &str,
        uid: Option<u32>,
        gid: Option<u32>,
        follows: bool,
    ) -> Result<(), FileError> {
        let place = self.changeable(actor, path, follows)?;
        let owner = place.node.metadata().owner;
        let in_group = gid.is_none_or(|gid| gid == actor.gid || actor.groups.contains(&gid));
        if actor.uid != 0 && (uid.is_some_and(|uid| uid != owner.uid) || !in_group) {
            return Err(FileError::NotPermitted);
        }
        let owner = Owner { uid: uid.unwrap_or(owner.uid), gid: gid.unwrap_or(owner.gid) };
        place.node.change(AttributeChange { owner: Some(owner), ..AttributeChange::default() }, actor.now)
    }

    pub fn set_modified(&self, actor: &Actor, path: &str, at: Timestamp) -> Result<(), FileError> {
        let place = self.changeable(actor, path, true)?;
        place.node.change(AttributeChange { modified_at: Some(at), ..AttributeChange::default() }, actor.now)
    }

    /// Returns a node whose attributes the actor may change: the owner and root may.
    fn changeable(&self, actor: &Actor, path: &str, follows: bool) -> Result<Place, FileError> {
        let place = self.find(actor, path, follows)?;
        if place.is_read_only {
            return Err(FileError::ReadOnly);
        }
        if actor.uid != 0 && place.node.metadata().owner.uid != actor.uid {
            return Err(FileError::NotPermitted);
        }
        Ok(place)
    }
}
