//! What a process has used so far, read from `/proc`. Linux only.

use super::Error;
use std::collections::BTreeMap;
use std::fs;

/// The unit of CPU time in `/proc/PID/stat`; the kernel shows hundredths of a second whatever its own tick.
const TICKS_PER_S: f64 = 100.0;

#[derive(Clone, Copy, Debug)]
pub struct Used {
    /// In user and in system mode, all threads.
    pub cpu_s: f64,
    /// Resident now.
    pub rss_mib: f64,
}

/// By the name of the server.
pub type Usage = BTreeMap<String, Used>;

pub fn used(pid: u32) -> Result<Used, Error> {
    let read = |file: &str| {
        let path = format!("/proc/{pid}/{file}");
        fs::read_to_string(&path).map_err(|error| Error::Io(path, error))
    };
    let malformed = || Error::Failed(format!("/proc/{pid}: not as expected"));
    let (stat, status) = (read("stat")?, read("status")?);
    // The name, in parentheses, may hold spaces; utime and stime are the 12th and 13th fields behind it.
    let (_, fields) = stat.rsplit_once(')').ok_or_else(malformed)?;
    let ticks = |at: usize| fields.split_whitespace().nth(at).and_then(|field| field.parse::<f64>().ok());
    let cpu_s = ticks(11).zip(ticks(12)).map(|(user, system)| (user + system) / TICKS_PER_S).ok_or_else(malformed)?;
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or_else(malformed)?;
    let kib: f64 = resident.trim().trim_end_matches("kB").trim().parse().map_err(|_| malformed())?;
    Ok(Used { cpu_s, rss_mib: kib / 1024.0 })
}
