//! `Selection`, the plugins that a configuration file enables and disables at each extension point.
//!
//! Corresponds to Plugins of k8s.io/kube-scheduler/config/v1 and their merging with the defaults.

use crate::framework::{Plugin, Profile};
use serde::Deserialize;
use std::sync::Arc;

/// Names of the plugins that a file may enable or disable.
const NAMES: [&str; 16] = [
    "DefaultBinder",
    "DefaultPreemption",
    "DynamicResources",
    "ImageLocality",
    "InterPodAffinity",
    "NodeAffinity",
    "NodeName",
    "NodePorts",
    "NodeResourcesBalancedAllocation",
    "NodeResourcesFit",
    "NodeUnschedulable",
    "PodTopologySpread",
    "PrioritySort",
    "SchedulingGates",
    "TaintToleration",
    "VolumeBinding",
];

/// The field `plugins` of a profile.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct Selection {
    pre_enqueue: Changes,
    queue_sort: Changes,
    pre_filter: Changes,
    filter: Changes,
    post_filter: Changes,
    pre_score: Changes,
    score: Changes,
    reserve: Changes,
    permit: Changes,
    pre_bind: Changes,
    bind: Changes,
    post_bind: Changes,
    /// Changes at every extension point.
    multi_point: Changes,
}

/// Changes at one extension point. `*` means all plugins.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Changes {
    enabled: Vec<Named>,
    disabled: Vec<Named>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Named {
    name: String,
    weight: i64,
}

impl Selection {
    /// Removes disabled plugins. Adds those that are also enabled after the others.
    pub fn apply(&self, profile: &mut Profile) {
        let each = &self.multi_point;
        change(&mut profile.pre_enqueue, named, &[each, &self.pre_enqueue]);
        change(&mut profile.pre_filter, named, &[each, &self.pre_filter]);
        change(&mut profile.filter, named, &[each, &self.filter]);
        change(&mut profile.post_filter, named, &[each, &self.post_filter]);
        change(&mut profile.pre_score, named, &[each, &self.pre_score]);
        let kept = change(&mut profile.score, |(plugin, _)| plugin.name(), &[each, &self.score]);
        for ((_, weight), wanted) in profile.score.iter_mut().zip(kept) {
            *weight = if wanted > 0 { wanted } else { *weight };
        }
        change(&mut profile.reserve, named, &[each, &self.reserve]);
        change(&mut profile.permit, named, &[each, &self.permit]);
        change(&mut profile.pre_bind, named, &[each, &self.pre_bind]);
        change(&mut profile.bind, named, &[each, &self.bind]);
        change(&mut profile.post_bind, named, &[each, &self.post_bind]);
        let mut sort: Vec<_> = profile.queue_sort.take().into_iter().collect();
        change(&mut sort, named, &[each, &self.queue_sort]);
        profile.queue_sort = sort.pop();
    }

    /// Fails on unknown names, and if no plugin sorts the queue or binds.
    pub fn check(&self) -> Result<(), String> {
        let points = [
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
        let given = points.into_iter().flat_map(|point| point.enabled.iter().chain(&point.disabled));
        let mut unknown = given.map(|named| named.name.as_str()).filter(|name| *name != "*" && !NAMES.contains(name));
        if let Some(name) = unknown.next() {
            return Err(format!("profiles: plugins: there is no plugin {name:?}"));
        }
        let is_left = |name: &'static str, point: &Changes| {
            let mut list = vec![name];
            change(&mut list, |name| *name, &[&self.multi_point, point]);
            !list.is_empty()
        };
        if !is_left("PrioritySort", &self.queue_sort) || !is_left("DefaultBinder", &self.bind) {
            return Err("profiles: plugins: one has to sort the queue, and one to bind".to_owned());
        }
        Ok(())
    }
}

fn named<P: Plugin + ?Sized>(plugin: &Arc<P>) -> &'static str {
    plugin.name()
}

/// Changes the list of one extension point. Returns the configured weight of each plugin in it, or 0.
fn change<P: Clone>(list: &mut Vec<P>, name: impl Fn(&P) -> &'static str, changes: &[&Changes]) -> Vec<i64> {
    let all = std::mem::take(list);
    let is = |named: &Named, plugin: &P| named.name == name(plugin) || named.name == "*";
    let is_disabled = |plugin: &P| changes.iter().any(|changes| changes.disabled.iter().any(|named| is(named, plugin)));
    list.extend(all.iter().filter(|plugin| !is_disabled(plugin)).cloned());
    let enabled = || changes.iter().flat_map(|changes| &changes.enabled);
    for wanted in enabled() {
        let re_enabled = all.iter().find(|plugin| is_disabled(plugin) && is(wanted, plugin));
        list.extend(re_enabled.cloned());
    }
    let weight = |plugin| enabled().rev().find(|named| is(named, plugin)).map(|named| named.weight);
    list.iter().map(|plugin| weight(plugin).unwrap_or_default()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use serde_json::{Value, json};

    #[test]
    fn lists_change_as_configured() {
        let list = ["A", "B", "C"];
        for (changes, expected) in [
            (json!({}), &["A", "B", "C"][..]),
            (json!({"disabled": [{"name": "B"}]}), &["A", "C"]),
            (json!({"disabled": [{"name": "*"}], "enabled": [{"name": "C"}, {"name": "A"}]}), &["C", "A"]),
            (json!({"disabled": [{"name": "A"}], "enabled": [{"name": "A"}]}), &["B", "C", "A"]),
            (json!({"enabled": [{"name": "B", "weight": 7}]}), &["A", "B", "C"]),
        ] {
            let changes: Changes = serde_json::from_value(changes).unwrap();
            let mut changed = list.to_vec();
            let weights = change(&mut changed, |name| *name, &[&changes]);
            assert_eq!(changed, expected);
            let is_weighed = changes.enabled.iter().any(|named| named.weight == 7);
            assert_eq!(weights.contains(&7), is_weighed);
        }
    }

    #[test]
    fn unknown_names_and_a_missing_binder_are_refused() {
        let check = |value: Value| serde_json::from_value::<Selection>(value).unwrap().check();
        check(json!({"score": {"disabled": [{"name": "ImageLocality"}]}})).unwrap();
        let unknown = check(json!({"score": {"enabled": [{"name": "Unknown"}]}})).unwrap_err();
        assert_eq!(unknown, r#"profiles: plugins: there is no plugin "Unknown""#);
        check(json!({"multiPoint": {"disabled": [{"name": "*"}]}})).unwrap_err();
        let all_again: Vec<Value> = NAMES.iter().map(|name| json!({"name": name})).collect();
        check(json!({"multiPoint": {"disabled": [{"name": "*"}], "enabled": all_again}})).unwrap();
    }

    #[test]
    fn a_profile_changes_as_configured() {
        let mut profile = fixture::profile(fixture::Objects::default());
        let mut names: Vec<&str> = profile.plugins.iter().map(named).collect();
        names.extend(profile.score.iter().map(|(plugin, _)| plugin.name()));
        assert!(names.iter().all(|name| NAMES.contains(name)), "{names:?}");
        let selection = json!({
            "score": {"disabled": [{"name": "ImageLocality"}], "enabled": [{"name": "NodeResourcesFit", "weight": 9}]},
            "multiPoint": {"disabled": [{"name": "InterPodAffinity"}]},
        });
        serde_json::from_value::<Selection>(selection).unwrap().apply(&mut profile);
        let score: Vec<(&str, i64)> = profile.score.iter().map(|(plugin, weight)| (plugin.name(), *weight)).collect();
        assert!(score.contains(&("NodeResourcesFit", 9)) && score.contains(&("TaintToleration", 3)), "{score:?}");
        assert!(!score.iter().any(|(name, _)| ["ImageLocality", "InterPodAffinity"].contains(name)));
        assert!(!profile.filter.iter().any(|plugin| plugin.name() == "InterPodAffinity"));
    }
}
