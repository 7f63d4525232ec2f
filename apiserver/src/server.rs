//! `Server`: the parts of one API server that its requests share, grouped by their users.
//!
//! Corresponds to cmd/kube-apiserver/app/server.go and pkg/controlplane/apiserver.

use crate::answer_memory::AnswerMemory;
use crate::audit::Audit;
use crate::config::{Config, DEFAULT_SECURE_PORT};
use crate::cors::Cors;
use crate::metrics::Metrics;
use crate::node_agents::NodeAgents;
use crate::request_log::RequestLog;
use crate::served_documents::{AggregatedDiscovery, ServedDocuments};
use access::authn::Authentication;
use access::authz::Authorization;
use component_base::env::Env;
use component_base::health_metrics::HealthMetrics;
use component_base::rng::Random;
use component_base::zpages::ZPages;
use extension::aggregation::Aggregation;
use flow_control::FlowControl;
use openapi::Documents;
use registry::Registry;
use registry::post_start::{Milestone, PostStartHooks};
use request::trace::RequestTraces;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use storage::Storage;
use tokio_util::sync::CancellationToken;

/// One API server: the parts that its requests share.
pub struct Server {
    pub(crate) env: Env,
    pub(crate) config: Config,
    pub(crate) registry: Arc<Registry>,
    /// The store below the registry. Snapshots read it directly.
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) access: Access,
    pub(crate) flow_control: FlowControl,
    pub(crate) records: Records,
    pub(crate) upstreams: Upstreams,
    pub(crate) lifecycle: Lifecycle,
    pub(crate) documents: ServedDocuments,
    pub(crate) answer_memory: AnswerMemory,
    pub(crate) cors: Cors,
    pub(crate) random: Random,
}

/// Authenticates and authorizes requests.
pub(crate) struct Access {
    pub authentication: Arc<Authentication>,
    pub authorization: Arc<Authorization>,
}

/// Records requests: in metrics, in the audit log and in traces.
pub(crate) struct Records {
    pub metrics: Metrics,
    /// `None` without an audit policy.
    pub audit: Option<Arc<Audit>>,
    /// `None` without `--enable-request-trace`.
    pub request_traces: Option<RequestTraces>,
    /// Generates the audit IDs of requests that bring none.
    pub request_ids: Random,
    /// Results of health checks.
    pub health_metrics: HealthMetrics,
    pub zpages: ZPages,
}

/// Other servers, to which requests are forwarded.
pub(crate) struct Upstreams {
    pub node_agents: NodeAgents,
    /// The extension servers that APIServices name.
    pub aggregation: Arc<Aggregation>,
}

/// Progress of the server's start and of its termination.
pub(crate) struct Lifecycle {
    pub hooks: Arc<PostStartHooks>,
    /// Cancelled when the server begins to terminate: it is not ready any more, but still serves.
    pub ending: CancellationToken,
    /// Cancelled when [`crate::bootstrap`] has ended: it has given up this server's lease, and writes nothing more.
    pub bootstrap_ended: CancellationToken,
}

impl Server {
    /// Returns true if every cache follows the store, every hook has finished, and the server does not terminate.
    pub fn is_ready(&self) -> bool {
        [Milestone::Bootstrapped, Milestone::CustomResourcesServed, Milestone::ApiServicesRegistered]
            .into_iter()
            .all(|milestone| self.lifecycle.hooks.has_reached(milestone))
            && self.unready_rows().is_empty()
            && self.lifecycle.hooks.unfinished().next().is_none()
            && !self.lifecycle.ending.is_cancelled()
    }

    /// Returns the log of a simulation, if it keeps one.
    pub(crate) fn request_log(&self) -> Option<&RequestLog> {
        self.config.request_log.as_ref()
    }

    pub(crate) fn request_timeout(&self) -> Duration {
        self.config.request_timeout
    }

    /// Chooses the timeout of a watch without `timeoutSeconds`: between once and twice the minimum, so that the clients
    /// do not all reconnect at the same time.
    pub(crate) fn watch_timeout(&self) -> Duration {
        let minimum = Duration::from_secs(self.config.min_request_timeout_s);
        self.random.jitter(minimum, 1.0)
    }

    /// Returns the key prefixes of the resources whose caches have not read the store yet.
    pub(crate) fn unready_rows(&self) -> Vec<String> {
        self.registry.rows().iter().filter(|row| !row.cacher.is_ready()).map(|row| row.prefix.clone()).collect()
    }

    /// Returns why the store does not answer or a cache cannot follow it; `None` if all is well.
    pub(crate) fn store_trouble(&self) -> Option<String> {
        self.registry.trouble()
    }

    /// Returns the OpenAPI documents of the resources that are served now.
    pub(crate) fn openapi(&self) -> Arc<Documents> {
        self.documents.openapi(self.registry.catalogue.load_full())
    }

    /// Returns the aggregated discovery of what this server and aggregated API servers serve now.
    pub(crate) fn aggregated_discovery(&self) -> Arc<AggregatedDiscovery> {
        self.documents.discovery(self.registry.catalogue.load_full(), self.upstreams.aggregation.table())
    }

    /// Returns the host and port at which clients reach this server.
    pub(crate) fn advertised_address(&self) -> String {
        let port = self.config.serving.secure_port.unwrap_or(DEFAULT_SECURE_PORT);
        SocketAddr::new(self.config.advertised_ip(), port).to_string()
    }
}
