//! Writes the files of ConfigMaps, Secrets, the downward API and tokens, so that all of them change at once.
//!
//! Corresponds to AtomicWriter of pkg/volume/util. The files lie in a folder whose name is a time. The link `..data`
//! leads to it, and for each top-level name there is a link through `..data`.

use super::node::Owner;
use super::volume::{Volume, names};
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};

/// One file of a payload.
#[derive(Clone, Debug, PartialEq)]
pub struct PayloadFile {
    pub content: Vec<u8>,
    pub mode: u32,
    pub owner: Owner,
}

/// The files of a payload by their path in the volume.
pub type Payload = BTreeMap<String, PayloadFile>;

const DATA: &str = "..data";

impl Volume {
    /// Replaces the volume's payload. The same payload again changes nothing.
    pub fn write_payload(&self, payload: &Payload, now: Timestamp) {
        if self.holds(payload) {
            return;
        }
        let folder = format!("..{}", now.strftime("%Y_%m_%d_%H_%M_%S.%9f"));
        let before = self.data_folder();
        let owner = self.root().metadata().owner;
        self.put_folder(&folder, 0o755, owner, now);
        for (path, file) in payload {
            self.put_file(&format!("{folder}/{path}"), file.content.clone(), file.mode, file.owner, now);
        }
        self.put_link(DATA, &folder, now);
        let tops: BTreeSet<&str> = payload.keys().filter_map(|path| names(path).next()).collect();
        for top in &tops {
            if self.metadata(top).is_none() {
                self.put_link(top, &format!("{DATA}/{top}"), now);
            }
        }
        for name in self.root().names() {
            if !name.starts_with("..") && !tops.contains(name.as_str()) {
                let _ = self.root().remove(&name, now);
            }
        }
        if let Some(before) = before.filter(|before| *before != folder) {
            let _ = self.root().remove(&before, now);
        }
    }

    /// Returns a part of the payload itself, without the links to it: for `subPath`.
    pub fn payload_part(&self, path: &str) -> Option<Self> {
        self.sub_path(&format!("{}/{path}", self.data_folder()?))
    }

    /// Returns the name of the folder that `..data` leads to.
    fn data_folder(&self) -> Option<String> {
        self.root().child(DATA)?.target()
    }

    fn holds(&self, payload: &Payload) -> bool {
        let Some(data) = self.data_folder().and_then(|folder| self.sub_path(&folder)) else { return false };
        let mut found = 0;
        let is_same = payload.iter().all(|(path, file)| {
            data.sub_path(path).is_some_and(|part| {
                found += 1;
                let metadata = part.root().metadata();
                metadata.mode == file.mode && part.root().read(0, usize::MAX) == file.content
            })
        });
        is_same && data.file_count() == found
    }

    fn file_count(&self) -> usize {
        let children = self.root().names().into_iter().filter_map(|name| self.root().child(&name));
        children.map(|node| if node.is_folder() { Self::at(node).file_count() } else { 1 }).sum()
    }
}
