//! `Record`: the state that the running `up` writes to its data directory, for `status`, `down` and `up --detach`.

use component_base::private_file;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The record of a running cluster. Each change replaces the file; a clean stop removes it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Process ID of `up`.
    pub process: u32,
    /// URL of the API server.
    pub server: String,
    /// Port of the API server.
    pub port: u16,
    pub store: String,
    /// True once all components have been ready.
    pub ready: bool,
    pub components: Vec<ComponentRecord>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ComponentRecord {
    pub name: String,
    /// URL of its health checks.
    pub server: String,
    /// Process ID; `None` while it waits for its restart.
    pub process: Option<u32>,
    pub restarts: u32,
    /// Status of its last end.
    pub last_end: Option<String>,
}

impl Record {
    fn path(root: &Path) -> PathBuf {
        root.join("run.json")
    }

    /// Reads the record; `None` if there is none, or an incomplete one.
    pub fn read(root: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(Self::path(root)).ok()?).ok()
    }

    pub fn write(&self, root: &Path) -> io::Result<()> {
        let text = serde_json::to_vec_pretty(self).expect("a record is plain data");
        private_file::write(&Self::path(root), &text)
    }

    pub fn remove(root: &Path) {
        // There may be no record.
        let _ = fs::remove_file(Self::path(root));
    }

    pub fn component(&mut self, name: &str) -> Option<&mut ComponentRecord> {
        self.components.iter_mut().find(|component| component.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Record::read(folder.path()), None);
        let component =
            ComponentRecord { name: "scheduler".to_owned(), process: Some(7), ..ComponentRecord::default() };
        let mut record = Record { process: 3, components: vec![component], ..Record::default() };
        record.component("scheduler").unwrap().restarts = 2;
        record.write(folder.path()).unwrap();
        assert_eq!(Record::read(folder.path()), Some(record));
        Record::remove(folder.path());
        assert_eq!(Record::read(folder.path()), None);
    }
}
