//! `Process`: a component as an operating-system process that ends with its parent.
//!
//! The child's standard input is a pipe whose other end only this process holds. With `PARENT_PIPE` set, the component ends
//! when the pipe closes: on a clean stop, and also when the parent is killed.

use super::components::Component;
use component_base::env::Env;
use component_base::lifecycle::PARENT_PIPE;
use component_base::private_file;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::process::{Child, ChildStdin, Command};
use tokio::time::Instant;

/// Time that a component gets to end after its pipe closes; then it is killed.
const STOP_GRACE: Duration = Duration::from_secs(10);
/// Size at which a log is rotated when its component starts; one old log is kept.
const LOG_LIMIT_BYTES: u64 = 32 << 20;
/// Number of bytes at the log's end that are searched for the last line.
const LAST_LINE_BYTES: u64 = 4096;

/// A running component.
#[derive(Debug)]
pub struct Process {
    pub name: &'static str,
    pub began: Instant,
    log: PathBuf,
    /// Offset in the log at which this run begins.
    log_begins: u64,
    child: Child,
    /// This process's end of the pipe. Kept apart from `child`, whose `wait` would close it.
    pipe: Option<ChildStdin>,
}

impl Process {
    /// Starts `program <name> <arguments…>`, and appends its output to `log`.
    pub fn start(env: &Env, program: &Path, component: &Component, is_first: bool, log: PathBuf) -> io::Result<Self> {
        let mut output = open_log(&log)?;
        let log_begins = output.seek(SeekFrom::End(0))?;
        let mut child = Command::new(program)
            .arg(component.name)
            .args(&component.arguments)
            .args(component.first_arguments.iter().filter(|_| is_first))
            .env(PARENT_PIPE, "1")
            .stdin(Stdio::piped())
            .stdout(output.try_clone()?)
            .stderr(output)
            .process_group(0) // Ctrl-C at the terminal reaches `up` alone, which stops the components in order
            .kill_on_drop(true)
            .spawn()?;
        let pipe = child.stdin.take();
        Ok(Self { name: component.name, began: env.now(), log, log_begins, child, pipe })
    }

    pub fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// Waits until the component ends by itself.
    pub async fn ended(&mut self) -> io::Result<ExitStatus> {
        self.child.wait().await
    }

    /// Closes the pipe and waits; kills the process if it does not end in time.
    pub async fn stop(mut self, env: &Env) {
        drop(self.pipe.take());
        if env.timeout(STOP_GRACE, self.child.wait()).await.is_err() {
            tracing::warn!(component = self.name, "did not end in {STOP_GRACE:?}: killed");
            let _ = self.child.kill().await;
        }
    }

    /// Returns the last log line of this run, which mostly has the reason for its end.
    pub fn last_log_line(&self) -> Option<String> {
        let line = last_line(&self.log, self.log_begins).ok().flatten()?;
        let prefix = format!("{}: ", self.name);
        Some(line.strip_prefix(&prefix).map_or(line.clone(), str::to_owned))
    }
}

fn open_log(path: &Path) -> io::Result<File> {
    if fs::metadata(path).is_ok_and(|metadata| metadata.len() > LOG_LIMIT_BYTES) {
        fs::rename(path, path.with_extension("log.old"))?;
    }
    private_file::options().create(true).append(true).open(path)
}

/// Returns the last non-blank line of a file from an offset on.
pub fn last_line(path: &Path, from: u64) -> io::Result<Option<String>> {
    let mut file = File::open(path)?;
    let end = file.seek(SeekFrom::End(0))?;
    file.seek(SeekFrom::Start(from.max(end.saturating_sub(LAST_LINE_BYTES))))?;
    let mut tail = Vec::new();
    file.read_to_end(&mut tail)?;
    let text = String::from_utf8_lossy(&tail);
    Ok(text.lines().rev().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_is_of_this_run() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("a.log");
        fs::write(&log, "of an earlier run\n").unwrap();
        assert_eq!(last_line(&log, 18).unwrap(), None);
        assert_eq!(last_line(&log, 0).unwrap().as_deref(), Some("of an earlier run"));
        fs::write(&log, format!("{}\nwhy it ended\n\n", "x".repeat(10_000))).unwrap();
        assert_eq!(last_line(&log, 0).unwrap().as_deref(), Some("why it ended"));
    }

    #[test]
    fn a_large_log_is_put_aside() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("a.log");
        File::create(&log).unwrap().set_len(LOG_LIMIT_BYTES + 1).unwrap();
        assert_eq!(open_log(&log).unwrap().metadata().unwrap().len(), 0);
        assert_eq!(fs::metadata(folder.path().join("a.log.old")).unwrap().len(), LOG_LIMIT_BYTES + 1);
    }
}
