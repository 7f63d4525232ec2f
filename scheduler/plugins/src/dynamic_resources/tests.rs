//! Tests the plugin in scheduling cycles: what keeps a pod from a node, what it gets, and what is written.

mod extended;

use super::*;
use crate::fixture::{self, Objects, TestCluster, info, node, pod};
use client::{Client, Event, Recorder};
use client_testing::{FakeServer, Fault};
use component_base::env::Env;
use proto::Status;
use proto::kinds::api::resource::v1::DeviceClass;
use proto::kinds::jiff::Timestamp;
use scheduling_framework::{FitError, Nominated};
use serde_json::{Value, json};

const DRIVER: &str = "gpu.example.com";
const COLLECTION: &str = "resourceclaims.resource.k8s.io";

/// Returns the slice of a node with devices of these models.
fn slice(node: &str, models: &[&str]) -> ResourceSlice {
    let devices: Value = models
        .iter()
        .enumerate()
        .map(|(number, model)| json!({"name": format!("gpu-{number}"), "attributes": {"model": {"string": model}}}))
        .collect();
    let pool = json!({"name": node, "generation": 1, "resourceSliceCount": 1});
    let spec = json!({"driver": DRIVER, "nodeName": node, "pool": pool, "devices": devices});
    ResourceSlice::decode_value(json!({"metadata": {"name": node}, "spec": spec})).unwrap()
}

fn class(name: &str) -> DeviceClass {
    DeviceClass::decode_value(json!({"metadata": {"name": name}, "spec": {}})).unwrap()
}

/// Returns a claim for one device, with `extra` over it.
fn claim(name: &str, extra: Value) -> ResourceClaim {
    let request =
        json!({"name": "gpu", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}});
    let mut claim = json!({
        "metadata": {"namespace": "shop", "name": name, "uid": name, "resourceVersion": "1"},
        "spec": {"devices": {"requests": [request]}},
    });
    fixture::merge(&mut claim, extra);
    ResourceClaim::decode_value(claim).unwrap()
}

/// Returns the status of a claim that has a device of a node.
fn allocated(node: &str, device: &str, consumers: Value) -> Value {
    let result = json!({"request": "gpu", "driver": DRIVER, "pool": node, "device": device});
    let field = json!({"key": "metadata.name", "operator": "In", "values": [node]});
    let selector = json!({"nodeSelectorTerms": [{"matchFields": [field]}]});
    let allocation = json!({"devices": {"results": [result]}, "nodeSelector": selector});
    json!({"status": {"allocation": allocation, "reservedFor": consumers}})
}

fn consumer(name: &str) -> Value {
    json!({"resource": "pods", "name": name, "uid": name})
}

/// The plugin over fixed objects: `n1` has a device A, and `n2` a device A and a device B.
fn plugin(claims: impl IntoIterator<Item = ResourceClaim>) -> DynamicResources {
    let slices = [slice("n1", &["A"]), slice("n2", &["A", "B"])];
    let sources = Sources::of(Lister::of(claims), DeviceClasses::of([class("gpu")]), Lister::of(slices));
    DynamicResources { sources, random: Random::from_seed(1, "shares"), max_steps: MAX_STEPS, writer: None }
}

fn cluster(devices: DynamicResources) -> TestCluster {
    let nodes = [node("n1", "a", json!({})), node("n2", "b", json!({}))];
    TestCluster::with(fixture::profile(Objects { devices, ..Objects::default() }), nodes)
}

fn pod_with(name: &str, claims: &[&str]) -> Value {
    let claims: Vec<Value> = claims.iter().map(|claim| json!({"name": claim, "resourceClaimName": claim})).collect();
    pod(name, "1", json!({"resourceClaims": claims}))
}

fn check(claims: Vec<ResourceClaim>, wanted: &[&str], expected: &str) {
    assert_eq!(cluster(plugin(claims)).schedule(pod_with("train", wanted)), expected);
}

fn of_model(model: &str) -> Value {
    let expression = format!("device.attributes[{DRIVER:?}].model == {model:?}");
    let exactly = json!({"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1,
        "selectors": [{"cel": {"expression": expression}}]});
    json!({"spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}})
}

#[test]
fn a_pod_goes_where_its_devices_are() {
    check(vec![claim("one", of_model("B"))], &["one"], "train -> n2");
    let still =
        "still not schedulable, preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.";
    let none = "train: 0/2 nodes are available: 2 cannot allocate all claims.";
    check(vec![claim("one", of_model("C"))], &["one"], none);
    let three = ["a", "b", "c"].map(|name| claim(name, json!({}))).to_vec();
    check(three.clone(), &["a", "b"], "train -> n2");
    check(three, &["a", "b", "c"], none);
    let mut cluster = cluster(plugin([claim("one", of_model("C"))]));
    assert!(cluster.preempt(pod_with("train", &["one"])).ends_with(still));
}

#[test]
fn claims_that_cannot_be_used_reject_the_pod() {
    let rejected = |reason: &str| format!("train: 0/2 nodes are available: {reason}.");
    check(vec![], &["one"], &rejected("could not find ResourceClaim \"shop/one\": object not found"));
    let deleting = claim("one", json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}));
    check(vec![deleting], &["one"], &rejected("resourceclaim \"one\" is being deleted"));
    let others: Value = (0..256).map(|number| consumer(&format!("p-{number}"))).collect();
    check(vec![claim("one", allocated("n1", "gpu-0", others))], &["one"], &rejected("resourceclaim in use"));
    let exactly = json!({"deviceClassName": "tpu", "allocationMode": "ExactCount", "count": 1});
    let unknown = claim("one", json!({"spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}}));
    check(vec![unknown], &["one"], &rejected("request r: device class tpu does not exist"));
    let list = json!([{"name": "r", "exactly": null, "firstAvailable": [{"name": "x", "deviceClassName": "tpu"}]}]);
    let unknown = claim("one", json!({"spec": {"devices": {"requests": list}}}));
    check(vec![unknown], &["one"], &rejected("request r/x: device class tpu does not exist"));
    let failing = claim("one", of_model("A"));
    let mut broken = failing.encode();
    broken["spec"]["devices"]["requests"][0]["exactly"]["selectors"][0]["cel"]["expression"] =
        json!("device.attributes[\"x\"].y == 1");
    let told = cluster(plugin([ResourceClaim::decode_value(broken).unwrap()])).schedule(pod_with("train", &["one"]));
    assert!(
        told.contains(
            "1 claim shop/one: selector #0 on device gpu.example.com/n1/gpu-0: CEL runtime error: no such key: y"
        ),
        "{told}"
    );
}

/// The claim of a template has no name before it is made, and belongs to its pod.
#[test]
fn a_pod_waits_for_the_claims_of_its_templates() {
    let mut waiting = pod("train", "1", json!({"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}]}));
    let gate = |claims: Vec<ResourceClaim>, pod: &Value| {
        plugin(claims).pre_enqueue(&info(pod.clone())).map_err(|rejection| rejection.reasons.join(", "))
    };
    let not_made = "pod \"shop/train\": ResourceClaim not created yet".to_owned();
    assert_eq!(gate(vec![], &waiting), Err(not_made));
    waiting["status"] = json!({"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "own"}]});
    let foreign = "ResourceClaim shop/own was not created for pod shop/train (pod is not owner)".to_owned();
    assert_eq!(gate(vec![claim("own", json!({}))], &waiting), Err(foreign));
    let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "train", "uid": "train", "controller": true});
    let own = claim("own", json!({"metadata": {"ownerReferences": [owner]}}));
    assert_eq!(gate(vec![own], &waiting), Ok(()));
    waiting["status"] = json!({"resourceClaimStatuses": [{"name": "gpu"}]});
    assert_eq!(gate(vec![], &waiting), Ok(()), "the pod needs no claim");
}

#[test]
fn an_allocated_claim_decides_the_node() {
    let shared = claim("one", allocated("n2", "gpu-0", json!([consumer("other")])));
    check(vec![shared.clone()], &["one"], "train -> n2");
    // The devices of other claims are taken.
    check(vec![shared.clone(), claim("two", of_model("A"))], &["two"], "train -> n1");
    let elsewhere = claim("one", allocated("n3", "gpu-0", json!([consumer("other")])));
    let told = "train: 0/2 nodes are available: 2 resourceclaim not available on the node.";
    check(vec![elsewhere], &["one"], told);
}

/// Runs a cycle that finds no node, and returns what PostFilter says and writes.
fn post_filter(claim: ResourceClaim) -> (String, Vec<String>) {
    let devices = plugin([claim]);
    let (mut cluster, info) = (cluster(devices), info(pod_with("train", &["one"])));
    let mut state = CycleState::default();
    let error = cluster.decide(&info, &mut state).unwrap_err();
    let FitError::NoFit { diagnosis, .. } = &error else { panic!("{error}") };
    let (profile, snapshot, nominated) = (&cluster.profile, &cluster.snapshot, &Nominated::default());
    let failed = FailedCycle { profile, state: &state, pod: &info, snapshot, diagnosis, nominated };
    let result = profile.post_filter[0].post_filter(&failed).unwrap();
    (result.message, result.writes.iter().map(ToString::to_string).collect())
}

#[test]
fn a_claim_that_blocks_its_only_user_is_freed() {
    let freed = vec!["update resourceclaims.resource.k8s.io/status shop/one".to_owned()];
    for (consumers, message, expected) in [
        (json!([]), "deallocation of ResourceClaim completed", freed.clone()),
        (json!([consumer("train")]), "deallocation of ResourceClaim completed", freed.clone()),
        (json!([consumer("other")]), "still not schedulable", vec![]),
        (json!([consumer("train"), consumer("other")]), "still not schedulable", vec![]),
    ] {
        let told = post_filter(claim("one", allocated("n3", "gpu-0", consumers)));
        assert_eq!(told, (message.to_owned(), expected));
    }
}

/// Returns a rule that taints the devices that `selector` selects.
fn taint_rule(selector: Value, effect: &str) -> DeviceTaintRule {
    let spec = json!({"deviceSelector": selector, "taint": {"key": "broken", "effect": effect}});
    DeviceTaintRule::decode_value(json!({"metadata": {"name": "r"}, "spec": spec})).unwrap()
}

/// The rules are those of the documentation of DeviceTaintRule: what a selector leaves out may have any value, an empty one
/// selects all devices, and none selects nothing.
#[test]
fn rules_taint_the_devices_that_they_select() {
    for (selector, effect, expected) in [
        (json!(null), "NoSchedule", "n1 n2"),
        (json!({"pool": "n1"}), "NoSchedule", "n2"),
        (json!({"pool": "n2"}), "NoExecute", "n1"),
        (json!({"pool": "n1", "device": "gpu-1"}), "NoSchedule", "n1 n2"),
        (json!({"device": "gpu-0"}), "NoSchedule", "n2"),
        (json!({"driver": "other.example.com"}), "NoSchedule", "n1 n2"),
        (json!({"driver": DRIVER}), "None", "n1 n2"),
        (json!({"driver": DRIVER}), "NoSchedule", ""),
        (json!({}), "NoSchedule", ""),
    ] {
        let mut devices = plugin([claim("one", json!({}))]);
        devices.sources.taint_rules = Some(Lister::of([taint_rule(selector.clone(), effect)]));
        let mut cluster = cluster(devices);
        let decided = cluster.decide(&info(pod_with("train", &["one"])), &mut CycleState::default());
        let mut fitting = decided.map(|decision| cluster.names(&decision)).unwrap_or_default();
        fitting.sort();
        assert_eq!(fitting.join(" "), expected, "{selector} {effect}");
    }
}

#[test]
fn a_rule_changes_no_slice_but_those_of_its_devices() {
    let (one, two) = (Arc::new(slice("n1", &["A"])), Arc::new(slice("n2", &["A", "B"])));
    let rules = [Arc::new(taint_rule(json!({"device": "gpu-1"}), "NoSchedule"))];
    assert!(Arc::ptr_eq(&one, &taint_rules::apply(&rules, one.clone())));
    let tainted = taint_rules::apply(&rules, two.clone());
    let taints = |slice: &ResourceSlice| {
        let devices = slice.spec.devices.iter().flatten();
        devices.map(|device| device.taints.iter().flatten().map(|taint| taint.key.clone()).collect()).collect()
    };
    let (before, after): (Vec<Vec<String>>, Vec<Vec<String>>) = (taints(&two), taints(&tainted));
    assert_eq!((before, after), (vec![vec![]; 2], vec![vec![], vec!["broken".to_owned()]]));
}

#[test]
fn the_filter_timeout_sets_the_steps_of_a_search() {
    let configured = |timeout: &str| {
        let args = DynamicResourcesArgs { filter_timeout: timeout.to_owned(), ..DynamicResourcesArgs::default() };
        plugin([]).configured(&args).unwrap().max_steps
    };
    assert_eq!(configured("10s"), MAX_STEPS);
    assert_eq!(configured("1s"), MAX_STEPS / 10);
    assert_eq!(configured("1h"), MAX_STEPS * 100);
    assert_eq!(configured("0s"), MAX_STEPS * 100);
}

/// A driver that fails, and one that does not answer in time, lose the claim.
#[test]
fn a_claim_whose_devices_do_not_become_ready_is_freed() {
    let now: Timestamp = "2026-01-01T01:00:00Z".parse().unwrap();
    let with = |conditions: Value, since: &str| {
        let mut status = allocated("n1", "gpu-0", json!([consumer("train")]));
        let allocation = &mut status["status"]["allocation"];
        allocation["allocationTimestamp"] = json!(since);
        let result = &mut allocation["devices"]["results"][0];
        result["bindingConditions"] = json!(["Attached"]);
        result["bindingFailureConditions"] = json!(["Failed"]);
        status["status"]["devices"] =
            json!([{"driver": DRIVER, "pool": "n1", "device": "gpu-0", "conditions": conditions}]);
        claim("one", status)
    };
    let condition = |name: &str, status: &str| json!([{"type": name, "status": status, "reason": "Broken", "message": "no", "lastTransitionTime": "2026-01-01T00:50:00Z"}]);
    let (early, late) = ("2026-01-01T00:55:00Z", "2026-01-01T00:49:00Z");
    for (conditions, since, ready, is_stuck) in [
        (json!([]), early, Ok(false), false),
        (json!([]), late, Ok(false), true),
        (condition("Attached", "True"), late, Ok(true), false),
        (condition("Attached", "False"), early, Ok(false), false),
        (
            condition("Failed", "True"),
            early,
            Err("claim one binding failed: reason=Broken, message=\"no\"".to_owned()),
            true,
        ),
    ] {
        let claim = with(conditions, since);
        assert_eq!(binding_conditions::is_ready(&claim), ready);
        assert_eq!(
            binding_conditions::is_stuck(&claim, Some(now - Duration::from_secs(600))),
            is_stuck,
            "{ready:?} {since}"
        );
    }
    let failed = with(condition("Failed", "True"), early);
    assert_eq!(post_filter(failed).0, "deallocation of ResourceClaim completed");
}

#[test]
fn nodes_with_a_better_alternative_are_preferred() {
    let alternative = |name: &str, model: &str| {
        let mut one = of_model(model)["spec"]["devices"]["requests"][0]["exactly"].clone();
        one["name"] = json!(name);
        one
    };
    let list = json!([{"name": "r", "firstAvailable": [alternative("best", "B"), alternative("good", "A")]}]);
    let claim = ResourceClaim::decode_value(json!({
        "metadata": {"namespace": "shop", "name": "one", "uid": "one", "resourceVersion": "1"}, "spec": {"devices": {"requests": list}},
    }))
    .unwrap();
    let scores = cluster(plugin([claim])).scores(pod_with("train", &["one"]));
    let row = scores.lines().find(|line| line.starts_with(NAME)).unwrap();
    assert_eq!(row.split_whitespace().collect::<Vec<_>>(), [NAME, "x2", "87", "100"]);
}

/// Two pods in a row never get one device, although the caches do not show the first allocation yet.
#[test]
fn reserved_devices_are_taken_until_they_are_released() {
    let devices = plugin([claim("one", of_model("B")), claim("two", of_model("B"))]);
    let reserve = |claim: &str| {
        let (info, mut state) = (info(pod_with(claim, &[claim])), CycleState::default());
        devices.pre_filter(&mut state, &info, &Snapshot::default()).map_err(|it| it.reasons.join(", "))?;
        let mut place = NodeInfo::default();
        place.set_node(node("n2", "b", json!({})));
        devices.filter(&state, &info, &place).map_err(|it| it.reasons.join(", "))?;
        devices.reserve(&mut state, &info, "n2").map_err(|it| it.reasons.join(", "))?;
        Ok::<_, String>((state, info))
    };
    let (state, first) = reserve("one").unwrap();
    assert_eq!(devices.pre_bind_pre_flight(&state, &first, "n2"), PreBindPreFlight::Run);
    let none = "cannot allocate all claims".to_owned();
    assert_eq!(reserve("two").map(drop), Err(none.clone()));
    let in_flight = "resource claim shop/one is in the process of being allocated".to_owned();
    assert_eq!(reserve("one").map(drop), Err(in_flight));
    devices.unreserve(&state, &first, "n2");
    let (_, _second) = reserve("two").unwrap();
    assert_eq!(reserve("one").map(drop), Err(none));
}

/// The claims as the scheduler knows them while its own writes are on the way.
#[test]
fn written_claims_count_before_the_cache_shows_them() {
    let versioned = |version: &str, status: Value| {
        let mut extra = json!({"metadata": {"resourceVersion": version}});
        fixture::merge(&mut extra, status);
        Arc::new(claim("one", extra))
    };
    let devices = plugin([claim("one", json!({}))]);
    let tracked = &devices.sources.claims;
    let told = || {
        let version = tracked.get("shop", "one").map(|claim| claim.resource_version().to_owned());
        (version.unwrap_or_default(), tracked.allocated().0 != Arc::default())
    };
    let with = allocated("n1", "gpu-0", json!([]));
    tracked.reserve(versioned("1", with.clone()));
    assert_eq!(told(), ("1".to_owned(), true));
    // Others change the claim meanwhile; the devices stay reserved.
    tracked.on_event(&Event::Added(versioned("2", json!({}))));
    assert_eq!(told(), ("1".to_owned(), true));
    tracked.written(versioned("4", with.clone()));
    assert_eq!(told(), ("4".to_owned(), true));
    // The event of the finalizer comes after the answer to the allocation.
    tracked.on_event(&Event::Added(versioned("3", json!({}))));
    assert_eq!(told(), ("4".to_owned(), true));
    tracked.on_event(&Event::Added(versioned("4", with)));
    assert_eq!(told(), ("1".to_owned(), true), "the cache of this test does not change");
    tracked.on_event(&Event::Updated { old: versioned("4", json!({})), new: versioned("5", json!({})) });
    assert!(!told().1);
    tracked.reserve(versioned("5", allocated("n1", "gpu-0", json!([]))));
    tracked.release(&versioned("5", json!({})));
    assert!(!told().1);
}

#[test]
fn events_wake_the_pods_that_they_may_help() {
    let devices = plugin([claim("one", json!({})), claim("two", json!({}))]);
    let waiting = info(pod_with("train", &["one"]));
    let changed = |name: &str, old: Option<Value>, new: Option<Value>| {
        let claim = |extra: Option<Value>| extra.map(|extra| Arc::new(claim(name, extra)));
        ClusterEvent::ResourceClaimChanged { old: claim(old), new: claim(new) }
    };
    let with = || Some(allocated("n1", "gpu-0", json!([])));
    let plain = || Some(json!({}));
    for (event, expected) in [
        (changed("one", None, plain()), true),
        (changed("two", None, plain()), false),
        (changed("two", with(), plain()), true),
        (changed("two", with(), None), true),
        (changed("two", plain(), with()), false),
        (changed("one", plain(), with()), true),
        (changed("one", plain(), Some(json!({"metadata": {"finalizers": ["x"]}}))), false),
        (ClusterEvent::DevicesChanged, true),
        (ClusterEvent::NodeAdded(node("n3", "a", json!({}))), true),
        (ClusterEvent::VolumesChanged, false),
    ] {
        assert_eq!(devices.may_become_schedulable(&waiting, &event), expected, "{event:?}");
    }
    let missing = info(pod_with("train", &["three"]));
    assert!(!devices.may_become_schedulable(&missing, &changed("one", with(), plain())));
}

/// A pod that is bound by the plugin, on a server with its claim.
struct Binding {
    server: FakeServer,
    devices: DynamicResources,
    state: CycleState,
    info: Arc<PodInfo>,
}

impl Binding {
    async fn reserved(env: &Env) -> Self {
        let server = FakeServer::new(env);
        server.put(COLLECTION, claim("one", json!({})).encode());
        let client = Client::from_service(env, server.service(), "test");
        let stored = client.api::<ResourceClaim>("shop").get("one").await.unwrap();
        let recorder = Recorder::new(&client, "default-scheduler", "");
        let mut devices = plugin([stored]);
        devices.writer = Some(Writer::new(&client, recorder));
        let (info, mut state) = (info(pod_with("train", &["one"])), CycleState::default());
        devices.pre_filter(&mut state, &info, &Snapshot::default()).unwrap();
        let mut place = NodeInfo::default();
        place.set_node(node("n1", "a", json!({})));
        devices.filter(&state, &info, &place).unwrap();
        devices.reserve(&mut state, &info, "n1").unwrap();
        Self { server, devices, state, info }
    }

    async fn bind(&self) -> Result<(), String> {
        self.devices.pre_bind(&self.state, &self.info, "n1").await
    }

    fn stored(&self) -> Value {
        self.server.get(COLLECTION, "shop/one").unwrap()
    }
}

#[tokio::test(start_paused = true)]
async fn binding_writes_the_finalizer_the_allocation_and_the_reservation() {
    let env = Env::simulated(1);
    let binding = Binding::reserved(&env).await;
    binding.bind().await.unwrap();
    let stored = binding.stored();
    assert_eq!(stored["metadata"]["finalizers"], json!([FINALIZER]));
    let allocation = &stored["status"]["allocation"];
    assert_eq!(allocation["devices"]["results"][0]["device"], "gpu-0");
    let field = json!([{"key": "metadata.name", "operator": "In", "values": ["n1"]}]);
    assert_eq!(allocation["nodeSelector"]["nodeSelectorTerms"][0]["matchFields"], field);
    assert!(allocation["allocationTimestamp"].is_string());
    assert_eq!(stored["status"]["reservedFor"], json!([consumer("train")]));
    // A second pod that shares the claim adds only its reservation.
    let other = info(pod_with("other", &["one"]));
    let mut state = CycleState::default();
    binding.devices.pre_filter(&mut state, &other, &Snapshot::default()).unwrap();
    binding.devices.reserve(&mut state, &other, "n1").unwrap();
    binding.devices.pre_bind(&state, &other, "n1").await.unwrap();
    assert_eq!(binding.stored()["status"]["reservedFor"], json!([consumer("train"), consumer("other")]));
}

/// The next attempt begins while the request that takes back the reservation is on its way.
#[tokio::test(start_paused = true)]
async fn a_late_unreserve_takes_no_reservation_of_the_next_attempt() {
    let env = Env::simulated(1);
    let binding = Binding::reserved(&env).await;
    binding.bind().await.unwrap();
    binding.devices.unreserve(&binding.state, &binding.info, "n1");
    let mut state = CycleState::default();
    binding.devices.pre_filter(&mut state, &binding.info, &Snapshot::default()).unwrap();
    binding.devices.reserve(&mut state, &binding.info, "n1").unwrap();
    binding.devices.pre_bind(&state, &binding.info, "n1").await.unwrap();
    env.sleep(Duration::from_secs(60)).await;
    assert_eq!(binding.stored()["status"]["reservedFor"], json!([consumer("train")]));
}

#[tokio::test(start_paused = true)]
async fn a_conflict_is_resolved_and_other_errors_end_the_attempt() {
    let env = Env::simulated(1);
    let binding = Binding::reserved(&env).await;
    // Somebody labels the claim meanwhile.
    let mut labelled = binding.stored();
    labelled["metadata"]["labels"] = json!({"team": "vision"});
    binding.server.put(COLLECTION, labelled);
    binding.bind().await.unwrap();
    assert_eq!(binding.stored()["metadata"]["labels"]["team"], "vision");
    assert_eq!(binding.stored()["status"]["reservedFor"], json!([consumer("train")]));

    let binding = Binding::reserved(&env).await;
    let mut taken = binding.stored();
    taken["status"] = allocated("n2", "gpu-0", json!([]))["status"].clone();
    binding.server.put(COLLECTION, taken);
    assert_eq!(binding.bind().await, Err("claim shop/one got allocated elsewhere in the meantime".to_owned()));

    let binding = Binding::reserved(&env).await;
    let answer = Status::failure(403, "Forbidden", "no");
    binding.server.fault(Fault { path_contains: "one/status", answer, retry_after_s: None });
    let error = binding.bind().await.unwrap_err();
    assert!(error.starts_with("add allocation and reservation to claim shop/one: "), "{error}");
    binding.devices.unreserve(&binding.state, &binding.info, "n1");
    assert_eq!(binding.devices.sources.claims.allocated().0, Arc::default(), "the device is free again");
}
