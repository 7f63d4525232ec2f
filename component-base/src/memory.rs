//! Whether there is memory enough to begin: one line instead of a kill without a word.
//!
//! A process that grows past the limit of its control group is killed by the kernel, and says nothing. What it needs at
//! the very least is known, so the limit is looked at before anything else happens.

use std::fs;
use std::path::{Path, PathBuf};

const MIB: u64 = 1 << 20;
/// A limit above that is none: the first version of control groups writes a number of pages that no machine has.
const NO_LIMIT: u64 = 1 << 60;

/// Where control groups are, with the file that holds a group's limit: the second version's, then the first one's.
const V2: (&str, &str) = ("/sys/fs/cgroup", "memory.max");
const V1: (&str, &str) = ("/sys/fs/cgroup/memory", "memory.limit_in_bytes");

/// What a component holds after its start, with nothing to do.
pub fn least_bytes(component: &str) -> u64 {
    match component {
        "apiserver" => 64 * MIB,
        "controller-manager" | "scheduler" | "kubelet-sim" | "proxy-sim" => 32 * MIB,
        // What a person runs ends by itself.
        _ => 0,
    }
}

/// What is known of the room that there is; None: nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// Of the tightest control group around this process.
    pub limit_bytes: Option<u64>,
    /// What the machine could still give.
    pub available_bytes: Option<u64>,
}

/// Each with a line for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Enough,
    /// It may hold.
    Tight(String),
    TooLittle(String),
}

impl Room {
    /// Looks at this process and this machine.
    pub fn look() -> Self {
        let read = |path: &Path| fs::read_to_string(path).ok();
        let available = read(Path::new("/proc/meminfo")).and_then(|text| available(&text));
        Self { limit_bytes: limit(read), available_bytes: available }
    }

    /// A limit below what is needed will be hit; a machine that is full may yet make room.
    pub fn verdict(self, least_bytes: u64) -> Verdict {
        let shown = |bytes: u64| format!("{} MiB", bytes / MIB);
        let needs = format!("it needs at least {}", shown(least_bytes));
        match self {
            Self { limit_bytes: Some(limit), .. } if limit < least_bytes => Verdict::TooLittle(format!(
                "too little memory: its limit is {}, and {needs} (a container's limit is mem_limit in docker-compose.yml)",
                shown(limit)
            )),
            Self { available_bytes: Some(available), .. } if available < least_bytes => {
                Verdict::Tight(format!("little memory: this machine has {} left, and {needs}", shown(available)))
            }
            Self { limit_bytes: Some(limit), .. } if limit < least_bytes * 2 => {
                Verdict::Tight(format!("little memory: its limit is {}, and {needs} with nothing to do", shown(limit)))
            }
            _ => Verdict::Enough,
        }
    }
}

/// The lowest limit on the way from this process's group up to the root. Inside a container the way may begin at a
/// place that is only there outside; the root is then the container's own group.
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
    // What is no number is `max`.
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
            (None, None, Verdict::Enough),
            (Some(128), Some(4096), Verdict::Enough),
            (Some(16), Some(4096), Verdict::TooLittle(too_little.to_owned())),
            (Some(16), Some(8), Verdict::TooLittle(too_little.to_owned())),
            (None, Some(20), Verdict::Tight(full.to_owned())),
            (Some(100), Some(20), Verdict::Tight(full.to_owned())),
            (Some(100), None, Verdict::Tight(tight.to_owned())),
        ] {
            let bytes = |mib: Option<u64>| mib.map(|mib| mib * MIB);
            let room = Room { limit_bytes: bytes(limit), available_bytes: bytes(available) };
            assert_eq!(room.verdict(64 * MIB), expected, "{limit:?} {available:?}");
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
