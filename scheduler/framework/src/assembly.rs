//! Assembles a profile: makes its plugins, and puts them in order at each extension point.
//!
//! Corresponds to NewFramework and expandMultiPointPlugins of pkg/scheduler/framework/runtime/framework.go.

use super::{MAX_NODE_SCORE, Points, Profile, Registry};
use crate::configuration::plugin_sets::{ALL, PluginSet, Plugins, Point};
use crate::configuration::profile::ProfileConfiguration;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Makes a profile, or returns everything that is wrong with it.
pub fn assemble(configuration: &ProfileConfiguration, registry: &Registry) -> Result<Profile, Vec<String>> {
    let mut errors = Vec::new();
    let mut made: BTreeMap<&str, Points> = BTreeMap::new();
    for name in configuration.plugins.names() {
        let Some(factory) = registry.get(name) else { continue };
        match factory(configuration.args_of(name)) {
            Ok(points) => drop(made.insert(name, points)),
            Err(why) => errors.push(format!("initializing plugin {name:?}: {why}")),
        }
    }
    let everywhere = configuration.plugins.multi_point.enabled.iter().map(|plugin| plugin.name.as_str());
    let unknown = everywhere.filter(|name| registry.get(name).is_none());
    errors.extend(unknown.map(|name| missing(Point::PreFilter, name)));
    let mut order = Order { plugins: &configuration.plugins, made: &made, errors };
    let mut profile = Profile {
        scheduler_name: configuration.scheduler_name.clone(),
        tie_break: configuration.tie_break,
        pre_filter: order.of(Point::PreFilter, |points| &points.pre_filter),
        filter: order.of(Point::Filter, |points| &points.filter),
        post_filter: order.of(Point::PostFilter, |points| &points.post_filter),
        reserve: order.of(Point::Reserve, |points| &points.reserve),
        pre_score: order.of(Point::PreScore, |points| &points.pre_score),
        pre_bind: order.of(Point::PreBind, |points| &points.pre_bind),
        bind: order.of(Point::Bind, |points| &points.bind),
        post_bind: order.of(Point::PostBind, |points| &points.post_bind),
        permit: order.of(Point::Permit, |points| &points.permit),
        pre_enqueue: order.of(Point::PreEnqueue, |points| &points.pre_enqueue),
        args: configuration.plugin_config.iter().map(|config| (config.name.clone(), config.args.clone())).collect(),
        plugins: made.values().map(|points| points.plugin.clone()).collect(),
        ..Profile::default()
    };
    let scores = order.of(Point::Score, |points| &points.score);
    for plugin in &scores {
        let runs = profile.pre_score.iter().any(|one| one.name() == plugin.name());
        let points = made.get(plugin.name()).filter(|points| points.scores_after_pre_score && !runs);
        profile.pre_score.extend(points.and_then(|points| points.pre_score.clone()));
    }
    let mut sorts = order.of(Point::QueueSort, |points| &points.queue_sort);
    // A file names no plugins for these points alone.
    profile.sign = order.of_multi_point(|points| &points.sign);
    profile.pod_group_post_filter = order.of_multi_point(|points| &points.pod_group_post_filter);
    profile.placement_generate = order.of_multi_point(|points| &points.placement_generate);
    let placement_scores = order.of_multi_point(|points| &points.placement_score);
    let mut errors = order.errors;
    let name = &configuration.scheduler_name;
    if sorts.len() != 1 {
        errors.push(format!(
            "only one queue sort plugin required for profile with scheduler name {name:?}, but got {}",
            sorts.len()
        ));
    }
    if profile.bind.is_empty() {
        errors.push(format!("at least one bind plugin is needed for profile with scheduler name {name:?}"));
    }
    profile.queue_sort = sorts.pop();
    let weights = configuration.plugins.weights();
    let weight_of = |plugin: &str| weights.get(plugin).copied().unwrap_or(1);
    profile.score = scores.into_iter().map(|plugin| (plugin.clone(), weight_of(plugin.name()))).collect();
    profile.placement_score =
        placement_scores.into_iter().map(|plugin| (plugin.clone(), weight_of(plugin.name()))).collect();
    let highest = profile
        .score
        .iter()
        .try_fold(0_i64, |sum, (_, weight)| weight.checked_mul(MAX_NODE_SCORE).and_then(|most| sum.checked_add(most)));
    if highest.is_none() {
        errors.push("total score of Score plugins could overflow".to_owned());
    }
    if errors.is_empty() { Ok(profile) } else { Err(errors) }
}

/// The plugins that were made, while they are put in order.
struct Order<'a> {
    plugins: &'a Plugins,
    made: &'a BTreeMap<&'a str, Points>,
    errors: Vec<String>,
}

impl Order<'_> {
    /// Returns the plugins of an extension point. `part` is their implementation of it.
    fn of<T: ?Sized>(&mut self, point: Point, part: fn(&Points) -> &Option<Arc<T>>) -> Vec<Arc<T>> {
        let implements = |name: &str| self.made.get(name).map(|points| part(points).is_some());
        match names(point, self.plugins.at(point), &self.plugins.multi_point, implements) {
            Ok(names) => names.into_iter().filter_map(|name| part(self.made.get(name)?).clone()).collect(),
            Err(why) => {
                self.errors.push(why);
                Vec::new()
            }
        }
    }
}

impl Order<'_> {
    /// Returns the plugins of an extension point that a file cannot name.
    fn of_multi_point<T: ?Sized>(&self, part: fn(&Points) -> &Option<Arc<T>>) -> Vec<Arc<T>> {
        let names = self.plugins.multi_point.enabled.iter();
        names.filter_map(|plugin| part(self.made.get(plugin.name.as_str())?).clone()).collect()
    }
}

/// Returns the error of a plugin that does not exist. One of `multiPoint` is missed at the first extension point.
fn missing(point: Point, name: &str) -> String {
    format!("{point:?}Plugin {name:?} does not exist")
}

/// Returns the names of the plugins of one extension point in order:
/// 1. plugins of `multiPoint` that the extension point names too, in the extension point's order;
/// 2. other plugins of `multiPoint`, unless the extension point disables them;
/// 3. other plugins of the extension point.
///
/// `implements` returns `None` for a plugin that does not exist, or that could not be made.
fn names<'a>(
    point: Point,
    own: &'a PluginSet,
    multi: &'a PluginSet,
    implements: impl Fn(&str) -> Option<bool>,
) -> Result<Vec<&'a str>, String> {
    let twice = |name: &str| format!("plugin {name:?} already registered as \"{point:?}Plugin\"");
    let mut specific: Vec<&str> = Vec::new();
    for plugin in &own.enabled {
        let name = plugin.name.as_str();
        match implements(name) {
            None => return Err(missing(point, name)),
            Some(false) => return Err(format!("plugin {name:?} does not extend {point:?}Plugin plugin")),
            Some(true) if specific.contains(&name) => return Err(twice(name)),
            Some(true) => specific.push(name),
        }
    }
    if own.disables(ALL) {
        return Ok(specific);
    }
    let (mut overriding, mut expanded): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
    for plugin in &multi.enabled {
        let name = plugin.name.as_str();
        match implements(name) {
            Some(true) if !own.disables(name) => {}
            _ => continue,
        }
        if specific.contains(&name) {
            overriding.push(name);
        } else if expanded.contains(&name) {
            return Err(twice(name));
        } else {
            expanded.push(name);
        }
    }
    let (first, last): (Vec<&str>, Vec<&str>) = specific.into_iter().partition(|name| overriding.contains(name));
    Ok([first, expanded, last].concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn set(value: &Value) -> PluginSet {
        serde_json::from_value(value.clone()).unwrap()
    }

    /// Returns the names at Score. A, B, C and D exist, and D does not implement Score.
    fn order(own: &Value, multi: &Value) -> Result<String, String> {
        let implements = |name: &str| "ABCD".contains(name).then_some(name != "D");
        names(Point::Score, &set(own), &set(multi), implements).map(|names| names.join(" "))
    }

    fn enabled(names: &str) -> Value {
        names.split_whitespace().map(|name| json!({"name": name})).collect()
    }

    #[test]
    fn the_extension_point_overrides_multi_point() {
        let multi = json!({"enabled": enabled("A B C D")});
        for (own, expected) in [
            (json!({}), "A B C"),
            (json!({"enabled": enabled("C")}), "C A B"),
            (json!({"enabled": enabled("C A")}), "C A B"),
            (json!({"disabled": [{"name": "B"}]}), "A C"),
            (json!({"disabled": [{"name": "*"}]}), ""),
            (json!({"disabled": [{"name": "*"}], "enabled": enabled("C A")}), "C A"),
            (json!({"disabled": [{"name": "A"}], "enabled": enabled("A")}), "B C A"),
        ] {
            assert_eq!(order(&own, &multi).unwrap(), expected, "{own}");
        }
        // What only the extension point names is last.
        assert_eq!(order(&json!({"enabled": enabled("C B")}), &json!({"enabled": enabled("A B")})).unwrap(), "B A C");
    }

    #[test]
    fn impossible_lists_are_refused() {
        for (own, multi, expected) in [
            ("X", "A", r#"ScorePlugin "X" does not exist"#),
            ("D", "A", r#"plugin "D" does not extend ScorePlugin plugin"#),
            ("A A", "B", r#"plugin "A" already registered as "ScorePlugin""#),
            ("", "A A", r#"plugin "A" already registered as "ScorePlugin""#),
        ] {
            let error = order(&json!({"enabled": enabled(own)}), &json!({"enabled": enabled(multi)})).unwrap_err();
            assert_eq!(error, expected);
        }
    }
    #[test]
    fn a_plugin_that_does_not_exist_is_missed_where_it_is_named() {
        let plugins = json!({
            "multiPoint": {"enabled": enabled("X")}, "score": {"enabled": enabled("Y")}, "bind": {"enabled": enabled("Y")},
        });
        let plugins = serde_json::from_value(plugins).unwrap();
        let configuration = ProfileConfiguration { plugins, ..ProfileConfiguration::default() };
        let errors = assemble(&configuration, &Registry::default()).err().unwrap();
        let expected = [
            r#"PreFilterPlugin "X" does not exist"#,
            r#"BindPlugin "Y" does not exist"#,
            r#"ScorePlugin "Y" does not exist"#,
            r#"only one queue sort plugin required for profile with scheduler name "", but got 0"#,
            r#"at least one bind plugin is needed for profile with scheduler name """#,
        ];
        assert_eq!(errors, expected);
    }
}
