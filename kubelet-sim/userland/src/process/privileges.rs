//! What the kernel allows a container, and the kernel parameters that it has.

use std::collections::BTreeMap;

/// The capabilities of Linux by number, without their prefix `CAP_`.
const NAMES: [&str; 41] = [
    "CHOWN",
    "DAC_OVERRIDE",
    "DAC_READ_SEARCH",
    "FOWNER",
    "FSETID",
    "KILL",
    "SETGID",
    "SETUID",
    "SETPCAP",
    "LINUX_IMMUTABLE",
    "NET_BIND_SERVICE",
    "NET_BROADCAST",
    "NET_ADMIN",
    "NET_RAW",
    "IPC_LOCK",
    "IPC_OWNER",
    "SYS_MODULE",
    "SYS_RAWIO",
    "SYS_CHROOT",
    "SYS_PTRACE",
    "SYS_PACCT",
    "SYS_ADMIN",
    "SYS_BOOT",
    "SYS_NICE",
    "SYS_RESOURCE",
    "SYS_TIME",
    "SYS_TTY_CONFIG",
    "MKNOD",
    "LEASE",
    "AUDIT_WRITE",
    "AUDIT_CONTROL",
    "SETFCAP",
    "MAC_OVERRIDE",
    "MAC_ADMIN",
    "SYSLOG",
    "WAKE_ALARM",
    "BLOCK_SUSPEND",
    "AUDIT_READ",
    "PERFMON",
    "BPF",
    "CHECKPOINT_RESTORE",
];

/// A set of capabilities, as the kernel shows it: one bit each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities(pub u64);

/// The capabilities that a container runtime gives by default.
impl Default for Capabilities {
    fn default() -> Self {
        Self(0xa804_25fb)
    }
}

impl Capabilities {
    pub const ALL: Self = Self((1 << NAMES.len()) - 1);

    /// Returns the default capabilities with some added and some dropped, as containerd does: `ALL` first.
    pub fn changed(add: &[String], drop: &[String]) -> Self {
        let has_all = |names: &[String]| names.iter().any(|name| name == "ALL");
        let bits = |names: &[String]| names.iter().filter_map(|name| bit(name)).fold(0, |bits, bit| bits | bit);
        let base = match (has_all(add), has_all(drop)) {
            (_, true) => 0,
            (true, false) => Self::ALL.0,
            (false, false) => Self::default().0,
        };
        Self((base | bits(add)) & !bits(drop))
    }

    /// Returns true if the set has a capability, which is given by its name without `CAP_`.
    pub fn has(self, name: &str) -> bool {
        bit(name).is_some_and(|bit| self.0 & bit != 0)
    }
}

fn bit(name: &str) -> Option<u64> {
    let name = name.strip_prefix("CAP_").unwrap_or(name);
    NAMES.iter().position(|known| *known == name).map(|number| 1 << number)
}

/// The privileges and the kernel parameters of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Privileges {
    /// What its processes may have at most. Those of root have it all.
    pub capabilities: Capabilities,
    /// True when a program cannot gain privileges that its parent has not, such as by a file with the set-user-ID bit.
    pub no_new_privileges: bool,
    /// True when a seccomp profile filters system calls.
    pub has_seccomp: bool,
    /// The user of the node that the container's root is. It is 0 without a user namespace.
    pub host_root: u32,
    /// By name, such as `kernel.shm_rmid_forced`.
    pub sysctls: BTreeMap<String, String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_added_and_dropped() {
        let changed = |add: &[&str], drop: &[&str]| {
            let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
            Capabilities::changed(&owned(add), &owned(drop)).0
        };
        assert_eq!(changed(&[], &[]), 0xa804_25fb);
        assert_eq!(changed(&["NET_ADMIN"], &[]), 0xa804_35fb);
        assert_eq!(changed(&["CAP_SYS_TIME"], &["MKNOD"]), 0xa204_25fb);
        assert_eq!(changed(&["NET_BIND_SERVICE"], &["ALL"]), 0x400);
        assert_eq!(changed(&["ALL"], &["SYS_ADMIN"]), 0x1ff_ffdf_ffff);
        assert_eq!(changed(&["ALL"], &["ALL"]), 0);
        assert!(Capabilities::ALL.has("CHECKPOINT_RESTORE") && !Capabilities::default().has("NET_ADMIN"));
    }
}
