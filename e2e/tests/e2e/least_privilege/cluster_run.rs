//! Runs a whole cluster without some bindings, long enough for every feature, and checks which features work.

use super::audit_summary::{self, AuditSummary};
use super::features::{Caller, Evidence, FEATURES, Feature};
use super::workload::{self, SILENT_NODE};
use apiserver::Config;
use client::delegated_auth::DelegatedAuth;
use client::token::FixedToken;
use client::{Client, DeleteOptions, ListOptions};
use component_base::env::Env;
use component_base::health_server::AccessCheck;
use component_base::http::Body;
use component_base::json_web_token::SigningKey;
use component_base::options::LeaderElectionOptions;
use controller_base::signers::names::SignerName;
use e2e::bootstrap_token;
use e2e::in_process::{InProcess, SERVER, signers};
use e2e::raw_request::RawRequest;
use http::Request;
use kubelet_sim::certificate::Bootstrap;
use kubelet_sim::template::{DeviceGroup, NodeTemplate};
use proto::Gvr;
use proxy_sim::proxy::Proxies;
use serde_json::{Value, json};
use simulator::keys;
use simulator::part::Part;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// Virtual time in which every feature shows. The slowest are a CronJob, which is due after a minute, and the pod
/// garbage collector.
const RUN_TIME: Duration = Duration::from_secs(100);
const RBAC: &str = "rbac.authorization.k8s.io";

/// The result of a run.
pub struct Outcome {
    pub audit: AuditSummary,
    /// Names of the features that do not work.
    pub broken: BTreeSet<&'static str>,
}

/// A running cluster and its features.
struct ClusterRun {
    cluster: InProcess,
    processes: Vec<Env>,
    proxies: Proxies,
    /// Token of a pod's service account.
    token: String,
    /// Lists that were read at the end, by path.
    lists: BTreeMap<String, Vec<Value>>,
}

/// Runs a cluster without these bindings: `name`, or `namespace/name`.
pub fn without(bindings: &[&str]) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let mut config = Config { audit: audit_summary::options(folder.path()), ..Config::default() };
        config.tokens.enable_bootstrap_token_auth = true;
        let cluster = InProcess::start(1, config).await;
        for object in workload::objects() {
            cluster.create(&object).await;
        }
        let admin = cluster.admin();
        let namespaces = admin.dynamic(&Gvr::new("", "v1", "namespaces"), "");
        namespaces.delete("ending", &DeleteOptions::default()).await.unwrap();
        let token = pods_token(&admin).await;
        for binding in bindings {
            remove(&admin, binding).await;
        }
        let mut run = ClusterRun::start(cluster, token);
        run.cluster.env.sleep(RUN_TIME / 4).await;
        admin
            .dynamic(&Gvr::new("", "v1", "pods"), "default")
            .delete("to-delete", &DeleteOptions::default())
            .await
            .unwrap();
        run.cluster.env.sleep(RUN_TIME * 3 / 4).await;
        let mut broken = BTreeSet::new();
        for Feature { name, shown_by } in FEATURES {
            if !run.has(shown_by).await {
                broken.insert(*name);
            }
        }
        let processes = std::mem::take(&mut run.processes);
        run.cluster.stop(&processes).await;
        Outcome { audit: AuditSummary::read(folder.path()), broken }
    })
}

async fn pods_token(admin: &Client) -> String {
    let path = "/api/v1/namespaces/default/serviceaccounts/default/token";
    let body = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": []}});
    let answer = RawRequest::post(path, body.to_string()).send(admin).await.unwrap();
    answer.body["status"]["token"].as_str().unwrap_or_else(|| panic!("{}", answer.text)).to_owned()
}

async fn remove(admin: &Client, binding: &str) {
    let (namespace, name) = binding.split_once('/').unwrap_or(("", binding));
    let resource = if namespace.is_empty() { "clusterrolebindings" } else { "rolebindings" };
    let bindings = admin.dynamic(&Gvr::new(RBAC, "v1", resource), namespace);
    bindings.delete(name, &DeleteOptions::default()).await.unwrap_or_else(|error| panic!("{binding}: {error}"));
}

/// Returns options with few renewals, since no other candidate waits for the lease.
fn slow_leader_election() -> LeaderElectionOptions {
    LeaderElectionOptions {
        leader_elect_lease_duration: Duration::from_secs(60),
        leader_elect_renew_deadline: Duration::from_secs(50),
        leader_elect_retry_period: Duration::from_secs(20),
        ..controller_manager::Settings::default().leader_election
    }
}

fn controllers() -> controller_manager::Settings {
    let mut settings = controller_manager::Settings {
        controllers: ["*", "bootstrap-signer-controller", "token-cleaner-controller"].map(str::to_owned).into(),
        leader_election: slow_leader_election(),
        root_ca_pem: Some(keys::authority_pem()),
        service_account_key: Some(SigningKey::from_pem(keys::SERVICE_ACCOUNT_KEY).unwrap()),
        signers: signers([SignerName::ApiServerClientKubelet]),
        node_startup_grace_period: Duration::from_secs(20),
        ..controller_manager::Settings::default()
    };
    // A certificate's validity begins five minutes before it is issued, so it is renewed within another two.
    settings.signing.cluster_signing_duration = Duration::from_secs(120);
    settings
}

impl ClusterRun {
    fn start(cluster: InProcess, token: String) -> Self {
        let process = |part: Part| cluster.process(&format!("{part}/1"));
        let manager = process(Part::ControllerManager);
        let running = |client| controller_manager::run_with(client, controllers(), manager.clone());
        cluster.run(Part::ControllerManager, &manager, running);

        let scheduler = process(Part::Scheduler);
        let settings =
            scheduler::Settings { leader_election: slow_leader_election(), ..scheduler::Settings::default() };
        cluster.run(Part::Scheduler, &scheduler, |client| scheduler::run_with(client, settings, scheduler.clone()));

        let nodes = process(Part::Nodes);
        // The second node is removed at once. Slices of devices are there already for the first one: one is right but for
        // its devices, one is of a driver that has gone.
        let devices = ["gpu.example.com", "nic.example.com"].map(|driver| DeviceGroup {
            driver: driver.to_owned(),
            name: "device".to_owned(),
            count: 1,
            ..DeviceGroup::default()
        });
        let template = NodeTemplate {
            name: "node".to_owned(),
            count: 2,
            node_name: "node-{number}".to_owned(),
            devices: devices.into(),
            ..NodeTemplate::default()
        };
        let settings = kubelet_sim::Settings { templates: vec![template], ..kubelet_sim::Settings::default() };
        cluster.run(Part::Nodes, &nodes, |client| kubelet_sim::run_with(client, settings, nodes.clone()));

        // A second fleet, whose node joins with a bootstrap token and gets its own certificate.
        let joining = cluster.process("guests/1");
        let bootstrap = Bootstrap { connection: bootstrap_token::connection(SERVER), rotates: true, cert_dir: None };
        let settings = kubelet_sim::Settings {
            nodes: 1,
            node_name_prefix: "guest-".to_owned(),
            bootstrap: Some(bootstrap),
            ..kubelet_sim::Settings::default()
        };
        cluster.run(Part::Nodes, &joining, |client| kubelet_sim::run_with(client, settings, joining.clone()));

        let proxy = process(Part::Proxies);
        let proxies = Proxies::new(&cluster.client(&proxy, Part::Proxies.user()), &proxy_sim::Settings::default());
        let running = proxies.clone();
        proxy.spawn(async move { running.run().await });
        Self {
            cluster,
            processes: vec![joining, nodes, proxy, scheduler, manager],
            proxies,
            token,
            lists: BTreeMap::new(),
        }
    }

    fn client(&self, caller: &Caller) -> Client {
        let cluster = &self.cluster;
        match caller {
            Caller::Nobody => cluster.client(&cluster.env, "nobody"),
            Caller::User(name, groups) => cluster.admin().impersonating(name, groups),
            Caller::Pod => {
                cluster.client(&cluster.env, "nobody").with_token_source(Arc::new(FixedToken::new(&self.token)))
            }
            Caller::Part(part) => cluster.client(&cluster.env, part.user()),
        }
    }

    /// Returns true if the evidence shows that the feature works.
    async fn has(&mut self, evidence: &Evidence) -> bool {
        match evidence {
            Evidence::Objects(group, resource, namespace, holds) => {
                let gvr = Gvr::new(*group, "v1", *resource);
                let path = gvr.path(Some(namespace));
                if !self.lists.contains_key(&path) {
                    let api = self.cluster.admin().dynamic(&gvr, namespace);
                    let items = api.list(&ListOptions::default()).await.unwrap().items;
                    self.lists.insert(path.clone(), items);
                }
                holds(&self.lists[&path])
            }
            Evidence::Answer(caller, path) => {
                RawRequest::get(path).send(&self.client(caller)).await.unwrap().code == 200
            }
            Evidence::Review(caller, path, review, holds) => {
                let answer = RawRequest::post(path, review().to_string()).send(&self.client(caller)).await.unwrap();
                answer.code == 201 && holds(&answer.body)
            }
            Evidence::Page(part) => {
                let request = Request::get("/healthz").header("authorization", format!("Bearer {}", self.token));
                let (parts, _) = request.body(Body::empty()).unwrap().into_parts();
                DelegatedAuth::new(&self.client(&Caller::Part(*part))).admit(&parts).await.is_ok()
            }
            Evidence::ProxyRules(holds) => {
                self.proxies.rules(SILENT_NODE).is_some_and(|rules| holds(&rules.to_string()))
            }
        }
    }
}
