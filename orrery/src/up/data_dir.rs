//! The data directory of one cluster: who may use it, and what lies where.
//!
//! `lock` is held by the running `up`, `format` names the layout's version, `pki/<component>` holds what that
//! component alone reads, `store` belongs to the API server, `logs` has a file per component, and
//! `kubeconfig` is the administrator's.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

/// Layout of the directory that this program writes. A higher number on disk is of a later program.
const FORMAT: u32 = 1;

#[derive(Debug, thiserror::Error)]
pub enum DataDirError {
    #[error("{}: another `orrery up` is running on this data directory", .0.display())]
    Locked(PathBuf),
    #[error("{}: written in format {found} by a later version; this one reads up to format {FORMAT}", path.display())]
    LaterFormat { path: PathBuf, found: u32 },
    #[error("{}: damaged: {why}", path.display())]
    Damaged { path: PathBuf, why: String },
    #[error("{}: not empty and not a data directory", .0.display())]
    Foreign(PathBuf),
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

/// An opened directory. The lock lasts as long as this value.
#[derive(Debug)]
pub struct DataDir {
    root: PathBuf,
    _lock: File,
}

impl DataDir {
    /// Creates or opens the directory and takes its lock. Nothing is written before lock and format are seen to be good.
    pub fn open(root: &Path) -> Result<Self, DataDirError> {
        let at = |path: &Path| {
            let path = path.to_owned();
            move |source| DataDirError::Io { path, source }
        };
        let is_new = fs::read_dir(root).map_or(true, |mut entries| entries.next().is_none());
        if !is_new && !root.join("format").exists() && !root.join("lock").exists() {
            return Err(DataDirError::Foreign(root.to_owned()));
        }
        fs::create_dir_all(root).map_err(at(root))?;
        let root = fs::canonicalize(root).map_err(at(root))?;
        let lock_path = root.join("lock");
        let lock = File::create(&lock_path).map_err(at(&lock_path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(DataDirError::Locked(root)),
            Err(TryLockError::Error(source)) => return Err(DataDirError::Io { path: lock_path, source }),
        }
        let format = root.join("format");
        match fs::read_to_string(&format) {
            Ok(text) => check_format(&format, &text)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                fs::write(&format, format!("{FORMAT}\n")).map_err(at(&format))?;
            }
            Err(error) => return Err(at(&format)(error)),
        }
        let data_dir = Self { root, _lock: lock };
        for folder in [data_dir.logs(), data_dir.pki()] {
            fs::create_dir_all(&folder).map_err(at(&folder))?;
        }
        Ok(data_dir)
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn pki(&self) -> PathBuf {
        self.root.join("pki")
    }

    /// What the named component alone reads.
    pub fn pki_of(&self, component: &str) -> PathBuf {
        self.pki().join(component)
    }

    /// The API server's own.
    pub fn store(&self) -> PathBuf {
        self.root.join("store")
    }

    pub fn logs(&self) -> PathBuf {
        self.root.join("logs")
    }

    pub fn log_of(&self, component: &str) -> PathBuf {
        self.logs().join(format!("{component}.log"))
    }

    /// The administrator's kubeconfig.
    pub fn kubeconfig(&self) -> PathBuf {
        self.root.join("kubeconfig")
    }
}

fn check_format(path: &Path, text: &str) -> Result<(), DataDirError> {
    let path = path.to_owned();
    match text.trim().parse::<u32>() {
        Ok(found) if found <= FORMAT => Ok(()),
        Ok(found) => Err(DataDirError::LaterFormat { path, found }),
        Err(_) => Err(DataDirError::Damaged { path, why: "not a format number".to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_has_one_user_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("data");
        let first = DataDir::open(&root).unwrap();
        assert!(matches!(DataDir::open(&root), Err(DataDirError::Locked(_))));
        drop(first);
        DataDir::open(&root).unwrap();
    }

    #[test]
    fn later_damaged_and_foreign_directories_are_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("data");
        drop(DataDir::open(&root).unwrap());
        fs::write(root.join("format"), "99\n").unwrap();
        assert!(matches!(DataDir::open(&root), Err(DataDirError::LaterFormat { found: 99, .. })));
        fs::write(root.join("format"), "x").unwrap();
        assert!(matches!(DataDir::open(&root), Err(DataDirError::Damaged { .. })));
        assert_eq!(fs::read_to_string(root.join("format")).unwrap(), "x");

        let foreign = folder.path().join("photos");
        fs::create_dir(&foreign).unwrap();
        fs::write(foreign.join("cat.png"), "meow").unwrap();
        assert!(matches!(DataDir::open(&foreign), Err(DataDirError::Foreign(_))));
        assert_eq!(fs::read_dir(&foreign).unwrap().count(), 1);
    }
}
