//! `PluginParts`: the parts of the server that admission plugins are built from.
//!
//! Corresponds to the plugin initializers of pkg/kubeapiserver/admission.

use crate::configuration::PluginConfigurations;
use crate::plugins::namespaces::namespace_auto_provision::Namespaces;
use crate::plugins::owner_references_permission_enforcement::Kinds;
use access::authz::Authorization;
use cacher::Cacher;
use component_base::env::Env;
use remote::clients::Clients;
use std::sync::Arc;

/// The parts of the server that plugins share.
pub struct PluginParts<'a> {
    pub env: &'a Env,
    /// Caches of MutatingWebhookConfigurations and ValidatingWebhookConfigurations.
    pub webhooks: [Cacher; 2],
    /// Connections to webhooks.
    pub clients: &'a Arc<Clients>,
    pub authorization: &'a Arc<Authorization>,
    /// Default toleration of a not-ready node and of an unreachable one, in seconds.
    pub toleration_seconds: [i64; 2],
    /// Configurations of the plugins that have one.
    pub configurations: &'a PluginConfigurations,
    pub namespaces: Arc<dyn Namespaces>,
    pub kinds: Arc<dyn Kinds>,
    /// Whether nodes declare features: the gate NodeDeclaredFeatures.
    pub nodes_declare_features: bool,
    /// True if the gate WorkloadAwarePreemption is on.
    pub pod_groups_have_priorities: bool,
}
