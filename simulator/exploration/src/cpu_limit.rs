//! Limit of the CPU time of a process. What runs in virtual time may loop without an end, and no clock of its own would tell.
//!
//! The process sets the limit on itself, because its system ends it then whatever it does. Whoever has started it sees by which signal.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

/// SIGXCPU, which has this number on Linux and on macOS.
const OUT_OF_CPU: i32 = 24;

/// Ends this process when it has used so many seconds of CPU time. A lower limit stays.
pub fn limit(seconds: u64) -> io::Result<()> {
    // The signal would leave the memory of the process on disk.
    setrlimit(Resource::Core, Rlimit { current: Some(0), ..getrlimit(Resource::Core) })?;
    let before = getrlimit(Resource::Cpu);
    let current = before.current.map_or(seconds, |current| current.min(seconds));
    // At the maximum another signal comes, which says nothing.
    let maximum = before.maximum.filter(|maximum| *maximum > current);
    Ok(setrlimit(Resource::Cpu, Rlimit { current: Some(current), maximum })?)
}

/// Returns true if a process has ended because of its limit.
pub fn is_exceeded(status: ExitStatus) -> bool {
    status.signal() == Some(OUT_OF_CPU)
}

/// Says what a process with this limit did.
pub fn words(seconds: u64) -> String {
    format!("did not end within {seconds} CPU seconds")
}
