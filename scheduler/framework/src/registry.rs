//! `Registry`, the plugins that a configuration may name. Other crates add their own.
//!
//! Corresponds to Registry of pkg/scheduler/framework/runtime and to WithPlugin of cmd/kube-scheduler/app.

use super::waiting_pods::WaitingPods;
use super::{Features, PodGroups, Points};
use client::{Client, Informers};
use component_base::env::Env;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Makes a plugin from its arguments in the profile; null without any.
pub type Factory = Arc<dyn Fn(&Value) -> Result<Points, String> + Send + Sync>;

/// Adds the plugins of another crate. It runs before the informers start, so that they watch what the plugins read.
pub type Register = Arc<dyn Fn(&Handle<'_>, &mut Registry) + Send + Sync>;

/// What plugins may keep: caches, a client, the environment, the pods that wait in Permit and the groups of pods.
pub struct Handle<'a> {
    pub client: &'a Client,
    pub informers: &'a Informers,
    pub env: &'a Env,
    pub waiting_pods: &'a WaitingPods,
    pub pod_groups: &'a PodGroups,
    pub features: &'a Features,
}

/// Factories by the name of their plugin. A factory runs for each profile that has the plugin, and again when the
/// configuration changes.
#[derive(Clone, Default)]
pub struct Registry(BTreeMap<&'static str, Factory>);

impl Registry {
    /// Adds a plugin. A later one of the same name replaces an earlier one.
    pub fn add(
        &mut self,
        name: &'static str,
        factory: impl Fn(&Value) -> Result<Points, String> + Send + Sync + 'static,
    ) {
        self.0.insert(name, Arc::new(factory));
    }

    pub fn get(&self, name: &str) -> Option<&Factory> {
        self.0.get(name)
    }
}
