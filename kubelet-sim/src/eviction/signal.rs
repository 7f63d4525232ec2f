//! `Signal`: an amount of a node that eviction thresholds are about, and the pressure that its lack means.
//!
//! Corresponds to pkg/kubelet/eviction/api.

use std::collections::BTreeMap;
use std::fmt;

/// An amount that a node measures. The order is that in which resources are reclaimed: memory first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Signal {
    MemoryAvailable,
    /// The memory that is left of what pods may use together.
    AllocatableMemoryAvailable,
    NodeFsAvailable,
    NodeFsInodesFree,
    ImageFsAvailable,
    ImageFsInodesFree,
    ContainerFsAvailable,
    ContainerFsInodesFree,
    PidAvailable,
}

const NAMES: [(Signal, &str); 9] = [
    (Signal::MemoryAvailable, "memory.available"),
    (Signal::AllocatableMemoryAvailable, "allocatableMemory.available"),
    (Signal::NodeFsAvailable, "nodefs.available"),
    (Signal::NodeFsInodesFree, "nodefs.inodesFree"),
    (Signal::ImageFsAvailable, "imagefs.available"),
    (Signal::ImageFsInodesFree, "imagefs.inodesFree"),
    (Signal::ContainerFsAvailable, "containerfs.available"),
    (Signal::ContainerFsInodesFree, "containerfs.inodesFree"),
    (Signal::PidAvailable, "pid.available"),
];

impl Signal {
    pub fn named(name: &str) -> Option<Self> {
        NAMES.iter().find(|(_, known)| *known == name).map(|(signal, _)| *signal)
    }

    /// Returns the resource that a pod uses up, as messages name it.
    pub fn resource(self) -> Resource {
        match self {
            Signal::MemoryAvailable | Signal::AllocatableMemoryAvailable => Resource::Memory,
            Signal::NodeFsAvailable | Signal::ImageFsAvailable | Signal::ContainerFsAvailable => Resource::Disk,
            Signal::NodeFsInodesFree | Signal::ImageFsInodesFree | Signal::ContainerFsInodesFree => Resource::Inodes,
            Signal::PidAvailable => Resource::Processes,
        }
    }

    pub fn pressure(self) -> Pressure {
        match self.resource() {
            Resource::Memory => Pressure::Memory,
            Resource::Disk | Resource::Inodes => Pressure::Disk,
            Resource::Processes => Pressure::Pid,
        }
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(NAMES.iter().find(|(signal, _)| signal == self).map_or("", |(_, name)| name))
    }
}

/// What is reclaimed when a signal is low.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    Memory,
    Disk,
    Inodes,
    Processes,
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Resource::Memory => "memory",
            Resource::Disk => "ephemeral-storage",
            Resource::Inodes => "inodes",
            Resource::Processes => "pids",
        })
    }
}

/// A pressure condition of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pressure {
    Memory,
    Disk,
    Pid,
}

impl fmt::Display for Pressure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Pressure::Memory => "MemoryPressure",
            Pressure::Disk => "DiskPressure",
            Pressure::Pid => "PIDPressure",
        })
    }
}

/// What a node has of a signal: what is available, and all there is. In bytes, or in processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observation {
    pub available: i64,
    pub capacity: i64,
}

/// What a node has observed. Signals that it does not measure are missing.
pub type Observations = BTreeMap<Signal, Observation>;
