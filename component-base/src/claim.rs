//! `Claim`: exclusive use of a data directory by one process, with a numbered format.
//!
//! The process holds the file `lock` while the claim lasts; the file `format` has the number. Until the lock is held and
//! the format is known, only an empty lock file is written, and only if the directory is new or already a data directory.
//! The directory and its two files are readable by their owner alone.

use crate::private_file;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

const LOCK: &str = "lock";
const FORMAT: &str = "format";

/// The reason why a directory cannot be claimed, in one line. Nothing has been overwritten.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    #[error("{}: in use by another process", .0.display())]
    Locked(PathBuf),
    #[error("{}: written in format {found} by a later version; this one reads up to format {known}", path.display())]
    LaterFormat { path: PathBuf, found: u32, known: u32 },
    #[error("{}: damaged: {why}", path.display())]
    Damaged { path: PathBuf, why: &'static str },
    #[error("{}: not empty, and not a directory of this program: it has no file named format", .0.display())]
    Foreign(PathBuf),
    #[error("{}: not a directory", .0.display())]
    NoDirectory(PathBuf),
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

/// A directory that this process holds as long as the value lives.
#[derive(Debug)]
pub struct Claim {
    root: PathBuf,
    lock: File,
}

impl Claim {
    /// Creates or opens the directory for a program that writes this format.
    pub fn take(root: &Path, format: u32) -> Result<Self, ClaimError> {
        if root.exists() && !root.is_dir() {
            return Err(ClaimError::NoDirectory(root.to_owned()));
        }
        private_file::create_folder(root).map_err(at(root))?;
        let root = fs::canonicalize(root).map_err(at(root))?;
        if !root.join(FORMAT).exists() && holds_anything(&root).map_err(at(&root))? {
            return Err(ClaimError::Foreign(root));
        }
        let path = root.join(LOCK);
        let lock = private_file::options().write(true).create(true).truncate(false).open(&path).map_err(at(&path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(ClaimError::Locked(root)),
            Err(TryLockError::Error(source)) => return Err(ClaimError::Io { path, source }),
        }
        let claim = Self { root, lock };
        claim.check(format)?;
        // They may exist with wider modes.
        for path in [&claim.root, &claim.root.join(LOCK), &claim.root.join(FORMAT)] {
            private_file::narrow(path);
        }
        Ok(claim)
    }

    /// Returns the absolute path of the directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    fn check(&self, known: u32) -> Result<(), ClaimError> {
        let path = self.root.join(FORMAT);
        let damaged = |why| Err(ClaimError::Damaged { path: path.clone(), why });
        match fs::read_to_string(&path).map(|text| text.trim().parse::<u32>()) {
            Ok(Ok(found)) if found > known => Err(ClaimError::LaterFormat { path, found, known }),
            Ok(Ok(found)) if found == known => Ok(()),
            Ok(_) => damaged("it is no format number"),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => damaged("it is no format number"),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                private_file::write(&path, format!("{known}\n").as_bytes()).map_err(at(&path))?;
                self.sync_parent().map_err(at(&path))
            }
            Err(source) => Err(ClaimError::Io { path, source }),
        }
    }

    /// Makes the directory's entry in its parent durable.
    fn sync_parent(&self) -> io::Result<()> {
        self.root.parent().map_or(Ok(()), |parent| File::open(parent)?.sync_all())
    }
}

impl Drop for Claim {
    /// Unlocks the file, which closing it would not do at once: a child process that is being started has a copy of the
    /// descriptor until it executes its program.
    fn drop(&mut self) {
        // The kernel unlocks what this cannot, once the last copy is closed.
        let _ = self.lock.unlock();
    }
}

/// Returns true if a process holds the directory at present.
pub fn is_taken(root: &Path) -> Result<bool, ClaimError> {
    let path = root.join(LOCK);
    let lock = match File::open(&path) {
        Ok(lock) => lock,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(source) => return Err(ClaimError::Io { path, source }),
    };
    match lock.try_lock_shared() {
        Ok(()) => Ok(false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(source)) => Err(ClaimError::Io { path, source }),
    }
}

/// Returns true if the directory holds more than a lock and the rest of an interrupted claim.
fn holds_anything(root: &Path) -> io::Result<bool> {
    for entry in fs::read_dir(root)? {
        let name = entry?.file_name();
        let name = name.to_string_lossy();
        if name != LOCK && !name.starts_with("format.") {
            return Ok(true);
        }
    }
    Ok(false)
}

fn at(path: &Path) -> impl Fn(io::Error) -> ClaimError + use<> {
    let path = path.to_owned();
    move |source| ClaimError::Io { path: path.clone(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_has_one_owner_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("a/b");
        let first = Claim::take(&root, 1).unwrap();
        assert!(matches!(Claim::take(&root, 1), Err(ClaimError::Locked(_))));
        assert!(is_taken(&root).unwrap() && !is_taken(folder.path()).unwrap());
        drop(first);
        assert!(!is_taken(&root).unwrap());
        Claim::take(&root, 1).unwrap();
        // A claim that was interrupted before it wrote the format starts over.
        fs::remove_file(root.join("format")).unwrap();
        fs::write(root.join("format.77.new"), "").unwrap();
        Claim::take(&root, 1).unwrap();
    }

    /// A child process shares the descriptors of its parent from its fork until it executes its program.
    #[test]
    fn a_copy_of_the_descriptor_in_a_child_process_does_not_hold_the_directory() {
        let folder = tempfile::tempdir().unwrap();
        let claim = Claim::take(folder.path(), 1).unwrap();
        let inherited = claim.lock.try_clone().unwrap();
        drop(claim);
        assert!(!is_taken(folder.path()).unwrap());
        Claim::take(folder.path(), 1).unwrap();
        drop(inherited);
    }

    #[test]
    fn what_is_not_ours_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for (files, expected) in [
            (
                &[("cat.png", "meow")][..],
                "DIR: not empty, and not a directory of this program: it has no file named format",
            ),
            (
                &[("lock", "mine"), ("cat.png", "meow")],
                "DIR: not empty, and not a directory of this program: it has no file named format",
            ),
            (&[("format", "9\n")], "DIR/format: written in format 9 by a later version; this one reads up to format 1"),
            (&[("format", "")], "DIR/format: damaged: it is no format number"),
            (&[("format", "one\n")], "DIR/format: damaged: it is no format number"),
            (&[("format", "0\n")], "DIR/format: damaged: it is no format number"),
        ] {
            let root = tempfile::tempdir_in(root).unwrap();
            for (name, text) in files {
                fs::write(root.path().join(name), text).unwrap();
            }
            let error = Claim::take(root.path(), 1).unwrap_err().to_string();
            let shown = fs::canonicalize(root.path()).unwrap();
            assert_eq!(error.replace(&*shown.to_string_lossy(), "DIR"), expected);
            for (name, text) in files {
                assert_eq!(fs::read_to_string(root.path().join(name)).unwrap(), *text);
            }
        }
        let file = root.join("file");
        fs::write(&file, "x").unwrap();
        assert!(matches!(Claim::take(&file, 1), Err(ClaimError::NoDirectory(_))));
        assert!(matches!(Claim::take(&file.join("below"), 1), Err(ClaimError::Io { .. })));
    }
}
