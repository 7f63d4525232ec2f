//! `orrery explain`: tells why the scheduler put a pod on its node, or on none.
//!
//! The scheduler keeps its last attempts (`--explain-attempts`), and explains them at its own port
//! (`scheduler/src/operations/pages.rs`). [`page`] prints an explanation. For a pod that PreEnqueue holds there is no attempt:
//! [`held`] prints what it waits for.

mod text;
mod group;
pub mod page;
mod held;

use crate::place::Place;
use crate::up::record::Record;
use clap::{Args, Subcommand, ValueEnum};
use client::request::{self, Call};
use client::{Client, Error};
use component_base::env::Env;
use component_base::kubeconfig::{self, Connection, KubeconfigError};
use http::Method;
use page::View;
use scheduler_explanation::document::{AttemptList, Explanation, HeldList, Summary};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Write;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use text::Paint;

/// Options of `orrery explain`.
#[derive(Args, Clone, Debug)]
pub struct Options {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand, Clone, Debug)]
pub enum Command {
    /// Show why a pod got its node, or why it got none
    Pod(PodOptions),
    /// List the attempts that the scheduler keeps
    Attempts(ListOptions),
    /// Write every plugin's word on every node, as a table for programs
    Export(ExportOptions),
}

/// Where the scheduler is.
#[derive(Args, Clone, Debug)]
pub struct Target {
    #[command(flatten)]
    pub place: Place,
    /// Kubeconfig of an administrator [default: the cluster's own, or where there is none what KUBECONFIG names]
    #[arg(long, value_name = "PATH")]
    pub kubeconfig: Option<PathBuf>,
    /// URL of the scheduler's port, for a scheduler that `up` has not started
    #[arg(long, value_name = "URL")]
    pub scheduler: Option<String>,
}

#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  orrery explain pod shop/web                              the last attempt
  orrery explain pod shop/web --attempt 1                  the first one
  orrery explain pod shop/web --node node-2                everything about one node
  orrery explain pod shop/web --what-if weight=ImageLocality:9
  orrery explain pod shop/web --what-if without=TaintToleration,node=node-2
  orrery explain pod shop/web --verify                     ask the reference evaluator too")]
pub struct PodOptions {
    /// NAMESPACE/NAME of the pod, or its name in the namespace of -n
    pub pod: String,
    /// Namespace, where the pod does not say
    #[arg(long, short, default_value = "default")]
    pub namespace: String,
    /// Number of the pod's attempt, from 1 [default: the last]
    #[arg(long, value_name = "N")]
    pub attempt: Option<u32>,
    /// Show everything about this node, and nothing about others
    #[arg(long)]
    pub node: Option<String>,
    /// Run the attempt again with changes: weight=PLUGIN:N, without=PLUGIN or node=NAME, with commas between them
    #[arg(long, value_name = "CHANGES")]
    pub what_if: Vec<String>,
    /// Compare with the reference evaluator
    #[arg(long)]
    pub verify: bool,
    /// How the explanation is printed
    #[arg(long, short, value_enum, default_value = "table")]
    pub output: Output,
    #[command(flatten)]
    pub target: Target,
}

#[derive(Args, Clone, Debug)]
pub struct ListOptions {
    #[command(flatten)]
    pub target: Target,
}

#[derive(Args, Clone, Debug)]
pub struct ExportOptions {
    /// csv, jsonl or parquet
    #[arg(long, default_value = "csv")]
    pub format: String,
    /// Only attempts of this pod: NAMESPACE/NAME
    #[arg(long)]
    pub pod: Option<String>,
    /// The file to write; standard output if there is none
    #[arg(long, short, value_name = "FILE")]
    pub file: Option<PathBuf>,
    #[command(flatten)]
    pub target: Target,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    Table,
    Json,
}

/// The reason why there is no explanation, in one line.
#[derive(Debug, thiserror::Error)]
pub enum ExplainError {
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Kubeconfig(#[from] KubeconfigError),
    #[error(transparent)]
    Client(#[from] Error),
    #[error("no `up` runs there that could name the scheduler's port: name it with --scheduler")]
    NoScheduler,
    #[error("{0}: the scheduler keeps no attempt of this pod; it keeps {1} attempts of others")]
    NoAttempt(String, usize),
    #[error("{0}: the scheduler does not keep attempt {1} of this pod; it keeps {2}")]
    NotKept(String, u32, String),
    #[error("the snapshot of the attempt does not have the node {0:?}")]
    NoNode(String),
    #[error("the reference evaluator does not agree in {0} places")]
    Disagrees(usize),
    #[error("the scheduler's answer: {0}")]
    Answer(serde_json::Error),
    #[error("standard output: {0}")]
    Output(io::Error),
}

pub async fn run(options: Options, env: Env) -> Result<(), ExplainError> {
    match options.command {
        Command::Pod(options) => explain_pod(options, &env).await,
        Command::Attempts(options) => {
            let scheduler = options.target.connect(&env)?;
            print!("{}", listed(&get::<AttemptList>(&scheduler, "/explain".to_owned()).await?.items));
            Ok(())
        }
        Command::Export(options) => export(options, &env).await,
    }
}

impl Target {
    /// Returns a client of the scheduler's port.
    fn connect(&self, env: &Env) -> Result<Client, ExplainError> {
        let own = self.place.kubeconfig();
        let kubeconfig = match &self.kubeconfig {
            None if own.exists() => own,
            given => kubeconfig::locate(given.as_deref()).unwrap_or(own),
        };
        let admin = kubeconfig::read(&kubeconfig)?;
        let recorded = || {
            let mut record = Record::read(&self.place.root())?;
            Some(record.component("scheduler")?.server.clone())
        };
        let server = self.scheduler.clone().or_else(recorded).ok_or(ExplainError::NoScheduler)?;
        Ok(Client::connect(env, &Connection { server, ..admin }, "orrery-explain")?)
    }
}

async fn get<T: DeserializeOwned>(scheduler: &Client, path: String) -> Result<T, ExplainError> {
    let answer = scheduler.call(&Call::new(Method::GET, path)).await?;
    serde_json::from_slice(&answer).map_err(ExplainError::Answer)
}

async fn explain_pod(options: PodOptions, env: &Env) -> Result<(), ExplainError> {
    let PodOptions { pod, namespace, attempt, node, what_if, verify, output, target } = options;
    let pod = if pod.contains('/') { pod } else { format!("{namespace}/{pod}") };
    let scheduler = target.connect(env)?;
    let asks_for_attempt = attempt.is_some() || node.is_some() || verify || !what_if.is_empty();
    if !asks_for_attempt && explain_held(&scheduler, &pod, output).await? {
        return Ok(());
    }
    let attempts: AttemptList = get(&scheduler, "/explain".to_owned()).await?;
    let id = choose(&pod, attempt, &attempts.items)?;
    let mut path = request::Target::new("/explain".to_owned()).segment(&id.to_string());
    path = path.query("what-if", &what_if.join(",")).flag("verify", verify);
    let mut explanation: Explanation = get(&scheduler, path.into_string()).await?;
    if let Some(node) = &node {
        explanation.nodes.retain(|one| one.name == *node);
        if explanation.nodes.is_empty() {
            return Err(ExplainError::NoNode(node.clone()));
        }
    }
    match output {
        Output::Json => print_json(&explanation)?,
        Output::Table => {
            let view = View { paint: Paint { on: is_coloured() }, one_node: node.is_some() };
            print!("{}", page::of(&explanation, &view));
        }
    }
    match explanation.verification.map_or(0, |verification| verification.differences.len()) {
        0 => Ok(()),
        differences => Err(ExplainError::Disagrees(differences)),
    }
}

/// Prints what a pod waits for that PreEnqueue holds. Returns false for any other pod.
async fn explain_held(scheduler: &Client, pod: &str, output: Output) -> Result<bool, ExplainError> {
    let path = request::Target::new("/explain-held".to_owned()).query("pod", pod);
    let held: HeldList = get(scheduler, path.into_string()).await?;
    let Some(held) = held.items.first() else { return Ok(false) };
    match output {
        Output::Json => print_json(held)?,
        Output::Table => print!("{}", held::of(held, Paint { on: is_coloured() })),
    }
    Ok(true)
}

fn print_json(document: &impl Serialize) -> Result<(), ExplainError> {
    println!("{}", serde_json::to_string_pretty(document).map_err(ExplainError::Answer)?);
    Ok(())
}

/// Returns true for a terminal, unless the user wants no colours. See no-color.org.
fn is_coloured() -> bool {
    io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Returns the attempt of the pod with that number, or its last one.
fn choose(pod: &str, number: Option<u32>, attempts: &[Summary]) -> Result<u64, ExplainError> {
    let of_pod: Vec<&Summary> = attempts.iter().filter(|attempt| attempt.pod == pod).collect();
    let Some(last) = of_pod.last() else { return Err(ExplainError::NoAttempt(pod.to_owned(), attempts.len())) };
    let Some(number) = number else { return Ok(last.id) };
    // A later pod may have the same name: its attempts count.
    let found = of_pod.iter().rev().find(|attempt| attempt.attempt == number && attempt.uid == last.uid);
    let kept = || {
        let numbers = of_pod.iter().filter(|attempt| attempt.uid == last.uid).map(|one| one.attempt.to_string());
        numbers.collect::<Vec<_>>().join(", ")
    };
    found.map(|attempt| attempt.id).ok_or_else(|| ExplainError::NotKept(pod.to_owned(), number, kept()))
}

/// Returns a line for each attempt.
fn listed(attempts: &[Summary]) -> String {
    let mut lines = String::new();
    for Summary { id, at, pod, attempt, node, message, .. } in attempts {
        let result = if node.is_empty() { message } else { node };
        let _ = writeln!(lines, "{id:>6}  {at}  {pod}  attempt {attempt}: {result}");
    }
    lines
}

async fn export(options: ExportOptions, env: &Env) -> Result<(), ExplainError> {
    let ExportOptions { format, pod, file, target } = options;
    let scheduler = target.connect(env)?;
    let path = request::Target::new("/explain-rows".to_owned());
    let path = path.query("format", &format).query("pod", pod.as_deref().unwrap_or_default());
    let answer = scheduler.call(&Call::new(Method::GET, path.into_string())).await?;
    match file {
        Some(path) => std::fs::write(&path, &answer).map_err(|source| ExplainError::File { path, source }),
        None => io::Write::write_all(&mut io::stdout(), &answer).map_err(ExplainError::Output),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_attempts_of_the_last_pod_of_that_name_count() {
        let attempt = |id, uid: &str, attempt| {
            let (pod, uid) = ("shop/web".to_owned(), uid.to_owned());
            Summary { id, pod, uid, attempt, ..Summary::default() }
        };
        let kept = [attempt(1, "old", 1), attempt(2, "old", 2), attempt(5, "new", 1)];
        assert_eq!(choose("shop/web", None, &kept).unwrap(), 5);
        assert_eq!(choose("shop/web", Some(1), &kept).unwrap(), 5);
        let error = choose("shop/web", Some(2), &kept).unwrap_err().to_string();
        assert_eq!(error, "shop/web: the scheduler does not keep attempt 2 of this pod; it keeps 1");
        let error = choose("shop/db", None, &kept).unwrap_err().to_string();
        assert_eq!(error, "shop/db: the scheduler keeps no attempt of this pod; it keeps 3 attempts of others");
    }
}
