//! `VolumeStore`: the volumes behind claims. Their files outlast the pods that write them; on a disk also this process.
//!
//! Corresponds to the storage behind a CSI driver, as its node plugin sees it.

use crate::volumes::disk_volume::DiskVolume;
use component_helpers::volumes::volume_files::folder_of;
use file_tree::error::FileError;
use file_tree::node::Owner;
use file_tree::space::MountedDisk;
use file_tree::volume::{DEFAULT_LIMIT_BYTES, Volume};
use jiff::Timestamp;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// Volumes of a disk that are remembered, so that all containers count the same bytes; beyond it they are opened again.
const MAX_OPEN: usize = 1024;

#[derive(Default)]
pub struct VolumeStore {
    /// Where each volume has a folder; `None` keeps them in memory.
    folder: Option<PathBuf>,
    memory: Mutex<BTreeMap<String, Volume>>,
    disks: Mutex<BTreeMap<String, MountedDisk>>,
}

impl VolumeStore {
    pub fn new(folder: Option<PathBuf>) -> Self {
        Self { folder, ..Self::default() }
    }

    /// Returns the volume whose files have this name. One that nobody has used yet is empty, with this mode and owner.
    /// What its user does before `replayed_until` was done by an earlier process, and is there already on a disk.
    pub fn open(
        &self,
        name: &str,
        (mode, owner): (u32, Owner),
        now: Timestamp,
        replayed_until: Timestamp,
    ) -> Result<Volume, FileError> {
        let Some(folder) = self.folder.as_ref().map(|folder| folder.join(folder_of(name))) else {
            let make = || Volume::new(mode, owner, DEFAULT_LIMIT_BYTES, now);
            return Ok(self.memory.lock().entry(name.to_owned()).or_insert_with(make).clone());
        };
        let mut disks = self.disks.lock();
        let disk = match disks.get(name).filter(|_| DiskVolume::exists(&folder)) {
            Some(known) => known.clone(),
            None => MountedDisk::new(Arc::new(DiskVolume::open(&folder, mode, owner)?)),
        };
        if disks.len() >= MAX_OPEN {
            disks.clear();
        }
        disks.insert(name.to_owned(), disk.clone());
        Ok(Volume::on_disk(disk, DEFAULT_LIMIT_BYTES, replayed_until))
    }
}
