//! `Evaluation`: the verdict of the filters on each node, the scores of the nodes that fit, and the best of them.

use crate::affinity::Neighbours;
use crate::resources::FitArgs;
use crate::spread::Required;
use crate::{Cluster, Rejection, Settings, devices, nodes, resources, spec, volumes};
use proto::Kind;
use proto::kinds::api::core::v1::{Node, NodeAffinity, Pod};
use std::collections::{BTreeMap, BTreeSet};

/// The normalized scores of one plugin, and its weight.
#[derive(Clone, Debug, PartialEq)]
pub struct PluginScores {
    pub plugin: String,
    pub weight: i64,
    /// Scores by node, from 0 to 100 before weighting.
    pub scores: BTreeMap<String, i64>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evaluation {
    /// The first rejection of each node; `None` if the pod fits.
    pub verdicts: BTreeMap<String, Option<Rejection>>,
    /// Scores of the nodes that fit. Plugins with nothing to say of the pod are missing.
    pub scores: Vec<PluginScores>,
    /// The nodes with the highest weighted sum of scores.
    pub best: BTreeSet<String>,
}

impl Evaluation {
    pub fn fits(&self, node: &str) -> bool {
        self.verdicts.get(node).is_some_and(Option::is_none)
    }
}

/// What the filters know of a pod in one state of the cluster. It is computed for each decision anew.
pub(crate) struct Judge<'a> {
    cluster: &'a Cluster,
    settings: &'a Settings,
    pod: &'a Pod,
    added_affinity: Option<NodeAffinity>,
    fit: FitArgs,
    neighbours: Neighbours<'a>,
    required_spread: Required<'a>,
    volumes: volumes::Wanted<'a>,
    /// True if another pod has a claim that only one pod may use.
    is_claim_taken: bool,
    places: Vec<(&'a str, &'a str)>,
    devices: devices::Wanted<'a>,
    /// True if InterPodAffinity has nothing to say in the present cluster. It is then not asked about another one either.
    skips_affinity: bool,
}

impl<'a> Judge<'a> {
    /// Returns a judge of the same pod in a hypothetical cluster.
    pub fn in_cluster<'b>(&self, cluster: &'b Cluster) -> Result<Judge<'b>, Rejection>
    where
        'a: 'b,
    {
        let judge = Judge::of(cluster, self.settings, self.pod)?;
        Ok(Judge { skips_affinity: self.skips_affinity, ..judge })
    }

    /// Reads what a pod names, or returns why it can run nowhere. The plugins speak in the order of PreFilter.
    pub fn of(cluster: &'a Cluster, settings: &'a Settings, pod: &'a Pod) -> Result<Self, Rejection> {
        // Only these two count all pods, which costs much.
        let neighbours =
            if settings.filters_by("InterPodAffinity") { Neighbours::of(cluster, pod) } else { Neighbours::default() };
        let spreads = settings.filters_by("PodTopologySpread");
        let mut judge = Self {
            cluster,
            settings,
            pod,
            added_affinity: nodes::added(settings),
            fit: settings.args("NodeResourcesFit"),
            skips_affinity: neighbours.is_indifferent(),
            neighbours,
            required_spread: if spreads { Required::of(cluster, settings, pod) } else { Required::default() },
            volumes: volumes::Wanted::default(),
            is_claim_taken: false,
            places: Vec::new(),
            devices: devices::Wanted::default(),
        };
        for plugin in &settings.pre_filters {
            match plugin.as_str() {
                "NodeAffinity" => drop(nodes::named(pod)?),
                "VolumeRestrictions" => judge.is_claim_taken = cluster.uses_one_of(&cluster.exclusive_claims(pod)?),
                "VolumeBinding" => judge.volumes = cluster.wanted_volumes(pod)?,
                "VolumeZone" => judge.places = cluster.volume_places(pod)?,
                "DynamicResources" => judge.devices = devices::Wanted::of(cluster, pod)?,
                _ => {}
            }
        }
        Ok(judge)
    }

    /// Returns the rejection of the first filter that rejects the node.
    pub fn reject(&self, node: &Node) -> Option<Rejection> {
        self.settings.filters.iter().find_map(|plugin| self.reject_by(plugin, node))
    }

    fn reject_by(&self, plugin: &str, node: &Node) -> Option<Rejection> {
        let Self { cluster, settings, pod, .. } = *self;
        match plugin {
            "NodeUnschedulable" => nodes::is_cordoned(pod, node),
            "NodeName" => nodes::is_another(pod, node),
            "TaintToleration" => nodes::is_tainted(pod, node),
            "NodeAffinity" => nodes::is_not_selected(self.added_affinity.as_ref(), pod, node),
            "NodePorts" => cluster.has_port_conflict(pod, node),
            "NodeResourcesFit" => cluster.lacks_resources(settings, &self.fit, pod, node),
            "NodeDeclaredFeatures" => nodes::lacks_features(pod, node),
            "VolumeRestrictions" => cluster.shares_disk(self.is_claim_taken, pod, node),
            "NodeVolumeLimits" => cluster.has_too_many_volumes(pod, node),
            "VolumeBinding" => cluster.lacks_volumes(&self.volumes, node),
            "VolumeZone" => volumes::is_elsewhere(&self.places, node),
            "PodTopologySpread" => self.required_spread.reject(pod, node),
            "InterPodAffinity" if !self.skips_affinity => self.neighbours.reject(node),
            "DynamicResources" => self.devices.reject(cluster, node),
            _ => None,
        }
    }
}

impl Cluster {
    /// Judges all nodes for a pod, and scores those that fit.
    ///
    /// All nodes are judged, whatever part of them the profile says is enough. A pod that preemption has nominated to a node
    /// is judged there as anywhere.
    pub fn evaluate(&self, pod: &Pod, settings: &Settings) -> Evaluation {
        let mut evaluation = Evaluation { verdicts: self.verdicts(pod, settings, |_| true), ..Evaluation::default() };
        let fit: Vec<&Node> =
            self.nodes.values().filter(|node| evaluation.fits(node.name())).map(|node| &**node).collect();
        evaluation.scores = self.score(pod, settings, &fit);
        let total = |node: &Node| -> i64 {
            let weighted = evaluation.scores.iter().map(|it| it.weight.saturating_mul(it.scores[node.name()]));
            weighted.fold(0, i64::saturating_add)
        };
        let most = fit.iter().map(|node| total(node)).max();
        let best = fit.iter().filter(|node| Some(total(node)) == most).map(|node| node.name().to_owned());
        evaluation.best = best.collect();
        evaluation
    }

    /// Returns the first rejection of one node; `None` if the pod fits there. It costs less than judging all nodes.
    pub fn rejection(&self, pod: &Pod, settings: &Settings, node: &str) -> Option<Rejection> {
        let Some(node) = self.nodes.get(node) else {
            return Some(Rejection::unresolvable("NodeName", "the node does not exist"));
        };
        match Judge::of(self, settings, pod) {
            Ok(judge) => self.with_nominated(&judge, node).or_else(|| judge.reject(node)),
            Err(rejection) => Some(rejection),
        }
    }

    /// Returns the first rejection of each node that is to be judged.
    pub(crate) fn verdicts(
        &self,
        pod: &Pod,
        settings: &Settings,
        is_judged: impl Fn(&Node) -> bool,
    ) -> BTreeMap<String, Option<Rejection>> {
        let judged = self.nodes.iter().filter(|(_, node)| is_judged(node));
        let judge = match Judge::of(self, settings, pod) {
            Ok(judge) => judge,
            Err(rejection) => return judged.map(|(name, _)| (name.clone(), Some(rejection.clone()))).collect(),
        };
        let is_asked = settings.pre_filters.iter().any(|plugin| plugin == "NodeAffinity");
        let named = if is_asked { nodes::named(pod).ok().flatten() } else { None };
        let verdict = |node: &Node| match &named {
            Some(names) if !names.contains(node.name()) => {
                Some(Rejection::unresolvable("NodeAffinity", "node(s) didn't satisfy plugin(s) [NodeAffinity]"))
            }
            _ => self.with_nominated(&judge, node).or_else(|| judge.reject(node)),
        };
        judged.map(|(name, node)| (name.clone(), verdict(node))).collect()
    }

    /// Rejects a node that is too small once the pods that are nominated to it are there. They may never come, so a node has
    /// to fit without them too.
    pub(crate) fn with_nominated(&self, judge: &Judge<'_>, node: &Node) -> Option<Rejection> {
        let pod = judge.pod;
        let others = self.nominated.get(node.name()).into_iter().flat_map(BTreeMap::values);
        let others: Vec<_> = others.filter(|it| priority(it) >= priority(pod) && it.uid() != pod.uid()).collect();
        if others.is_empty() {
            return None;
        }
        let mut with_others = self.clone();
        others.into_iter().for_each(|other| with_others.place(other.clone(), node.name()));
        match judge.in_cluster(&with_others) {
            Ok(hypothetical) => hypothetical.reject(node),
            Err(rejection) => Some(rejection),
        }
    }

    /// Returns the scores of the nodes that fit, in the order of the profile.
    pub fn score(&self, pod: &Pod, settings: &Settings, fit: &[&Node]) -> Vec<PluginScores> {
        let of = |plugin: &str| -> Option<Vec<i64>> {
            match plugin {
                "TaintToleration" => Some(nodes::taint_scores(pod, fit)),
                "NodeAffinity" => nodes::affinity_scores(settings, pod, fit),
                "NodeResourcesFit" => Some(resources::fit_scores(self, settings, pod, fit)),
                "NodeResourcesBalancedAllocation" => resources::balance_scores(self, settings, pod, fit),
                "PodTopologySpread" => self.spread_scores(settings, pod, fit),
                "InterPodAffinity" => self.affinity_scores(settings, pod, fit),
                "VolumeBinding" => self.volume_scores(settings, pod, fit),
                "ImageLocality" => Some(self.image_locality(pod, fit)),
                "DynamicResources" => devices::Wanted::of(self, pod).ok().and_then(|wanted| wanted.scores(self, fit)),
                _ => None,
            }
        };
        let names = || fit.iter().map(|node| node.name().to_owned());
        let scored = settings.scores.iter().filter_map(|(plugin, weight)| {
            let scores = names().zip(of(plugin)?).collect();
            Some(PluginScores { plugin: plugin.clone(), weight: *weight, scores })
        });
        scored.collect()
    }
}

pub(crate) fn priority(pod: &Pod) -> i32 {
    spec(pod).priority.unwrap_or(0)
}
