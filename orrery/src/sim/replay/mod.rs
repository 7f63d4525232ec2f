//! `orrery sim replay`: opens the cluster of a finished cell for kubectl, as it was at a moment.
//!
//! The cell runs again up to there, because equal inputs give an equal run. Then its clock stands, and its API server answers on a real
//! port. The cluster lives in a thread of its own, whose time is virtual; `door` brings it the requests, and `session` moves its clock.

mod command;
mod session;

use crate::sim::door;
use crate::sim::prepared::Prepared;
use crate::sim::results::Finished;
use crate::sim::study_file::StudyFile;
use clap::Args;
use command::{Command, Moment};
use component_base::env::Env;
use experiments::study::{Cell, Depth, Seeds};
use session::Session;
use std::fmt;
use std::fs;
use std::io;
use std::path::PathBuf;
use tokio::sync::mpsc;

/// Most commands that wait while the clock runs.
const MAX_COMMANDS: usize = 16;

const HELP: &str = "  step [COUNT|TIME], until TIME|EVENT, back [TIME], now, quit";

/// Options of `orrery sim replay`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  orrery sim replay results/packing/six-nodes/small-and-large/none/default/seed-1 --until 90s
  orrery sim replay DIR --study my.yaml --until pod-scheduled:default/large-7

Then say on standard input: step [COUNT|TIME], until TIME|EVENT, back [TIME], now or quit.")]
pub struct Options {
    /// Folder of the cell: CLUSTER/WORKLOAD/FAULTS/POLICY/seed-N below the results of a study
    pub dir: PathBuf,
    /// Time since the beginning, or the first event of a name, as pod-scheduled:default/a
    #[arg(long, value_name = "TIME|EVENT", value_parser = Moment::parse)]
    pub until: Moment,
    /// File with the study [default: studies/NAME.yaml or NAME.yaml]
    #[arg(long, value_name = "FILE")]
    pub study: Option<PathBuf>,
    /// Kubeconfig to write [default: kubeconfig in the folder of the cell]
    #[arg(long, value_name = "PATH")]
    pub kubeconfig: Option<PathBuf>,
}

/// A cell that has finished, and its study.
pub struct Found {
    file: StudyFile,
    finished: Finished,
}

impl Found {
    fn name(&self) -> String {
        let manifest = &self.finished.manifest;
        format!("{}/{}/seed-{}", manifest.setting, manifest.policy, manifest.seed)
    }

    fn cell(&self) -> Option<Cell<'_>> {
        self.file.cell(&self.name())
    }
}

/// The reasons for which a replay ended.
#[derive(Debug)]
pub struct Error(Vec<String>);

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("; "))
    }
}

/// Finds the cell and its study, and checks that running it again gives what lies in the folder.
pub fn read(options: &Options) -> Result<Found, Vec<String>> {
    let finished = Finished::open(options.dir.clone()).map_err(|why| vec![why])?;
    let name = &finished.manifest.study;
    let usual = || [format!("studies/{name}.yaml"), format!("{name}.yaml")].map(PathBuf::from);
    let path = match &options.study {
        Some(path) => path.clone(),
        None => usual().into_iter().find(|path| path.exists()).ok_or_else(|| {
            vec![format!("--study: Required value: neither studies/{name}.yaml nor {name}.yaml is here")]
        })?,
    };
    let file = StudyFile::read(&path, Some(Seeds(vec![finished.manifest.seed])))?;
    let problems = file.problems();
    if !problems.is_empty() {
        return Err(problems);
    }
    let found = Found { file, finished };
    let line = |why: String| vec![format!("{}: {why}", path.display())];
    if found.file.study.depth == Depth::Scheduler {
        return Err(line(
            "depth: scheduler has no API server that kubectl could ask: run the study with depth full".to_owned(),
        ));
    }
    let cell = found.cell().ok_or_else(|| line(format!("the study has no cell {}", found.name())))?;
    if !found.finished.manifest.repeatable {
        return Err(line(format!("{}: not repeatable, so running it again would give another cluster", found.name())));
    }
    if !Prepared::new(&found.file, &cell)?.manifest.is_same_run(&found.finished.manifest) {
        let why = format!("{} was made by another version of this study or of orrery", options.dir.display());
        return Err(line(format!("{why}: run the study again")));
    }
    Ok(found)
}

/// Serves the cluster until standard input ends.
pub async fn run(options: Options, found: Found, env: Env) -> Result<(), Error> {
    let kubeconfig = options.kubeconfig.unwrap_or_else(|| found.finished.folder.join("kubeconfig"));
    let exchanges = door::open(&env, &kubeconfig).await.map_err(|why| Error(vec![why]))?.exchanges;
    let (sender, commands) = mpsc::channel(MAX_COMMANDS);
    let listening = env.thread("commands", move || listen(&sender));
    listening.map_err(|error| Error(vec![error.to_string()]))?;
    let (shutdown, path) = (env.shutdown().clone(), kubeconfig.clone());
    let served = env.blocking(move || {
        let lines = |why: String| vec![why];
        let cell = found.cell().ok_or_else(|| lines("the study has lost its cell".to_owned()))?;
        let prepared = Prepared::new(&found.file, &cell)?;
        let greeting = format!("{HELP}\n  export KUBECONFIG={}", path.display());
        let session = Session { file: &found.file, cell, prepared: &prepared, commands, exchanges, shutdown };
        session.run(options.until, &greeting)
    });
    let served = served.await;
    let _ = fs::remove_file(&kubeconfig); // nobody answers there any more
    served.map_err(Error)
}

/// Reads the commands of standard input until its end, or until nobody takes them.
fn listen(commands: &mpsc::Sender<Command>) {
    for line in io::stdin().lines().map_while(Result::ok) {
        match Command::parse(&line) {
            Ok(None) => {}
            Ok(Some(command)) => {
                if commands.blocking_send(command).is_err() {
                    return;
                }
            }
            Err(why) => eprintln!("error: {why}"),
        }
    }
}
