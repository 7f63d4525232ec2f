//! `DiskVolume`: the files of one volume in a folder of the host.
//!
//! Corresponds to the file system on a volume. Each node of the volume is a file of the folder, named by its number; the
//! names that a container uses are inside of those files, so that nothing a container does leads out of the folder:
//!
//! ```text
//!   1   {"kind":"folder",…}  {"f":{"id":2,"is_folder":false}}     the root: its attributes, then its names
//!   2   {"kind":"file",…}    kept                                 /f
//! ```
//!
//! A folder's record is replaced as a whole. The bytes of a file are written to their place, as on a disk. Nothing is
//! synced: the files outlast every process, but not a host that loses its power.

use component_helpers::volumes::volume_files::LOCK;
use file_tree::attributes::{AttributeChange, FileType, Metadata, Owner};
use file_tree::disk::{Directory, DirectoryEntry, Disk, NewNode, ROOT};
use file_tree::error::FileError;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::SystemTime;

/// Bytes of a node's attributes, which stand before its content.
const HEADER_BYTES: usize = 128;
/// What `stat` tells of a folder's size.
const FOLDER_BYTES: u64 = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    File,
    Folder,
    Link,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Header {
    kind: Kind,
    mode: u32,
    uid: u32,
    gid: u32,
    links: u32,
}

#[derive(Serialize, Deserialize)]
struct Name {
    id: u64,
    is_folder: bool,
}

#[derive(Debug)]
pub struct DiskVolume {
    folder: PathBuf,
    /// A number below which nodes have been made.
    last_id: AtomicU64,
    /// True while the disk fails, so that it is logged once.
    is_failing: AtomicBool,
}

impl DiskVolume {
    /// Opens the volume in a folder. A new one is an empty folder with this mode and owner.
    pub fn open(folder: &Path, mode: u32, owner: Owner) -> Result<Self, FileError> {
        let volume =
            Self { folder: folder.to_owned(), last_id: AtomicU64::new(ROOT), is_failing: AtomicBool::new(false) };
        volume.checked(volume.make_root(mode, owner))?;
        Ok(volume)
    }

    /// True while the folder is there; it is removed together with the PersistentVolume.
    pub fn exists(folder: &Path) -> bool {
        folder.join(ROOT.to_string()).exists()
    }

    fn make_root(&self, mode: u32, owner: Owner) -> Result<(), Error> {
        if Self::exists(&self.folder) {
            return Ok(());
        }
        std::fs::create_dir_all(&self.folder)?;
        let _lock = self.lock()?;
        if Self::exists(&self.folder) {
            return Ok(());
        }
        let header = Header { kind: Kind::Folder, mode, uid: owner.uid, gid: owner.gid, links: 2 };
        self.replace(ROOT, &header, b"{}")
    }

    fn path(&self, id: u64) -> PathBuf {
        self.folder.join(id.to_string())
    }

    /// Waits until no other thread or process changes the volume's folders. The lock ends with the file.
    fn lock(&self) -> Result<File, Error> {
        let file = OpenOptions::new().create(true).append(true).open(self.folder.join(LOCK))?;
        file.lock()?;
        Ok(file)
    }

    fn open_node(&self, id: u64, writes: bool) -> Result<(File, Header), Error> {
        let file = OpenOptions::new().read(true).write(writes).open(self.path(id))?;
        let mut header = [0; HEADER_BYTES];
        file.read_exact_at(&mut header, 0)?;
        Ok((file, serde_json::from_slice(&header)?))
    }

    /// Replaces a node as a whole. Needs the lock.
    fn replace(&self, id: u64, header: &Header, content: &[u8]) -> Result<(), Error> {
        let new = self.folder.join(format!("{id}.new"));
        let mut file = File::create(&new)?;
        let written = file.write_all(&encode(header)?).and_then(|()| file.write_all(content));
        let replaced = written.and_then(|()| std::fs::rename(&new, self.path(id)));
        if replaced.is_err() {
            let _ = std::fs::remove_file(&new);
        }
        replaced
    }

    fn read_folder(&self, id: u64) -> Result<(Header, BTreeMap<String, Name>), Error> {
        let (mut file, header) = self.open_node(id, false)?;
        if header.kind != Kind::Folder {
            return Err(ErrorKind::NotADirectory.into());
        }
        let mut record = Vec::new();
        file.read_to_end(&mut record)?;
        Ok((header, serde_json::from_slice(record.get(HEADER_BYTES..).unwrap_or_default())?))
    }

    /// Makes the file of a new node under the next free number.
    fn reserve(&self) -> Result<(u64, File), Error> {
        loop {
            let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
            match OpenOptions::new().write(true).create_new(true).open(self.path(id)) {
                Ok(file) => return Ok((id, file)),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Says once in the log that the disk fails; the container gets the error each time.
    fn checked<T>(&self, result: Result<T, Error>) -> Result<T, FileError> {
        result.map_err(|error| {
            let kind = file_error(&error);
            let is_of_disk = matches!(kind, FileError::NoSpace | FileError::ReadOnly | FileError::Io);
            if is_of_disk && !self.is_failing.swap(true, Ordering::Relaxed) {
                tracing::warn!(volume = %self.folder.display(), %error, "the files of a volume are not written");
            }
            kind
        })
    }

    fn changed<T>(&self, result: Result<T, Error>) -> Result<T, FileError> {
        if result.is_ok() {
            self.is_failing.store(false, Ordering::Relaxed);
        }
        self.checked(result)
    }

    fn metadata_of(&self, id: u64) -> Result<Metadata, Error> {
        let (file, header) = self.open_node(id, false)?;
        let of_host = file.metadata()?;
        let content = of_host.len().saturating_sub(HEADER_BYTES as u64);
        let (file_type, size) = match header.kind {
            Kind::File => (FileType::File, content),
            Kind::Folder => (FileType::Folder, FOLDER_BYTES),
            Kind::Link => (FileType::Symlink, content),
        };
        Ok(Metadata {
            id,
            file_type,
            mode: header.mode,
            owner: Owner { uid: header.uid, gid: header.gid },
            size,
            links: header.links,
            modified_at: Timestamp::try_from(of_host.modified()?).unwrap_or_default(),
        })
    }
}

impl Disk for DiskVolume {
    fn create(&self, node: NewNode<'_>) -> Result<u64, FileError> {
        let (kind, links) = match node.file_type {
            FileType::File => (Kind::File, 1),
            FileType::Folder => (Kind::Folder, 2),
            FileType::Symlink => (Kind::Link, 1),
            FileType::Device => return Err(FileError::NotPermitted),
        };
        let content = if kind == Kind::Folder { &b"{}"[..] } else { node.content };
        let header = Header { kind, mode: node.mode, uid: node.owner.uid, gid: node.owner.gid, links };
        let create = || {
            let (id, mut file) = self.reserve()?;
            let written = encode(&header).and_then(|head| file.write_all(&head)).and_then(|()| file.write_all(content));
            if written.is_err() {
                let _ = std::fs::remove_file(self.path(id));
            }
            written.map(|()| id)
        };
        self.changed(create())
    }

    fn metadata(&self, id: u64) -> Result<Metadata, FileError> {
        self.checked(self.metadata_of(id))
    }

    fn change(&self, id: u64, change: AttributeChange) -> Result<u32, FileError> {
        let write = || {
            let _lock = self.lock()?;
            let (file, mut header) = self.open_node(id, true)?;
            let modified = change.modified_at.map_or(file.metadata()?.modified()?, SystemTime::from);
            header.mode = change.mode.map_or(header.mode, |mode| mode & 0o7777);
            if let Some(owner) = change.owner {
                (header.uid, header.gid) = (owner.uid, owner.gid);
            }
            header.links = header.links.saturating_add_signed(change.links);
            file.write_all_at(&encode(&header)?, 0)?;
            // The header is no content: its change is no modification.
            file.set_modified(modified)?;
            Ok(header.links)
        };
        self.changed(write())
    }

    fn read(&self, id: u64, offset: usize, length: usize) -> Result<Vec<u8>, FileError> {
        let read = || {
            let (file, header) = self.open_node(id, false)?;
            if header.kind == Kind::Folder {
                return Ok(Vec::new());
            }
            let size = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX).saturating_sub(HEADER_BYTES);
            let mut bytes = vec![0; size.saturating_sub(offset).min(length)];
            file.read_exact_at(&mut bytes, (HEADER_BYTES + offset.min(size)) as u64)?;
            Ok(bytes)
        };
        self.checked(read())
    }

    fn write(&self, id: u64, offset: Option<usize>, bytes: &[u8]) -> Result<usize, FileError> {
        let write = || {
            // Another process may append at the same time.
            let _lock = if offset.is_none() { Some(self.lock()?) } else { None };
            let file = OpenOptions::new().write(true).open(self.path(id))?;
            let at = match offset {
                Some(offset) => (HEADER_BYTES + offset) as u64,
                None => file.metadata()?.len(),
            };
            file.write_all_at(bytes, at)?;
            Ok(usize::try_from(at).unwrap_or(usize::MAX) - HEADER_BYTES + bytes.len())
        };
        self.changed(write())
    }

    fn truncate(&self, id: u64, length: usize) -> Result<(), FileError> {
        let truncate = || {
            let file = OpenOptions::new().write(true).open(self.path(id))?;
            file.set_len((HEADER_BYTES + length) as u64)
        };
        self.changed(truncate())
    }

    fn directory(&self, id: u64) -> Result<Directory, FileError> {
        let (_, names) = self.checked(self.read_folder(id))?;
        let entry = |(name, Name { id, is_folder })| (name, DirectoryEntry { id, is_folder });
        Ok(names.into_iter().map(entry).collect())
    }

    fn rename(&self, folder: u64, name: &str, to: Option<DirectoryEntry>) -> Result<Option<DirectoryEntry>, FileError> {
        let rename = || {
            let _lock = self.lock()?;
            let (mut header, mut names) = self.read_folder(folder)?;
            let before = match to {
                Some(DirectoryEntry { id, is_folder }) => names.insert(name.to_owned(), Name { id, is_folder }),
                None => names.remove(name),
            };
            let added = i32::from(to.is_some_and(|entry| entry.is_folder));
            let removed = i32::from(before.as_ref().is_some_and(|entry| entry.is_folder));
            header.links = header.links.saturating_add_signed(added - removed);
            self.replace(folder, &header, &serde_json::to_vec(&names)?)?;
            Ok(before.map(|Name { id, is_folder }| DirectoryEntry { id, is_folder }))
        };
        self.changed(rename())
    }

    fn remove(&self, id: u64) -> Result<(), FileError> {
        self.changed(std::fs::remove_file(self.path(id)))
    }

    fn used_bytes(&self) -> u64 {
        let ids = std::fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let ids = ids.filter_map(|entry| entry.file_name().to_str()?.parse::<u64>().ok());
        let nodes = ids.filter_map(|id| self.metadata_of(id).ok());
        nodes.filter(|node| node.file_type == FileType::File).map(|node| node.size).sum()
    }
}

/// Returns the bytes of a header, filled up with spaces.
fn encode(header: &Header) -> Result<Vec<u8>, Error> {
    let mut bytes = serde_json::to_vec(header)?;
    bytes.resize(HEADER_BYTES - 1, b' ');
    bytes.push(b'\n');
    Ok(bytes)
}

/// Returns what a container sees of an error of the host.
fn file_error(error: &Error) -> FileError {
    match error.kind() {
        ErrorKind::NotFound => FileError::NotFound,
        ErrorKind::NotADirectory => FileError::NotFolder,
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => FileError::NoSpace,
        // The user of the simulator lacks the right, not the one in the container.
        ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied => FileError::ReadOnly,
        _ => FileError::Io,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_sees_the_words_of_its_own_system() {
        for (error, expected) in [
            (ErrorKind::StorageFull, "No space left on device"),
            (ErrorKind::QuotaExceeded, "No space left on device"),
            (ErrorKind::ReadOnlyFilesystem, "Read-only file system"),
            (ErrorKind::PermissionDenied, "Read-only file system"),
            (ErrorKind::NotFound, "No such file or directory"),
            (ErrorKind::UnexpectedEof, "I/O error"),
        ] {
            assert_eq!(file_error(&error.into()).to_string(), expected);
        }
    }

    #[test]
    fn a_header_always_has_its_length() {
        let header = Header { kind: Kind::Folder, mode: u32::MAX, uid: u32::MAX, gid: u32::MAX, links: u32::MAX };
        let bytes = encode(&header).unwrap();
        assert_eq!(bytes.len(), HEADER_BYTES);
        assert_eq!(serde_json::from_slice::<Header>(&bytes).unwrap().links, u32::MAX);
    }
}
