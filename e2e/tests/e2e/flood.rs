//! Tests that a flood of one user's requests is answered with 429, and does not affect other clients.

use crate::{cluster_with, webhook_server};
use axum::body::{Body, to_bytes};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use client::Client;
use component_base::env::Env;
use component_base::kubeconfig::{self, Connection};
use component_base::network::HttpService;
use component_base::pki::Authority;
use e2e::raw_request::RawRequest;
use e2e::store::Store;
use e2e::wait;
use futures::future::join_all;
use http::{Request, Response};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// Flags for few seats, so that they are soon taken.
const FEW_SEATS: [&str; 2] =
    ["--apiserver-arg=max-requests-inflight=20", "--apiserver-arg=max-mutating-requests-inflight=10"];
/// Number of connections, and of parallel senders on each. The product is more than the 6 queues of a user hold, of 50
/// requests each.
const CONNECTIONS: usize = 8;
const SENDERS_PER_CONNECTION: usize = 48;
/// Most requests of each sender.
const REQUESTS: usize = 60;
/// Time that the webhook takes for each request, which keeps its seat meanwhile.
const WEBHOOK_DELAY: Duration = Duration::from_millis(50);
/// Number of the other user's requests.
const NEIGHBOURS_REQUESTS: usize = 20;
/// Number of renewals that must happen during the flood.
const MIN_RENEWALS: usize = 1;

/// The results of the flood.
#[derive(Default)]
struct Flood {
    is_over: AtomicBool,
    served: AtomicUsize,
    refused: AtomicUsize,
    /// Number of senders that have sent all their requests.
    finished_senders: AtomicUsize,
}

impl Flood {
    /// Sends one request after another, without the pauses that Retry-After demands.
    async fn send_all(&self, client: &Client) {
        for _ in 0..REQUESTS {
            if self.is_over.load(Ordering::Relaxed) {
                return;
            }
            let map = json!({"metadata": {"generateName": "drop-"}}).to_string();
            let request = RawRequest::post("/api/v1/namespaces/flooded/configmaps?dryRun=All", map);
            let answer = request.send(client).await.expect("the server is there");
            match answer.code {
                201 => &self.served,
                429 if answer.headers.contains_key("retry-after") => &self.refused,
                _ => panic!("{}", answer.text),
            }
            .fetch_add(1, Ordering::Relaxed);
        }
        self.finished_senders.fetch_add(1, Ordering::Relaxed);
    }
}

/// Starts a slow webhook for the flooded namespace. Returns its configuration.
async fn slow_webhook(env: &Env, authority: &Authority) -> Value {
    let server_env = env.clone();
    let service = HttpService::new(tower::service_fn(move |request: Request<Body>| {
        let env = server_env.clone();
        async move {
            let body = to_bytes(request.into_body(), usize::MAX).await.unwrap();
            let review: Value = serde_json::from_slice(&body).unwrap();
            env.sleep(WEBHOOK_DELAY).await;
            let response = json!({"uid": review["request"]["uid"], "allowed": true});
            let answer = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response});
            Ok::<_, Infallible>(Response::new(Body::from(answer.to_string())))
        }
    }));
    let address = webhook_server::serve(env, authority, service).await;
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "thinker"},
        "webhooks": [{
            "name": "thinker.hooks.test", "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "clientConfig": {"url": format!("https://{address}/"), "caBundle": BASE64.encode(&authority.cert_pem)},
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "flooded"}},
            "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}],
        }],
    })
}

async fn items(client: &Client, path: &str) -> Vec<Value> {
    let list = RawRequest::get(path).send(client).await.expect("the server is there");
    list.body["items"].as_array().unwrap_or_else(|| panic!("{}", list.text)).clone()
}

/// Returns the specs of the Leases of leaders and nodes, by name.
async fn leases(client: &Client) -> BTreeMap<String, Value> {
    let mut all = items(client, "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases").await;
    all.extend(items(client, "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases").await);
    // API servers have leases too, which they do not renew through the API.
    all.retain(|lease| lease["metadata"]["labels"]["apiserver.kubernetes.io/identity"].is_null());
    all.into_iter()
        .map(|lease| (lease["metadata"]["name"].as_str().unwrap().to_owned(), lease["spec"].clone()))
        .collect()
}

/// Returns the name of each node, its readiness and the time of its last transition.
async fn readiness(client: &Client) -> Vec<(Value, Value, Value)> {
    let of = |node: &Value| {
        let conditions = node["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let ready = conditions.iter().find(|c| c["type"] == "Ready").cloned().unwrap_or_default();
        (node["metadata"]["name"].clone(), ready["status"].clone(), ready["lastTransitionTime"].clone())
    };
    items(client, "/api/v1/nodes").await.iter().map(of).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_one_user_does_not_affect_others() {
    let directory = tempfile::tempdir().unwrap();
    let cluster = cluster_with(directory.path(), Store::Memory, &FEW_SEATS);
    let env = Env::system().child();
    let connection = kubeconfig::read(&cluster.data_dir.join("kubeconfig")).unwrap();
    let admin = Client::connect(&env, &connection, "e2e").unwrap();
    let of = |user: &str| {
        let as_user = Connection { impersonate_user: user.to_owned(), ..connection.clone() };
        Client::connect(&env, &as_user, "e2e").unwrap()
    };
    cluster.kubectl().ok("create deployment web --image=nginx --replicas=3");
    cluster.kubectl().ok("rollout status deployment/web --timeout=90s");
    cluster.kubectl().ok("create namespace flooded");
    cluster.kubectl().ok("-n flooded create rolebinding flooder --clusterrole=edit --user=flooder");
    cluster.kubectl().ok("create clusterrolebinding neighbour --clusterrole=view --user=neighbour");
    let authority = Authority::load_or_create(&directory.path().join("thinker"), env.wall()).unwrap();
    let webhook = slow_webhook(&env, &authority).await;
    cluster.kubectl().with_input("create -f -", &webhook.to_string()).succeeded();
    let (before, ready) = (leases(&admin).await, readiness(&admin).await);
    assert!(["kube-controller-manager", "kube-scheduler"].iter().all(|name| before.contains_key(*name)), "{before:?}");
    assert!(ready.len() == 3 && ready.iter().all(|(_, status, _)| status == "True"), "{ready:?}");

    let flood = Arc::new(Flood::default());
    let tasks = (0..CONNECTIONS).map(|_| {
        let (flood, client) = (flood.clone(), of("flooder"));
        env.spawn(async move {
            join_all((0..SENDERS_PER_CONNECTION).map(|_| flood.send_all(&client))).await;
        })
    });
    let tasks: Vec<_> = tasks.collect();
    wait::until("the flood is one", || flood.refused.load(Ordering::Relaxed) > 0);

    let neighbour = of("neighbour");
    for _ in 0..NEIGHBOURS_REQUESTS {
        let answer = RawRequest::get("/api/v1/namespaces/default/pods").send(&neighbour).await.unwrap();
        assert_eq!(answer.code, 200, "{}", answer.text);
    }
    // Renew times of each lease during the flood.
    let mut renewals: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    let all_renewed = async || {
        assert_eq!(readiness(&admin).await, ready, "a node was given up");
        for (name, spec) in leases(&admin).await {
            for kept in ["holderIdentity", "leaseTransitions"] {
                assert_eq!(spec[kept], before[&name][kept], "{name} changed hands");
            }
            let times = renewals.entry(name).or_default();
            if times.last() != Some(&spec["renewTime"]) {
                times.push(spec["renewTime"].clone());
            }
        }
        renewals.len() == before.len() && renewals.values().all(|times| times.len() > MIN_RENEWALS)
    };
    wait::until_async("all leases are renewed", all_renewed).await;
    let finished_senders = flood.finished_senders.load(Ordering::Relaxed);
    flood.is_over.store(true, Ordering::Relaxed);
    for task in join_all(tasks).await {
        task.expect("every answer is one of two");
    }
    env.drain().await;

    let (served, refused) = (flood.served.load(Ordering::Relaxed), flood.refused.load(Ordering::Relaxed));
    assert!(served > 0 && refused > 0, "{served} {refused}");
    assert!(
        finished_senders < CONNECTIONS * SENDERS_PER_CONNECTION,
        "the flood was over before all leases were renewed"
    );
    cluster.kubectl().ok("scale deployment/web --replicas=4");
    cluster.kubectl().ok("rollout status deployment/web --timeout=90s");
}
