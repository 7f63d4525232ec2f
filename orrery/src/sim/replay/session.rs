//! `Session`: runs the trial of a cell to one moment after another, and lets the cluster answer between them.

use super::command::{Command, Moment};
use crate::sim::door::Exchange;
use crate::sim::prepared::Prepared;
use crate::sim::records::Records;
use crate::sim::study_file::StudyFile;
use experiments::record::{Event, Record};
use experiments::study::Cell;
use serde_json::Value;
use simulator::trial::{Audience, Steered};
use std::cell::RefCell;
use std::io::{self, Write};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

/// Later than any run.
const NEVER: Duration = Duration::from_secs(400 * 24 * 3600);

/// What a run is stopped by.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Goal {
    At(Duration),
    Event { name: String, object: Option<String> },
    Events(usize),
}

impl From<Moment> for Goal {
    fn from(moment: Moment) -> Self {
        match moment {
            Moment::At(at) => Self::At(at),
            Moment::Event { name, object } => Self::Event { name, object },
        }
    }
}

impl Goal {
    /// Returns true if a record reaches the goal. Counts it otherwise.
    fn is_reached(&mut self, record: &Record) -> bool {
        match self {
            Self::At(_) => false,
            Self::Event { name, object } => {
                let document = serde_json::to_value(&record.event).unwrap_or_default();
                let text = |field: &str| document.get(field).and_then(Value::as_str);
                let concerns = |object: &str| [text("pod"), text("node")].contains(&Some(object));
                text("event") == Some(name) && object.as_deref().is_none_or(concerns)
            }
            Self::Events(left) => {
                *left = left.saturating_sub(1);
                *left == 0
            }
        }
    }
}

/// Notes what happens, and stops the clock at the goal.
struct Watcher {
    noted: Records,
    goal: Goal,
    stop: Arc<Notify>,
    has_ended: bool,
}

impl Audience for Watcher {
    fn happened(&mut self, at: Duration, event: Event) {
        let known = self.noted.records.len();
        self.noted.happened(at, event);
        for record in &self.noted.records[known..] {
            self.has_ended |= record.event == Event::Ended;
            if self.goal.is_reached(record) || self.has_ended {
                self.stop.notify_one();
            }
        }
    }
}

/// The cluster of a cell at a moment.
struct Cluster {
    replay: Steered,
    watcher: Rc<RefCell<Watcher>>,
    stop: Arc<Notify>,
}

impl Cluster {
    fn new(file: &StudyFile, cell: &Cell<'_>, prepared: &Prepared) -> Result<Self, Vec<String>> {
        let (setup, submissions) = prepared.trial(file, cell)?;
        let stop = Arc::new(Notify::new());
        let (noted, goal) = (Records::new(prepared), Goal::At(Duration::ZERO));
        let watcher = Watcher { noted, goal, stop: stop.clone(), has_ended: false };
        let watcher = Rc::new(RefCell::new(watcher));
        Ok(Self { replay: Steered::replay(setup, submissions, watcher.clone()), watcher, stop })
    }

    fn reach(&mut self, goal: Goal, shutdown: &CancellationToken) -> Result<(), String> {
        let until = match &goal {
            Goal::At(at) => *at,
            _ => NEVER,
        };
        let mut watcher = self.watcher.borrow_mut();
        watcher.goal = goal;
        if watcher.has_ended {
            return Ok(());
        }
        drop(watcher);
        let stop = self.stop.clone();
        self.replay.go_on(until, async {
            tokio::select! {
                biased;
                () = shutdown.cancelled() => {}
                () = stop.notified() => {}
            }
        })
    }

    /// Returns where the cluster is: its time and the last thing that has happened.
    fn place(&self) -> String {
        let watcher = self.watcher.borrow();
        let last = watcher.noted.records.last().map(Record::line).unwrap_or_default();
        format!("at {:.3}s, after {last}", self.replay.now().as_secs_f64())
    }
}

/// What a session needs from outside.
pub struct Session<'s> {
    pub file: &'s StudyFile,
    pub cell: Cell<'s>,
    pub prepared: &'s Prepared,
    pub commands: mpsc::Receiver<Command>,
    pub exchanges: mpsc::Receiver<Exchange>,
    pub shutdown: CancellationToken,
}

impl Session<'_> {
    /// Goes to the first moment, and then wherever the commands say, until they end.
    pub fn run(mut self, first: Moment, greeting: &str) -> Result<(), Vec<String>> {
        let mut cluster = Cluster::new(self.file, &self.cell, self.prepared)?;
        let mut goal = Some(Goal::from(first));
        let mut greeting = Some(greeting);
        loop {
            if let Some(goal) = goal.take() {
                cluster.reach(goal, &self.shutdown).map_err(|why| vec![why])?;
            }
            say(&cluster.place());
            if let Some(greeting) = greeting.take() {
                say(greeting);
            }
            let (commands, exchanges, shutdown) = (&mut self.commands, &mut self.exchanges, &self.shutdown);
            let command = cluster.replay.stand(async |admin, env| {
                loop {
                    tokio::select! {
                        biased;
                        () = shutdown.cancelled() => return None,
                        command = commands.recv() => return command,
                        Some(exchange) = exchanges.recv() => drop(env.spawn(exchange.perform(admin.clone()))),
                    }
                }
            });
            let now = cluster.replay.now();
            goal = match command.flatten() {
                None | Some(Command::Quit) => return Ok(()),
                Some(Command::Now) => None,
                Some(Command::StepTime(time)) => Some(Goal::At(now + time)),
                Some(Command::StepEvents(count)) => Some(Goal::Events(count)),
                Some(Command::Until(Moment::At(at))) if at < now => {
                    say("that time has passed: say back");
                    None
                }
                Some(Command::Until(moment)) => Some(Goal::from(moment)),
                Some(Command::Back(time)) => {
                    // What was is computed again.
                    cluster = Cluster::new(self.file, &self.cell, self.prepared)?;
                    Some(Goal::At(now.saturating_sub(time)))
                }
            };
        }
    }
}

fn say(line: &str) {
    let mut output = io::stdout().lock();
    // Without a reader the cluster still answers.
    let _ = writeln!(output, "{line}").and_then(|()| output.flush());
}
