//! Tables of the semantics of extenders, from the documentation of k8s.io/kube-scheduler/extender/v1.

use super::fixture::{Answer, Asked, serve};
use super::*;
use Answer::{Json, Never, Text};
use component_base::rng::Random;
use proto::Kind;
use scheduler_plugins::fixture::{self, Objects, TestCluster, info};
use scheduling_framework::configuration::Configuration;
use scheduling_framework::cycle::{Decision, schedule_one_with};
use scheduling_framework::{CycleError, CycleState, Profiles};
use serde_json::{Value, json};
use std::time::Duration;

/// Three nodes with a cpu each, and extenders.
struct World {
    env: Env,
    cluster: TestCluster,
    extenders: Extenders,
    asked: Asked,
}

impl World {
    fn new(extenders: &Value, answers: &[(&str, Answer)]) -> Self {
        let env = Env::simulated(1);
        let asked = serve(&env, answers);
        let configured: Vec<configuration::Extender> = serde_json::from_value(extenders.clone()).unwrap();
        let extenders = Extenders::new(&env, &configured).unwrap();
        let capacity = json!({"status": {"allocatable": {"cpu": "1", "memory": "1Gi", "pods": "10"}}});
        let nodes = ["n1", "n2", "n3"].map(|name| fixture::node(name, "a", capacity.clone()));
        Self { env, cluster: TestCluster::new(nodes), extenders, asked }
    }

    async fn decide(&mut self, pod: &PodInfo, state: &mut CycleState) -> Result<Decision, CycleError> {
        let TestCluster { cache, snapshot, profile, nominated, rotation, .. } = &mut self.cluster;
        cache.update(snapshot);
        let random = Random::from_seed(1, "ties");
        schedule_one_with(self.extenders.in_cycle(), profile, state, pod, snapshot, nominated, rotation, &random).await
    }

    /// Returns the node of a pod, or the message about it.
    async fn outcome(&mut self, pod: Value) -> String {
        match self.decide(&info(pod), &mut CycleState::default()).await {
            Ok(decision) => decision.node,
            Err(CycleError::NoFit(error)) => error.to_string(),
            Err(CycleError::Failed(message)) => message,
        }
    }

    /// Returns the asked URLs with the names of the nodes in the question.
    fn asked(&self) -> String {
        let nodes = |question: &Value| {
            let items =
                question["Nodes"]["items"].as_array().into_iter().flatten().map(|node| &node["metadata"]["name"]);
            let names = question["NodeNames"].as_array().into_iter().flatten();
            let mut all: Vec<&str> = items.chain(names).filter_map(Value::as_str).collect();
            all.sort_unstable();
            all.join(" ")
        };
        let asked = self.asked.lock();
        asked.iter().map(|(url, question)| format!("{url} {}", nodes(question))).collect::<Vec<_>>().join(", ")
    }
}

fn merged(mut value: Value, fields: Value) -> Value {
    fixture::merge(&mut value, fields);
    value
}

fn pod() -> Value {
    fixture::pod("web", "100m", json!({}))
}

/// Returns an extender that filters, with other fields.
fn filter(fields: Value) -> Value {
    merged(json!({"urlPrefix": "http://a", "filterVerb": "filter", "httpTimeout": "2s"}), fields)
}

fn whole(names: &[&str]) -> Value {
    let items: Vec<Value> = names.iter().map(|name| json!({"metadata": {"name": name}})).collect();
    json!({"Nodes": {"items": items}})
}

#[tokio::test(start_paused = true)]
async fn filters_leave_nodes_or_fail() {
    let by_name = json!({"nodeCacheCapable": true});
    let refusal = json!({
        "FailedNodes": {"n1": "too warm", "n2": "too warm", "n9": "not asked"},
        "FailedAndUnresolvableNodes": {"n2": "no fan", "n3": "no fan"},
    });
    let unknown = r#"extender "http://a" claims a filtered node "n9" which is not found in the input node list"#;
    for (fields, answer, expected) in [
        (json!({}), Json(whole(&["n2"])), "n2"),
        (by_name.clone(), Json(json!({"NodeNames": ["n3"]})), "n3"),
        // Go reads field names in any case, and no answer may name all.
        (by_name.clone(), Json(json!({"nodenames": ["n3"], "failednodes": null, "error": ""})), "n3"),
        (by_name.clone(), Json(whole(&["n1"])), "n1"),
        (json!({}), Json(refusal), "0/3 nodes are available: 1 too warm, 2 no fan."),
        (json!({}), Json(json!({})), "0/3 nodes are available:"),
        (json!({}), Json(json!({"Error": "at lunch"})), "at lunch"),
        (json!({}), Json(whole(&["n9"])), unknown),
        (by_name, Json(json!({"NodeNames": ["n1", "n9"]})), unknown),
        (json!({}), Text(500, "boom"), "failed filter with extender at URL http://a/filter, code 500"),
        (json!({"filterVerb": "other"}), Text(200, ""), "failed other with extender at URL http://a/other, code 404"),
        (json!({}), Text(200, "gone"), "invalid character 'g' looking for beginning of value"),
        (json!({}), Text(200, ""), "EOF"),
        (
            json!({"urlPrefix": "http://down:1/"}),
            Never,
            r#"Post "http://down:1/filter": dial tcp down:1: connect: connection refused"#,
        ),
        (
            json!({}),
            Never,
            r#"Post "http://a/filter": context deadline exceeded (Client.Timeout exceeded while awaiting headers)"#,
        ),
    ] {
        let mut world = World::new(&json!([filter(fields.clone())]), &[("http://a/filter", answer.clone())]);
        let began = world.env.now();
        assert_eq!(world.outcome(pod()).await, expected);
        let waited = world.env.now() - began;
        assert_eq!(waited, Duration::from_secs(if expected.contains("deadline") { 2 } else { 0 }), "{expected}");
        if expected.starts_with('n') || expected.starts_with('0') {
            continue;
        }
        // What makes a pod fail lets it pass if the extender is ignorable.
        let ignorable = filter(merged(fields, json!({"ignorable": true})));
        let mut world = World::new(&json!([ignorable]), &[("http://a/filter", answer)]);
        let node = world.outcome(pod()).await;
        assert!(["n1", "n2", "n3"].contains(&node.as_str()), "{node}");
    }
}

#[tokio::test(start_paused = true)]
async fn each_extender_sees_what_those_before_it_left_and_ignorable_ones_come_last() {
    let extenders = json!([
        filter(json!({"ignorable": true})),
        filter(json!({"urlPrefix": "http://b"})),
        filter(json!({"urlPrefix": "http://c", "nodeCacheCapable": true})),
    ]);
    let answers = [
        ("http://a/filter", Json(whole(&["n3"]))),
        ("http://b/filter", Json(whole(&["n2", "n3"]))),
        ("http://c/filter", Json(json!({"NodeNames": ["n3"]}))),
    ];
    let mut world = World::new(&extenders, &answers);
    assert_eq!(world.outcome(pod()).await, "n3");
    assert_eq!(world.asked(), "http://b/filter n1 n2 n3, http://c/filter n2 n3, http://a/filter n3");
    let question = world.asked.lock()[1].1.clone();
    assert_eq!((&question["Nodes"], &question["Pod"]["metadata"]["name"]), (&Value::Null, &json!("web")));
    let mut none_left = World::new(&extenders, &[("http://b/filter", Json(json!({"FailedNodes": {"n1": "no"}})))]);
    assert_eq!(none_left.outcome(pod()).await, "0/3 nodes are available: 1 no.");
    assert_eq!(none_left.asked(), "http://b/filter n1 n2 n3", "nothing is left to ask the others about");
}

#[tokio::test(start_paused = true)]
async fn an_extender_is_asked_about_pods_with_its_resources() {
    let managed = json!({"managedResources": [{"name": "example.com/fan"}]});
    let answers = [("http://a/filter", Json(whole(&["n2"])))];
    let container = |limits: Value| json!({"containers": [{"name": "c", "resources": {"limits": limits}}]});
    for (spec, asked) in [
        (container(json!({"cpu": "1m"})), false),
        (container(json!({"example.com/fan": "0"})), true),
        (json!({"initContainers": [{"name": "i", "resources": {"requests": {"example.com/fan": "0"}}}]}), true),
    ] {
        let mut world = World::new(&json!([filter(managed.clone())]), &answers);
        world.outcome(fixture::pod("web", "100m", spec)).await;
        assert_eq!(!world.asked.lock().is_empty(), asked);
    }
}

#[tokio::test(start_paused = true)]
async fn priorities_are_scaled_and_weighted_and_failures_add_nothing() {
    let prioritize = |url: &str, weight: i64| json!({"urlPrefix": url, "prioritizeVerb": "rank", "weight": weight});
    let extenders = json!([prioritize("http://a", 2), prioritize("http://b", 100), prioritize("http://c", 1)]);
    let ranks = json!([{"Host": "n1", "Score": 1}, {"host": "n3", "score": 10}, {"Host": "n9", "Score": 10}]);
    let answers = [
        ("http://a/rank", Json(ranks)),
        ("http://b/rank", Text(503, "")),
        ("http://c/rank", Json(json!([{"Host": "n1", "Score": 3}]))),
    ];
    let mut world = World::new(&extenders, &answers);
    let decision = world.decide(&info(pod()), &mut CycleState::default()).await.unwrap();
    let extended = decision.scores.last().unwrap();
    let nodes = world.cluster.names(&decision);
    let by_node: BTreeMap<&str, i64> = nodes.iter().map(String::as_str).zip(extended.scores.iter().copied()).collect();
    assert_eq!(by_node, BTreeMap::from([("n1", 50), ("n2", 0), ("n3", 200)]));
    assert_eq!((extended.plugin, extended.weight, decision.node.as_str()), (EXTENDER, 1, "n3"));
}

#[tokio::test(start_paused = true)]
async fn the_nominated_node_is_evaluated_alone_and_again_with_the_others() {
    let mut nominated = pod();
    nominated["status"] = json!({"nominatedNodeName": "n2"});
    for (answer, expected, asked) in [
        (Json(whole(&["n2"])), "n2", "http://a/filter n2"),
        (Json(json!({})), "0/3 nodes are available:", "http://a/filter n2, http://a/filter n1 n2 n3"),
        (Json(json!({"Error": "no"})), "no", "http://a/filter n2, http://a/filter n1 n2 n3"),
    ] {
        let mut world = World::new(&json!([filter(json!({}))]), &[("http://a/filter", answer)]);
        assert_eq!(world.outcome(nominated.clone()).await, expected);
        assert_eq!(world.asked(), asked);
    }
}

/// Lets a pod preempt on three full nodes. Returns the nomination with the victims, or the message.
async fn preempt(extenders: Value, answers: &[(&str, Answer)]) -> (String, Value) {
    let mut world = World::new(&extenders, answers);
    for (node, priority) in [("n1", 1), ("n2", 2), ("n3", 3)] {
        world.cluster.place(fixture::pod(&format!("on-{node}"), "1", json!({"priority": priority})), node);
    }
    let (pod, mut state) = (info(fixture::pod("web", "1", json!({"priority": 9}))), CycleState::default());
    let Err(CycleError::NoFit(mut error)) = world.decide(&pod, &mut state).await else { panic!("it fits") };
    let World { cluster: TestCluster { profile, snapshot, nominated, .. }, extenders, asked, .. } = &world;
    let mut result = profile.run_post_filters(&mut error, &state, &pod, snapshot, nominated);
    extenders.process_preemption(&pod, snapshot, &mut result, &mut error).await;
    let outcome = match &result.nomination {
        Nomination::Node(node) => format!("{node} without {}", result.victims[0].pod.name()),
        Nomination::Keep => format!("{} {:?}", result.message, result.victims.is_empty()),
        Nomination::Clear => "cleared".to_owned(),
    };
    assert!(error.to_string().ends_with(&result.message), "{error}");
    let question = asked.lock().first().map(|(_, question)| question.clone()).unwrap_or_default();
    (outcome, question)
}

#[tokio::test(start_paused = true)]
async fn preemption_asks_about_the_candidates() {
    let uid = |name: &str| info(fixture::pod(name, "1", json!({}))).uid().to_owned();
    let answer = |node: &str, victims: &[&str]| {
        let pods: Vec<Value> = victims.iter().map(|name| json!({"UID": uid(name)})).collect();
        Json(json!({"NodeNameToMetaVictims": {node: {"Pods": pods, "NumPDBViolations": 0}}}))
    };
    let extender = |fields: Value| {
        let preempt = json!({"urlPrefix": "http://a", "preemptVerb": "preempt"});
        json!([merged(preempt, fields)])
    };
    let lost = format!(
        "preemption: extender: http://a claims to preempt pod (UID: &{{{}}}) on node: n1, but the pod is not found on that node true",
        uid("on-n2")
    );
    for (fields, given, expected) in [
        (json!({"managedResources": [{"name": "example.com/fan"}]}), answer("n3", &["on-n3"]), "n1 without on-n1"),
        (json!({}), answer("n3", &["on-n3"]), "n3 without on-n3"),
        (json!({}), Json(json!({})), "no new claims to deallocate, preemption: no candidate node for preemption true"),
        (json!({}), answer("n3", &[]), r#"preemption: expected at least one victim pod on node "n3" true"#),
        (
            json!({"ignorable": true}),
            answer("n3", &[]),
            "no new claims to deallocate, preemption: no candidate node for preemption true",
        ),
        (json!({}), answer("n9", &["on-n3"]), r#"preemption: nodeinfo not found for node name "n9" true"#),
        (json!({}), answer("n1", &["on-n2"]), lost.as_str()),
        (json!({"ignorable": true}), answer("n1", &["on-n2"]), "n1 without on-n1"),
        (json!({"ignorable": true}), Text(500, ""), "n1 without on-n1"),
        (json!({}), Text(500, ""), "preemption: failed preempt with extender at URL http://a/preempt, code 500 true"),
    ] {
        let (outcome, _) = preempt(extender(fields), &[("http://a/preempt", given)]).await;
        assert_eq!(outcome, expected);
    }
    let all = |question: &Value, map: &str| question[map].as_object().map(|map| map.len());
    let (_, question) = preempt(extender(json!({})), &[("http://a/preempt", Json(json!({})))]).await;
    assert_eq!((all(&question, "NodeNameToVictims"), all(&question, "NodeNameToMetaVictims")), (Some(3), None));
    let victims = &question["NodeNameToVictims"]["n2"];
    assert_eq!((&victims["Pods"][0]["metadata"]["name"], &victims["NumPDBViolations"]), (&json!("on-n2"), &json!(0)));
    let cached = extender(json!({"nodeCacheCapable": true}));
    let (_, question) = preempt(cached, &[("http://a/preempt", Json(json!({})))]).await;
    let expected = json!({"Pods": [{"UID": uid("on-n2")}], "NumPDBViolations": 0});
    assert_eq!((&question["NodeNameToMetaVictims"]["n2"], all(&question, "NodeNameToVictims")), (&expected, None));
}

#[tokio::test(start_paused = true)]
async fn a_binder_binds_or_fails_or_is_ignored() {
    let binder = |fields: Value| json!([merged(json!({"urlPrefix": "http://a", "bindVerb": "bind"}), fields)]);
    for (fields, answer, expected) in [
        (json!({}), Json(json!({})), Some(Ok(()))),
        (json!({}), Json(json!({"Error": "taken"})), Some(Err("taken".to_owned()))),
        (json!({"ignorable": true}), Json(json!({"Error": "taken"})), None),
        (json!({"managedResources": [{"name": "example.com/fan"}]}), Json(json!({})), None),
    ] {
        let world = World::new(&binder(fields), &[("http://a/bind", answer)]);
        assert_eq!(world.extenders.bind(&info(pod()), "n1").await, expected);
    }
    let world = World::new(&binder(json!({})), &[("http://a/bind", Json(json!({})))]);
    let web = info(pod());
    world.extenders.bind(&web, "n1").await.unwrap().unwrap();
    let expected = json!({"PodName": "web", "PodNamespace": web.namespace(), "PodUID": web.uid(), "Node": "n1"});
    assert_eq!(world.asked.lock()[0].1, expected);
}

#[tokio::test(start_paused = true)]
async fn everything_that_is_wrong_with_an_address_is_reported() {
    let env = Env::simulated(1);
    let wrong = json!([
        {"urlPrefix": ""},
        {"urlPrefix": "http://fine", "tlsConfig": {"caFile": "/does/not/exist"}},
        {"urlPrefix": "https://fine", "tlsConfig": {"insecure": true, "caData": "UEVN"}},
        {"urlPrefix": "http://fine/path/"},
    ]);
    let configured: Vec<configuration::Extender> = serde_json::from_value(wrong).unwrap();
    let errors = Extenders::new(&env, &configured).unwrap_err();
    let starts = ["extenders[0].urlPrefix: ", "extenders[1].tlsConfig.caFile: ", "extenders[2].tlsConfig.insecure: "];
    assert_eq!(errors.len(), starts.len());
    errors.iter().zip(starts).for_each(|(error, start)| assert!(error.starts_with(start), "{error}"));
}

#[tokio::test(start_paused = true)]
async fn resources_that_the_scheduler_ignores_are_left_to_the_extender() {
    let requests = json!({"containers": [{"name": "c", "resources": {"requests": {"example.com/fan": "1"}}}]});
    let pod = info(fixture::pod("web", "1m", requests));
    for (is_ignored, fits) in [(false, false), (true, true)] {
        let managed = json!({"name": "example.com/fan", "ignoredByScheduler": is_ignored});
        let extender = json!({"urlPrefix": "http://a", "managedResources": [managed]});
        let extenders = vec![serde_json::from_value(extender).unwrap()];
        let configuration = Configuration { extenders, ..Configuration::default() };
        let profiles = Profiles::assemble(&configuration, &fixture::registry(Objects::default())).unwrap();
        let mut world = World::new(&json!([]), &[]);
        let TestCluster { cache, snapshot, nominated, rotation, .. } = &mut world.cluster;
        cache.update(snapshot);
        let (profile, random) = (profiles.of(&pod.pod).unwrap(), Random::from_seed(1, "ties"));
        let mut state = CycleState::default();
        let decided = schedule_one_with(
            world.extenders.in_cycle(),
            profile,
            &mut state,
            &pod,
            snapshot,
            nominated,
            rotation,
            &random,
        )
        .await;
        assert_eq!(decided.is_ok(), fits);
    }
}
