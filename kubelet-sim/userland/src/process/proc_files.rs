//! The files of `/proc` that programs read: mounts, status, command line and the machine.

use super::kernel::Kernel;
use super::signal::Pid;
use file_tree::actor::Actor;
use std::collections::BTreeMap;

/// Number of users and groups in a user namespace of a pod.
const NAMESPACE_LENGTH: u32 = 65_536;

/// The process that reads a file.
#[derive(Clone, Copy)]
pub struct Reader<'a> {
    pub pid: Pid,
    pub user: &'a Actor,
    pub env: &'a BTreeMap<String, String>,
}

/// Returns the content of a file of `/proc`; `None` for a path that is no such file.
pub fn content(kernel: &Kernel, own: Reader<'_>, path: &str) -> Option<String> {
    let Reader { pid: own, user, env } = own;
    let path = path.strip_prefix("/proc/")?;
    if let Some(text) = kernel.machine.lock().file(path) {
        return Some(text);
    }
    let (process, file) = path.split_once('/').unwrap_or(("self", path));
    let pid = if process == "self" { own } else { process.parse().ok()? };
    let (command, parent, uid) =
        kernel.entry(pid, |entry| (entry.command.clone(), entry.parent, entry.uid)).filter(|_| !file.is_empty())?;
    Some(match file {
        "mounts" => {
            let line = |(fs_type, at, flags): (&str, &str, &str)| format!("{fs_type} {at} {fs_type} {flags} 0 0\n");
            mounts(kernel).iter().map(|(fs_type, at, flags)| line((fs_type, at, flags))).collect()
        }
        "mountinfo" => {
            let mounts = mounts(kernel);
            let lines = mounts.iter().enumerate().map(|(number, (fs_type, at, flags))| {
                format!("{} 1 0:{} / {at} {flags} - {fs_type} {fs_type} {flags}\n", number + 100, number + 50)
            });
            lines.collect()
        }
        "cgroup" => "0::/\n".to_owned(),
        // The variables with which other processes were started are not known.
        "environ" if pid == own => env.iter().map(|(name, value)| format!("{name}={value}\0")).collect(),
        "cmdline" => format!("{}\0", command.replace(' ', "\0")),
        "comm" => {
            format!("{}\n", command.split(' ').next().and_then(|word| word.rsplit('/').next()).unwrap_or_default())
        }
        "status" => {
            let name = command.split(' ').next().and_then(|word| word.rsplit('/').next()).unwrap_or_default();
            let groups: Vec<String> = user.groups.iter().map(u32::to_string).collect();
            let privileges = kernel.privileges.lock().clone();
            let bounding = privileges.capabilities.0;
            let effective = if uid == 0 { bounding } else { 0 };
            let (gid, groups) = (user.gid, groups.join(" "));
            let (seccomp, no_new) = (u32::from(privileges.has_seccomp) * 2, u32::from(privileges.no_new_privileges));
            format!(
                "Name:\t{name}\nState:\tS (sleeping)\nPid:\t{pid}\nPPid:\t{parent}\n\
                 Uid:\t{uid}\t{uid}\t{uid}\t{uid}\nGid:\t{gid}\t{gid}\t{gid}\t{gid}\nGroups:\t{groups}\n\
                 Threads:\t1\nCapInh:\t0000000000000000\nCapPrm:\t{effective:016x}\nCapEff:\t{effective:016x}\n\
                 CapBnd:\t{bounding:016x}\nCapAmb:\t0000000000000000\nNoNewPrivs:\t{no_new}\nSeccomp:\t{seccomp}\n"
            )
        }
        "uid_map" | "gid_map" => {
            let host_root = kernel.privileges.lock().host_root;
            let length = if host_root == 0 { u32::MAX } else { NAMESPACE_LENGTH };
            format!("{:>10} {host_root:>10} {length:>10}\n", 0)
        }
        _ => return None,
    })
}

/// Returns the type, path and flags of each mount.
fn mounts(kernel: &Kernel) -> Vec<(String, String, &'static str)> {
    let mounts = kernel.tree.mounts().iter();
    let flags = |is_read_only| if is_read_only { "ro,relatime" } else { "rw,relatime" };
    mounts.map(|(at, mount)| (mount.fs_type.clone(), at.clone(), flags(mount.is_read_only))).collect()
}
