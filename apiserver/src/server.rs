//! `Server`: the parts of one API server, put together.
//!
//! Corresponds to cmd/kube-apiserver/app/server.go and pkg/controlplane/apiserver.

use crate::answer_memory::AnswerMemory;
use crate::audit::Audit;
use crate::config::{Config, RequestLog};
use crate::cors::Cors;
use crate::metrics::Metrics;
use crate::node_agents::NodeAgents;
use access::authn::Authentication;
use access::authn::cluster_authentication_info::ClusterAuthenticationInfo;
use access::authz::Authorization;
use arc_swap::ArcSwap;
use component_base::env::Env;
use component_base::rng::Random;
use component_base::version;
use extension::aggregation::Aggregation;
use flow_control::FlowControl;
use openapi::Documents;
use proto::resources::Catalogue;
use registry::Registry;
use registry::post_start::{Milestone, PostStartHooks};
use request::trace::RequestTraces;
use std::sync::Arc;
use std::time::Duration;
use storage::Storage;
use tokio_util::sync::CancellationToken;

/// Everything that requests share.
pub struct Server {
    pub env: Env,
    pub config: Config,
    pub registry: Arc<Registry>,
    /// For what is no object: the leases of servers, and snapshots.
    pub(crate) storage: Arc<dyn Storage>,
    pub authentication: Arc<Authentication>,
    pub authorization: Arc<Authorization>,
    /// What extension servers are told of whom to believe.
    pub cluster_authentication_info: ClusterAuthenticationInfo,
    /// Where there is a policy.
    pub audit: Option<Arc<Audit>>,
    /// Where requests may be traced.
    pub request_traces: Option<RequestTraces>,
    pub flow_control: FlowControl,
    pub answer_memory: AnswerMemory,
    pub node_agents: NodeAgents,
    /// What other servers serve.
    pub aggregation: Arc<Aggregation>,
    pub metrics: Metrics,
    pub random: Random,
    /// Names for requests that have none.
    pub request_ids: Random,
    pub cors: Cors,
    /// What it brings about by itself.
    pub hooks: Arc<PostStartHooks>,
    /// The end has been announced: not ready any more, still serving.
    pub ending: CancellationToken,
    /// After that: others know that this server goes, and it does not look after the cluster's own objects any more.
    pub left: CancellationToken,
    pub openapi: ArcSwap<(Arc<Catalogue>, Arc<Documents>)>,
}

impl Server {
    pub fn log(&self) -> Option<&RequestLog> {
        self.config.request_log.as_ref()
    }

    pub fn request_timeout(&self) -> Duration {
        self.config.request_timeout
    }

    /// How long a watch without `timeoutSeconds` stays open: between once and twice the minimum, so that not all of
    /// them come back at once.
    pub fn watch_timeout(&self) -> Duration {
        let least = Duration::from_secs(self.config.min_request_timeout_s);
        self.random.jitter(least, 1.0)
    }

    /// Every cache follows the store, and what a cluster begins with is there.
    pub fn is_ready(&self) -> bool {
        [Milestone::Bootstrapped, Milestone::CustomResourcesServed, Milestone::ApiServicesRegistered]
            .into_iter()
            .all(|milestone| self.hooks.has_reached(milestone))
            && self.unready_rows().is_empty()
            && self.hooks.unfinished().next().is_none()
            && !self.ending.is_cancelled()
    }

    /// The prefixes of rows that have not read the store yet.
    pub fn unready_rows(&self) -> Vec<String> {
        self.registry.rows().iter().filter(|row| !row.cacher.is_ready()).map(|row| row.prefix.clone()).collect()
    }

    /// Why the store does not answer, or what keeps a cache from following it, if anything does.
    pub fn store_trouble(&self) -> Option<String> {
        self.registry.trouble()
    }

    /// The documents of what is served now.
    pub fn openapi(&self) -> Arc<Documents> {
        let catalogue = self.registry.catalogue.load_full();
        let known = self.openapi.load();
        if Arc::ptr_eq(&known.0, &catalogue) {
            return known.1.clone();
        }
        let documents = Arc::new(Documents::new(catalogue.clone(), version::GIT_VERSION));
        self.openapi.store(Arc::new((catalogue, documents.clone())));
        documents
    }

    /// Host and port at which others reach this server.
    pub fn advertised_address(&self) -> String {
        let port = self.config.serving.secure_port.unwrap_or(crate::config::DEFAULT_SECURE_PORT);
        std::net::SocketAddr::new(self.config.advertised_ip(), port).to_string()
    }
}
