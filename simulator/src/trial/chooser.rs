//! `Chooser`: asks for the node of each pod, in place of the scores of a policy.

use async_trait::async_trait;
use proto::kinds::api::core::v1::Pod;
use scheduler::framework::cache::{NodeInfo, Snapshot};
use scheduler::framework::cycle::Search;
use scheduler::framework::plugin_scores::PluginScores;
use scheduler::framework::pod_info::PodInfo;
use scheduler::framework::{CycleExtender, EXTENDER, FitError, PostFilterResult, Rejection};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

/// A pod that fits on some nodes. Indexes are those of `nodes`, which are in the order of the scheduler's snapshot.
#[derive(Clone, Debug)]
pub struct Decision {
    /// Virtual time since the beginning of the trial.
    pub at: Duration,
    pub pod: Arc<Pod>,
    /// All nodes with what their pods request.
    pub nodes: Vec<Arc<NodeInfo>>,
    /// Indexes of the nodes that pass all filters.
    pub feasible: Vec<usize>,
}

/// A decision, and the way for its answer: the name of a node, or `None` to let the pod wait.
pub type Question = (Decision, oneshot::Sender<Option<String>>);

#[derive(Debug)]
pub struct Chooser {
    questions: mpsc::Sender<Question>,
    began: OnceLock<Instant>,
}

impl Chooser {
    pub fn new(questions: mpsc::Sender<Question>) -> Self {
        Self { questions, began: OnceLock::new() }
    }

    /// Notes the beginning of the trial, from which times count.
    pub fn begin(&self, now: Instant) {
        self.began.get_or_init(|| now);
    }
}

#[async_trait]
impl CycleExtender for Chooser {
    fn compares_nodes(&self) -> bool {
        true
    }

    async fn filter(&self, pod: &PodInfo, search: &mut Search<'_>) -> Result<(), String> {
        if search.feasible.is_empty() {
            return Ok(());
        }
        let decision = Decision {
            at: self.began.get().map_or(Duration::ZERO, Instant::elapsed),
            pod: pod.pod.clone(),
            nodes: search.all_nodes().to_vec(),
            feasible: search.feasible.clone(),
        };
        let (answer, chosen) = oneshot::channel();
        let gone = || "nobody decides any more".to_owned();
        self.questions.send((decision, answer)).await.map_err(|_| gone())?;
        let chosen = chosen.await.map_err(|_| gone())?;
        if chosen.is_none() {
            let names: Vec<String> = search.nodes().iter().map(|node| node.name().to_owned()).collect();
            let reasons = || vec!["the pod is to wait".into()];
            for name in names {
                search.reject(&name, Rejection { plugin: EXTENDER, resolvable: false, reasons: reasons() });
            }
        }
        search.retain(|name| chosen.as_deref() == Some(name));
        Ok(())
    }

    async fn prioritize(&self, _: &PodInfo, _: &[&NodeInfo]) -> Option<PluginScores> {
        None
    }

    async fn process_preemption(&self, _: &PodInfo, _: &Snapshot, _: &mut PostFilterResult, _: &mut FitError) {}
}
