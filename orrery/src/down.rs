//! `orrery down`: stops a cluster, and with `--purge` removes its data.

use crate::place::Place;
use crate::up::data_dir::{DataDir, DataDirError};
use crate::up::record::Record;
use crate::up::signal;
use clap::Args;
use component_base::claim::ClaimError;
use component_base::env::Env;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Time that a cluster gets to stop; each component has ten seconds.
const LIMIT: Duration = Duration::from_secs(90);
/// Time between two checks.
const PAUSE: Duration = Duration::from_millis(20);

/// Options of `orrery down`.
#[derive(Args, Clone, Debug)]
pub struct Options {
    #[command(flatten)]
    pub place: Place,
    /// Also remove the cluster's state, certificates and logs
    #[arg(long)]
    pub purge: bool,
}

/// The reason why a cluster was not stopped, in one line.
#[derive(Debug, thiserror::Error)]
pub enum DownError {
    #[error("cluster {0} is being started or stopped by a process that did not say which it is")]
    Unknown(String),
    #[error("process {process}: {source}")]
    Signal { process: u32, source: io::Error },
    #[error("cluster {0} has not ended after {LIMIT:?}")]
    StillRunning(String),
    #[error(transparent)]
    Claim(#[from] ClaimError),
    #[error(transparent)]
    DataDir(#[from] DataDirError),
    #[error("--purge: {}: {source}", path.display())]
    Purge { path: PathBuf, source: io::Error },
}

/// Stops a cluster. Succeeds also if it does not run.
pub async fn run(options: Options, env: Env) -> Result<(), DownError> {
    let Options { place, purge } = options;
    if place.is_running()? {
        end(&place, &env).await?;
        println!("cluster {} has ended", place.name);
    } else {
        println!("cluster {} is not running", place.name);
    }
    let root = place.root();
    if purge && root.exists() {
        // Refuses a directory that is not a cluster's, or is in use.
        let data_dir = DataDir::open(&root)?;
        let path = data_dir.root().to_owned();
        fs::remove_dir_all(&path).map_err(|source| DownError::Purge { path, source })?;
        println!("{} is removed", root.display());
    }
    Ok(())
}

async fn end(place: &Place, env: &Env) -> Result<(), DownError> {
    let Some(record) = Record::read(&place.root()) else { return Err(DownError::Unknown(place.name.clone())) };
    let process = record.process;
    signal::terminate(process).map_err(|source| DownError::Signal { process, source })?;
    let ended = async {
        while place.is_running()? {
            env.sleep(PAUSE).await;
        }
        Ok::<_, ClaimError>(())
    };
    env.timeout(LIMIT, ended).await.map_err(|_| DownError::StillRunning(place.name.clone()))??;
    Ok(())
}
