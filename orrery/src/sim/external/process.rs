//! `Scheduler`: the process of an external scheduler, behind its keeper.

use crate::up::process::last_line;
use component_base::lifecycle::PARENT_PIPE;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf, absolute};
use std::process::Stdio;
use tokio::io::AsyncReadExt;
use tokio::process::{Child, ChildStdin, Command};

pub struct Scheduler {
    keeper: Child,
    /// Ends the scheduler when it is closed.
    pipe: Option<ChildStdin>,
    log: PathBuf,
}

impl Scheduler {
    /// Starts a command in the folder of the study. What it prints goes to `log`.
    pub fn start(command: &[String], studies: &Path, kubeconfig: &Path, log: &Path) -> Result<Self, String> {
        let failed = |error: io::Error| format!("the scheduler did not start: {error}");
        let studies = absolute(studies.join(".")).map_err(failed)?;
        let program = std::env::current_exe().map_err(failed)?;
        let output = File::create(log).map_err(|error| format!("{}: {error}", log.display()))?;
        let mut keeper = Command::new(program)
            .args(["sim", "keep", "--"])
            .args(words(command, &studies))
            .current_dir(&studies)
            .env("KUBECONFIG", kubeconfig)
            .env(PARENT_PIPE, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(output)
            .kill_on_drop(false) // it ends with its pipe, after the scheduler
            .spawn()
            .map_err(failed)?;
        let pipe = keeper.stdin.take();
        Ok(Self { keeper, pipe, log: log.to_owned() })
    }

    /// Ends the scheduler, and waits for its end.
    pub async fn end(mut self) {
        drop(self.pipe.take());
        let _ = self.keeper.wait().await; // the keeper has said what there is to say
    }

    /// Waits until the scheduler ends by itself, and returns a line with the reason.
    pub async fn ended(&mut self) -> String {
        let mut status = String::new();
        if let Some(stdout) = &mut self.keeper.stdout {
            let _ = stdout.read_to_string(&mut status).await; // a keeper that was killed says nothing
        }
        let last = last_line(&self.log, 0).ok().flatten();
        let last = last.map_or_else(|| "it printed nothing".to_owned(), |line| format!("its last line: {line}"));
        match status.trim() {
            "" => format!("the scheduler has ended; {last}"),
            status => format!("the scheduler has ended: {status}; {last}"),
        }
    }
}

/// Returns the command with its program, of which a path is relative to the folder of the study.
fn words(command: &[String], studies: &Path) -> Vec<PathBuf> {
    let mut words: Vec<PathBuf> = command.iter().map(PathBuf::from).collect();
    if let Some(program) = words.first_mut().filter(|program| program.components().count() > 1) {
        *program = studies.join(&*program);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_relative_to_the_study() {
        let of = |program: &str| words(&[program.to_owned(), "a/b".to_owned()], Path::new("/studies"));
        assert_eq!(of("python3"), [PathBuf::from("python3"), PathBuf::from("a/b")]);
        assert_eq!(of("bin/mine")[0], PathBuf::from("/studies/bin/mine"));
        assert_eq!(of("/usr/bin/mine")[0], PathBuf::from("/usr/bin/mine"));
    }
}
