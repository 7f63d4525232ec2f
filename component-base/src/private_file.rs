//! Files that hold keys, Secrets or what clients sent: readable by their owner alone, and never half written.
//!
//! The mode is given when a file or a folder is made, never a moment later. What is there with a wider mode, because an
//! earlier version made it or somebody copied it, is narrowed, and a warning says so.
//! Corresponds to the write-then-rename of k8s.io/client-go/util/cert and keyutil.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// What a file of one's own is made with, and a folder.
const FILE_MODE: u32 = 0o600;
const FOLDER_MODE: u32 = 0o700;
/// What others than the owner may do.
const OTHERS: u32 = 0o077;

/// Options by which a file that is made is its owner's alone.
pub fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(FILE_MODE);
    options
}

/// Makes the folder and those above it that are missing, each its owner's alone. One that is there stays as it is.
pub fn create_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(path)
}

/// Takes from a file or folder of ours what its mode allows to others. What belongs to somebody else cannot be
/// narrowed; a warning says that too.
pub fn narrow(path: &Path) {
    let Ok(mode) = fs::metadata(path).map(|about| about.permissions().mode()) else { return };
    if mode & OTHERS == 0 {
        return;
    }
    let (path_text, was) = (path.display(), format!("{:o}", mode & 0o7777));
    match fs::set_permissions(path, Permissions::from_mode(mode & !OTHERS)) {
        Ok(()) => tracing::warn!(path = %path_text, mode = was, "others could read this: its mode is narrowed"),
        Err(error) => tracing::warn!(path = %path_text, mode = was, %error, "others can read this, and it stays so"),
    }
}

/// Replaces the file at `path`: written beside it with mode 0600, synced, then renamed over it.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let name = path.file_name().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "no file name"))?;
    let mut beside = name.to_os_string();
    beside.push(format!(".{}.new", std::process::id()));
    let temporary = directory.join(beside);
    let written = fill(&temporary, bytes).and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written?;
    // The rename itself has to survive a power cut.
    File::open(directory)?.sync_all()
}

fn fill(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = options().write(true).create(true).truncate(true).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaces_whole_and_private() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        fs::write(&path, "old and longer").unwrap();
        write(&path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
        assert_eq!(mode(&path), 0o600);
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn folders_are_private_and_what_was_wide_is_narrowed() {
        let directory = tempfile::tempdir().unwrap();
        let folder = directory.path().join("a/b");
        create_folder(&folder).unwrap();
        assert_eq!((mode(&folder), mode(&directory.path().join("a"))), (0o700, 0o700));
        fs::set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
        create_folder(&folder).unwrap();
        assert_eq!(mode(&folder), 0o755, "it is not ours to change without a word");
        narrow(&folder);
        assert_eq!(mode(&folder), 0o700);
        narrow(&folder.join("none"));
    }

    #[test]
    fn a_failure_leaves_nothing_behind() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("folder");
        fs::create_dir(&path).unwrap();
        write(&path, b"x").unwrap_err();
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}
