//! `Directory`: the folder of one embedded store, and the right to be the only one in it.
//!
//! Beside what every claimed folder has, `store.redb` holds the data. It gets this name only once it is whole. It holds
//! every Secret, so that only its owner may read it.

use super::OpenError;
use component_base::claim::Claim;
use component_base::private_file;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// The layout that this program writes. A higher number on disk is of a later program.
const FORMAT: u32 = 1;

/// The data file.
pub(super) const DATA: &str = "store.redb";

/// The lock lasts as long as this value.
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

    /// Where a new data file is prepared.
    fn new_data_path(&self) -> PathBuf {
        self.claim.root().join("store.redb.new")
    }

    /// Opens the data file, or a new and empty one to be prepared; true if it is new.
    pub fn open_data(&self) -> Result<(File, bool), OpenError> {
        let path = self.data_path();
        match private_file::options().read(true).write(true).open(&path) {
            Ok(file) => {
                private_file::narrow(&path);
                Ok((file, false))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let new = self.new_data_path();
                // What a creation that was cut short left may have another mode.
                let _ = fs::remove_file(&new);
                let file = private_file::options().read(true).write(true).create_new(true).open(&new);
                Ok((file.map_err(|source| OpenError::Io { path: new, source })?, true))
            }
            Err(source) => Err(OpenError::Io { path, source }),
        }
    }

    /// The new data file is whole and synced: gives it its name, durably.
    pub fn keep_new_data(&self) -> Result<(), OpenError> {
        let path = self.data_path();
        fs::rename(self.new_data_path(), &path)
            .and_then(|()| File::open(self.claim.root())?.sync_all())
            .map_err(|source| OpenError::Io { path, source })
    }
}
