//! One component as an operating-system process that cannot outlive its parent.
//!
//! The child's standard input is a pipe whose other end only this process holds. A component that was told so
//! (`PARENT_PIPE`) ends when the pipe closes: on a clean stop, and also when the parent is killed.

use component_base::lifecycle::PARENT_PIPE;
use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::process::{Child, ChildStdin, Command};

use component_base::env::Env;

/// How long a component may take to end after its pipe closes before it is killed.
const STOP_GRACE: Duration = Duration::from_secs(10);

/// A running component.
#[derive(Debug)]
pub struct Process {
    pub name: &'static str,
    log: PathBuf,
    child: Child,
    /// Our end of the child's standard input. Kept apart from `child`, whose `wait` would close it.
    pipe: Option<ChildStdin>,
}

impl Process {
    /// Starts `program <name> <arguments…>`, its output appended to `log`.
    pub fn start(program: &Path, name: &'static str, arguments: &[String], log: &Path) -> io::Result<Self> {
        let output = OpenOptions::new().create(true).append(true).open(log)?;
        let mut child = Command::new(program)
            .arg(name)
            .args(arguments)
            .env(PARENT_PIPE, "1")
            .stdin(Stdio::piped())
            .stdout(output.try_clone()?)
            .stderr(output)
            .process_group(0) // Ctrl-C at the terminal reaches `up` alone, which stops the components in order
            .kill_on_drop(true)
            .spawn()?;
        let pipe = child.stdin.take();
        Ok(Self { name, log: log.to_owned(), child, pipe })
    }

    pub fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// Waits until the component ends by itself.
    pub async fn ended(&mut self) -> io::Result<ExitStatus> {
        self.child.wait().await
    }

    /// Whether it has ended already.
    pub fn try_ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Closes the pipe and waits; kills what does not end in time.
    pub async fn stop(mut self, env: &Env) {
        drop(self.pipe.take());
        if env.timeout(STOP_GRACE, self.child.wait()).await.is_err() {
            tracing::warn!(component = self.name, "did not end in {STOP_GRACE:?}: killed");
            let _ = self.child.kill().await;
        }
    }

    /// The last line of its log: why it ended.
    pub fn last_words(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("no output").to_owned()
    }
}
