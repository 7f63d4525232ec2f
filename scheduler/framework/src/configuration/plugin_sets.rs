//! `Plugins`, the plugins that a profile enables and disables at each extension point, and how they change the defaults.
//!
//! Corresponds to Plugins of k8s.io/kube-scheduler/config/v1, and to mergePlugins of
//! pkg/scheduler/apis/config/v1/default_plugins.go.

use serde::{Deserialize, Deserializer, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// All plugins, in a list of disabled ones.
pub const ALL: &str = "*";

/// An extension point that a file may name, besides `multiPoint`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Point {
    PreEnqueue,
    QueueSort,
    PreFilter,
    Filter,
    PostFilter,
    PreScore,
    Score,
    Reserve,
    Permit,
    PreBind,
    Bind,
    PostBind,
}

/// The field `plugins` of a profile.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Plugins {
    pub pre_enqueue: PluginSet,
    pub queue_sort: PluginSet,
    pub pre_filter: PluginSet,
    pub filter: PluginSet,
    pub post_filter: PluginSet,
    pub pre_score: PluginSet,
    pub score: PluginSet,
    pub reserve: PluginSet,
    pub permit: PluginSet,
    pub pre_bind: PluginSet,
    pub bind: PluginSet,
    pub post_bind: PluginSet,
    /// Plugins that run at every extension point that they implement.
    pub multi_point: PluginSet,
}

/// The plugins of one extension point.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PluginSet {
    pub enabled: Vec<PluginRef>,
    pub disabled: Vec<PluginRef>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PluginRef {
    pub name: String,
    /// Weight of the plugin's scores, of 32 bits; 0 stands for 1.
    #[serde(deserialize_with = "weight")]
    pub weight: i64,
}

fn weight<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    i32::deserialize(deserializer).map(i64::from)
}

impl PluginSet {
    pub fn disables(&self, name: &str) -> bool {
        self.disabled.iter().any(|plugin| plugin.name == name)
    }

    /// Adds a plugin after all others, unless it is there or disabled.
    pub fn add_default(&mut self, name: &str, weight: i64) {
        let is_there = self.enabled.iter().any(|plugin| plugin.name == name);
        if !is_there && !self.disables(name) && !self.disables(ALL) {
            self.enabled.push(PluginRef { name: name.to_owned(), weight });
        }
    }

    /// Changes the defaults: disabled plugins are left out, a plugin that is enabled again is replaced at its place, and
    /// others follow.
    fn changed_by(&self, custom: &Self) -> Self {
        let disabled: Vec<PluginRef> = custom.disabled.iter().chain(&self.disabled).cloned().collect();
        let is_disabled = |name: &str| disabled.iter().any(|plugin| plugin.name == ALL || plugin.name == name);
        let (mut enabled, mut replaced) = (Vec::new(), BTreeSet::new());
        for default in self.enabled.iter().filter(|plugin| !is_disabled(&plugin.name)) {
            // Of several entries with the name the last one counts. The others are left over, and are refused later.
            let again = custom.enabled.iter().rposition(|plugin| plugin.name == default.name);
            replaced.extend(again);
            enabled.push(again.map_or(default, |at| &custom.enabled[at]).clone());
        }
        let others = custom.enabled.iter().enumerate().filter(|(at, _)| !replaced.contains(at));
        enabled.extend(others.map(|(_, plugin)| plugin.clone()));
        Self { enabled, disabled }
    }
}

impl Plugins {
    pub fn at(&self, point: Point) -> &PluginSet {
        match point {
            Point::PreEnqueue => &self.pre_enqueue,
            Point::QueueSort => &self.queue_sort,
            Point::PreFilter => &self.pre_filter,
            Point::Filter => &self.filter,
            Point::PostFilter => &self.post_filter,
            Point::PreScore => &self.pre_score,
            Point::Score => &self.score,
            Point::Reserve => &self.reserve,
            Point::Permit => &self.permit,
            Point::PreBind => &self.pre_bind,
            Point::Bind => &self.bind,
            Point::PostBind => &self.post_bind,
        }
    }

    /// Returns these plugins as a file changes them.
    pub fn changed_by(&self, custom: &Self) -> Self {
        Self {
            pre_enqueue: self.pre_enqueue.changed_by(&custom.pre_enqueue),
            queue_sort: self.queue_sort.changed_by(&custom.queue_sort),
            pre_filter: self.pre_filter.changed_by(&custom.pre_filter),
            filter: self.filter.changed_by(&custom.filter),
            post_filter: self.post_filter.changed_by(&custom.post_filter),
            pre_score: self.pre_score.changed_by(&custom.pre_score),
            score: self.score.changed_by(&custom.score),
            reserve: self.reserve.changed_by(&custom.reserve),
            permit: self.permit.changed_by(&custom.permit),
            pre_bind: self.pre_bind.changed_by(&custom.pre_bind),
            bind: self.bind.changed_by(&custom.bind),
            post_bind: self.post_bind.changed_by(&custom.post_bind),
            multi_point: self.multi_point.changed_by(&custom.multi_point),
        }
    }

    /// Returns the names of all enabled plugins.
    pub fn names(&self) -> BTreeSet<&str> {
        let sets = [
            &self.pre_enqueue,
            &self.queue_sort,
            &self.pre_filter,
            &self.filter,
            &self.post_filter,
            &self.pre_score,
            &self.score,
            &self.reserve,
            &self.permit,
            &self.pre_bind,
            &self.bind,
            &self.post_bind,
            &self.multi_point,
        ];
        sets.into_iter().flat_map(|set| &set.enabled).map(|plugin| plugin.name.as_str()).collect()
    }

    /// Returns the weight of each enabled plugin. The one at `score` is taken before the one at `multiPoint`.
    pub fn weights(&self) -> BTreeMap<&str, i64> {
        let mut weights = BTreeMap::new();
        for plugin in self.score.enabled.iter().chain(&self.multi_point.enabled) {
            weights.entry(plugin.name.as_str()).or_insert(if plugin.weight == 0 { 1 } else { plugin.weight });
        }
        weights
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn set(value: Value) -> PluginSet {
        serde_json::from_value(value).unwrap()
    }

    /// Shows names, with weights other than 0.
    fn shown(set: &PluginSet) -> String {
        let one = |plugin: &PluginRef| match plugin.weight {
            0 => plugin.name.clone(),
            weight => format!("{}x{weight}", plugin.name),
        };
        set.enabled.iter().map(one).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_file_changes_the_defaults() {
        let defaults = set(json!({"enabled": [{"name": "A"}, {"name": "B", "weight": 2}, {"name": "C"}]}));
        for (custom, expected) in [
            (json!({}), "A Bx2 C"),
            (json!({"disabled": [{"name": "B"}]}), "A C"),
            (json!({"disabled": [{"name": "Unknown"}]}), "A Bx2 C"),
            (json!({"disabled": [{"name": "*"}], "enabled": [{"name": "C"}, {"name": "A"}]}), "C A"),
            (json!({"disabled": [{"name": "A"}], "enabled": [{"name": "A"}]}), "Bx2 C A"),
            (json!({"enabled": [{"name": "B", "weight": 7}]}), "A Bx7 C"),
            (json!({"enabled": [{"name": "D", "weight": 7}, {"name": "A"}]}), "A Bx2 C Dx7"),
            (json!({"enabled": [{"name": "A", "weight": 1}, {"name": "A", "weight": 2}]}), "Ax2 Bx2 C Ax1"),
        ] {
            assert_eq!(shown(&defaults.changed_by(&set(custom.clone()))), expected, "{custom}");
        }
    }

    #[test]
    fn the_weight_at_score_is_taken_first() {
        let plugins = json!({
            "score": {"enabled": [{"name": "A", "weight": 5}]},
            "multiPoint": {"enabled": [{"name": "A", "weight": 3}, {"name": "B"}, {"name": "C", "weight": 2}]},
        });
        let plugins: Plugins = serde_json::from_value(plugins).unwrap();
        assert_eq!(plugins.weights(), BTreeMap::from([("A", 5), ("B", 1), ("C", 2)]));
        assert_eq!(plugins.names(), BTreeSet::from(["A", "B", "C"]));
    }
}
