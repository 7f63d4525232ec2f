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
    /// The most that was resident at any time.
    pub peak_mib: f64,
}

/// By the name of the server.
pub type Usage = BTreeMap<String, Used>;

pub fn used(pid: u32) -> Result<Used, Error> {
    let status = read(&format!("/proc/{pid}/status"))?;
    let mib = |field: &str| {
        let text = status.lines().find_map(|line| line.strip_prefix(field));
        let kib = text.and_then(|text| text.trim().trim_end_matches("kB").trim().parse::<f64>().ok());
        kib.map(|kib| kib / 1024.0).ok_or_else(|| malformed(pid))
    };
    // utime and stime.
    Ok(Used { cpu_s: cpu_s(pid, [11, 12])?, rss_mib: mib("VmRSS:")?, peak_mib: mib("VmHWM:")? })
}

/// What the children of this process used that have ended; they hold no memory any more.
pub fn used_by_children() -> Result<Used, Error> {
    // cutime and cstime.
    Ok(Used { cpu_s: cpu_s(std::process::id(), [13, 14])?, rss_mib: 0.0, peak_mib: 0.0 })
}

/// The sum of two fields of `/proc/PID/stat`, counted from 0 behind the name, which stands in parentheses and may hold
/// spaces.
fn cpu_s(pid: u32, fields: [usize; 2]) -> Result<f64, Error> {
    let stat = read(&format!("/proc/{pid}/stat"))?;
    let (_, rest) = stat.rsplit_once(')').ok_or_else(|| malformed(pid))?;
    let ticks = |at: usize| rest.split_whitespace().nth(at).and_then(|field| field.parse::<f64>().ok());
    let [one, other] = fields.map(ticks);
    one.zip(other).map(|(one, other)| (one + other) / TICKS_PER_S).ok_or_else(|| malformed(pid))
}

fn read(path: &str) -> Result<String, Error> {
    fs::read_to_string(path).map_err(|error| Error::Io(path.to_owned(), error))
}

fn malformed(pid: u32) -> Error {
    Error::Failed(format!("/proc/{pid}: not as expected"))
}
