//! The plugins of a profile without `plugins`, with their weights.
//!
//! Corresponds to getDefaultPlugins of pkg/scheduler/apis/config/v1/default_plugins.go.

use super::plugin_sets::{PluginRef, PluginSet, Plugins};

/// Names in the order in which the plugins run at each extension point.
const DEFAULTS: &[(&str, i64)] = &[
    ("SchedulingGates", 0),
    ("PrioritySort", 0),
    ("NodeUnschedulable", 0),
    ("NodeName", 0),
    ("TaintToleration", 3),
    ("NodeAffinity", 2),
    ("NodePorts", 0),
    ("NodeResourcesFit", 1),
    ("VolumeRestrictions", 0),
    ("NodeVolumeLimits", 0),
    ("VolumeBinding", 0),
    ("VolumeZone", 0),
    ("PodTopologySpread", 2),
    ("InterPodAffinity", 2),
    ("DynamicResources", 2),
    ("DefaultPreemption", 0),
    ("NodeResourcesBalancedAllocation", 1),
    ("ImageLocality", 1),
    ("DefaultBinder", 0),
    ("NodeDeclaredFeatures", 0),
];

pub fn default_plugins() -> Plugins {
    let enabled = DEFAULTS.iter().map(|(name, weight)| PluginRef { name: (*name).to_owned(), weight: *weight });
    Plugins { multi_point: PluginSet { enabled: enabled.collect(), disabled: Vec::new() }, ..Plugins::default() }
}
