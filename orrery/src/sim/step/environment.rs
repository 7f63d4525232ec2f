//! `Environment`: an episode of one cell, stepped from decision to decision.

use super::request::Command;
use crate::sim::prepared::Prepared;
use crate::sim::records::Records;
use crate::sim::study_file::StudyFile;
use component_helpers::scheduling::requests;
use experiments::learning::layout::{Layout, NodeState, Outcome, PodState};
use experiments::learning::ledger::{Answer, Ledger};
use experiments::learning::node_table::NodeTable;
use experiments::metrics::{self, Values};
use experiments::record::Record;
use experiments::study::Cell;
use experiments::units::micros_of;
use proto::Kind;
use scheduler::framework::cache::NodeInfo;
use serde_json::{Value, json};
use simulator::trial::{Decision, Stepper};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// What all environments of a process have in common.
pub struct Scene<'s> {
    file: &'s StudyFile,
    cell: Cell<'s>,
    layout: Layout,
}

impl<'s> Scene<'s> {
    pub fn new(file: &'s StudyFile, cell: Cell<'s>) -> Result<Self, Vec<String>> {
        if cell.policy.external.is_some() {
            let why = "its scheduler is outside, and an agent takes the place of one in the simulation";
            return Err(vec![format!("policy {}: {why}", cell.policy.name)]);
        }
        // A seed changes the pods, and no node.
        let layout = Layout::new(&Prepared::new(file, &cell)?.machines);
        Ok(Self { file, cell, layout })
    }

    pub fn description(&self, environments: usize) -> Value {
        let mut description = self.layout.description();
        description["environments"] = json!(environments);
        description["study"] = json!(self.file.study.name);
        description
    }
}

/// One episode after another. Before the first one it has ended.
#[derive(Default)]
pub struct Environment {
    episode: Option<Episode>,
}

impl Environment {
    pub fn obey(&mut self, scene: &Scene<'_>, command: Command) -> Result<(), Vec<String>> {
        match (command, &mut self.episode) {
            (Command::Reset(seed), _) => self.episode = Some(Episode::begin(scene, seed)?),
            (Command::Step(action), Some(episode)) => episode.step(scene, action).map_err(|why| vec![why])?,
            (Command::Step(_), None) => return Err(vec!["an environment was stepped before its reset".to_owned()]),
            (Command::Skip, _) => {}
        }
        Ok(())
    }

    /// Appends the block of the present state.
    pub fn write(&mut self, scene: &Scene<'_>, to: &mut Vec<u8>) {
        match &mut self.episode {
            Some(episode) => episode.write(&scene.layout, to),
            None => scene.layout.write_end(to, Outcome::default(), &Values::new()),
        }
    }
}

struct Episode {
    stepper: Stepper,
    /// What has happened, which the stepper adds to.
    noted: Rc<RefCell<Records>>,
    ledger: Ledger,
    /// Records that the ledger has read.
    read: usize,
    decision: Option<Decision>,
    table: NodeTable<Arc<NodeInfo>>,
    outcome: Outcome,
    until: Option<Duration>,
    metrics: Values,
}

impl Episode {
    /// Goes on to the first decision.
    fn begin(scene: &Scene<'_>, seed: u64) -> Result<Self, Vec<String>> {
        let cell = Cell { seed, ..scene.cell };
        let prepared = Prepared::new(scene.file, &cell)?;
        let (setup, submissions) = prepared.trial(scene.file, &cell)?;
        let noted = Records::new(&prepared);
        let ledger = Ledger::new(noted.pods().clone(), &scene.file.study.reward);
        let noted = Rc::new(RefCell::new(noted));
        let mut episode = Self {
            until: setup.until,
            stepper: Stepper::new(setup, submissions, noted.clone()),
            noted,
            ledger,
            read: 0,
            decision: None,
            table: NodeTable::default(),
            outcome: Outcome::default(),
            metrics: Values::new(),
        };
        episode.go_on().map_err(|why| vec![why])?;
        // What came before the first decision rewards nobody.
        episode.outcome.reward = 0.0;
        Ok(episode)
    }

    /// Answers the decision, and goes on to the next one. After the end it stays there.
    fn step(&mut self, scene: &Scene<'_>, action: i64) -> Result<(), String> {
        let Some(decision) = self.decision.take() else {
            self.outcome.reward = 0.0;
            return Ok(());
        };
        let names = scene.layout.nodes();
        let wanted = usize::try_from(action).ok().filter(|action| *action <= names.len());
        let wanted = wanted.ok_or_else(|| format!("action {action}: must be between 0 and {}", names.len()))?;
        let answer = match names.get(wanted).map(String::as_str) {
            None => Answer::Wait,
            Some(node) if decision.feasible.iter().any(|at| decision.nodes[*at].name() == node) => Answer::Node(node),
            Some(_) => Answer::Invalid,
        };
        let chosen = match answer {
            Answer::Node(node) => Some(node),
            Answer::Wait | Answer::Invalid => None,
        };
        self.stepper.apply(chosen)?;
        self.ledger.answer(micros_of(decision.at), &decision.pod.key(), answer);
        self.go_on()
    }

    fn go_on(&mut self) -> Result<(), String> {
        self.decision = self.stepper.next_decision()?;
        let noted = self.noted.borrow();
        noted.records[self.read..].iter().for_each(|record: &Record| self.ledger.record(record));
        self.read = noted.records.len();
        let at = self.decision.as_ref().map_or(self.stepper.took(), |decision| decision.at);
        if let Some(decision) = &self.decision {
            self.ledger.ask(micros_of(at), &decision.pod.key());
        }
        let mut reward = self.ledger.settle(micros_of(at));
        let (mut is_terminated, mut is_truncated) = (false, false);
        if self.decision.is_none() {
            self.metrics = metrics::summarise(&noted.records, Duration::MAX).values;
            reward += self.ledger.at_end(&self.metrics);
            is_truncated = self.until.is_some_and(|until| at >= until);
            is_terminated = !is_truncated;
        }
        let pending = self.ledger.pending();
        self.outcome = Outcome { reward, is_terminated, is_truncated, time_s: at.as_secs_f64(), pending };
        Ok(())
    }

    fn write(&mut self, layout: &Layout, to: &mut Vec<u8>) {
        let Some(decision) = &self.decision else {
            return layout.write_end(to, self.outcome, &self.metrics);
        };
        self.table.show(layout, &decision.nodes, Arc::ptr_eq, state_of);
        let feasible = decision.feasible.iter().filter_map(|place| self.table.row(*place));
        let requests = requests::scheduling_requests(&decision.pod);
        let pod = PodState {
            requests: &requests,
            priority: decision.pod.spec.as_ref().and_then(|spec| spec.priority).unwrap_or_default(),
            waited_s: self.ledger.age_s(&decision.pod.key(), micros_of(decision.at)),
        };
        layout.write_decision(to, self.outcome, self.table.cells(), feasible, pod);
    }
}

fn state_of(node: &Arc<NodeInfo>) -> NodeState<'_> {
    NodeState { name: node.name(), allocatable: &node.allocatable, requested: &node.requested }
}
