//! `Configuration`, everything that a KubeSchedulerConfiguration says about scheduling, with its defaults.
//!
//! A file is read in three steps: strict decoding (`strict`) finds unknown fields, each profile is merged with the defaults
//! (`profile`, `plugin_sets`, `args`), and `validate` finds everything else that is wrong. Both kinds of errors name the
//! field. `shown` prints the result as `/configz` does.
//! Corresponds to pkg/scheduler/apis/config with its v1, validation and scheme packages.

pub mod strict;
pub mod plugin_sets;
pub mod default_plugins;
pub mod args;
pub mod profile;
pub mod extender;
pub mod shown;

use crate::features::{Features, GATED_PLUGINS, STORAGE_CAPACITY_SCORING};
use args::VolumeBindingArgs;
use extender::Extender;
use profile::{DEFAULT_SCHEDULER, ProfileConfiguration};
use proto::meta::status::FieldError;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The fields of the file that have no flag.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Configuration {
    pub parallelism: i32,
    /// Percentage of feasible nodes that are enough; 0 for a part that shrinks with the cluster.
    pub percentage_of_nodes_to_score: Option<i32>,
    pub pod_initial_backoff_seconds: i64,
    pub pod_max_backoff_seconds: i64,
    pub delay_cache_until_active: bool,
    pub enable_profiling: bool,
    pub enable_contention_profiling: bool,
    pub profiles: Vec<ProfileConfiguration>,
    pub extenders: Vec<Extender>,
    /// Gates of the command line.
    #[serde(skip)]
    pub features: Features,
}

impl Default for Configuration {
    fn default() -> Self {
        Self {
            parallelism: 16,
            percentage_of_nodes_to_score: Some(0),
            pod_initial_backoff_seconds: 1,
            pod_max_backoff_seconds: 10,
            delay_cache_until_active: false,
            enable_profiling: true,
            enable_contention_profiling: true,
            profiles: vec![ProfileConfiguration::with_defaults(DEFAULT_SCHEDULER)],
            extenders: Vec::new(),
            features: Features::default(),
        }
    }
}

const VOLUME_BINDING: &str = "VolumeBinding";

/// Fields of the file that are read and checked here.
pub const OWN_FIELDS: [&str; 9] = [
    "parallelism",
    "percentageOfNodesToScore",
    "podInitialBackoffSeconds",
    "podMaxBackoffSeconds",
    "delayCacheUntilActive",
    "enableProfiling",
    "enableContentionProfiling",
    "profiles",
    "extenders",
];

impl Configuration {
    /// Reads the fields of a file for a scheduler with the default gates, or returns everything that is wrong with it.
    pub fn read(fields: &BTreeMap<&'static str, Value>) -> Result<Self, Vec<String>> {
        Self::read_for(fields, Features::default())
    }

    /// Reads the fields of a file for a scheduler with these gates, or returns everything that is wrong with it.
    pub fn read_for(fields: &BTreeMap<&'static str, Value>, features: Features) -> Result<Self, Vec<String>> {
        let (mut read, mut errors) = (Self::default(), Vec::new());
        set(fields, "parallelism", &mut read.parallelism, &mut errors);
        set(fields, "percentageOfNodesToScore", &mut read.percentage_of_nodes_to_score, &mut errors);
        set(fields, "podInitialBackoffSeconds", &mut read.pod_initial_backoff_seconds, &mut errors);
        set(fields, "podMaxBackoffSeconds", &mut read.pod_max_backoff_seconds, &mut errors);
        set(fields, "delayCacheUntilActive", &mut read.delay_cache_until_active, &mut errors);
        set(fields, "enableProfiling", &mut read.enable_profiling, &mut errors);
        set(fields, "enableContentionProfiling", &mut read.enable_contention_profiling, &mut errors);
        set(fields, "extenders", &mut read.extenders, &mut errors);
        let mut profiles: Vec<Value> = Vec::new();
        set(fields, "profiles", &mut profiles, &mut errors);
        if !profiles.is_empty() {
            let one = |(at, value)| ProfileConfiguration::read(&format!("profiles[{at}]"), value, &mut errors);
            read.profiles = profiles.iter().enumerate().map(one).collect();
        }
        if let [only] = read.profiles.as_mut_slice()
            && only.scheduler_name.is_empty()
        {
            DEFAULT_SCHEDULER.clone_into(&mut only.scheduler_name);
        }
        if errors.is_empty() {
            errors.extend(read.validate(&features).iter().map(ToString::to_string));
        }
        if errors.is_empty() { Ok(read.with_features(features)) } else { Err(errors) }
    }

    /// Sets the gates, and adds the default plugins and arguments of those that are on.
    #[must_use]
    pub fn with_features(mut self, features: Features) -> Self {
        let is_on = |(_, gate, _): &&(&str, &str, i64)| features.is_on(gate);
        for (name, _, weight) in GATED_PLUGINS.iter().filter(is_on) {
            self.profiles.iter_mut().for_each(|profile| profile.plugins.multi_point.add_default(name, *weight));
        }
        if features.is_on(STORAGE_CAPACITY_SCORING) {
            self.profiles
                .iter_mut()
                .for_each(|profile| profile.complete_args(VOLUME_BINDING, VolumeBindingArgs::complete_shape));
        }
        Self { features, ..self }
    }

    /// Returns everything that is wrong.
    fn validate(&self, features: &Features) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if self.parallelism <= 0 {
            let why = "should be an integer value greater than zero";
            errors.push(FieldError::invalid("parallelism", &json!(self.parallelism), why));
        }
        let mut indices: BTreeMap<&str, usize> = BTreeMap::new();
        for (at, profile) in self.profiles.iter().enumerate() {
            let path = format!("profiles[{at}]");
            profile.validate(&path, &mut errors);
            if let Some((path, Ok(args))) = profile.given_args::<VolumeBindingArgs>(&path, VOLUME_BINDING) {
                args.validate_shape(features.is_on(STORAGE_CAPACITY_SCORING), &path, &mut errors);
            }
            if let Some(first) = indices.insert(&profile.scheduler_name, at) {
                let twice = json!(format!("profiles[{first}].schedulerName"));
                errors.push(FieldError::duplicate(format!("{path}.schedulerName"), &twice));
            }
        }
        self.validate_queue_sort(&mut errors);
        profile::validate_percentage("percentageOfNodesToScore", self.percentage_of_nodes_to_score, &mut errors);
        let (initial, most) = (self.pod_initial_backoff_seconds, self.pod_max_backoff_seconds);
        if initial <= 0 {
            errors.push(FieldError::invalid("podInitialBackoffSeconds", &json!(initial), "must be greater than 0"));
        }
        if most < initial {
            let why = "must be greater than or equal to PodInitialBackoffSeconds";
            errors.push(FieldError::invalid("podMaxBackoffSeconds", &json!(most), why));
        }
        extender::validate(&self.extenders, &mut errors);
        errors
    }

    /// Checks that all profiles order the one queue alike.
    fn validate_queue_sort(&self, errors: &mut Vec<FieldError>) {
        let Some((first, others)) = self.profiles.split_first() else { return };
        let sort = &first.plugins.queue_sort;
        if sort.enabled.len() > 1 {
            let why = "only one queue sort plugin can be enabled";
            errors.push(FieldError::invalid("profiles[0].plugins.queueSort.Enabled", &json!(sort.enabled.len()), why));
        }
        let args = sort.enabled.first().map(|plugin| (plugin.name.as_str(), first.args_of(&plugin.name)));
        for (at, profile) in others.iter().enumerate() {
            let path = format!("profiles[{}]", at + 1);
            let other = &profile.plugins.queue_sort;
            if other != sort {
                let why = "queueSort must be the same for all profiles";
                errors.push(FieldError::invalid(format!("{path}.plugins.queueSort"), &json!(other), why));
            }
            let Some((name, _)) = args.filter(|(name, args)| profile.args_of(name) != *args) else { continue };
            let at = profile.plugin_config.iter().position(|config| config.name == name);
            let index = at.map(|at| format!("[{at}]")).unwrap_or_default();
            let why = "queueSort args must be the same for all profiles";
            errors.push(FieldError::invalid(format!("{path}.pluginConfig{index}.args"), profile.args_of(name), why));
        }
    }

    /// Returns the fields that ask for something that this scheduler does not do.
    ///
    /// Deviation: nodes are judged by one thread, whatever `parallelism` says. A scheduler fills its caches when it begins to
    /// lead, as with `delayCacheUntilActive: true`. There are no pages of Go's profiles.
    pub fn without_effect(fields: &BTreeMap<&'static str, Value>) -> impl Iterator<Item = &'static str> {
        let ignored = [
            ("parallelism", None),
            ("delayCacheUntilActive", Some(true)),
            ("enableProfiling", Some(false)),
            ("enableContentionProfiling", Some(false)),
        ];
        let is_done = |(name, done): &(&str, Option<bool>)| fields.get(name).and_then(Value::as_bool) == *done;
        let given = ignored.into_iter().filter(|(name, _)| fields.contains_key(name));
        let asked = given.filter(|field| field.1.is_none() || !is_done(field)).map(|(name, _)| name);
        asked.collect::<Vec<_>>().into_iter()
    }
}

/// Replaces a default by the field of the file, if that has one.
fn set<T: DeserializeOwned + Serialize>(
    fields: &BTreeMap<&'static str, Value>,
    name: &'static str,
    place: &mut T,
    errors: &mut Vec<String>,
) {
    if let Some(value) = fields.get(name)
        && let Some(read) = strict::decode(name, value, errors)
    {
        *place = read;
    }
}

#[cfg(test)]
mod tests;
