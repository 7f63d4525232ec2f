//! `orrery sim keep`: runs a command, and ends it with all that it has started when standard input closes. So an external
//! scheduler does not outlive its cell, however that ends.

use clap::Args;
use component_base::env::Env;
use component_base::lifecycle::PARENT_PIPE;
use rustix::process::{Pid, Signal, kill_process_group};
use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::process::Stdio;
use std::time::Duration;
use tokio::process::{Child, Command};

/// Time that the command gets to end before it is killed.
const GRACE: Duration = Duration::from_secs(5);

/// Options of the hidden `orrery sim keep`.
#[derive(Args, Clone, Debug)]
pub struct Options {
    pub program: OsString,
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub arguments: Vec<OsString>,
}

/// Runs the command, whose output goes to standard error. If it ends by itself, standard output says how.
pub async fn run(options: Options, env: Env) -> io::Result<()> {
    let ended = match start(&options.program, &options.arguments) {
        Ok(child) => keep(child, &env).await?,
        Err(error) => Some(format!("{}: {error}", options.program.display())),
    };
    match ended {
        Some(how) => writeln!(io::stdout(), "{how}"),
        None => Ok(()),
    }
}

/// Starts the command in a group of its own, so that all that it starts is ended with it.
fn start(program: &OsStr, arguments: &[OsString]) -> io::Result<Child> {
    let output = || io::stderr().as_fd().try_clone_to_owned().map(Stdio::from);
    let mut command = Command::new(program);
    let command = command.args(arguments).env_remove(PARENT_PIPE).stdin(Stdio::null());
    command.stdout(output()?).stderr(output()?).process_group(0).spawn()
}

/// Waits for the end of the command, or ends it at shutdown. Returns how it has ended by itself.
async fn keep(mut child: Child, env: &Env) -> io::Result<Option<String>> {
    let group = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
    // A group without processes cannot be told anything, and need not be.
    let tell = |signal: Signal| group.map(|group| kill_process_group(group, signal));
    let status = tokio::select! {
        biased;
        () = env.shutdown().cancelled() => None,
        status = child.wait() => Some(status?),
    };
    if status.is_none() {
        tell(Signal::TERM);
        let _ = env.timeout(GRACE, child.wait()).await; // it is killed next
    }
    tell(Signal::KILL);
    Ok(status.map(|status| status.to_string()))
}
