//! Starts a server: opens the store, builds the caches, authenticators, authorizers and admission, then listens.
//!
//! Corresponds to cmd/kube-apiserver/app/server.go.

use crate::answer_memory::AnswerMemory;
use crate::bootstrap::flow_control_objects::FlowControlObjects;
use crate::bootstrap::kubernetes_service::KubernetesService;
use crate::bootstrap::plugin_registry::PluginRegistry;
use crate::bootstrap::storage_versions::StorageVersions;
use crate::bootstrap::{self, Bootstrap, roles};
use crate::config::{Config, DEFAULT_SECURE_PORT, StoreKind};
use crate::cors::{Cors, OriginError};
use crate::files::{FileError, Files};
use crate::metrics::{self, Metrics};
use crate::served_documents::ServedDocuments;
use crate::server::{Access, Lifecycle, Records, Server, Upstreams};
use crate::snapshot::{self, Snapshot, SnapshotError};
use crate::{pipeline, runtime_config, serving_certificate, upkeep};
use access::authn::cluster_authentication_info::ClusterAuthenticationInfo;
use access::authz;
use access::authz::Authorization;
use access::authz::objects::{AuthorizerCaches, AuthorizerObjects};
use admission::Chain;
use admission::chain::{self, PluginError};
use admission::configuration::PluginConfigurations;
use admission::parts::PluginParts;
use cacher::Cacher;
use component_base::env::Env;
use component_base::health_metrics::HealthMetrics;
use component_base::network::{HttpService, Network};
use component_base::options::{OptionsError, ServingOptions};
use component_base::serving::SecureServer;
use component_base::tls::TlsError;
use component_base::zpages::ZPages;
use extension::aggregation;
use extension::aggregation::Aggregation;
use extension::crd;
use flow_control::FlowControl;
use proto::resources::Catalogue;
use registry::post_start::{Hook, PostStartHooks};
use registry::row::{Row, key_prefix};
use registry::upkeep::Upkeep;
use registry::{Registry, key_change};
use remote::clients::Clients;
use request::trace::RequestTraces;
use std::convert::Infallible;
use std::sync::Arc;
use storage::Storage;
use storage::embedded::Embedded;
use storage::etcd::Etcd;
use storage::etcd::grpc::EtcdTls;
use storage::memory::Memory;
use storage::metered::Metered;
use strategy::allocation;
use strategy::allocation::ServiceNetwork;
use strategy::gates::Gates;
use tokio_util::sync::CancellationToken;

/// Host name of a simulated server in the in-process network.
const IN_PROCESS_NAME: &str = "apiserver";

/// A failed start. The text is one line, for the terminal.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Options(#[from] OptionsError),
    #[error(transparent)]
    Files(#[from] FileError),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error(transparent)]
    Store(#[from] storage::embedded::OpenError),
    #[error(transparent)]
    Etcd(#[from] storage::etcd::cluster::OpenError),
    #[error("{0}")]
    StoreFlags(String),
    #[error("{0}")]
    NodePorts(String),
    #[error("{0}")]
    ServiceRanges(String),
    #[error(transparent)]
    RuntimeConfig(#[from] runtime_config::SwitchError),
    #[error(transparent)]
    Origins(#[from] OriginError),
    #[error("--{0}")]
    Plugins(#[from] PluginError),
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    #[error("{0}")]
    Stopped(storage::Error),
}

/// Restores a snapshot into the empty store of a server that does not run.
pub async fn restore(config: &Config, env: &Env, snapshot: &Snapshot) -> Result<(), Error> {
    let storage = open_store(config, env, &config.etcd.tls()?).await?;
    let restored = snapshot.restore(storage.as_ref()).await;
    storage.close().await;
    Ok(restored?)
}

/// A server without a listener.
#[derive(Clone)]
pub struct ApiServer {
    pub service: HttpService,
    pub server: Arc<Server>,
}

/// The settings of a server, read from its flags and files. Errors in them are found before anything is created.
struct Settings {
    config: Config,
    files: Files,
    catalogue: Arc<Catalogue>,
    served: Arc<Catalogue>,
    service_network: ServiceNetwork,
    cors: Cors,
    gates: Gates,
}

impl Settings {
    fn read(config: Config, env: &Env) -> Result<Self, Error> {
        let (catalogue, gates) = (Catalogue::complete(), Gates::new(config.original.enabled_gates()));
        config.store_kind().map_err(Error::StoreFlags)?;
        allocation::check_ranges(&config.service_cluster_ip_range).map_err(Error::ServiceRanges)?;
        runtime_config::check(&config.runtime_config, config.enable_priority_and_fairness)?;
        Ok(Self {
            served: runtime_config::served(&catalogue, &config.runtime_config, &gates)?,
            service_network: ServiceNetwork::new(
                &config.service_cluster_ip_range,
                allocation::parse_ports(&config.service_node_port_range).map_err(Error::NodePorts)?,
            ),
            cors: Cors::new(&config.cors_allowed_origins)?,
            files: Files::read(&config, env)?,
            catalogue,
            config,
            gates,
        })
    }
}

/// Opens the store and assembles a server on it. The server answers at once, and is ready a little later.
async fn service(mut settings: Settings, env: Env) -> Result<ApiServer, Error> {
    let storage = open_store(&settings.config, &env, &settings.files.etcd_tls).await?;
    match settings.files.snapshot.take() {
        Some(snapshot) => snapshot.restore(storage.as_ref()).await?,
        None => snapshot::check(storage.as_ref()).await?,
    }
    assemble(settings, env, storage)
}

async fn open_store(config: &Config, env: &Env, tls: &EtcdTls) -> Result<Arc<dyn Storage>, Error> {
    Ok(match config.store_kind().map_err(Error::StoreFlags)? {
        StoreKind::Memory => Memory::new(env),
        StoreKind::Embedded => Embedded::open(env, &config.data_dir).await?,
        StoreKind::Etcd => Etcd::open(env, &config.etcd, tls).await?,
    })
}

/// Assembles a server on a store that the caller has opened, for tests: one with faults, or one shared by two servers.
pub fn service_on(config: Config, env: Env, storage: Arc<dyn Storage>) -> Result<ApiServer, Error> {
    let settings = Settings::read(config, &env)?;
    assemble(settings, env, storage)
}

/// Builds the parts of a server, and starts its background loops.
fn assemble(settings: Settings, env: Env, storage: Arc<dyn Storage>) -> Result<ApiServer, Error> {
    let Settings { config, files, catalogue, served, service_network, cors, gates } = settings;
    let Files { encryption, clients, authentication, .. } = files;
    let names = catalogue.rows().iter().filter_map(|row| {
        let stored = row.storage_version();
        Some((key_prefix(row)?, (stored.group.to_string(), stored.resource.to_string())))
    });
    let storage: Arc<dyn Storage> = Metered::new(&env, storage, names);
    let registry = Registry::new(&env, storage.clone(), encryption.clone(), catalogue.clone(), service_network, gates);
    let registry = Arc::new(registry);
    // What stands behind a gate has no watch cache unless it is served.
    for resource in catalogue.rows().iter().filter(|row| row.gate.is_none() || served.serves(row)) {
        if let Some(row) = registry.start_row(resource.clone(), crd::strategies::of(resource)) {
            registry.add_row(Arc::new(Row { event_ttl: config.event_ttl, ..row }));
        }
    }
    if config.encryption_provider_config_automatic_reload {
        env.spawn(key_change::run(env.clone(), encryption, registry.clone()));
    }
    let objects = Arc::new(AuthorizerObjects::new(authorizer_caches(&registry)));
    let authorization = Authorization::new(files.authorizers, objects, roles::node_rules(&registry.gates));
    let authorization = Arc::new(authorization.with_policies(files.policies));
    if let Some(path) = &config.authorization.authorization_config {
        env.spawn(authz::reload::run(env.clone(), path.clone(), authorization.clone()));
    }
    registry.set_authorization(authorization.clone());
    metrics::register_object_counts(&env, &registry);
    registry.set_admission(admission_chain(&config, &env, &registry, &authorization, &clients, &files.plugins)?);
    // Every resource that the server itself needs has been looked up by now.
    registry.catalogue.store(served.clone());
    let base = served.clone();
    let flow_control = flow_control(&config, &env);
    let hooks = Arc::new(PostStartHooks::of(&served, flow_control.fairness().is_some()));
    let authentication = Arc::new(authentication);
    let metrics = Metrics::register(&env, config.original.version());
    let kubernetes_service = KubernetesService::new(&config, &authentication, storage.clone());
    let server = Arc::new(Server {
        access: Access { authentication, authorization },
        flow_control,
        records: Records {
            metrics,
            audit: files.audit,
            request_traces: config.enable_request_trace.then(RequestTraces::default),
            request_ids: env.random("apiserver/requests"),
            health_metrics: HealthMetrics::default(),
            zpages: ZPages::of(&env, &config.original),
        },
        upstreams: Upstreams { node_agents: files.node_agents, aggregation: Arc::new(Aggregation::new(clients)) },
        lifecycle: Lifecycle { hooks, ending: CancellationToken::new(), bootstrap_ended: CancellationToken::new() },
        documents: ServedDocuments::new(served),
        answer_memory: AnswerMemory::default(),
        cors,
        random: env.random("apiserver"),
        registry,
        storage,
        config,
        env: env.clone(),
    });
    start_loops(&server, base, files.cluster_authentication_info, kubernetes_service);
    let shared = server.clone();
    let service = HttpService::new(tower::service_fn(move |request| {
        let server = shared.clone();
        async move { Ok::<_, Infallible>(pipeline::serve(server, request).await) }
    }));
    Ok(ApiServer { service, server })
}

/// Builds the admission chain that the flags select.
fn admission_chain(
    config: &Config,
    env: &Env,
    registry: &Arc<Registry>,
    authorization: &Arc<Authorization>,
    clients: &Arc<Clients>,
    configurations: &PluginConfigurations,
) -> Result<Chain, PluginError> {
    let plugin_registry = Arc::new(PluginRegistry(Arc::downgrade(registry)));
    let parts = PluginParts {
        env,
        webhooks: ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"]
            .map(|resource| builtin_cacher(registry, "admissionregistration.k8s.io", resource)),
        clients,
        authorization,
        toleration_seconds: [
            config.default_not_ready_toleration_seconds,
            config.default_unreachable_toleration_seconds,
        ],
        configurations,
        namespaces: plugin_registry.clone(),
        kinds: plugin_registry,
        nodes_declare_features: registry.gates.is_on("NodeDeclaredFeatures"),
        pod_groups_have_priorities: registry.gates.is_on("WorkloadAwarePreemption"),
    };
    chain::chain(&config.enable_admission_plugins, &config.disable_admission_plugins, &parts)
}

/// Starts the background loops of a server. `base` is the catalogue of the built-in resources that are served.
fn start_loops(
    server: &Server,
    base: Arc<Catalogue>,
    cluster_authentication_info: ClusterAuthenticationInfo,
    kubernetes_service: KubernetesService,
) {
    let env = &server.env;
    let authentication = server.access.authentication.clone();
    let Lifecycle { hooks, ending, bootstrap_ended } = &server.lifecycle;
    // The caches run, and admission is set.
    hooks.finished(Hook::StartInformers);
    hooks.finished(Hook::AdmissionInitializer);
    let upkeep =
        Upkeep { env: env.clone(), registry: server.registry.clone(), hooks: hooks.clone(), ending: ending.clone() };
    let bootstrap = Bootstrap {
        upkeep: upkeep.clone(),
        cluster_authentication_info,
        flow_control_objects: FlowControlObjects::default(),
        kubernetes_service,
        storage_versions: StorageVersions::new(&server.config),
        ended: bootstrap_ended.clone(),
    };
    if let Some(path) = server.config.issuers.authentication_config.clone() {
        let config = server.config.clone();
        env.spawn(upkeep::authentication_reload::run(env.clone(), config, authentication.clone(), path));
    }
    env.spawn(upkeep::legacy_token_use::run(upkeep.clone(), authentication));
    env.spawn(bootstrap.run());
    if let Some(fairness) = server.flow_control.fairness() {
        env.spawn(flow_control::controller::run(upkeep.clone(), fairness.clone()));
    }
    env.spawn(aggregation::registration::run(upkeep.clone(), base.clone()));
    env.spawn(aggregation::table::run(upkeep.clone(), server.upstreams.aggregation.clone()));
    env.spawn(aggregation::availability::run(upkeep.clone(), server.upstreams.aggregation.clone()));
    env.spawn(crd::serving::run(upkeep.clone(), server.upstreams.aggregation.clients.clone(), base));
    let first_round = move || upkeep.hooks.finished(Hook::ServiceIpRepair);
    env.spawn(registry::repair::run(server.registry.clone(), first_round));
}

fn flow_control(config: &Config, env: &Env) -> FlowControl {
    let (reads, writes) = (config.max_requests_inflight, config.max_mutating_requests_inflight);
    if config.enable_priority_and_fairness && reads + writes > 0 {
        FlowControl::fair(env, reads + writes)
    } else {
        FlowControl::max_in_flight(reads, writes)
    }
}

fn builtin_cacher(registry: &Registry, group: &str, resource: &str) -> Cacher {
    registry.row_of(group, resource).expect("the built-in table has this row").1.cacher.clone()
}

fn authorizer_caches(registry: &Registry) -> AuthorizerCaches {
    let cacher = |group: &str, resource: &str| builtin_cacher(registry, group, resource);
    let rbac = "rbac.authorization.k8s.io";
    AuthorizerCaches {
        cluster_roles: cacher(rbac, "clusterroles"),
        roles: cacher(rbac, "roles"),
        cluster_role_bindings: cacher(rbac, "clusterrolebindings"),
        role_bindings: cacher(rbac, "rolebindings"),
        pods: cacher("", "pods"),
        persistent_volumes: cacher("", "persistentvolumes"),
        volume_attachments: cacher("storage.k8s.io", "volumeattachments"),
    }
}

/// Serves until shutdown: over TLS, or on the in-process network of a simulation.
pub async fn run(config: Config, env: Env) -> Result<(), Error> {
    config.original.warn();
    let address = config.serving.address(DEFAULT_SECURE_PORT);
    let delay = config.shutdown_delay_duration;
    match env.network() {
        Network::InProcess(network) => {
            let api = service(Settings::read(config, &env)?, env.clone()).await?;
            let port = address.map_or(DEFAULT_SECURE_PORT, |a| a.port());
            let authority = format!("{IN_PROCESS_NAME}:{port}");
            network.register(&authority, api.service);
            env.shutdown().cancelled().await;
            network.remove(&authority);
            Ok(())
        }
        Network::Sockets => {
            // The listener and the server go on for a while after the shutdown has begun.
            let (serving_env, inner) = (env.detached(), env.detached());
            let settings = Settings::read(config.clone(), &inner)?;
            let tls = match &settings.files.tls {
                Some(tls) => tls.clone(),
                None => serving_certificate::self_signed(&config, &env, &settings.files.authorities)?,
            };
            let listener = match address {
                Some(address) => ServingOptions::listen(address).await?,
                None => return Err(Error::Options(OptionsError::NoCertificate)),
            };
            let secure = SecureServer::new(listener, &tls)?;
            let (files, system) = (serving_certificate::files(&config), env.clone());
            let secure = secure.following(files, move || serving_certificate::tls(&config, &system));
            let started = tokio::select! {
                biased;
                () = env.shutdown().cancelled() => None,
                api = service(settings, inner.clone()) => Some(api?),
            };
            let Some(ApiServer { service, server }) = started else {
                inner.drain().await;
                return Ok(());
            };
            let storage = server.storage.clone();
            let serve = secure.serve(&serving_env, service);
            let end = async {
                env.shutdown().cancelled().await;
                server.lifecycle.ending.cancel();
                let _ = env.timeout(bootstrap::LEAVE_LIMIT, server.lifecycle.bootstrap_ended.cancelled()).await;
                env.sleep(delay).await;
                // Watches end when the caches do. A connection ends when its last request is answered.
                serving_env.shutdown().cancel();
                inner.shutdown().cancel();
            };
            let serve_to_the_end = async { tokio::join!(serve, end) };
            tokio::select! {
                biased;
                stopped = storage.stopped() => return Err(Error::Stopped(stopped)),
                _ = serve_to_the_end => {}
            }
            serving_env.drain().await;
            inner.drain().await;
            if let Some(audit) = &server.records.audit {
                audit.close().await;
            }
            // Nothing writes any more. Closing flushes the accepted writes and releases the lock.
            storage.close().await;
            Ok(())
        }
    }
}
