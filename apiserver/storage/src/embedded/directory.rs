//! `Directory`: the folder of one embedded store, locked against other processes.
//!
//! Beside the files of every claimed folder, `store.redb` holds the data. The file gets this name only once it is
//! complete. It contains every Secret, so only its owner may read it.

use super::OpenError;
use component_base::claim::Claim;
use component_base::private_file;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// The layout that this program writes. A higher number on disk comes from a later program.
const FORMAT: u32 = 1;

/// The data file.
pub(super) const DATA: &str = "store.redb";

/// The lock is held as long as this value exists.
#[derive(Debug)]
pub(super) struct Directory {
    claim: Claim,
}

impl Directory {
    /// Creates or opens the folder and takes its lock.
    pub fn claim(root: &Path) -> Result<Self, OpenError> {
        Ok(Self { claim: Claim::take(root, FORMAT)? })
    }

    pub fn data_path(&self) -> PathBuf {
        self.claim.root().join(DATA)
    }

    /// Returns the path at which a new data file is prepared.
    fn new_data_path(&self) -> PathBuf {
        self.claim.root().join("store.redb.new")
    }

    /// Opens the data file, or a new and empty one that has to be prepared. Returns true if it is new.
    pub fn open_data(&self) -> Result<(File, bool), OpenError> {
        let path = self.data_path();
        match private_file::options().read(true).write(true).open(&path) {
            Ok(file) => {
                private_file::narrow(&path);
                Ok((file, false))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let new = self.new_data_path();
                // An interrupted creation may have left a file with another mode.
                let _ = fs::remove_file(&new);
                let file = private_file::options().read(true).write(true).create_new(true).open(&new);
                Ok((file.map_err(|source| OpenError::Io { path: new, source })?, true))
            }
            Err(source) => Err(OpenError::Io { path, source }),
        }
    }

    /// Gives a new data file its final name, durably. The file is complete and synced.
    pub fn keep_new_data(&self) -> Result<(), OpenError> {
        let path = self.data_path();
        fs::rename(self.new_data_path(), &path)
            .and_then(|()| File::open(self.claim.root())?.sync_all())
            .map_err(|source| OpenError::Io { path, source })
    }
}
