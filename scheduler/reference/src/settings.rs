//! `Settings`: the part of a profile that decides about nodes: plugins, weights and arguments.

use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// The filters of the default profile in their order.
const FILTERS: [&str; 14] = [
    "NodeUnschedulable",
    "NodeName",
    "TaintToleration",
    "NodeAffinity",
    "NodePorts",
    "NodeResourcesFit",
    "VolumeRestrictions",
    "NodeVolumeLimits",
    "VolumeBinding",
    "VolumeZone",
    "PodTopologySpread",
    "InterPodAffinity",
    "DynamicResources",
    "NodeDeclaredFeatures",
];
/// The scores of the default profile with their weights.
const SCORES: [(&str, i64); 8] = [
    ("TaintToleration", 3),
    ("NodeAffinity", 2),
    ("NodeResourcesFit", 1),
    ("PodTopologySpread", 2),
    ("InterPodAffinity", 2),
    ("DynamicResources", 2),
    ("NodeResourcesBalancedAllocation", 1),
    ("ImageLocality", 1),
];

/// A plugin that scores only with the argument `shape`, which a gate lets it have.
const SCORES_BY_SHAPE: &str = "VolumeBinding";

#[derive(Clone, Debug)]
pub struct Settings {
    /// The PreFilter plugins in their order.
    pub pre_filters: Vec<String>,
    /// The Filter plugins in their order.
    pub filters: Vec<String>,
    /// The Score plugins with their weights.
    pub scores: Vec<(String, i64)>,
    /// Arguments by plugin, as in `pluginConfig`. What is missing has its default.
    pub args: BTreeMap<String, Value>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            pre_filters: FILTERS.map(str::to_owned).into(),
            filters: FILTERS.map(str::to_owned).into(),
            scores: SCORES.map(|(name, weight)| (name.to_owned(), weight)).into(),
            args: BTreeMap::new(),
        }
    }
}

impl Settings {
    /// Returns the plugins that the reference evaluator does not know. It judges as if they passed every node.
    pub fn unknown(&self) -> Vec<&str> {
        let filters = self.filters.iter().filter(|name| !FILTERS.contains(&name.as_str()));
        let scores = self.scores.iter().map(|(name, _)| name);
        let is_known = |name: &str| name == SCORES_BY_SHAPE || SCORES.iter().any(|(known, _)| *known == name);
        let scores = scores.filter(|name| !is_known(name));
        filters.chain(scores).map(String::as_str).collect()
    }

    pub(crate) fn filters_by(&self, plugin: &str) -> bool {
        self.filters.iter().any(|name| name == plugin)
    }

    /// Returns the arguments of a plugin. Values that cannot be read are the defaults; the scheduler refuses such a file.
    pub(crate) fn args<T: Default + for<'a> Deserialize<'a>>(&self, plugin: &str) -> T {
        self.args.get(plugin).and_then(|args| T::deserialize(args).ok()).unwrap_or_default()
    }
}
