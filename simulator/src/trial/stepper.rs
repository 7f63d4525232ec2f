//! `Stepper`: a trial whose placements its caller decides, one by one. It is what a learning environment steps.
//!
//! ```text
//! let mut stepper = Stepper::new(setup, submissions, audience);
//! while let Some(decision) = stepper.next_decision()? {
//!     stepper.apply(Some(name of one of decision.feasible))?;
//! }
//! ```
//!
//! Virtual time goes on only inside `next_decision`. Pods that fit nowhere are not asked about: the policy's PostFilter plugins may preempt
//! for them, and they come again when something has changed, as in a cluster.

use super::chooser::{Chooser, Decision};
use super::setup::{Depth, Setup, Submission};
use super::{Audience, Guest, play};
use crate::virtual_runtime;
use scheduler::framework::cache::NodeInfo;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, oneshot};

type Run = Pin<Box<dyn Future<Output = Result<Duration, String>>>>;

pub struct Stepper {
    // Dropped before the runtime whose timers it has.
    run: Option<Run>,
    runtime: Runtime,
    questions: mpsc::Receiver<(Decision, oneshot::Sender<Option<String>>)>,
    /// The nodes that may be chosen, and the way for the answer.
    open: Option<(Vec<Arc<NodeInfo>>, oneshot::Sender<Option<String>>)>,
    took: Duration,
}

impl Stepper {
    /// Prepares a trial of depth `scheduler`. Nothing happens before `next_decision`.
    pub fn new(setup: Setup, submissions: Vec<Submission>, mut audience: impl Audience + 'static) -> Self {
        // The scheduler asks one question at a time.
        let (sender, questions) = mpsc::channel(1);
        let chooser = Arc::new(Chooser::new(sender));
        let setup = Setup { depth: Depth::Scheduler, ..setup };
        let run: Run = Box::pin(async move { play(setup, submissions, &mut audience, Guest::Chooser(chooser)).await });
        Self { run: Some(run), runtime: virtual_runtime(), questions, open: None, took: Duration::ZERO }
    }

    /// Goes on to the next decision; `None` when the trial has ended. A decision that was not answered lets its pod wait.
    pub fn next_decision(&mut self) -> Result<Option<Decision>, String> {
        if let Some((_, answer)) = self.open.take() {
            let _ = answer.send(None);
        }
        let Some(run) = &mut self.run else { return Ok(None) };
        let questions = &mut self.questions;
        let ended = self.runtime.block_on(async {
            tokio::select! {
                biased;
                Some(question) = questions.recv() => Ok(question),
                ended = run => Err(ended),
            }
        });
        match ended {
            Ok((decision, answer)) => {
                let feasible = decision.feasible.iter().map(|at| decision.nodes[*at].clone());
                self.open = Some((feasible.collect(), answer));
                Ok(Some(decision))
            }
            Err(ended) => {
                self.run = None;
                self.took = ended?;
                Ok(None)
            }
        }
    }

    /// Answers the present decision with the name of a node, or with `None` to let the pod wait. Returns why the answer is none.
    pub fn apply(&mut self, node: Option<&str>) -> Result<(), String> {
        let (feasible, answer) = self.open.take().ok_or("there is nothing to decide")?;
        if let Some(node) = node.filter(|node| !feasible.iter().any(|one| one.name() == *node)) {
            self.open = Some((feasible, answer));
            return Err(format!("node {node:?} does not fit"));
        }
        // Without a receiver the trial has ended, which `next_decision` says.
        let _ = answer.send(node.map(str::to_owned));
        Ok(())
    }

    /// Returns the virtual time that the trial took, once it has ended.
    pub fn took(&self) -> Duration {
        self.took
    }
}
