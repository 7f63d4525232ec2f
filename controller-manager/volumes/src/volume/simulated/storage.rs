//! `Storage`: the folder in which the nodes keep the files of simulated volumes. The driver copies and deletes them there.
//!
//! Corresponds to the storage system behind a CSI driver, as its controller plugin reaches it. Without a folder the files lie
//! in the memory of the nodes' process: nothing of a volume is left to delete, and none can be cloned.

use component_base::env::Env;
use component_helpers::volumes::volume_files::{LOCK, folder_of};
use std::fs::{self, File, OpenOptions};
use std::io::{Error, ErrorKind};
use std::path::{Path, PathBuf};

/// Ends the name of a copy that is not complete. No volume has such a name.
const PART: &str = ".part";

#[derive(Clone)]
pub struct Storage {
    folder: Option<PathBuf>,
    env: Env,
}

impl Storage {
    pub fn new(folder: Option<PathBuf>, env: &Env) -> Self {
        Self { folder, env: env.clone() }
    }

    /// Returns true if volumes can be cloned.
    pub fn can_clone(&self) -> bool {
        self.folder.is_some()
    }

    /// Deletes the files of a volume. It is done already when there are none.
    pub async fn delete(&self, name: &str) -> Result<(), Error> {
        let Some(folder) = self.folder_of(name) else { return Ok(()) };
        let deleted = self.env.blocking(move || fs::remove_dir_all(folder)).await;
        deleted.or_else(|error| if error.kind() == ErrorKind::NotFound { Ok(()) } else { Err(error) })
    }

    /// Gives a new volume the files of another one. A copy that is there already stays: its user may have changed it.
    pub async fn copy(&self, from: &str, to: &str) -> Result<(), Error> {
        let (Some(from), Some(to)) = (self.folder_of(from), self.folder_of(to)) else { return Ok(()) };
        self.env.blocking(move || copy(&from, &to)).await
    }

    fn folder_of(&self, name: &str) -> Option<PathBuf> {
        Some(self.folder.as_ref()?.join(folder_of(name)))
    }
}

fn copy(from: &Path, to: &Path) -> Result<(), Error> {
    // A volume that no pod has used has no files.
    if to.exists() || !from.exists() {
        return Ok(());
    }
    let mut part = to.as_os_str().to_owned();
    part.push(PART);
    let part = PathBuf::from(part);
    if part.exists() {
        fs::remove_dir_all(&part)?;
    }
    fs::create_dir(&part)?;
    // While nodes wait for the lock, no name comes or goes.
    let lock = OpenOptions::new().create(true).append(true).open(from.join(LOCK))?;
    lock.lock()?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        // Other files are no nodes.
        let is_node = entry.file_name().to_str().is_some_and(|name| name.parse::<u64>().is_ok());
        if is_node && entry.file_type()?.is_file() {
            let copied = part.join(entry.file_name());
            fs::copy(entry.path(), &copied)?;
            File::options().write(true).open(copied)?.set_modified(entry.metadata()?.modified()?)?;
        }
    }
    fs::rename(part, to)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn storage(folder: &Path) -> Storage {
        Storage::new(Some(folder.to_owned()), &Env::simulated(1))
    }

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[tokio::test(start_paused = true)]
    async fn a_copy_is_complete_and_made_once() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("source");
        fs::create_dir_all(&source).unwrap();
        for (name, text) in [("1", "root"), ("2", "data"), ("2.new", "half"), (LOCK, "")] {
            fs::write(source.join(name), text).unwrap();
        }
        // An earlier attempt was cut off.
        fs::create_dir_all(folder.path().join("clone.part/9")).unwrap();
        let storage = storage(folder.path());
        storage.copy("source", "clone").await.unwrap();
        assert_eq!(names(&folder.path().join("clone")), ["1", "2"]);
        assert_eq!(names(folder.path()), ["clone", "source"]);
        fs::write(source.join("2"), "later").unwrap();
        storage.copy("source", "clone").await.unwrap();
        assert_eq!(fs::read_to_string(folder.path().join("clone/2")).unwrap(), "data");
        storage.copy("unused", "empty").await.unwrap();
        assert_eq!(names(folder.path()), ["clone", "source"]);
    }

    #[tokio::test(start_paused = true)]
    async fn files_are_deleted_and_errors_told() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("v")).unwrap();
        fs::write(folder.path().join("file"), "").unwrap();
        let storage = storage(folder.path());
        storage.delete("v").await.unwrap();
        storage.delete("v").await.unwrap();
        assert_eq!(names(folder.path()), ["file"]);
        assert!(storage.delete("file").await.is_err());
        assert!(!Storage::new(None, &Env::simulated(1)).can_clone());
    }
}
