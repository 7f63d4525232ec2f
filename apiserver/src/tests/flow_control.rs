//! Flow control of a whole server with a slow store: one user floods it with requests, in virtual time.

use crate::config::{Config, StoreKind};
use crate::testing::{Answer, Api};
use access::authz::Mode;
use access::authz::options::AuthorizationOptions;
use component_base::env::Env;
use http::Method;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use storage::fault::{Fault, Faults};
use storage::memory::Memory;

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces";
const FLOW: &str = "/apis/flowcontrol.apiserver.k8s.io/v1";

/// A server with small limits, on which every request is authorized.
fn config(fair: bool) -> Config {
    Config {
        store: Some(StoreKind::Memory),
        authorization: AuthorizationOptions { authorization_mode: vec![Mode::AlwaysAllow], ..Default::default() },
        enable_priority_and_fairness: fair,
        max_requests_inflight: 20,
        max_mutating_requests_inflight: 20,
        ..Config::default()
    }
}

async fn slow_api(fair: bool) -> Arc<Api> {
    let env = Env::simulated(1);
    let fault = Fault::new(&env, Memory::new(&env));
    let api = Api::on(&env, fault.clone(), config(fair)).await;
    for namespace in ["kube-system", "kube-node-lease"] {
        let lease =
            json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}, "spec": {}});
        api.create(&format!("{LEASES}/{namespace}/leases"), lease).await;
    }
    fault.set(Faults { delay: 1.0, longest_delay: Duration::from_millis(40), ..Faults::default() });
    Arc::new(api)
}

/// Sends a request as another user.
async fn ask_as(api: &Api, user: &str, group: &str, method: Method, path: &str, body: impl ToString) -> Answer {
    let mut headers = vec![("impersonate-user", user)];
    headers.extend((!group.is_empty()).then_some(("impersonate-group", group)));
    api.ask(method, path, body, &headers).await
}

/// Renews a lease for five periods as its holder does. Returns the codes that are not 200, and the longest time of a
/// renewal.
async fn renewals(api: &Api, user: &str, group: &str, namespace: &str) -> (Vec<u16>, Duration) {
    let env = &api.server.server.env;
    let path = format!("{LEASES}/{namespace}/leases/l");
    let (mut codes, mut longest) = (Vec::new(), Duration::ZERO);
    for period in 0..5 {
        let began = env.now();
        let got = ask_as(api, user, group, Method::GET, &path, "").await;
        codes.push(got.code);
        let mut lease = got.body;
        lease["spec"]["leaseTransitions"] = json!(period);
        codes.push(ask_as(api, user, group, Method::PUT, &path, lease).await.code);
        longest = longest.max(env.now().duration_since(began));
        env.sleep(Duration::from_secs(2)).await;
    }
    codes.retain(|code| *code != 200);
    (codes, longest)
}

/// Sends requests without pause, 400 at a time, until shutdown. Counts the answers 429 in `refused`.
fn flood(api: &Arc<Api>, user: &'static str, refused: &Arc<AtomicUsize>) {
    let env = api.server.server.env.clone();
    for _ in 0..400 {
        let (api, env, refused) = (api.clone(), env.clone(), refused.clone());
        env.clone().spawn(async move {
            while !env.shutdown().is_cancelled() {
                let answer = ask_as(&api, user, "", Method::GET, "/api/v1/namespaces/default/configmaps/x", "").await;
                if answer.code == 429 {
                    refused.fetch_add(1, Ordering::Relaxed);
                    env.sleep(Duration::from_millis(200)).await;
                }
            }
        });
    }
}

#[tokio::test(start_paused = true)]
async fn a_flood_starves_neither_leaders_nor_nodes() {
    for fair in [true, false] {
        let api = slow_api(fair).await;
        let env = api.server.server.env.clone();
        let refused = Arc::new(AtomicUsize::new(0));
        flood(&api, "ann", &refused);
        env.sleep(Duration::from_secs(1)).await;
        let (leader, node) = tokio::join!(
            renewals(&api, "system:kube-scheduler", "", "kube-system"),
            renewals(&api, "system:node:n1", "system:nodes", "kube-node-lease"),
        );
        assert!(refused.load(Ordering::Relaxed) > 0, "it is a flood");
        for (codes, longest) in [leader, node] {
            if fair {
                assert_eq!(codes, [0; 0]);
                assert!(longest < Duration::from_secs(1), "{longest:?}");
            } else {
                assert!(codes.contains(&429), "without fairness they are refused, too: {codes:?}");
            }
        }
        env.shutdown().cancel();
    }
}

#[tokio::test(start_paused = true)]
async fn a_quiet_user_is_served_beside_a_flood_of_the_same_level() {
    let api = slow_api(true).await;
    let env = api.server.server.env.clone();
    let refused = Arc::new(AtomicUsize::new(0));
    flood(&api, "ann", &refused);
    env.sleep(Duration::from_secs(1)).await;
    let (codes, longest) = renewals(&api, "bob", "", "kube-system").await;
    assert_eq!(codes, [0; 0]);
    assert!(longest < Duration::from_secs(2), "{longest:?}");
    assert!(refused.load(Ordering::Relaxed) > 0);
    env.shutdown().cancel();
}

#[tokio::test(start_paused = true)]
async fn answers_name_the_schema_and_the_level() {
    let api = Api::start().await;
    let uid = |object: &Value| object["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
    let schema = api.get(&format!("{FLOW}/flowschemas/exempt")).await.body;
    let level = api.get(&format!("{FLOW}/prioritylevelconfigurations/exempt")).await.body;
    let answer =
        api.until("/api/v1/nodes", |answer| answer.headers.contains_key("x-kubernetes-pf-flowschema-uid")).await;
    assert_eq!(answer.headers["x-kubernetes-pf-flowschema-uid"], uid(&schema));
    assert_eq!(answer.headers["x-kubernetes-pf-prioritylevel-uid"], uid(&level));
}

#[tokio::test(start_paused = true)]
async fn the_dangling_condition_says_whether_the_priority_level_exists() {
    let api = Api::start().await;
    let wanted = |answer: &Answer, status: &str| answer.body["status"]["conditions"][0]["status"] == status;
    let path = format!("{FLOW}/flowschemas/mine");
    let schema = json!({
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "FlowSchema", "metadata": {"name": "mine"},
        "spec": {"priorityLevelConfiguration": {"name": "my-level"}, "matchingPrecedence": 50, "rules": [{
            "subjects": [{"kind": "User", "user": {"name": "ann"}}],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["/version"]}],
        }]},
    });
    api.create(&format!("{FLOW}/flowschemas"), schema).await;
    let dangling = api.until(&path, |answer| wanted(answer, "True")).await.body;
    let ann = [("authorization", "Bearer ann-token")];
    let version =
        async || api.ask(Method::GET, "/version", "", &ann).await.headers["x-kubernetes-pf-flowschema-uid"].clone();
    assert_ne!(version().await, dangling["metadata"]["uid"].as_str().unwrap(), "it leads nowhere");
    let mut condition = dangling["status"]["conditions"][0].clone();
    let message = "This FlowSchema references the PriorityLevelConfiguration object named \"my-level\" ";
    assert_eq!(condition["message"], format!("{message}but there is no such object"));
    let level = json!({
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "PriorityLevelConfiguration", "metadata": {"name": "my-level"},
        "spec": {"type": "Limited", "limited": {"nominalConcurrencyShares": 1, "limitResponse": {"type": "Reject"}}},
    });
    api.create(&format!("{FLOW}/prioritylevelconfigurations"), level).await;
    let found = api.until(&path, |answer| wanted(answer, "False")).await.body;
    condition = found["status"]["conditions"][0].clone();
    assert_eq!(
        (&condition["reason"], &condition["message"]),
        (&json!("Found"), &json!(format!("{message}and it exists")))
    );
    assert_eq!(version().await, found["metadata"]["uid"].as_str().unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_refused_request_gets_a_retry_after_header() {
    let config = Config { max_requests_inflight: 1, max_mutating_requests_inflight: 0, ..config(true) };
    let env = Env::simulated(1);
    let fault = Fault::new(&env, Memory::new(&env));
    let api = Api::on(&env, fault.clone(), config).await;
    fault.set(Faults { delay: 1.0, longest_delay: Duration::from_secs(10), ..Faults::default() });
    // Every limited priority level has one seat. The level of this user has no queue.
    let schema = json!({
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "FlowSchema", "metadata": {"name": "mine"},
        "spec": {"priorityLevelConfiguration": {"name": "catch-all"}, "matchingPrecedence": 50, "rules": [{
            "subjects": [{"kind": "User", "user": {"name": "ann"}}],
            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"], "clusterScope": true}],
        }]},
    });
    api.create(&format!("{FLOW}/flowschemas"), schema).await;
    env.sleep(Duration::from_secs(60)).await;
    let ask = || ask_as(&api, "ann", "", Method::GET, "/api/v1/namespaces/default", "");
    let (first, second) = tokio::join!(ask(), ask());
    assert_eq!(first.code, 200);
    assert_eq!((second.code, second.text.as_str()), (429, "Too many requests, please try again later.\n"));
    assert_eq!(second.headers["retry-after"], "1");
    let metrics = api.get("/metrics").await.text;
    let refused = "apiserver_flowcontrol_rejected_requests_total{flow_schema=\"mine\",priority_level=\"catch-all\",reason=\"concurrency-limit\"} 1";
    assert!(metrics.contains(refused), "{metrics}");
}

#[tokio::test(start_paused = true)]
async fn debug_pages_show_levels_queues_and_waiting_requests() {
    let api = slow_api(true).await;
    let env = api.server.server.env.clone();
    flood(&api, "ann", &Arc::default());
    env.sleep(Duration::from_secs(1)).await;
    let page = async |name: &str| api.get(&format!("/debug/api_priority_and_fairness/{name}")).await.text;
    let levels = page("dump_priority_levels").await;
    assert!(levels.starts_with("PriorityLevelName, ActiveQueues, IsIdle, IsQuiescing, WaitingRequests,"), "{levels}");
    let line = levels.lines().find(|line| line.starts_with("global-default,")).unwrap();
    assert!(!line.contains("true"), "{line}");
    assert!(page("dump_queues").await.lines().count() > 128);
    let requests = page("dump_requests?includeRequestDetails=1").await;
    let waiting = requests.lines().nth(1).unwrap();
    assert!(waiting.contains("global-default,") && waiting.contains("configmaps,"), "{waiting}");
    assert_eq!(api.get("/debug/api_priority_and_fairness/dump").await.code, 404);
    env.shutdown().cancel();
}
