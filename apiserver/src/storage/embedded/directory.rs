//! `Directory`: the folder of one embedded store, and the right to be the only one in it.
//!
//! `lock` is held while the store is open, `format` names the layout, `store.redb` holds the data. Nothing but the
//! lock file is touched before the lock is held and the format is known to be ours.

use super::OpenError;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The layout that this program writes. A higher number on disk is of a later program.
const FORMAT: u32 = 1;

/// The lock lasts as long as this value.
#[derive(Debug)]
pub(super) struct Directory {
    root: PathBuf,
    _lock: File,
}

impl Directory {
    /// Creates or opens the folder and takes its lock.
    pub fn claim(root: &Path) -> Result<Self, OpenError> {
        fs::create_dir_all(root).map_err(at(root))?;
        let lock_path = root.join("lock");
        let lock = File::create(&lock_path).map_err(at(&lock_path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(OpenError::Locked(root.to_owned())),
            Err(TryLockError::Error(source)) => return Err(at(&lock_path)(source)),
        }
        let directory = Self { root: root.to_owned(), _lock: lock };
        directory.check_format()?;
        Ok(directory)
    }

    fn check_format(&self) -> Result<(), OpenError> {
        let path = self.root.join("format");
        let damaged = |reason: &str| OpenError::Damaged { path: path.clone(), reason: reason.to_owned() };
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // The format is written before the data: data without it is not what we left there.
                return if self.data_path().exists() { Err(damaged("it is missing")) } else { self.write_format() };
            }
            Err(error) if error.kind() == io::ErrorKind::InvalidData => return Err(damaged("it is no format number")),
            Err(error) => return Err(at(&path)(error)),
        };
        match text.trim().parse::<u32>() {
            Ok(FORMAT) => Ok(()),
            Ok(found) if found > FORMAT => Err(OpenError::LaterFormat { path, found, known: FORMAT }),
            _ => Err(damaged("it is no format number")),
        }
    }

    fn write_format(&self) -> Result<(), OpenError> {
        let (path, new) = (self.root.join("format"), self.root.join("format.new"));
        let write = || {
            let mut file = File::create(&new)?;
            writeln!(file, "{FORMAT}")?;
            file.sync_all()?;
            fs::rename(&new, &path)?;
            self.sync()
        };
        write().map_err(at(&path))
    }

    /// Makes the names in the folder durable, and the folder's own.
    fn sync(&self) -> io::Result<()> {
        File::open(&self.root)?.sync_all()?;
        match fs::canonicalize(&self.root)?.parent() {
            Some(parent) => File::open(parent)?.sync_all(),
            None => Ok(()),
        }
    }

    pub fn data_path(&self) -> PathBuf {
        self.root.join("store.redb")
    }

    /// Where a new data file is prepared: it gets its name only once it is whole.
    pub fn new_data_path(&self) -> PathBuf {
        self.root.join("store.redb.new")
    }

    /// Opens the data file, or a new and empty one to be prepared; true if it is new.
    pub fn open_data(&self) -> Result<(File, bool), OpenError> {
        let path = self.data_path();
        match OpenOptions::new().read(true).write(true).open(&path) {
            Ok(file) => Ok((file, false)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let new = self.new_data_path();
                let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&new);
                Ok((file.map_err(at(&new))?, true))
            }
            Err(error) => Err(at(&path)(error)),
        }
    }

    /// The new data file is whole and synced: gives it its name.
    pub fn keep_new_data(&self) -> Result<(), OpenError> {
        let path = self.data_path();
        fs::rename(self.new_data_path(), &path).and_then(|()| self.sync()).map_err(at(&path))
    }
}

/// An input or output error at this path.
fn at(path: &Path) -> impl Fn(io::Error) -> OpenError + use<> {
    let path = path.to_owned();
    move |source| OpenError::Io { path: path.clone(), source }
}
