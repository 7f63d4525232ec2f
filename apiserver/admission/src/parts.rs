//! `PluginParts`: what admission plugins are made of.
//!
//! Corresponds to the plugin initializers of pkg/kubeapiserver/admission.

use crate::configuration::PluginConfigurations;
use crate::plugins::namespaces::namespace_auto_provision::Namespaces;
use crate::plugins::owner_references_permission_enforcement::Kinds;
use access::authz::Authorization;
use cacher::Cacher;
use component_base::env::Env;
use remote::callers::Callers;
use std::sync::Arc;

/// The parts of the server that plugins share.
pub struct PluginParts<'a> {
    pub env: &'a Env,
    /// The MutatingWebhookConfigurations and the ValidatingWebhookConfigurations.
    pub webhooks: [Cacher; 2],
    /// The connections to webhooks.
    pub callers: &'a Arc<Callers>,
    pub authorization: &'a Arc<Authorization>,
    /// How many seconds a pod tolerates a node that is not ready, and one that is not reachable.
    pub toleration_seconds: [i64; 2],
    /// Of the plugins that take any.
    pub configurations: &'a PluginConfigurations,
    pub namespaces: Arc<dyn Namespaces>,
    pub kinds: Arc<dyn Kinds>,
}
