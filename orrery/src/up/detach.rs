//! `up --detach`: runs `up` as a background process, and waits until the cluster is ready.

use super::data_dir::DataDir;
use super::record::Record;
use super::{Options, UpError, signal};
use component_base::env::Env;
use component_base::private_file;
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use tokio::process::{Child, Command};

/// Flag of the command line, and its replacement for the background process.
const DETACH: &str = "--detach";
const DETACHED: &str = "--detached";
/// Time between two checks.
const PAUSE: Duration = Duration::from_millis(20);

/// Starts the cluster in the background, and returns once it is ready.
pub async fn run(options: &Options, env: &Env) -> Result<(), UpError> {
    // Reports a directory in use here, and creates the folder of logs.
    let data_dir = DataDir::open(&options.place.root())?;
    let (root, log) = (data_dir.root().to_owned(), data_dir.log_of("up"));
    drop(data_dir);
    let failed = |source| UpError::Start { component: "orrery", source };
    let mut child = start(&log).map_err(failed)?;
    let shutdown = env.shutdown().clone();
    loop {
        if child.try_wait().map_err(failed)?.is_some() {
            let text = fs::read_to_string(&log).unwrap_or_default();
            let last = text.lines().last().unwrap_or_default();
            let message = last.strip_prefix("orrery: ").unwrap_or(last).to_owned();
            return Err(UpError::Detached { message });
        }
        if Record::read(&root).is_some_and(|record| record.ready && Some(record.process) == child.id()) {
            // The output may be closed; the cluster goes on.
            let _ = io::stdout().write_all(&fs::read(&log).unwrap_or_default());
            return Ok(());
        }
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return give_up(child).await,
            () = env.sleep(PAUSE) => {}
        }
    }
}

/// Starts this command line in the background, with its output in a file and out of reach of the terminal's Ctrl-C.
fn start(log: &Path) -> io::Result<Child> {
    let output = private_file::options().create(true).write(true).truncate(true).open(log)?;
    let arguments = std::env::args_os().skip(1);
    Command::new(std::env::current_exe()?)
        .args(arguments.map(|argument| if argument == DETACH { DETACHED.into() } else { argument }))
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output)
        .process_group(0)
        .spawn()
}

/// Stops the cluster if waiting for it was interrupted.
async fn give_up(mut child: Child) -> Result<(), UpError> {
    if let Some(process) = child.id() {
        let _ = signal::terminate(process);
    }
    child.wait().await.map(drop).map_err(|source| UpError::Start { component: "orrery", source })
}
