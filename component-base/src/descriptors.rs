//! Limits of open files, and of the client connections among them.
//!
//! Go raises the soft limit at the start of every process, so kube-apiserver runs with the hard limit.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Most client connections at once, however many files may be open: each takes memory too.
const MAX_CONNECTIONS: u64 = 20_000;

/// Raises the soft limit of open files to the hard one. A process that may not do so keeps its limit.
pub fn raise_limit() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current == maximum {
        return;
    }
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        tracing::debug!(%error, ?current, ?maximum, "the limit of open files stays as it is");
    }
}

/// Returns the number of client connections that the process may have at once.
pub fn connections() -> usize {
    usize::try_from(share(getrlimit(Resource::Nofile).current)).unwrap_or(usize::MAX)
}

/// Returns the connections' share: three quarters of all files. The rest is for the store, logs, configuration, and calls
/// to node agents, webhooks and other servers. `None` means no limit.
fn share(files: Option<u64>) -> u64 {
    files.map_or(MAX_CONNECTIONS, |files| (files / 4 * 3).clamp(1, MAX_CONNECTIONS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_files_are_left_for_other_things_than_connections() {
        for (files, expected) in [
            (Some(0), 1),
            (Some(16), 12),
            (Some(1_024), 768),
            (Some(4_096), 3_072),
            (Some(1 << 20), 20_000),
            (Some(u64::MAX), 20_000),
            (None, 20_000),
        ] {
            assert_eq!(share(files), expected, "{files:?}");
        }
    }

    #[test]
    fn the_soft_limit_becomes_the_hard_one() {
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        // Lower it first, so that there is something to raise; by little, since other tests run in this process.
        let hard = maximum.or(current).unwrap_or(4_096);
        let lower = Rlimit { current: Some(current.unwrap_or(hard).min(hard) - 1), maximum };
        setrlimit(Resource::Nofile, lower).unwrap();
        raise_limit();
        assert_eq!(getrlimit(Resource::Nofile).current, maximum);
        assert_eq!(connections() as u64, share(maximum));
    }
}
