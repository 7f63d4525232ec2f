//! `StateFile`: keeps what the cloud holds on the disk, so that a cloud that is started again has the same machines.

use crate::model::Holdings;
use component_base::private_file;
use std::io;
use std::path::{Path, PathBuf};

/// Why the file is of no use, in one line.
#[derive(Debug, thiserror::Error)]
pub enum StateFileError {
    #[error("--state-file: {}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("--state-file: {}: {source}", path.display())]
    Damaged { path: PathBuf, source: serde_json::Error },
}

/// A file with the cloud's holdings, or none for a cloud that forgets.
#[derive(Clone, Debug)]
pub struct StateFile(Option<PathBuf>);

impl StateFile {
    pub fn new(path: Option<PathBuf>) -> Self {
        Self(path)
    }

    /// Reads the file; an absent one is that of an empty cloud.
    pub fn read(&self) -> Result<Holdings, StateFileError> {
        let Some(path) = &self.0 else { return Ok(Holdings::default()) };
        match std::fs::read(path) {
            Ok(bytes) => {
                serde_json::from_slice(&bytes).map_err(|source| StateFileError::Damaged { path: path.clone(), source })
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Holdings::default()),
            Err(source) => Err(StateFileError::Io { path: path.clone(), source }),
        }
    }

    /// Replaces the file.
    pub fn write(&self, holdings: &Holdings) -> Result<(), StateFileError> {
        let Some(path) = &self.0 else { return Ok(()) };
        let text = serde_json::to_vec_pretty(holdings).expect("holdings are plain data");
        write(path, &text).map_err(|source| StateFileError::Io { path: path.clone(), source })
    }
}

fn write(path: &Path, text: &[u8]) -> io::Result<()> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        private_file::create_folder(folder)?;
    }
    private_file::write(path, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Settings;

    #[test]
    fn what_is_written_is_read_again_and_a_damaged_file_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cloud/state.json");
        let file = StateFile::new(Some(path.clone()));
        assert_eq!(file.read().unwrap(), Holdings::default());
        let settings = Settings { latency_ms: 5, ..Settings::default() };
        let holdings = Holdings { settings, ..Holdings::default() };
        file.write(&holdings).unwrap();
        assert_eq!(file.read().unwrap(), holdings);
        std::fs::write(&path, "{").unwrap();
        assert!(file.read().unwrap_err().to_string().starts_with("--state-file: "));
        StateFile::new(None).write(&holdings).unwrap();
    }
}
