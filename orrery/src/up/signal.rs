//! Asks another process to end.

use rustix::process::{Pid, Signal, kill_process};
use std::io;

pub fn terminate(process: u32) -> io::Result<()> {
    let pid = i32::try_from(process).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidInput)?;
    Ok(kill_process(pid, Signal::TERM)?)
}
