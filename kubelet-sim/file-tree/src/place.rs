//! A node, where it is, and who may use it.

use super::actor::Actor;
use super::error::FileError;
use super::node::{Node, NodeRef};

/// The right that an operation needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Read = 4,
    Write = 2,
    Execute = 1,
}

/// A node, and where it is.
#[derive(Clone, Debug)]
pub struct Place {
    pub node: NodeRef,
    /// The path without links, dots and double slashes.
    pub path: String,
    pub is_read_only: bool,
}

/// Joins a folder and a name.
pub fn join(folder: &str, name: &str) -> String {
    if folder == "/" { format!("/{name}") } else { format!("{folder}/{name}") }
}

/// Checks that the actor has a right to a node.
pub fn check(node: &Node, actor: &Actor, access: Access) -> Result<(), FileError> {
    let metadata = node.metadata();
    // Root may do everything, but executes only what somebody may execute.
    if actor.uid == 0 {
        let is_executable = node.is_folder() || metadata.mode & 0o111 != 0;
        return if access == Access::Execute && !is_executable { Err(FileError::PermissionDenied) } else { Ok(()) };
    }
    let shift = if metadata.owner.uid == actor.uid {
        6
    } else if metadata.owner.gid == actor.gid || actor.groups.contains(&metadata.owner.gid) {
        3
    } else {
        0
    };
    if metadata.mode >> shift & access as u32 == 0 { Err(FileError::PermissionDenied) } else { Ok(()) }
}
