//! The files that a study names. This is the crate's only edge: everything else works on texts.

use crate::problem::Problem;
use std::path::PathBuf;

/// Most bytes of one file, so that a wrong path does not fill the memory.
const MAX_BYTES: u64 = 1 << 30;

/// Reads the files that a study names, by the paths that it has.
pub trait Files {
    /// Returns the content of a file, or why it cannot be read.
    fn read(&self, path: &str) -> Result<String, String>;
}

/// Files relative to the folder of the study.
#[derive(Clone, Debug)]
pub struct Folder(pub PathBuf);

impl Files for Folder {
    fn read(&self, path: &str) -> Result<String, String> {
        let path = self.0.join(path);
        let length = std::fs::metadata(&path).map_err(|error| error.to_string())?.len();
        if length > MAX_BYTES {
            return Err(format!("has {length} bytes; at most {MAX_BYTES} are read"));
        }
        std::fs::read_to_string(&path).map_err(|error| error.to_string())
    }
}

/// Reads a file that the field at `place` names.
pub(crate) fn read(files: &dyn Files, path: &str, place: &str) -> Result<String, Vec<Problem>> {
    files.read(path).map_err(|why| vec![Problem::new(place, format!("{path}: {why}"))])
}

/// Files in memory, for tests.
#[cfg(test)]
pub(crate) struct Texts(pub &'static [(&'static str, &'static str)]);

#[cfg(test)]
impl Files for Texts {
    fn read(&self, path: &str) -> Result<String, String> {
        let found = self.0.iter().find(|(name, _)| *name == path);
        found.map(|(_, text)| (*text).to_owned()).ok_or_else(|| "no such file".to_owned())
    }
}
