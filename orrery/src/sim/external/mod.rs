//! A cell whose scheduler is a process outside the simulation, in real time.
//!
//! The cluster lives in a thread of its own, whose time is virtual (`cluster`). `pace` lets that time go on with the real one, and brings
//! the cluster the requests that come through the `door`. `process` starts the scheduler, which `keeper` ends with the cell.

mod cluster;
mod pace;
mod process;
pub mod keeper;

use crate::sim::cell;
use crate::sim::cell::Options;
use crate::sim::door;
use crate::sim::study_file::StudyFile;
use component_base::env::Env;
use experiments::study::External;
use process::Scheduler;
use std::fs;
use std::future::pending;
use std::io::{self, Write};
use std::path::{Path, absolute};
use tokio::sync::{mpsc, oneshot};

/// Kubeconfig for the scheduler, in the folder of its cell.
const KUBECONFIG: &str = "kubeconfig";
/// What the scheduler prints.
const LOG: &str = "scheduler.log";
/// Most moments on their way to the cluster.
const MAX_MOMENTS: usize = 64;

/// Runs a cell whose policy has an external scheduler, and writes its files.
pub async fn run(options: Options, file: StudyFile, env: Env) -> Result<(), String> {
    cell::end_at_a_panic();
    let folder = options.out.join(&options.cell);
    cell::clear(&folder)?;
    let kubeconfig = absolute(folder.join(KUBECONFIG)).map_err(|error| error.to_string())?;
    let log = folder.join(LOG);
    let cell = file.cell(&options.cell).ok_or_else(|| format!("the study has no cell {}", options.cell))?;
    let (policy, external) = (cell.policy.name.clone(), cell.policy.external.clone().unwrap_or_default());
    let studies = file.files.0.clone();
    let mut door = door::open(&env, &kubeconfig).await?;
    let (sender, moments) = mpsc::channel(MAX_MOMENTS);
    let (is_up, up) = oneshot::channel();
    let name = options.cell.clone();
    let cluster = env.blocking(move || cluster::run(&file, &options, moments, is_up));
    let mut scheduler = None;
    let outside = async {
        // Without an answer the cluster has failed, which its result says.
        if up.await.is_err() {
            return pending().await;
        }
        match external.command.as_slice() {
            [] => say(&invitation(&name, &kubeconfig, &door.server, &external)),
            command => scheduler = Some(Scheduler::start(command, &studies, &kubeconfig, &log)?),
        }
        let ended = async {
            match &mut scheduler {
                Some(scheduler) => scheduler.ended().await,
                None => pending().await,
            }
        };
        tokio::select! {
            biased;
            why = ended => Err(why),
            () = pace::lead(&env, external.speed(), &mut door.exchanges, &sender) => pending().await,
        }
    };
    let result = tokio::select! {
        biased;
        done = cluster => done.map_err(|lines| lines.join("; ")),
        why = outside => why.map_err(|why: String| format!("policy {policy}: {why}")),
        () = env.shutdown().cancelled() => Err("interrupted".to_owned()),
    };
    if let Some(scheduler) = scheduler {
        scheduler.end().await;
    }
    let _ = fs::remove_file(&kubeconfig); // nobody answers there any more
    result
}

/// Returns what the user needs to know to start a scheduler.
fn invitation(cell: &str, kubeconfig: &Path, server: &str, external: &External) -> String {
    format!(
        "{cell} waits for a scheduler of pods with schedulerName {}, which runs {} times as fast as the clock\n  \
         export KUBECONFIG={}    # {server}",
        external.scheduler_name(),
        external.speed(),
        kubeconfig.display(),
    )
}

/// Prints a line for the user.
fn say(line: &str) {
    // Without a reader the run goes on.
    let _ = writeln!(io::stdout(), "{line}");
}
