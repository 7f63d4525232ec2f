//! What the kernel allows a container, and the kernel parameters that it has.

use std::collections::BTreeMap;

/// The privileges and the kernel parameters of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Privileges {
    pub is_privileged: bool,
    /// True when a program cannot gain privileges that its parent has not, such as by a file with the set-user-ID bit.
    pub no_new_privileges: bool,
    /// By name, such as `kernel.shm_rmid_forced`.
    pub sysctls: BTreeMap<String, String>,
}
