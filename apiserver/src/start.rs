//! Starting a server: the store, a cache per row, authenticators, authorizers, admission; then the listener.
//!
//! Corresponds to cmd/kube-apiserver/app/server.go.

use crate::admission::chain::{self, PluginError};
use crate::authn::Authentication;
use crate::authn::service_account::{KeyError, ServiceAccountTokens};
use crate::authn::token_file::{TokenFile, TokenFileError};
use crate::authn::trust::Trust;
use crate::authz::abac::{self, PolicyFileError};
use crate::authz::policy::{PolicyRows, PolicySource};
use crate::authz::{Authorization, Mode};
use crate::bootstrap::{self, roles};
use crate::config::{Config, DEFAULT_SECURE_PORT, StoreKind};
use crate::cors::{Cors, OriginError};
use crate::crd;
use crate::flow_control::FlowControl;
use crate::metrics::{self, Metrics};
use crate::node_agents::NodeAgents;
use crate::openapi::Documents;
use crate::registry::allocation::{self, ServiceNetwork};
use crate::registry::row::{Row, key_prefix};
use crate::registry::{Registry, strategies};
use crate::server::Server;
use crate::snapshot::{self, Snapshot, SnapshotError};
use crate::storage::embedded::Embedded;
use crate::storage::etcd::Etcd;
use crate::storage::memory::Memory;
use crate::storage::metered::Metered;
use crate::storage::{self, Storage};
use crate::{pipeline, runtime_config, serving_certificate, version};
use arc_swap::ArcSwap;
use component_base::env::Env;
use component_base::fixtures;
use component_base::network::{HttpService, Network};
use component_base::options::{OptionsError, ServingOptions, read_file};
use component_base::serving::SecureServer;
use component_base::tls::TlsError;
use proto::resources::Catalogue;
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tokio_util::sync::CancellationToken;

/// The authority under which a simulated server is found in process.
const IN_PROCESS_NAME: &str = "apiserver";

/// One clear line each.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Options(#[from] OptionsError),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error("--token-auth-file: {0}")]
    TokenFile(#[from] TokenFileError),
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error(transparent)]
    Store(#[from] storage::embedded::OpenError),
    #[error(transparent)]
    Etcd(#[from] storage::etcd::cluster::OpenError),
    #[error("--authorization-policy-file: {}: {source}", path.display())]
    Policies { path: PathBuf, source: PolicyFileError },
    #[error("{0}")]
    StoreFlags(String),
    #[error("{0}")]
    NodePorts(String),
    #[error("--runtime-config: {0}")]
    RuntimeConfig(#[from] runtime_config::UnknownGroup),
    #[error(transparent)]
    Origins(#[from] OriginError),
    #[error("--{0}")]
    Plugins(#[from] PluginError),
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    #[error("--restore: {}: {source}", path.display())]
    SnapshotFile { path: PathBuf, source: SnapshotError },
    #[error("{0}")]
    Stopped(storage::Error),
}

/// Fills the empty store of a server that does not run.
pub async fn restore(config: &Config, env: &Env, snapshot: &Snapshot) -> Result<(), Error> {
    let storage = open_store(config, env).await?;
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

/// Puts a server together and starts what it does by itself. It answers at once and is ready a little later.
pub async fn service(config: Config, env: Env) -> Result<ApiServer, Error> {
    let storage = open_store(&config, &env).await?;
    match &config.restore {
        Some(path) => read_snapshot(path)?.restore(storage.as_ref()).await?,
        None => snapshot::check(storage.as_ref()).await?,
    }
    service_on(config, env, storage)
}

fn read_snapshot(path: &Path) -> Result<Snapshot, Error> {
    let file = std::fs::read(path);
    let file = file.map_err(|source| OptionsError::Unreadable { flag: "restore", path: path.to_owned(), source })?;
    Snapshot::parse(&file.into()).map_err(|source| Error::SnapshotFile { path: path.to_owned(), source })
}

async fn open_store(config: &Config, env: &Env) -> Result<Arc<dyn Storage>, Error> {
    Ok(match config.store_kind().map_err(Error::StoreFlags)? {
        StoreKind::Memory => Memory::new(env),
        StoreKind::Embedded => Embedded::open(env, &config.data_dir).await?,
        StoreKind::Etcd => Etcd::open(env, &config.etcd, &config.etcd.tls()?).await?,
    })
}

/// The same on a store of one's own: a fault engine, one shared by two servers.
pub fn service_on(config: Config, env: Env, storage: Arc<dyn Storage>) -> Result<ApiServer, Error> {
    let catalogue = Catalogue::builtin();
    let served = runtime_config::served(&catalogue, &config.runtime_config)?;
    let service_network = ServiceNetwork {
        range: config.service_cluster_ip_range,
        node_ports: allocation::parse_ports(&config.service_node_port_range).map_err(Error::NodePorts)?,
    };
    let names = catalogue.rows().iter().filter_map(|row| {
        let stored = row.storage_version();
        Some((key_prefix(row)?, (stored.group.to_string(), stored.resource.to_string())))
    });
    let storage: Arc<dyn Storage> = Metered::new(&env, storage, names);
    let registry = Arc::new(Registry::new(&env, storage.clone(), catalogue.clone(), service_network));
    for resource in catalogue.rows() {
        if let Some(row) = Row::start(&env, &storage, resource.clone(), strategies::of(resource)) {
            registry.add_row(Arc::new(Row { event_ttl: config.event_ttl, ..row }));
        }
    }
    let source = Arc::new(PolicySource::new(policy_rows(&registry)));
    let authorization = Authorization::new(&config.authorization_mode, source, roles::node_rules());
    let authorization = Arc::new(authorization.with_policies(policies(&config)?));
    registry.set_content_authorizer(authorization.clone());
    let parts = chain::Parts { env: &env, authorization: &authorization, config: &config };
    metrics::show_objects(&env, &registry);
    registry.set_admission(chain::chain(&config.enable_admission_plugins, &config.disable_admission_plugins, &parts)?);
    // What the server itself needs has been looked up by now.
    registry.catalogue.store(served.clone());
    let base = served.clone();
    let documents = Arc::new(Documents::new(served.clone(), version::GIT_VERSION));
    serving_certificate::check_proxy_client(&config)?;
    let authentication = authentication(&config, &env)?;
    let server = Arc::new(Server {
        trust: trust(&config, &authentication)?,
        authentication,
        flow_control: FlowControl::new(config.max_requests_inflight, config.max_mutating_requests_inflight),
        node_agents: NodeAgents::new(&env, &config.node_agents)?,
        metrics: Metrics::register(&env),
        random: env.random("apiserver"),
        request_ids: env.random("apiserver/requests"),
        cors: Cors::new(&config.cors_allowed_origins)?,
        bootstrapped: AtomicBool::new(false),
        custom_resources_served: AtomicBool::new(false),
        ending: CancellationToken::new(),
        left: CancellationToken::new(),
        openapi: ArcSwap::from_pointee((served, documents)),
        authorization,
        registry,
        config,
        env: env.clone(),
    });
    env.spawn(bootstrap::run(server.clone()));
    env.spawn(crd::serving::run(server.clone(), base));
    env.spawn(allocation::repair::run(server.registry.clone()));
    let shared = server.clone();
    let service = HttpService::new(tower::service_fn(move |request| {
        let server = shared.clone();
        async move { Ok::<_, Infallible>(pipeline::serve(server, request).await) }
    }));
    Ok(ApiServer { service, server })
}

fn policy_rows(registry: &Registry) -> PolicyRows {
    let cacher = |group: &str, resource: &str| {
        registry.row_of(group, resource).expect("the built-in table has this row").1.cacher.clone()
    };
    let rbac = "rbac.authorization.k8s.io";
    PolicyRows {
        cluster_roles: cacher(rbac, "clusterroles"),
        roles: cacher(rbac, "roles"),
        cluster_role_bindings: cacher(rbac, "clusterrolebindings"),
        role_bindings: cacher(rbac, "rolebindings"),
        pods: cacher("", "pods"),
        persistent_volumes: cacher("", "persistentvolumes"),
        volume_attachments: cacher("storage.k8s.io", "volumeattachments"),
    }
}

/// The policies of the ABAC authorizer: a file, exactly where it is asked for.
fn policies(config: &Config) -> Result<Vec<abac::Policy>, Error> {
    const FLAG: &str = "authorization-policy-file";
    let wants = config.authorization_mode.contains(&Mode::Abac);
    match &config.authorization_policy_file {
        Some(path) if wants => {
            let parsed = abac::parse(&read_file(FLAG, path)?);
            parsed.map_err(|source| Error::Policies { path: path.clone(), source })
        }
        Some(_) => Err(invalid(FLAG, "cannot be specified without --authorization-mode=ABAC")),
        None if wants => Err(invalid(FLAG, "needed by --authorization-mode=ABAC")),
        None => Ok(Vec::new()),
    }
}

fn invalid(flag: &'static str, message: &str) -> Error {
    Error::Options(OptionsError::Invalid { flag, message: message.to_owned() })
}

fn trust(config: &Config, authentication: &Authentication) -> Result<Trust, OptionsError> {
    let read = |flag, path: &Option<PathBuf>| path.as_ref().map(|path| read_file(flag, path)).transpose();
    let proxies = &config.request_headers.requestheader_client_ca_file;
    Ok(Trust {
        client_ca: read("client-ca-file", &config.serving.client_ca_file)?,
        proxy_ca: read("requestheader-client-ca-file", proxies)?,
        request_headers: authentication.request_headers.clone(),
    })
}

/// Simulations use fixed keys, so that equal seeds sign equal tokens.
fn authentication(config: &Config, env: &Env) -> Result<Authentication, Error> {
    if config.service_account_signing_endpoint.is_some() {
        let message = "signers outside of this process are not supported; give --service-account-signing-key-file";
        return Err(invalid("service-account-signing-endpoint", message));
    }
    let token_file = match &config.token_auth_file {
        Some(path) => TokenFile::parse(&read_file("token-auth-file", path)?)?,
        None => TokenFile::default(),
    };
    let key = match &config.service_account_signing_key_file {
        Some(path) => Some(read_file("service-account-signing-key-file", path)?),
        None if env.is_simulated() => Some(fixtures::serving().key_pem),
        None => None,
    };
    let mut further = Vec::new();
    for path in &config.service_account_key_file {
        further.push(read_file("service-account-key-file", path)?);
    }
    let tokens =
        key.map(|key| ServiceAccountTokens::new(&key, &further, &config.service_account_issuer, config.audiences()));
    let tokens = tokens.transpose()?.map(|tokens| tokens.lookup(config.service_account_lookup));
    let authentication = Authentication::new(token_file, tokens, config.anonymous_auth);
    Ok(authentication.behind(config.request_headers.authenticator()?))
}

/// Serves until shutdown: over TLS, or in a simulation in process.
pub async fn run(config: Config, env: Env) -> Result<(), Error> {
    config.original.warn();
    // Everything that can be wrong with the flags is found before the store is touched.
    let address = config.serving.address(DEFAULT_SECURE_PORT);
    let delay = config.shutdown_delay_duration;
    match env.network() {
        Network::InProcess(network) => {
            let api = service(config, env.clone()).await?;
            let port = address.map_or(DEFAULT_SECURE_PORT, |a| a.port());
            let authority = format!("{IN_PROCESS_NAME}:{port}");
            network.register(&authority, api.service);
            env.shutdown().cancelled().await;
            network.remove(&authority);
            Ok(())
        }
        Network::Sockets => {
            let tls = serving_certificate::tls(&config, &env)?;
            let listener = match address {
                Some(address) => ServingOptions::listen(address).await?,
                None => return Err(Error::Options(OptionsError::NoCertificate)),
            };
            let secure = SecureServer::new(listener, &tls)?;
            // What serves, and what it needs, ends after readiness does.
            let serving_env = env.detached();
            let inner = env.detached();
            let started = tokio::select! {
                biased;
                () = env.shutdown().cancelled() => None,
                api = service(config, inner.clone()) => Some(api?),
            };
            let Some(ApiServer { service, server }) = started else {
                inner.drain().await;
                return Ok(());
            };
            let storage = server.registry.storage.clone();
            let serve = secure.serve(&serving_env, service);
            let end = async {
                env.shutdown().cancelled().await;
                server.ending.cancel();
                let _ = env.timeout(bootstrap::LEAVE_LIMIT, server.left.cancelled()).await;
                env.sleep(delay).await;
                // Watches end with the caches, and connections with the last of what they carry.
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
            // Nobody writes any more: what was accepted is flushed, and the lock is free when the process ends.
            storage.close().await;
            Ok(())
        }
    }
}
