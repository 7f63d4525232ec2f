//! `ProfileConfiguration`, the plugins and arguments of one scheduler name.
//!
//! Corresponds to KubeSchedulerProfile of k8s.io/kube-scheduler/config/v1, its defaults and its validation.

use super::args::{self, Args};
use super::default_plugins::default_plugins;
use super::plugin_sets::Plugins;
use super::strict;
use proto::meta::status::FieldError;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Name of the profile that a pod gets without `schedulerName`.
pub const DEFAULT_SCHEDULER: &str = "default-scheduler";

/// One entry of `profiles`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ProfileConfiguration {
    pub scheduler_name: String,
    /// Percentage of feasible nodes that are enough; `None` for that of the configuration.
    pub percentage_of_nodes_to_score: Option<i32>,
    pub plugins: Plugins,
    pub plugin_config: Vec<PluginConfig>,
    /// How one of several best nodes is chosen. Kubernetes has no such field.
    pub tie_break: TieBreak,
}

/// The arguments of one plugin.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PluginConfig {
    pub name: String,
    pub args: Value,
}

/// How one of several nodes with the highest score is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum TieBreak {
    /// At random, by the seed.
    #[default]
    Random,
    /// In turn, in the order of their names.
    RoundRobin,
}

impl ProfileConfiguration {
    /// Returns the profile with Kubernetes' default plugins.
    pub fn with_defaults(scheduler_name: &str) -> Self {
        let mut profile = Self { scheduler_name: scheduler_name.to_owned(), ..Self::default() };
        profile.complete("", &mut Vec::new());
        profile
    }

    /// Reads the profile at `path`, with defaults.
    pub fn read(path: &str, value: &Value, unreadable: &mut Vec<String>) -> Self {
        let Some(mut profile) = strict::decode::<Self>(path, value, unreadable) else { return Self::default() };
        profile.complete(path, unreadable);
        profile
    }

    /// Merges the default plugins with those of the file, and adds the arguments that the file does not have.
    fn complete(&mut self, path: &str, unreadable: &mut Vec<String>) {
        self.plugins = default_plugins().changed_by(&self.plugins);
        for (at, config) in self.plugin_config.iter_mut().enumerate() {
            config.args =
                args::read(&config.name, &format!("{path}.pluginConfig[{at}].args"), &config.args, unreadable);
        }
        let configured: BTreeSet<String> = self.plugin_config.iter().map(|config| config.name.clone()).collect();
        for name in self.plugins.names().into_iter().filter(|name| !configured.contains(*name)) {
            if let Some(args) = args::defaults(name) {
                self.plugin_config.push(PluginConfig { name: name.to_owned(), args });
            }
        }
    }

    /// Returns the arguments of a plugin; null if there are none.
    pub fn args_of(&self, plugin: &str) -> &Value {
        let config = self.plugin_config.iter().find(|config| config.name == plugin);
        config.map_or(&Value::Null, |config| &config.args)
    }

    /// Returns the arguments of a plugin with their path, or what cannot be read of them; `None` if there are none.
    pub fn given_args<T: Args>(&self, path: &str, plugin: &str) -> Option<(String, Result<T, String>)> {
        let at = self.plugin_config.iter().position(|config| config.name == plugin)?;
        Some((format!("{path}.pluginConfig[{at}].args"), args::of(&self.plugin_config[at].args)))
    }

    /// Lets a function complete the arguments of a plugin.
    pub fn complete_args<T: Args>(&mut self, plugin: &str, complete: impl Fn(&mut T)) {
        for config in self.plugin_config.iter_mut().filter(|config| config.name == plugin) {
            if let Ok(mut args) = args::of::<T>(&config.args) {
                complete(&mut args);
                config.args = serde_json::to_value(&args).unwrap_or_default();
            }
        }
    }

    /// Returns the profile with these resources in place of the `ignoredResources` of NodeResourcesFit.
    pub fn ignoring(&self, resources: &[&str]) -> Self {
        let mut profile = self.clone();
        let fit = profile.plugin_config.iter_mut().find(|config| config.name == "NodeResourcesFit");
        if let Some(fit) = fit.filter(|_| !resources.is_empty()) {
            fit.args["ignoredResources"] = json!(resources);
        }
        profile
    }

    pub fn validate(&self, path: &str, errors: &mut Vec<FieldError>) {
        if self.scheduler_name.is_empty() {
            errors.push(FieldError::required(format!("{path}.schedulerName"), ""));
        }
        validate_percentage(&format!("{path}.percentageOfNodesToScore"), self.percentage_of_nodes_to_score, errors);
        let mut seen = BTreeSet::new();
        for (at, config) in self.plugin_config.iter().enumerate() {
            let path = format!("{path}.pluginConfig[{at}]");
            if !seen.insert(&config.name) {
                errors.push(FieldError::duplicate(&path, &json!(config.name)));
            }
            args::validate(&config.name, &format!("{path}.args"), &config.args, errors);
        }
    }
}

pub fn validate_percentage(path: &str, percentage: Option<i32>, errors: &mut Vec<FieldError>) {
    if let Some(percentage) = percentage.filter(|percentage| !(0..=100).contains(percentage)) {
        errors.push(FieldError::invalid(path, &json!(percentage), "not in valid range [0-100]"));
    }
}
