//! `Log`: what happens in a simulation, a row for each request, each watch event that is passed on, each fault and each crash.
//!
//! A row is a line of text for people, and an object of JSON for programs. The same seed gives the same rows.

use crate::part::Part;
use apiserver::request_log::{Logged, RequestLog};
use component_base::env::Env;
use experiments::units::micros_of;
use jiff::Timestamp;
use parking_lot::Mutex;
use serde::Serialize;
use std::fmt::{self, Display};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The log of a run. Clones share it.
#[derive(Clone)]
pub struct Log {
    env: Env,
    began: Instant,
    rows: Arc<Mutex<Vec<Row>>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Row {
    /// Virtual time since the beginning of the run.
    pub at_us: u64,
    /// The same by the clock of the part that has written the row. Faults may set it wrong.
    pub at: Timestamp,
    #[serde(flatten)]
    pub happened: Happened,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Happened {
    /// The API server has answered a request, or passed an event on.
    Api(Logged),
    Run(Said),
}

/// What the simulation itself says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "what", rename_all = "kebab-case")]
pub enum Said {
    /// A component is killed, and starts again after a while.
    Killed {
        component: Part,
        down_ms: u64,
    },
    Started {
        component: Part,
    },
    /// A component has ended by itself.
    Ended {
        component: Part,
        why: String,
    },
    /// The wire has lost something on its way from or to a component.
    Lost {
        component: Part,
        lost: Lost,
        path: String,
    },
    /// Any other fault begins or ends.
    Fault {
        said: String,
    },
    /// A step of the scenario.
    Note {
        said: String,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Lost {
    Request,
    Answer,
    Watch,
}

impl Log {
    /// Starts an empty log.
    pub fn new(env: &Env) -> Self {
        Self { env: env.clone(), began: env.now(), rows: Arc::default() }
    }

    /// Returns the log of an API server, whose rows become rows of this one.
    pub fn of_requests(&self) -> RequestLog {
        let log = self.clone();
        RequestLog(Arc::new(move |row| log.push(row.at, Happened::Api(row.logged))))
    }

    pub fn say(&self, said: Said) {
        self.push(self.env.wall(), Happened::Run(said));
    }

    pub fn fault(&self, said: impl Display) {
        self.say(Said::Fault { said: said.to_string() });
    }

    pub fn note(&self, said: impl Display) {
        self.say(Said::Note { said: said.to_string() });
    }

    fn push(&self, at: Timestamp, happened: Happened) {
        let at_us = micros_of(self.env.now().duration_since(self.began));
        self.rows.lock().push(Row { at_us, at, happened });
    }

    /// Returns the rows so far.
    pub fn rows(&self) -> Vec<Row> {
        self.since(0)
    }

    /// Returns the number of rows so far.
    pub fn count(&self) -> usize {
        self.rows.lock().len()
    }

    /// Returns the rows from this number on.
    pub fn since(&self, number: usize) -> Vec<Row> {
        self.rows.lock()[number..].to_vec()
    }
}

impl Row {
    /// Returns the row as a line of JSON, without its end.
    pub fn json(&self) -> String {
        serde_json::to_string(self).expect("a row is plain data")
    }

    pub fn is_request(&self) -> bool {
        matches!(self.happened, Happened::Api(Logged::Request { .. }))
    }

    pub fn is_delivery(&self) -> bool {
        matches!(self.happened, Happened::Api(Logged::Delivery { .. }))
    }

    /// True for what concerns the whole run, and not one request.
    pub fn is_of_run(&self) -> bool {
        matches!(&self.happened, Happened::Run(said) if !matches!(said, Said::Lost { .. }))
    }
}

impl Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.happened {
            Happened::Api(logged) => write!(f, "{} {logged}", self.at),
            Happened::Run(said) => write!(f, "{} simulation: {said}", self.at),
        }
    }
}

impl Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Killed { component, down_ms } => {
                write!(f, "{component} is killed, for {:?}", Duration::from_millis(*down_ms))
            }
            Self::Started { component } => write!(f, "{component} starts again"),
            Self::Ended { component, why } => write!(f, "{component} ended: {why}"),
            Self::Lost { component, lost: Lost::Request, path } => {
                write!(f, "a request of {component} is lost: {path}")
            }
            Self::Lost { component, lost: Lost::Answer, path } => write!(f, "an answer to {component} is lost: {path}"),
            Self::Lost { component, lost: Lost::Watch, path } => write!(f, "a watch of {component} breaks: {path}"),
            Self::Fault { said } | Self::Note { said } => f.write_str(said),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::in_virtual_time;
    use serde_json::json;

    /// A row of each kind, as text and as JSON.
    #[test]
    fn rows_are_lines_of_both_forms() {
        let (rows, wall) = in_virtual_time(async {
            let env = Env::simulated(1);
            let log = Log::new(&env);
            env.sleep(Duration::from_millis(1500)).await;
            log.say(Said::Killed { component: Part::Nodes, down_ms: 2500 });
            log.say(Said::Lost { component: Part::Scheduler, lost: Lost::Answer, path: "/api/v1/pods".to_owned() });
            log.note("all have grown");
            let (user, path) = ("ann".to_owned(), "/api/v1/pods".to_owned());
            let verb = "list".to_owned();
            let logged = Logged::Request { user, verb, path, code: 200, revision: None, hash: None };
            (log.of_requests().0)(apiserver::request_log::LogRow { at: env.wall(), logged });
            (log.rows(), env.wall())
        });
        let lines: Vec<String> = rows.iter().map(ToString::to_string).collect();
        let expected = [
            format!("{wall} simulation: kubelet-sim is killed, for 2.5s"),
            format!("{wall} simulation: an answer to scheduler is lost: /api/v1/pods"),
            format!("{wall} simulation: all have grown"),
            format!("{wall} ann list /api/v1/pods 200 - -"),
        ];
        assert_eq!(lines, expected);
        let objects: Vec<serde_json::Value> =
            rows.iter().map(|row| serde_json::from_str(&row.json()).unwrap()).collect();
        let at = wall.to_string();
        assert_eq!(
            objects,
            [
                json!({"at_us": 1_500_000, "at": at, "what": "killed", "component": "kubelet-sim", "down_ms": 2500}),
                json!({"at_us": 1_500_000, "at": at, "what": "lost", "component": "scheduler", "lost": "answer",
                    "path": "/api/v1/pods"}),
                json!({"at_us": 1_500_000, "at": at, "what": "note", "said": "all have grown"}),
                json!({"at_us": 1_500_000, "at": at, "what": "request", "user": "ann", "verb": "list",
                    "path": "/api/v1/pods", "code": 200, "revision": null, "hash": null}),
            ]
        );
        assert!(rows[0].is_of_run() && !rows[1].is_of_run() && rows[3].is_request());
    }
}
