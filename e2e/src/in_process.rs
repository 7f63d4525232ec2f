//! `InProcess`: a control plane inside this process, in virtual time, whose parts a test starts and stops.
//!
//! It injects no faults; the crate `simulator` does, and checks invariants. Tests need a runtime with one thread and a paused
//! clock.

use apiserver::ApiServer;
use apiserver::config::{Config, StoreKind};
use client::Client;
use component_base::certificate_request::Signer;
use component_base::env::Env;
use component_base::network::Network;
use controller_base::signers::names::SignerName;
use controller_base::signers::options::Signers;
use proto::gvk::{Gvk, split_api_version};
use proto::resources::Catalogue;
use serde_json::Value;
use simulator::keys;
use simulator::part::Part;
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;
use storage::memory::Memory;

/// URL of the API server.
pub const SERVER: &str = "https://apiserver:6443";
const AUTHORITY: &str = "apiserver:6443";
/// Virtual time between two checks.
const POLL_PERIOD: Duration = Duration::from_millis(100);

/// An API server, and the parts that a test starts beside it.
pub struct InProcess {
    pub env: Env,
    pub api: ApiServer,
    server: Env,
}

impl InProcess {
    /// Starts the API server alone, configured as by `orrery up` except for `config`, and waits until it is ready.
    pub async fn start(seed: u64, config: Config) -> Self {
        let env = Env::simulated(seed);
        let server = env.process("apiserver/1");
        let enable_admission_plugins = vec!["NodeRestriction".to_owned()];
        let config = Config {
            store: Some(StoreKind::Memory),
            enable_admission_plugins,
            service_account_signing_key: Some(keys::SERVICE_ACCOUNT_KEY.to_owned()),
            ..config
        };
        let api = apiserver::service_on(config, server.clone(), Memory::new(&server)).expect("the settings are good");
        let Network::InProcess(network) = env.network() else { unreachable!("a simulated Env has no sockets") };
        network.register(AUTHORITY, api.service.clone());
        while !api.server.is_ready() {
            env.sleep(POLL_PERIOD).await;
        }
        Self { env, api, server }
    }

    /// Returns a new process for a part.
    pub fn process(&self, name: &str) -> Env {
        self.env.process(name)
    }

    /// Returns a client of a process with the certificate of a user, if the user has one.
    pub fn client(&self, env: &Env, user: &str) -> Client {
        let connection = keys::connection(SERVER, user);
        Client::connect(env, &connection, "e2e").expect("an in-process connection needs nothing")
    }

    pub fn admin(&self) -> Client {
        self.client(&self.env, "kubernetes-admin")
    }

    /// Creates an object as the administrator, and returns the stored one.
    pub async fn create(&self, object: &Value) -> Value {
        let text = |key: &str| object[key].as_str().unwrap_or_default();
        let (group, version) = split_api_version(text("apiVersion"));
        let target = Catalogue::builtin().by_gvk(&Gvk::new(group, version, text("kind")));
        let gvr = target.expect("the kind is one of Kubernetes' own").gvr();
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
        let created = self.admin().dynamic(&gvr, namespace).create(object).await;
        created.unwrap_or_else(|error| panic!("{error}: {object}"))
    }

    /// Starts a part in its process, with a client that has the part's certificate.
    pub fn run<F, E>(&self, part: Part, process: &Env, component: impl FnOnce(Client) -> F)
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Display + Send + 'static,
    {
        let client = self.client(process, part.user()).with_user_agent(part.name());
        let running = component(client);
        process.spawn(async move {
            if let Err(error) = running.await {
                eprintln!("{part} ended: {error}");
            }
        });
    }

    /// Stops everything, the parts first.
    pub async fn stop(self, parts: &[Env]) {
        for process in parts.iter().chain([&self.server]) {
            process.drain().await;
            process.kill().await;
        }
    }
}

/// Returns the cluster's signers, which all use the fixed authority.
pub fn signers(names: impl IntoIterator<Item = SignerName>) -> Signers {
    let pair = keys::authority_pair();
    let signer = Arc::new(Signer::from_pem(&pair.cert_pem, &pair.key_pem).expect("fixtures are well-formed"));
    Signers(names.into_iter().map(|name| (name, signer.clone())).collect())
}
