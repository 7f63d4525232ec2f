//! `Cluster`: runs every part as a simulated process, which faults can kill and which then restarts.

use super::cashier::{self, Mistake};
use super::cloud;
use super::keys;
use super::log::{Log, Said};
use super::part::Part;
use super::violations::Violations;
use super::wire::Wire;
use apiserver::config::{Config, StoreKind};
use apiserver::runtime_config::ApiSwitch;
use client::Client;
use component_base::env::{ClockError, Env};
use component_base::network::{Network, Registry};
use component_base::options::feature_gates::GateValues;
use component_base::options::{self, OriginalFlags};
use controller_base::cloud_options::CloudAccess;
use jiff::SignedDuration;
use kubelet_sim::config::CloudProvider;
use kubelet_sim::template::NodeTemplate;
use parking_lot::Mutex;
use scheduler::framework::Features;
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;
use storage::fault::Fault;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// A cluster of this many nodes collects the changes of pods for this time before it writes the addresses of services.
const LARGE: u32 = 50;
const BATCH: Duration = Duration::from_millis(500);

/// Driver of the nodes' devices.
pub const DRIVER: &str = "gpu.example.com";

/// Name of the API server in the in-process network.
const AUTHORITY: &str = "apiserver:6443";
/// Delay before a component that ended by itself restarts, as under `up`.
const RESTART: Duration = Duration::from_secs(1);
/// Virtual time in which a component must end after its shutdown was requested.
const STOP: Duration = Duration::from_secs(30);

/// What a simulated cluster consists of, besides its API server.
#[derive(Clone, Copy, Debug, Default)]
pub struct Layout {
    pub nodes: u32,
    /// Number of devices of each node.
    pub devices: u32,
    /// Whether the nodes are machines of a simulated cloud.
    pub has_cloud: bool,
    /// Whether the gates of PodGroups are on.
    pub has_gangs: bool,
    /// The cashier of a demonstration, with the mistake that it makes.
    pub cashier: Option<Mistake>,
}

impl Layout {
    /// Returns the parts of a whole cluster.
    pub fn parts(self) -> Vec<Part> {
        let cloud = self.has_cloud.then_some(Part::CloudControllerManager);
        let cashier = self.cashier.map(|_| Part::Cashier);
        std::iter::once(Part::ApiServer).chain(Part::CLIENTS).chain(cloud).chain(cashier).collect()
    }

    /// Returns the gates that are on besides Kubernetes' defaults.
    fn gates(self) -> GateValues {
        let gates: &[&str] = if self.has_gangs { &["GenericWorkload", "GangScheduling"] } else { &[] };
        gates.iter().map(|gate| ((*gate).to_owned(), true)).collect()
    }

    /// Returns the switches of the API that serve the kinds of these gates.
    fn api_switches(self) -> Vec<ApiSwitch> {
        let switch = self.has_gangs.then(|| "scheduling.k8s.io/v1alpha2=true".parse());
        switch.into_iter().map(|switch| switch.expect("the switch is well-formed")).collect()
    }

    /// Returns the templates of the nodes; none for nodes without devices.
    fn templates(self) -> Vec<NodeTemplate> {
        if self.devices == 0 {
            return Vec::new();
        }
        let devices = json!([{"driver": DRIVER, "name": "gpu", "count": self.devices}]);
        let template = NodeTemplate::read(&json!({"name": "node", "count": self.nodes, "devices": devices}));
        vec![template.expect("the template is well-formed")]
    }
}

pub struct Cluster {
    run_env: Env,
    wire: Arc<Wire>,
    violations: Violations,
    storage: Arc<Fault>,
    log: Log,
    layout: Layout,
    /// Number of starts of each part. The name of its process contains it.
    starts: Mutex<BTreeMap<Part, u32>>,
    clock_errors: Mutex<BTreeMap<Part, ClockError>>,
    supervisors: Mutex<BTreeMap<Part, Supervisor>>,
}

struct Supervisor {
    /// Takes orders to kill the part. An order is the time until the restart.
    kill: mpsc::Sender<Duration>,
    stop: mpsc::Sender<()>,
    task: JoinHandle<()>,
}

impl Cluster {
    pub fn new(
        run_env: &Env,
        wire: &Arc<Wire>,
        violations: &Violations,
        storage: &Arc<Fault>,
        log: Log,
        layout: Layout,
    ) -> Arc<Self> {
        Arc::new(Self {
            run_env: run_env.clone(),
            wire: wire.clone(),
            violations: violations.clone(),
            storage: storage.clone(),
            log,
            layout,
            starts: Mutex::default(),
            clock_errors: Mutex::default(),
            supervisors: Mutex::default(),
        })
    }

    /// Starts a part, and restarts it whenever it ends.
    pub fn start(self: &Arc<Self>, part: Part) {
        // One pending order is enough.
        let (kill, mut kills) = mpsc::channel(1);
        let (stop, mut stops) = mpsc::channel::<()>(1);
        self.wire.set_kill_channel(part, kill.clone());
        let cluster = self.clone();
        // The first start is immediate, so that the API server is there for the other parts.
        let mut process = cluster.launch(part);
        let task = self.run_env.spawn(async move {
            loop {
                let (env, mut ended) = process;
                let down = tokio::select! {
                    biased;
                    Some(()) = stops.recv() => {
                        cluster.stop_process(part, &env).await;
                        return;
                    }
                    Some(down) = kills.recv() => {
                        let down_ms = u64::try_from(down.as_millis()).unwrap_or(u64::MAX);
                        cluster.log.say(Said::Killed { component: part, down_ms });
                        down
                    }
                    // `launch` logs the reason.
                    _ = &mut ended => RESTART,
                };
                cluster.kill_process(part, &env).await;
                cluster.run_env.sleep(down).await;
                cluster.log.say(Said::Started { component: part });
                process = cluster.launch(part);
            }
        });
        self.supervisors.lock().insert(part, Supervisor { kill, stop, task });
    }

    /// Kills a part at once. It restarts after `down`.
    pub fn kill(&self, part: Part, down: Duration) {
        if let Some(supervisor) = self.supervisors.lock().get(&part) {
            // A part that is already down is not killed again.
            let _ = supervisor.kill.try_send(down);
        }
    }

    /// Sets the wall clock of a part forward or back; without an error it is right again.
    pub fn set_clock(&self, part: Part, error: SignedDuration) {
        self.clock_errors.lock().entry(part).or_default().set(error);
    }

    /// Stops every part cleanly, the API server last.
    pub async fn stop(&self) {
        let supervisors = std::mem::take(&mut *self.supervisors.lock());
        for (_, Supervisor { stop, task, .. }) in supervisors.into_iter().rev() {
            let _ = stop.send(()).await;
            let _ = task.await;
        }
    }

    /// Returns a client from outside the cluster, which faults do not affect.
    pub fn client(&self, user: &str) -> Client {
        connect(&self.run_env, user, "kubectl")
    }

    /// Notes a step of the scenario in the log.
    pub fn log_line(&self, what: &str) {
        self.log.note(what);
    }

    /// Notes a fault that begins or ends.
    pub fn log_fault(&self, what: impl Display) {
        self.log.fault(what);
    }

    /// Returns the running parts, except the API server.
    pub fn clients(&self) -> Vec<Part> {
        self.supervisors.lock().keys().copied().filter(|part| *part != Part::ApiServer).collect()
    }

    fn network(&self) -> &Registry {
        match self.run_env.network() {
            Network::InProcess(registry) => registry,
            Network::Sockets => unreachable!("a simulated Env has no sockets"),
        }
    }

    async fn stop_process(&self, part: Part, env: &Env) {
        if self.run_env.timeout(STOP, env.drain()).await.is_err() {
            let what = format!("{part} was asked to stop and still ran {STOP:?} later");
            self.violations.record("every component stops when it is asked to", what, []);
        }
        self.kill_process(part, env).await;
    }

    async fn kill_process(&self, part: Part, env: &Env) {
        if part == Part::ApiServer {
            self.network().remove(AUTHORITY);
        }
        env.kill().await;
    }

    /// Starts a new process of a part.
    fn launch(&self, part: Part) -> (Env, JoinHandle<()>) {
        let number = {
            let mut starts = self.starts.lock();
            let number = starts.entry(part).or_default();
            *number += 1;
            *number
        };
        let clock_error = self.clock_errors.lock().entry(part).or_default().clone();
        let env = self.run_env.process_with_clock(&format!("{part}/{number}"), &clock_error);
        let ended = match part {
            Part::ApiServer => self.launch_apiserver(&env),
            Part::ControllerManager => {
                let root_ca_pem = Some(keys::authority_pem());
                let feature_gates = self.layout.gates();
                let mut settings = controller_manager::Settings { root_ca_pem, feature_gates, ..Default::default() };
                if self.layout.nodes >= LARGE {
                    settings.endpoints.endpoint_updates_batch_period = BATCH;
                    settings.endpoints.endpointslice_updates_batch_period = BATCH;
                }
                self.run(part, &env, controller_manager::run_with(self.client_of(&env, part), settings, env.clone()))
            }
            Part::Scheduler => {
                let mut settings = scheduler::Settings::default();
                settings.configuration = settings.configuration.with_features(Features::of(&self.layout.gates()));
                self.run(part, &env, scheduler::run_with(self.client_of(&env, part), settings, env.clone()))
            }
            Part::Nodes => {
                let templates = self.layout.templates();
                let cloud_provider = if self.layout.has_cloud { CloudProvider::External } else { CloudProvider::None };
                let nodes = self.layout.nodes;
                let settings =
                    kubelet_sim::Settings { nodes, templates, cloud_provider, ..kubelet_sim::Settings::default() };
                self.run(part, &env, kubelet_sim::run_with(self.client_of(&env, part), settings, env.clone()))
            }
            Part::Proxies => {
                let settings = proxy_sim::Settings::default();
                self.run(part, &env, proxy_sim::run_with(self.client_of(&env, part), settings, env.clone()))
            }
            Part::Cashier => {
                let mistake = self.layout.cashier.unwrap_or_default();
                self.run(part, &env, cashier::run(self.client_of(&env, part), mistake, env.clone()))
            }
            Part::CloudControllerManager => {
                let cloud = CloudAccess { client: cloud::client(&env, part), options: options::defaults() };
                let mut settings = controller_manager::Settings { cloud: Some(cloud), ..Default::default() };
                settings.leader_election.leader_elect = false; // there is only one
                let running = controller_manager::cloud::run_with(self.client_of(&env, part), settings, env.clone());
                self.run(part, &env, running)
            }
        };
        (env, ended)
    }

    fn client_of(&self, env: &Env, part: Part) -> Client {
        connect(env, part.user(), part.name())
    }

    fn launch_apiserver(&self, env: &Env) -> JoinHandle<()> {
        let config = Config {
            store: Some(StoreKind::Memory),
            enable_admission_plugins: vec!["NodeRestriction".to_owned()], // as `orrery up` does
            service_account_signing_key: Some(keys::SERVICE_ACCOUNT_KEY.to_owned()),
            request_log: Some(self.log.of_requests()),
            original: OriginalFlags::of_gates(self.layout.gates()),
            runtime_config: self.layout.api_switches(),
            ..Config::default()
        };
        let server = apiserver::service_on(config, env.clone(), self.storage.clone());
        let server = server.expect("the default settings are good");
        self.network().register(AUTHORITY, self.wire.wrap(server.service, env));
        let shutdown = env.shutdown().clone();
        env.spawn(async move { shutdown.cancelled().await })
    }

    fn run<E: Display + Send + 'static>(
        &self,
        part: Part,
        env: &Env,
        component: impl Future<Output = Result<(), E>> + Send + 'static,
    ) -> JoinHandle<()> {
        let log = self.log.clone();
        env.spawn(async move {
            let why = component.await.err().map_or("without an error".to_owned(), |error| error.to_string());
            log.say(Said::Ended { component: part, why });
        })
    }
}

fn connect(env: &Env, user: &str, agent: &str) -> Client {
    let connection = keys::connection(&format!("https://{AUTHORITY}"), user);
    Client::connect(env, &connection, agent).expect("an in-process connection needs nothing")
}
