//! `Extender`, one HTTP service with the verbs that it answers.
//!
//! Corresponds to HTTPExtender of pkg/scheduler/extender.go.

use super::service::Service;
use super::wire::{
    AnyCase, ExtenderArgs, ExtenderBindingArgs, ExtenderBindingResult, ExtenderFilterResult, ExtenderPreemptionArgs,
    ExtenderPreemptionResult, HostPriority, MetaPod, MetaVictims, MetaVictimsByNode, NodeList, Victims,
};
use component_base::env::Env;
use proto::Kind;
use proto::kinds::api::core::v1::{Container, Node};
use scheduling_framework::cache::{NodeInfo, Snapshot};
use scheduling_framework::configuration::extender as configuration;
use scheduling_framework::pod_info::PodInfo;
use scheduling_framework::preemption::{Candidate, importance};
use serde_json::Map;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub struct Extender {
    configured: configuration::Extender,
    service: Service,
}

/// The answer of `filter`: each node that was asked about is in one of the three, or was forgotten.
#[derive(Debug, Default, PartialEq)]
pub struct Verdict {
    pub passed: BTreeSet<String>,
    /// Rejected nodes with the reasons.
    pub failed: BTreeMap<String, String>,
    /// Rejected nodes on which preemption does not help.
    pub unresolvable: BTreeMap<String, String>,
}

impl std::fmt::Debug for Extender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Extender").field("url_prefix", &self.configured.url_prefix).finish_non_exhaustive()
    }
}

impl Extender {
    /// The error begins with the field that is wrong.
    pub fn new(env: &Env, configured: &configuration::Extender) -> Result<Self, String> {
        Ok(Self { service: Service::new(env, configured)?, configured: configured.clone() })
    }

    /// Returns true if pods are scheduled also while the service does not answer.
    pub fn is_ignorable(&self) -> bool {
        self.configured.ignorable
    }

    pub fn is_filter(&self) -> bool {
        !self.configured.filter_verb.is_empty()
    }

    pub fn is_prioritizer(&self) -> bool {
        !self.configured.prioritize_verb.is_empty()
    }

    pub fn supports_preemption(&self) -> bool {
        !self.configured.preempt_verb.is_empty()
    }

    pub fn is_binder(&self) -> bool {
        !self.configured.bind_verb.is_empty()
    }

    pub fn weight(&self) -> i64 {
        self.configured.weight
    }

    /// Logs that an extender has failed and that the pod is scheduled without it.
    pub fn skipped(&self, pod: &PodInfo, error: &str) {
        let url = &self.configured.url_prefix;
        tracing::warn!(pod = pod.key, extender = url, error, "the extender is skipped");
    }

    /// Returns true if the extender manages no resource in particular, or one that the pod asks for.
    pub fn is_interested(&self, pod: &PodInfo) -> bool {
        let is_managed = |name: &String| self.configured.managed_resources.iter().any(|managed| managed.name == *name);
        let asks = |container: &Container| {
            let resources = container.resources.iter();
            let lists = resources.flat_map(|resources| [&resources.requests, &resources.limits]).flatten();
            lists.flat_map(|list| list.keys()).any(is_managed)
        };
        let spec = pod.spec();
        self.configured.managed_resources.is_empty()
            || spec.containers.iter().chain(spec.init_containers.iter().flatten()).any(asks)
    }

    fn args<'a>(&self, pod: &'a PodInfo, nodes: &'a [&NodeInfo]) -> ExtenderArgs<'a> {
        let items = || nodes.iter().filter_map(|node| node.node.as_deref()).collect::<Vec<&Node>>();
        let by_name = self.configured.node_cache_capable;
        ExtenderArgs {
            pod: &pod.pod,
            nodes: (!by_name).then(|| NodeList { metadata: Map::new(), items: items() }),
            node_names: by_name.then(|| nodes.iter().map(|node| node.name()).collect()),
        }
    }

    /// Asks which nodes the pod may have.
    /// Deviation: an extender that lets a node pass about which it was not asked has failed. Kubernetes says so of names
    /// alone, and takes whole nodes that do not exist.
    pub async fn filter(&self, pod: &PodInfo, nodes: &[&NodeInfo]) -> Result<Verdict, String> {
        let answer = self.service.post(&self.configured.filter_verb, &self.args(pod, nodes)).await?;
        let AnyCase(answer): AnyCase<ExtenderFilterResult> = answer;
        if let Some(error) = answer.error.filter(|error| !error.is_empty()) {
            return Err(error);
        }
        let by_name = answer.node_names.filter(|_| self.configured.node_cache_capable);
        let passed = by_name.unwrap_or_else(|| {
            let items = answer.nodes.and_then(|nodes| nodes.items).unwrap_or_default();
            items.into_iter().map(|node| node.metadata.name).collect()
        });
        let asked: BTreeSet<&str> = nodes.iter().map(|node| node.name()).collect();
        if let Some(unknown) = passed.iter().find(|name| !asked.contains(name.as_str())) {
            let url = &self.configured.url_prefix;
            return Err(format!(
                "extender {url:?} claims a filtered node {unknown:?} which is not found in the input node list"
            ));
        }
        let known = |failed: Option<BTreeMap<String, String>>| {
            let failed = failed.unwrap_or_default().into_iter();
            failed.filter(|(name, _)| asked.contains(name.as_str())).collect::<BTreeMap<_, _>>()
        };
        let (failed, unresolvable) = (known(answer.failed_nodes), known(answer.failed_and_unresolvable_nodes));
        Ok(Verdict { passed: passed.into_iter().collect(), failed, unresolvable })
    }

    /// Asks for scores. Nodes may be missing, and others may be there.
    pub async fn prioritize(&self, pod: &PodInfo, nodes: &[&NodeInfo]) -> Result<Vec<(String, i64)>, String> {
        let answer = self.service.post(&self.configured.prioritize_verb, &self.args(pod, nodes)).await?;
        let scores: Option<Vec<AnyCase<HostPriority>>> = answer;
        Ok(scores.unwrap_or_default().into_iter().map(|AnyCase(score)| (score.host, score.score)).collect())
    }

    /// Asks which candidates the pod may have, and which victims.
    pub async fn process_preemption(
        &self,
        pod: &PodInfo,
        candidates: &[Arc<Candidate>],
    ) -> Result<MetaVictimsByNode, String> {
        let violations = |candidate: &Candidate| i64::try_from(candidate.violations).unwrap_or(i64::MAX);
        let whole = |candidate: &Candidate| (violations(candidate), candidate.victims.clone());
        let by_uid = self.configured.node_cache_capable;
        let victims: Vec<_> = candidates.iter().map(|candidate| (candidate.node.as_str(), whole(candidate))).collect();
        let whole = victims.iter().map(|(node, (violations, victims))| {
            (*node, Victims { pods: victims.iter().map(|victim| &*victim.pod).collect(), violations: *violations })
        });
        let uids = victims.iter().map(|(node, (violations, victims))| {
            let pods = victims.iter().map(|victim| AnyCase(MetaPod { uid: victim.uid().to_owned() })).collect();
            (*node, MetaVictims { pods: Some(pods), violations: *violations })
        });
        let args = ExtenderPreemptionArgs {
            pod: &pod.pod,
            node_name_to_victims: (!by_uid).then(|| whole.collect()),
            node_name_to_meta_victims: by_uid.then(|| uids.collect()),
        };
        let AnyCase(answer): AnyCase<ExtenderPreemptionResult> =
            self.service.post(&self.configured.preempt_verb, &args).await?;
        let by_node = answer.node_name_to_meta_victims.unwrap_or_default();
        Ok(by_node.into_iter().map(|(node, victims)| (node, victims.unwrap_or_default().0)).collect())
    }

    /// Finds the named victims. A node without victims is an error, or left out if the extender is ignorable.
    pub fn candidates(&self, answer: MetaVictimsByNode, snapshot: &Snapshot) -> Result<Vec<Arc<Candidate>>, String> {
        let mut candidates = Vec::new();
        for (name, meta) in answer {
            let node = snapshot.get(&name).ok_or_else(|| format!("nodeinfo not found for node name {name:?}"))?;
            let mut victims = Vec::new();
            for AnyCase(MetaPod { uid }) in meta.pods.unwrap_or_default() {
                let victim = node.pods.iter().find(|pod| pod.uid() == uid).ok_or_else(|| {
                    let url = &self.configured.url_prefix;
                    format!(
                        "extender: {url} claims to preempt pod (UID: &{{{uid}}}) on node: {name}, but the pod is not found on that node"
                    )
                })?;
                victims.push(victim.clone());
            }
            match victims.is_empty() {
                true if self.is_ignorable() => continue,
                true => return Err(format!("expected at least one victim pod on node {name:?}")),
                false => victims.sort_by_key(|victim| importance(victim)),
            }
            let violations = usize::try_from(meta.violations).unwrap_or(0);
            candidates.push(Arc::new(Candidate::new(name, victims, violations)));
        }
        Ok(candidates)
    }

    /// Asks the extender to bind the pod.
    pub async fn bind(&self, pod: &PodInfo, node: &str) -> Result<(), String> {
        let args =
            ExtenderBindingArgs { pod_name: pod.pod.name(), pod_namespace: pod.namespace(), pod_uid: pod.uid(), node };
        let AnyCase(answer): AnyCase<ExtenderBindingResult> =
            self.service.post(&self.configured.bind_verb, &args).await?;
        answer.error.filter(|error| !error.is_empty()).map_or(Ok(()), Err)
    }
}
