//! Checks before the start that there is enough memory.
//!
//! The kernel kills a process that grows past the limit of its control group, and the process cannot log why. Each
//! component's least need is known, so the limit is checked first and an error names it.

use std::fs;
use std::path::{Path, PathBuf};

const MIB: u64 = 1 << 20;
/// A limit from here on means "unlimited": version 1 of control groups writes a number of pages that no machine has.
const NO_LIMIT: u64 = 1 << 60;

/// Folder of the control groups and the file with a group's limit, for versions 2 and 1.
const V2: (&str, &str) = ("/sys/fs/cgroup", "memory.max");
const V1: (&str, &str) = ("/sys/fs/cgroup/memory", "memory.limit_in_bytes");

/// Returns the memory that a component uses after its start, when idle.
pub fn least_bytes(component: &str) -> u64 {
    match component {
        "apiserver" => 64 * MIB,
        "controller-manager" | "scheduler" | "kubelet-sim" | "proxy-sim" => 32 * MIB,
        // Commands that a person runs end by themselves.
        _ => 0,
    }
}

/// The memory that the process may use; `None` where it is unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryLimits {
    /// Limit of the tightest control group around this process.
    pub limit_bytes: Option<u64>,
    /// Memory that the machine has available.
    pub available_bytes: Option<u64>,
}

/// Result of the check; each problem has a line for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sufficiency {
    Enough,
    /// The memory may or may not be enough.
    Tight(String),
    TooLittle(String),
}

impl MemoryLimits {
    /// Reads the limits of this process and this machine.
    pub fn read() -> Self {
        let read = |path: &Path| fs::read_to_string(path).ok();
        let available = read(Path::new("/proc/meminfo")).and_then(|text| available(&text));
        Self { limit_bytes: limit(read), available_bytes: available }
    }

    /// Compares the limits with the need. A limit below it will be hit for sure; a full machine may free memory in time.
    pub fn check(self, least_bytes: u64) -> Sufficiency {
        let shown = |bytes: u64| format!("{} MiB", bytes / MIB);
        let needs = format!("it needs at least {}", shown(least_bytes));
        match self {
            Self { limit_bytes: Some(limit), .. } if limit < least_bytes => Sufficiency::TooLittle(format!(
                "too little memory: its limit is {}, and {needs} (a container's limit is mem_limit in docker-compose.yml)",
                shown(limit)
            )),
            Self { available_bytes: Some(available), .. } if available < least_bytes => {
                Sufficiency::Tight(format!("little memory: this machine has {} left, and {needs}", shown(available)))
            }
            Self { limit_bytes: Some(limit), .. } if limit < least_bytes * 2 => Sufficiency::Tight(format!(
                "little memory: its limit is {}, and {needs} with nothing to do",
                shown(limit)
            )),
            _ => Sufficiency::Enough,
        }
    }
}

/// Returns the lowest limit on the path from this process's group up to the root. Inside a container the group's name
/// may exist only outside; the root is then the container's own group.
fn limit(read: impl Fn(&Path) -> Option<String>) -> Option<u64> {
    let groups = read(Path::new("/proc/self/cgroup"))?;
    let limits = groups.lines().flat_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next().unwrap_or_default(), fields.next().unwrap_or_default());
        let version = match controllers {
            "" => Some(V2),
            some => some.split(',').any(|controller| controller == "memory").then_some(V1),
        };
        let files = version.map(|(root, file)| {
            let group = PathBuf::from(root).join(path.trim_start_matches('/'));
            let within = |folder: &&Path| folder.starts_with(root);
            group.ancestors().take_while(within).map(|folder| folder.join(file)).collect::<Vec<_>>()
        });
        files.unwrap_or_default()
    });
    // The file holds a number or `max`.
    limits.filter_map(|file| read(&file)?.trim().parse().ok()).filter(|limit| *limit < NO_LIMIT).min()
}

fn available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().trim_end_matches(" kB").parse::<u64>().ok().map(|kib| kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_low_limit_is_refused_and_a_full_machine_is_told_of() {
        let too_little = "too little memory: its limit is 16 MiB, and it needs at least 64 MiB (a container's limit is \
                          mem_limit in docker-compose.yml)";
        let full = "little memory: this machine has 20 MiB left, and it needs at least 64 MiB";
        let tight = "little memory: its limit is 100 MiB, and it needs at least 64 MiB with nothing to do";
        for (limit, available, expected) in [
            (None, None, Sufficiency::Enough),
            (Some(128), Some(4096), Sufficiency::Enough),
            (Some(16), Some(4096), Sufficiency::TooLittle(too_little.to_owned())),
            (Some(16), Some(8), Sufficiency::TooLittle(too_little.to_owned())),
            (None, Some(20), Sufficiency::Tight(full.to_owned())),
            (Some(100), Some(20), Sufficiency::Tight(full.to_owned())),
            (Some(100), None, Sufficiency::Tight(tight.to_owned())),
        ] {
            let bytes = |mib: Option<u64>| mib.map(|mib| mib * MIB);
            let room = MemoryLimits { limit_bytes: bytes(limit), available_bytes: bytes(available) };
            assert_eq!(room.check(64 * MIB), expected, "{limit:?} {available:?}");
        }
    }

    #[test]
    fn the_tightest_group_on_the_way_up_counts() {
        let cases: [(&str, &[(&str, &str)], Option<u64>); 6] = [
            (
                "0::/a/b\n",
                &[("/sys/fs/cgroup/a/b/memory.max", "max\n"), ("/sys/fs/cgroup/a/memory.max", "9\n")],
                Some(9),
            ),
            ("0::/\n", &[("/sys/fs/cgroup/memory.max", "7\n")], Some(7)),
            // Seen from within, where the group's outer name leads nowhere.
            ("0::/docker/x\n", &[("/sys/fs/cgroup/memory.max", "7\n")], Some(7)),
            (
                "9:name=systemd:/\n4:cpu,memory:/a\n0::/\n",
                &[
                    ("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "5\n"),
                    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
                ],
                Some(5),
            ),
            ("4:memory:/\n", &[("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n")], None),
            ("0::/\n", &[], None),
        ];
        for (groups, files, expected) in cases {
            let found = limit(|path| match path.to_str().unwrap() {
                "/proc/self/cgroup" => Some(groups.to_owned()),
                path => files.iter().find(|(name, _)| *name == path).map(|(_, text)| (*text).to_owned()),
            });
            assert_eq!(found, expected, "{groups}");
        }
        assert_eq!(available("MemTotal:  9 kB\nMemAvailable:       2 kB\n"), Some(2048));
    }
}
