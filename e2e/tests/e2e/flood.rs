//! A flood of one user's requests: that user gets 429, and other clients are not affected.

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

/// Number of seats; few, so that they are soon taken.
const FEW_SEATS: [&str; 2] =
    ["--apiserver-arg=max-requests-inflight=20", "--apiserver-arg=max-mutating-requests-inflight=10"];
/// Parallel requests, more than the queues of one user hold: 6 of 50.
const CONNECTIONS: usize = 8;
const AT_ONCE: usize = 48;
/// Most requests of each of them.
const REQUESTS: usize = 60;
/// Time that the webhook takes for each request, which keeps its seat meanwhile.
const THOUGHT: Duration = Duration::from_millis(50);
/// Number of the other user's requests.
const NEIGHBOURS_REQUESTS: usize = 20;
/// Number of renewals that must happen during the flood.
const RENEWALS: usize = 1;

/// The results of the flood.
#[derive(Default)]
struct Flood {
    is_over: AtomicBool,
    served: AtomicUsize,
    refused: AtomicUsize,
    unasked: AtomicUsize,
}

impl Flood {
    /// A client that ignores Retry-After.
    async fn pour(&self, client: &Client) {
        for _ in 0..REQUESTS {
            if self.is_over.load(Ordering::Relaxed) {
                return;
            }
            let map = json!({"metadata": {"generateName": "drop-"}}).to_string();
            let ask = RawRequest::post("/api/v1/namespaces/flooded/configmaps?dryRun=All", map);
            let answer = ask.send(client).await.expect("the server is there");
            match answer.code {
                201 => &self.served,
                429 if answer.headers.contains_key("retry-after") => &self.refused,
                _ => panic!("{}", answer.text),
            }
            .fetch_add(1, Ordering::Relaxed);
        }
        // It has sent all its requests.
        self.unasked.fetch_add(1, Ordering::Relaxed);
    }
}

/// Starts a slow webhook; returns its configuration.
async fn thinker(env: &Env, authority: &Authority) -> Value {
    let world = env.clone();
    let service = HttpService::new(tower::service_fn(move |request: Request<Body>| {
        let env = world.clone();
        async move {
            let body = to_bytes(request.into_body(), usize::MAX).await.unwrap();
            let review: Value = serde_json::from_slice(&body).unwrap();
            env.sleep(THOUGHT).await;
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

/// Every lease of leaders and nodes, by its name.
async fn leases(client: &Client) -> BTreeMap<String, Value> {
    let mut all = items(client, "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases").await;
    all.extend(items(client, "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases").await);
    // API servers have leases too, which they do not renew through the API.
    all.retain(|lease| lease["metadata"]["labels"]["apiserver.kubernetes.io/identity"].is_null());
    all.into_iter()
        .map(|lease| (lease["metadata"]["name"].as_str().unwrap().to_owned(), lease["spec"].clone()))
        .collect()
}

/// Returns a node's readiness and its last transition.
async fn readiness(client: &Client) -> Vec<(Value, Value, Value)> {
    let of = |node: &Value| {
        let conditions = node["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let ready = conditions.iter().find(|c| c["type"] == "Ready").cloned().unwrap_or_default();
        (node["metadata"]["name"].clone(), ready["status"].clone(), ready["lastTransitionTime"].clone())
    };
    items(client, "/api/v1/nodes").await.iter().map(of).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_one_user_drowns_nobody_else() {
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
    let thinker = thinker(&env, &authority).await;
    cluster.kubectl().with_input("create -f -", &thinker.to_string()).succeeded();
    let (before, ready) = (leases(&admin).await, readiness(&admin).await);
    assert!(["kube-controller-manager", "kube-scheduler"].iter().all(|name| before.contains_key(*name)), "{before:?}");
    assert!(ready.len() == 3 && ready.iter().all(|(_, status, _)| status == "True"), "{ready:?}");

    let flood = Arc::new(Flood::default());
    let poured = (0..CONNECTIONS).map(|_| {
        let (flood, client) = (flood.clone(), of("flooder"));
        env.spawn(async move {
            join_all((0..AT_ONCE).map(|_| flood.pour(&client))).await;
        })
    });
    let poured: Vec<_> = poured.collect();
    wait::until("the flood is one", || flood.refused.load(Ordering::Relaxed) > 0);

    let neighbour = of("neighbour");
    for _ in 0..NEIGHBOURS_REQUESTS {
        let answer = RawRequest::get("/api/v1/namespaces/default/pods").send(&neighbour).await.unwrap();
        assert_eq!(answer.code, 200, "{}", answer.text);
    }
    // All leases are renewed.
    let mut seen: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    let all_renewed = async || {
        assert_eq!(readiness(&admin).await, ready, "a node was given up");
        for (name, spec) in leases(&admin).await {
            for kept in ["holderIdentity", "leaseTransitions"] {
                assert_eq!(spec[kept], before[&name][kept], "{name} changed hands");
            }
            let times = seen.entry(name).or_default();
            if times.last() != Some(&spec["renewTime"]) {
                times.push(spec["renewTime"].clone());
            }
        }
        seen.len() == before.len() && seen.values().all(|times| times.len() > RENEWALS)
    };
    wait::until_async("all leases are renewed", all_renewed).await;
    let unasked = flood.unasked.load(Ordering::Relaxed);
    flood.is_over.store(true, Ordering::Relaxed);
    for task in join_all(poured).await {
        task.expect("every answer is one of two");
    }
    env.drain().await;

    let (served, refused) = (flood.served.load(Ordering::Relaxed), flood.refused.load(Ordering::Relaxed));
    assert!(served > 0 && refused > 0, "{served} {refused}");
    assert!(unasked < CONNECTIONS * AT_ONCE, "the flood was over before all leases were renewed");
    cluster.kubectl().ok("scale deployment/web --replicas=4");
    cluster.kubectl().ok("rollout status deployment/web --timeout=90s");
}
