//! A profile: which plugins are asked at which point, in which order, with which weight.
//!
//! Corresponds to pkg/scheduler/profile and pkg/scheduler/framework/runtime.

use crate::cache::{NodeInfo, Snapshot};
use crate::framework::*;

/// The plugins of one scheduler name. Lists are in the order in which they are called.
#[derive(Default)]
pub struct Profile {
    pub scheduler_name: String,
    pub pre_enqueue: Vec<Arc<dyn PreEnqueue>>,
    pub queue_sort: Option<Arc<dyn QueueSort>>,
    pub pre_filter: Vec<Arc<dyn PreFilter>>,
    pub filter: Vec<Arc<dyn Filter>>,
    pub post_filter: Vec<Arc<dyn PostFilter>>,
    pub pre_score: Vec<Arc<dyn PreScore>>,
    /// With their weights.
    pub score: Vec<(Arc<dyn Score>, i64)>,
    pub reserve: Vec<Arc<dyn Reserve>>,
    pub permit: Vec<Arc<dyn Permit>>,
    pub pre_bind: Vec<Arc<dyn PreBind>>,
    pub bind: Vec<Arc<dyn Bind>>,
    pub post_bind: Vec<Arc<dyn PostBind>>,
    /// Every plugin once, for queueing hints.
    pub plugins: Vec<Arc<dyn Plugin>>,
}

/// What PreFilter plugins leave of the nodes.
pub struct Candidates {
    /// `None`: all of them.
    pub names: Option<BTreeSet<String>>,
    /// Who restricted them.
    pub restricted_by: Vec<&'static str>,
}

impl Candidates {
    fn restrict(&mut self, plugin: &'static str, names: BTreeSet<String>) -> Result<(), Rejection> {
        self.restricted_by.push(plugin);
        let names: BTreeSet<String> = match self.names.take() {
            Some(present) => present.intersection(&names).cloned().collect(),
            None => names,
        };
        if names.is_empty() {
            let reason = match self.restricted_by.as_slice() {
                [one] => format!("node(s) didn't satisfy plugin {one}"),
                several => format!("node(s) didn't satisfy plugin(s) [{}] simultaneously", several.join(" ")),
            };
            return Err(Rejection::unresolvable(plugin, reason));
        }
        self.names = Some(names);
        Ok(())
    }

    /// What is wrong with a node that is not among them.
    pub fn exclusion(&self) -> Option<Rejection> {
        let first = self.restricted_by.first()?;
        let reason = format!("node(s) didn't satisfy plugin(s) [{}]", self.restricted_by.join(" "));
        Some(Rejection::unresolvable(first, reason))
    }
}

/// One plugin's weighted score of each node.
#[derive(Clone, Debug, PartialEq)]
pub struct PluginScores {
    pub plugin: &'static str,
    pub weight: i64,
    /// Normalized, not yet weighted, in the order of the nodes.
    pub scores: Vec<i64>,
}

impl Profile {
    pub fn run_pre_enqueue(&self, pod: &PodInfo) -> Result<(), Rejection> {
        self.pre_enqueue.iter().try_for_each(|plugin| plugin.pre_enqueue(pod))
    }

    pub fn run_pre_filter(
        &self,
        state: &mut CycleState,
        pod: &PodInfo,
        snapshot: &Snapshot,
    ) -> Result<Candidates, Rejection> {
        let mut candidates = Candidates { names: None, restricted_by: Vec::new() };
        for plugin in &self.pre_filter {
            match plugin.pre_filter(state, pod, snapshot)? {
                PreFiltered::AllNodes => {}
                PreFiltered::Skip => drop(state.skip_filter.insert(plugin.name())),
                PreFiltered::Nodes(names) => candidates.restrict(plugin.name(), names)?,
            }
        }
        Ok(candidates)
    }

    /// What PreFilter plugins know of a world in which the node has taken `added`, too.
    pub fn run_add_pod(&self, state: &mut CycleState, pod: &PodInfo, added: &PodInfo, node: &NodeInfo) {
        for plugin in &self.pre_filter {
            if !state.skip_filter.contains(plugin.name()) {
                plugin.add_pod(state, pod, added, node);
            }
        }
    }

    /// What they know of one in which it has lost `removed`.
    pub fn run_remove_pod(&self, state: &mut CycleState, pod: &PodInfo, removed: &PodInfo, node: &NodeInfo) {
        for plugin in &self.pre_filter {
            if !state.skip_filter.contains(plugin.name()) {
                plugin.remove_pod(state, pod, removed, node);
            }
        }
    }

    /// The first plugin that rejects the node has the word.
    pub fn run_filter(&self, state: &CycleState, pod: &PodInfo, node: &NodeInfo) -> Result<(), Rejection> {
        let asked = self.filter.iter().filter(|plugin| !state.skip_filter.contains(plugin.name()));
        asked.map(|plugin| plugin.filter(state, pod, node)).find(Result::is_err).unwrap_or(Ok(()))
    }

    /// Asks one plugin after the other to make room for a pod that fits nowhere, and adds what they say to the error.
    pub fn run_post_filters(
        &self,
        error: &mut FitError,
        state: &CycleState,
        pod: &PodInfo,
        snapshot: &Snapshot,
        nominated: &Nominated,
    ) -> PostFiltered {
        let FitError::NoFit { diagnosis, post_filter_message, .. } = error else {
            return PostFiltered { nomination: Nomination::Clear, ..PostFiltered::default() };
        };
        let unfit = Unfit { profile: self, state, pod, snapshot, diagnosis, nominated };
        let result = self.post_filtered(&unfit);
        post_filter_message.clone_from(&result.message);
        result
    }

    fn post_filtered(&self, unfit: &Unfit<'_>) -> PostFiltered {
        let (mut nomination, mut reasons) = (Nomination::Keep, Vec::new());
        for plugin in &self.post_filter {
            match plugin.post_filter(unfit) {
                Err(message) => return PostFiltered { message, ..PostFiltered::default() },
                Ok(made @ PostFiltered { nomination: Nomination::Node(_), .. }) => return made,
                Ok(PostFiltered { nomination: Nomination::Clear, message, .. }) => {
                    nomination = Nomination::Clear;
                    reasons.push(message);
                }
                Ok(PostFiltered { message, .. }) => reasons.push(message),
            }
        }
        PostFiltered { nomination, message: reasons.join(", "), ..PostFiltered::default() }
    }

    pub fn run_score(
        &self,
        state: &mut CycleState,
        pod: &PodInfo,
        snapshot: &Snapshot,
        nodes: &[&NodeInfo],
    ) -> Vec<PluginScores> {
        for plugin in &self.pre_score {
            if plugin.pre_score(state, pod, snapshot, nodes) == PreScored::Skip {
                state.skip_score.insert(plugin.name());
            }
        }
        let state = &*state;
        let asked = self.score.iter().filter(|(plugin, _)| !state.skip_score.contains(plugin.name()));
        asked
            .map(|(plugin, weight)| {
                let mut scores: Vec<i64> = nodes.iter().map(|node| plugin.score(state, pod, node, snapshot)).collect();
                plugin.normalize(state, pod, nodes, &mut scores);
                PluginScores { plugin: plugin.name(), weight: *weight, scores }
            })
            .collect()
    }

    /// Reserves with every plugin; if one refuses, those before it give back.
    pub fn run_reserve(&self, state: &mut CycleState, pod: &PodInfo, node: &str) -> Result<(), Rejection> {
        for plugin in &self.reserve {
            if let Err(rejection) = plugin.reserve(state, pod, node) {
                self.run_unreserve(state, pod, node);
                return Err(rejection);
            }
        }
        Ok(())
    }

    /// In reverse order; harmless for plugins that have reserved nothing.
    pub fn run_unreserve(&self, state: &CycleState, pod: &PodInfo, node: &str) {
        for plugin in self.reserve.iter().rev() {
            plugin.unreserve(state, pod, node);
        }
    }

    pub fn run_permit(&self, state: &CycleState, pod: &PodInfo, node: &str) -> Result<(), Rejection> {
        self.permit.iter().try_for_each(|plugin| plugin.permit(state, pod, node))
    }

    pub async fn run_bind(&self, pod: &PodInfo, node: &str) -> Result<(), BindError> {
        let failed = |point, plugin, message| BindError::Plugin { point, plugin, message };
        for plugin in &self.pre_bind {
            plugin.pre_bind(pod, node).await.map_err(|message| failed("PreBind", plugin.name(), message))?;
        }
        for plugin in &self.bind {
            if let Some(bound) = plugin.bind(pod, node).await {
                bound.map_err(|message| failed("Bind", plugin.name(), message))?;
                self.post_bind.iter().for_each(|plugin| plugin.post_bind(pod, node));
                return Ok(());
            }
        }
        Err(BindError::NoBinder)
    }

    /// Whether the event can help a pod that these plugins rejected.
    pub fn is_helped_by(&self, rejected_by: &BTreeSet<&'static str>, pod: &PodInfo, event: &ClusterEvent) -> bool {
        let mut asked = self.plugins.iter().filter(|plugin| rejected_by.contains(plugin.name()));
        let forced = matches!(event, ClusterEvent::Forced { .. });
        event.concerns(pod) && (forced || asked.any(|plugin| plugin.is_helped_by(pod, event)))
    }
}

/// helper.DefaultNormalizeScore: the highest becomes 100, or with `reverse` 0 becomes 100.
pub fn normalize_to_highest(scores: &mut [i64], reverse: bool) {
    let highest = scores.iter().copied().max().unwrap_or(0);
    for score in scores.iter_mut() {
        let scaled = if highest == 0 { 0 } else { *score * MAX_NODE_SCORE / highest };
        *score = if reverse { MAX_NODE_SCORE - scaled } else { scaled };
    }
}
