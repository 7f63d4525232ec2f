//! `orrery status`: shows which components of a cluster run and are ready.

use crate::place::Place;
use crate::up::record::{ComponentRecord, Record};
use clap::Args;
use client::Client;
use component_base::claim::ClaimError;
use component_base::env::Env;
use component_base::http::Body;
use component_base::kubeconfig::{self, Connection, KubeconfigError};
use std::time::Duration;

/// Time that a component gets to answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(3);

/// Options of `orrery status`.
#[derive(Args, Clone, Debug)]
pub struct Options {
    #[command(flatten)]
    pub place: Place,
}

/// The reason why the status is not good, in one line.
#[derive(Debug, thiserror::Error)]
pub enum StatusError {
    #[error("cluster {0} is not running")]
    NotRunning(String),
    #[error("cluster {0} is starting")]
    Starting(String),
    #[error("not ready: {}", .0.join(", "))]
    NotReady(Vec<String>),
    #[error(transparent)]
    Claim(#[from] ClaimError),
    #[error(transparent)]
    Kubeconfig(#[from] KubeconfigError),
    #[error("{0}")]
    Client(#[from] client::Error),
}

/// Prints one line per component. Fails unless all of them are ready.
pub async fn run(options: Options, env: Env) -> Result<(), StatusError> {
    let place = options.place;
    let root = place.root();
    if !place.is_running()? {
        return Err(StatusError::NotRunning(place.name));
    }
    let Some(record) = Record::read(&root) else { return Err(StatusError::Starting(place.name)) };
    let admin = kubeconfig::read(&place.kubeconfig())?;
    let state = if record.ready { "running" } else { "starting" };
    println!(
        "cluster {} is {state} at {}, store {}, data in {}",
        place.name,
        record.server,
        record.store,
        root.display()
    );
    let mut unready = Vec::new();
    for component in &record.components {
        let is_ready = component.process.is_some() && reports_ready(component, &admin, &env).await?;
        println!("{}", line(component, is_ready));
        if !is_ready {
            unready.push(component.name.clone());
        }
    }
    if unready.is_empty() { Ok(()) } else { Err(StatusError::NotReady(unready)) }
}

async fn reports_ready(component: &ComponentRecord, admin: &Connection, env: &Env) -> Result<bool, client::Error> {
    let connection = Connection { server: component.server.clone(), ..admin.clone() };
    let client = Client::connect(env, &connection, "orrery-status")?;
    let request = http::Request::get("/readyz").body(Body::empty()).expect("a constant path makes a request");
    let answer = env.timeout(ANSWER_LIMIT, client.send(request)).await;
    Ok(answer.is_ok_and(|answer| answer.is_ok_and(|answer| answer.status().is_success())))
}

fn line(component: &ComponentRecord, is_ready: bool) -> String {
    let ComponentRecord { name, server, process, restarts, last_end } = component;
    let state = match process {
        Some(process) if is_ready => format!("ready, process {process}"),
        Some(process) => format!("not ready, process {process}"),
        None => "ended, to be started again".to_owned(),
    };
    let restarts = match last_end {
        Some(end) => format!(", restarted {restarts} times, last end: {end}"),
        None => String::new(),
    };
    format!("{name:<24} {server}  {state}{restarts}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_component_is_a_line() {
        let started = ComponentRecord {
            name: "scheduler".to_owned(),
            server: "https://127.0.0.1:6445".to_owned(),
            process: Some(7),
            ..ComponentRecord::default()
        };
        assert_eq!(line(&started, true), "scheduler                https://127.0.0.1:6445  ready, process 7");
        let longest = ComponentRecord { name: "cloud-controller-manager".to_owned(), ..started.clone() };
        assert_eq!(line(&longest, true), "cloud-controller-manager https://127.0.0.1:6445  ready, process 7");
        assert_eq!(line(&started, false), "scheduler                https://127.0.0.1:6445  not ready, process 7");
        let last_end = Some("signal: 9 (SIGKILL)".to_owned());
        let ended = ComponentRecord { process: None, restarts: 2, last_end, ..started };
        let expected = "ended, to be started again, restarted 2 times, last end: signal: 9 (SIGKILL)";
        assert!(line(&ended, false).ends_with(expected));
    }
}
