//! Files with keys, Secrets or clients' data: readable by their owner alone, and written atomically.
//!
//! A file or folder gets its mode when it is created, never afterwards. If one exists with a wider mode, for example
//! because somebody copied it, the mode is narrowed with a warning.
//! Corresponds to the write-then-rename of k8s.io/client-go/util/cert and keyutil.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// Modes of new private files and folders.
const FILE_MODE: u32 = 0o600;
const FOLDER_MODE: u32 = 0o700;
/// Permission bits of everybody but the owner.
const OTHERS: u32 = 0o077;

/// Returns options that create a file for its owner alone.
pub fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(FILE_MODE);
    options
}

/// Creates the folder and its missing parents, each for its owner alone. Existing ones stay unchanged.
pub fn create_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(path)
}

/// Removes the permissions of others from a file or folder. One that belongs to another user cannot be narrowed; a
/// warning says that too.
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

/// Replaces the file at `path`: writes a new file beside it with mode 0600, syncs it, and renames it.
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
    // Makes the rename durable.
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
