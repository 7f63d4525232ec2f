//! What the running `up` writes down of itself in its data directory, for `status`, `down` and whoever waits for it.

use component_base::private_file;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Replaced whole at each change; gone when the cluster has ended in order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The process of `up` itself.
    pub process: u32,
    /// Where the API server is reached.
    pub server: String,
    /// The port of the API server.
    pub port: u16,
    pub store: String,
    /// Everything has been ready once.
    pub ready: bool,
    pub components: Vec<ComponentRecord>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ComponentRecord {
    pub name: String,
    /// Where it serves its health.
    pub server: String,
    /// None while it waits to be started again.
    pub process: Option<u32>,
    pub restarts: u32,
    /// How it ended last.
    pub last_end: Option<String>,
}

impl Record {
    fn path(root: &Path) -> PathBuf {
        root.join("run.json")
    }

    /// What is written there; None where nothing is, or nothing that is whole.
    pub fn read(root: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(Self::path(root)).ok()?).ok()
    }

    pub fn write(&self, root: &Path) -> io::Result<()> {
        let text = serde_json::to_vec_pretty(self).expect("a record is plain data");
        private_file::write(&Self::path(root), &text)
    }

    pub fn remove(root: &Path) {
        // Where there is none, there is nothing to remove.
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
