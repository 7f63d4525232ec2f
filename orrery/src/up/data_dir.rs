//! `DataDir`: the data directory of one cluster, its lock and its layout.
//!
//! The running `up` holds the lock. `pki/<component>` has that component's private files, `store` belongs to the API
//! server, `volumes` are the disks of the simulated storage system, `logs` has a file per component, and `kubeconfig` is the
//! administrator's.

use component_base::claim::{Claim, ClaimError};
use component_base::private_file;
use std::io;
use std::path::{Path, PathBuf};

/// Version of the layout. A higher number on disk comes from a later program.
const FORMAT: u32 = 1;

#[derive(Debug, thiserror::Error)]
pub enum DataDirError {
    #[error("{}: another `orrery up` is running on this data directory", .0.display())]
    Running(PathBuf),
    #[error(transparent)]
    Claim(ClaimError),
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

/// An opened directory, which is locked as long as this value lives.
#[derive(Debug)]
pub struct DataDir {
    claim: Claim,
}

impl DataDir {
    /// Creates or opens the directory, and locks it.
    pub fn open(root: &Path) -> Result<Self, DataDirError> {
        let claim = Claim::take(root, FORMAT).map_err(|error| match error {
            ClaimError::Locked(root) => DataDirError::Running(root),
            error => DataDirError::Claim(error),
        })?;
        let data_dir = Self { claim };
        for path in [data_dir.logs(), data_dir.pki(), data_dir.volumes()] {
            private_file::create_folder(&path).map_err(|source| DataDirError::Io { path, source })?;
        }
        Ok(data_dir)
    }

    pub fn root(&self) -> &Path {
        self.claim.root()
    }

    pub fn pki(&self) -> PathBuf {
        self.root().join("pki")
    }

    /// Returns the folder of a component's private files.
    pub fn pki_of(&self, component: &str) -> PathBuf {
        self.pki().join(component)
    }

    /// Returns the folder of the API server's store.
    pub fn store(&self) -> PathBuf {
        self.root().join("store")
    }

    pub fn logs(&self) -> PathBuf {
        self.root().join("logs")
    }

    pub fn log_of(&self, component: &str) -> PathBuf {
        self.logs().join(format!("{component}.log"))
    }

    /// Returns the folder of the cloud's state.
    pub fn cloud(&self) -> PathBuf {
        self.root().join("cloud")
    }

    /// Returns the folder of the files that pods write to claims. The nodes and the simulated driver share it.
    pub fn volumes(&self) -> PathBuf {
        self.root().join("volumes")
    }

    /// Deletes the files of all claims, for a cluster that begins without any.
    pub fn clear_volumes(&self) -> Result<(), DataDirError> {
        let path = self.volumes();
        match std::fs::remove_dir_all(&path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => Err(DataDirError::Io { path, source }),
            _ => Ok(()),
        }
    }

    /// Returns the folder of the static pods' manifests.
    pub fn manifests(&self) -> PathBuf {
        self.root().join("manifests")
    }

    /// Returns the path of the administrator's kubeconfig.
    pub fn kubeconfig(&self) -> PathBuf {
        self.root().join("kubeconfig")
    }
}
