//! Extenders: HTTP services that take part in scheduling. They filter after the plugins, add to the scores, may change a
//! preemption, and may bind.
//!
//! Corresponds to pkg/scheduler/extender.go. Read in order: [`wire`] (the JSON of questions and answers), [`service`] (one
//! request), [`extender`] (one extender), `Extenders` here (all of them).

pub mod wire;
pub mod service;
pub mod extender;

use async_trait::async_trait;
use component_base::env::Env;
use extender::Extender;
use futures::future::join_all;
use scheduling_framework::cache::{NodeInfo, Snapshot};
use scheduling_framework::configuration::extender as configuration;
use scheduling_framework::cycle::Search;
use scheduling_framework::plugin_scores::PluginScores;
use scheduling_framework::pod_info::PodInfo;
use scheduling_framework::preemption::{self, Candidate};
use scheduling_framework::{
    CycleExtender, EXTENDER, FitError, MAX_NODE_SCORE, Nomination, PostFilterResult, Rejection,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use wire::MAX_EXTENDER_PRIORITY;

/// All extenders in the order in which they are asked: those that are ignorable come last.
#[derive(Debug, Default)]
pub struct Extenders(Vec<Extender>);

impl Extenders {
    /// Prepares the connections, or returns everything that is wrong with them. Nothing is sent.
    pub fn new(env: &Env, configured: &[configuration::Extender]) -> Result<Self, Vec<String>> {
        let (mut extenders, mut errors) = (Vec::new(), Vec::new());
        for (at, configured) in configured.iter().enumerate() {
            match Extender::new(env, configured) {
                Ok(extender) => extenders.push(extender),
                Err(why) => errors.push(format!("extenders[{at}].{why}")),
            }
        }
        extenders.sort_by_key(Extender::is_ignorable);
        if errors.is_empty() { Ok(Self(extenders)) } else { Err(errors) }
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns what a cycle asks; `None` without extenders.
    pub fn in_cycle(&self) -> Option<&dyn CycleExtender> {
        (!self.is_empty()).then_some(self)
    }

    /// Returns the extenders that have to do with a pod.
    fn interested<'a>(&'a self, pod: &'a PodInfo) -> impl Iterator<Item = &'a Extender> {
        self.0.iter().filter(|extender| extender.is_interested(pod))
    }

    /// Returns the candidates that all extenders agree to.
    async fn remaining(
        &self,
        pod: &PodInfo,
        snapshot: &Snapshot,
        mut candidates: Vec<Arc<Candidate>>,
    ) -> Result<Vec<Arc<Candidate>>, String> {
        for extender in self.interested(pod).filter(|extender| extender.supports_preemption()) {
            let answer = extender.process_preemption(pod, &candidates).await;
            match answer.and_then(|answer| extender.candidates(answer, snapshot)) {
                Ok(remaining) => candidates = remaining,
                Err(error) if extender.is_ignorable() => extender.skipped(pod, &error),
                Err(error) => return Err(error),
            }
            if candidates.is_empty() {
                break;
            }
        }
        Ok(candidates)
    }

    /// Binds the pod by the first extender that does; `None` leaves it to the plugins. Few clusters have one, so
    /// bindings do not carry room for it.
    pub async fn bind(&self, pod: &PodInfo, node: &str) -> Option<Result<(), String>> {
        for extender in self.interested(pod).filter(|extender| extender.is_binder()) {
            match Box::pin(extender.bind(pod, node)).await {
                Err(error) if extender.is_ignorable() => extender.skipped(pod, &error),
                bound => return Some(bound),
            }
        }
        None
    }
}

#[async_trait]
impl CycleExtender for Extenders {
    /// Returns true if an extender filters or scores nodes.
    fn compares_nodes(&self) -> bool {
        self.0.iter().any(|extender| extender.is_filter() || extender.is_prioritizer())
    }

    /// Removes the nodes that an extender rejects. Each is asked about the nodes that those before it have left.
    async fn filter(&self, pod: &PodInfo, search: &mut Search<'_>) -> Result<(), String> {
        let before = search.feasible.len();
        for extender in self.interested(pod).filter(|extender| extender.is_filter()) {
            if search.feasible.is_empty() {
                break;
            }
            let verdict = match extender.filter(pod, &search.nodes()).await {
                Ok(verdict) => verdict,
                Err(error) if extender.is_ignorable() => {
                    extender.skipped(pod, &error);
                    continue;
                }
                Err(error) => return Err(error),
            };
            let unresolvable = verdict.unresolvable.into_iter().map(|failed| (failed, false));
            for ((node, reason), resolvable) in verdict.failed.into_iter().map(|f| (f, true)).chain(unresolvable) {
                search.reject(&node, Rejection { plugin: EXTENDER, resolvable, reasons: vec![reason.into()] });
            }
            search.retain(|node| verdict.passed.contains(node));
        }
        if search.feasible.len() != before {
            search.diagnosis.plugins.insert(EXTENDER);
        }
        Ok(())
    }

    /// Returns the weighted sum of the extenders' scores of each node. An extender that fails adds nothing.
    async fn prioritize(&self, pod: &PodInfo, nodes: &[&NodeInfo]) -> Option<PluginScores> {
        let asked: Vec<&Extender> = self.interested(pod).filter(|extender| extender.is_prioritizer()).collect();
        if asked.is_empty() {
            return None;
        }
        let answers = join_all(asked.iter().map(|extender| extender.prioritize(pod, nodes))).await;
        let mut sums: BTreeMap<String, i64> = BTreeMap::new();
        for (extender, answer) in asked.iter().zip(answers) {
            match answer {
                Err(error) => extender.skipped(pod, &error),
                Ok(scores) => {
                    let factor = extender.weight().saturating_mul(MAX_NODE_SCORE / MAX_EXTENDER_PRIORITY);
                    for (node, score) in scores {
                        let sum = sums.entry(node).or_default();
                        *sum = sum.saturating_add(score.saturating_mul(factor));
                    }
                }
            }
        }
        let scores = nodes.iter().map(|node| sums.get(node.name()).copied().unwrap_or(0)).collect();
        Some(PluginScores { plugin: EXTENDER, weight: 1, scores })
    }

    /// Lets the extenders change a preemption: they may refuse candidates and name other victims.
    async fn process_preemption(
        &self,
        pod: &PodInfo,
        snapshot: &Snapshot,
        result: &mut PostFilterResult,
        error: &mut FitError,
    ) {
        let candidates = std::mem::take(&mut result.candidates);
        if candidates.is_empty() || !self.interested(pod).any(Extender::supports_preemption) {
            return;
        }
        let remaining = self.remaining(pod, snapshot, candidates).await;
        let best = remaining.as_ref().map(|remaining| preemption::choose(remaining));
        let message = match best {
            Ok(Some(best)) => {
                result.nomination = Nomination::Node(best.node.clone());
                result.victims.clone_from(&best.victims);
                return;
            }
            Ok(None) => {
                let mut messages = std::mem::take(&mut result.earlier_messages);
                messages.push("preemption: no candidate node for preemption".to_owned());
                messages.join(", ")
            }
            // An error takes the place of all messages.
            Err(why) => format!("preemption: {why}"),
        };
        result.nomination = Nomination::Keep;
        result.victims = Vec::new();
        error.set_post_filter_message(&message);
        result.message = message;
    }
}

#[cfg(test)]
pub mod fixture;
#[cfg(test)]
mod tests;
