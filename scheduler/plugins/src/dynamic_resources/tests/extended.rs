//! Tests the claims for extended resources that classes back.

use super::*;
use crate::dynamic_resources::extended::{ExtendedClaim, ExtendedResources};
use component_helpers::device_claims::allocation;

const RESOURCE: &str = "example.com/gpu";

fn backing(name: &str, created: &str) -> DeviceClass {
    let meta = json!({"name": name, "creationTimestamp": created});
    DeviceClass::decode_value(json!({"metadata": meta, "spec": {"extendedResourceName": RESOURCE}})).unwrap()
}

fn container(name: &str, amount: i64, restart: Option<&str>) -> Value {
    let requests = json!({"cpu": "1", RESOURCE: amount.to_string()});
    json!({"name": name, "image": "train", "restartPolicy": restart, "resources": {"requests": requests}})
}

/// The plugin over devices as in the other tests, and classes that back the resource.
fn plugin(claims: impl IntoIterator<Item = ResourceClaim>) -> DynamicResources {
    let classes = [backing("old", "2026-01-01T00:00:00Z"), backing("new", "2026-01-02T00:00:00Z")];
    let slices = [slice("n1", &["A"]), slice("n2", &["A", "B"])];
    let sources = Sources::of(Lister::of(claims), DeviceClasses::of(classes), Lister::of(slices));
    DynamicResources { sources, random: Random::from_seed(1, "shares"), max_steps: MAX_STEPS, writer: None }
}

fn asking_for(amount: i64) -> Value {
    pod("train", "1", json!({"containers": [container("c", amount, None)]}))
}

fn claim_on(spec: Value, node: &NodeInfo) -> Option<ExtendedClaim> {
    let devices = plugin([]);
    let info = info(pod("train", "1", spec));
    let Sources { classes, cached_claims, .. } = &devices.sources;
    ExtendedResources::of(&info, classes, cached_claims)?.claim_on(&info, node)
}

fn place(name: &str, extra: Value) -> NodeInfo {
    let mut place = NodeInfo::default();
    place.set_node(node(name, "a", extra));
    place
}

/// Returns `request: count` for each request, and `container=request` for each container.
fn told(claim: &ExtendedClaim) -> (String, String) {
    let devices = claim.claim.spec.devices.as_ref().unwrap();
    let requests = devices.requests.iter().flatten().map(|request| {
        let exactly = request.exactly.as_ref().unwrap();
        format!("{} {}: {}", exactly.device_class_name, request.name, exactly.count.unwrap())
    });
    let mappings = claim.mappings.iter().map(|it| format!("{}={}", it.container_name, it.request_name));
    (requests.collect::<Vec<_>>().join(", "), mappings.collect::<Vec<_>>().join(" "))
}

#[test]
fn init_containers_use_the_devices_of_later_containers() {
    for (init, containers, requests, mappings) in [
        (
            vec![],
            vec![("a", 1), ("b", 2)],
            "new container-0-request-1: 1, new container-1-request-1: 2",
            "a=container-0-request-1 b=container-1-request-1",
        ),
        (
            vec![("i", 1, None)],
            vec![("a", 2)],
            "new container-1-request-1: 2",
            "a=container-1-request-1 i=container-1-request-1",
        ),
        // The first needs one more than there is, and the second two.
        (
            vec![("i", 2, None), ("j", 3, None)],
            vec![("a", 1)],
            "new container-1-request-1: 2, new container-2-request-1: 1",
            "a=container-2-request-1 i=container-2-request-1 j=container-2-request-1 i=container-1-request-1 j=container-1-request-1",
        ),
        // A sidecar goes on, and what comes before it may use its devices.
        (
            vec![("i", 1, None), ("s", 1, Some("Always")), ("j", 1, None)],
            vec![("a", 0)],
            "new container-1-request-1: 1, new container-2-request-1: 1",
            "s=container-1-request-1 i=container-1-request-1 j=container-2-request-1",
        ),
    ] {
        let init: Vec<Value> = init.iter().map(|(name, amount, restart)| container(name, *amount, *restart)).collect();
        let containers: Vec<Value> = containers.iter().map(|(name, amount)| container(name, *amount, None)).collect();
        let spec = json!({"initContainers": init, "containers": containers});
        let claim = claim_on(spec, &place("n1", json!({}))).unwrap();
        assert_eq!(told(&claim), (requests.to_owned(), mappings.to_owned()));
    }
}

#[test]
fn a_node_with_a_device_plugin_needs_no_claim() {
    let spec = || json!({"containers": [container("c", 1, None)]});
    assert!(claim_on(spec(), &place("n1", json!({"status": {"allocatable": {RESOURCE: "4"}}}))).is_none());
    let other = json!({"containers": [{"name": "c", "resources": {"requests": {"example.com/npu": "1"}}}]});
    assert!(claim_on(other, &place("n1", json!({}))).is_none());
}

#[test]
fn a_pod_goes_where_a_plugin_or_a_claim_gives_it_the_resource() {
    let schedule = |pod: Value| {
        let profile = fixture::profile(Objects { devices: plugin([]), ..Objects::default() });
        let counting = json!({"status": {"allocatable": {RESOURCE: "3"}}});
        let nodes = [node("n1", "a", json!({})), node("n2", "b", json!({})), node("n3", "b", counting)];
        TestCluster::with(profile, nodes).schedule(pod)
    };
    assert_eq!(schedule(asking_for(3)), "train -> n3");
    let none = "train: 0/3 nodes are available: 1 Insufficient example.com/gpu, 2 cannot allocate all claims.";
    assert_eq!(schedule(asking_for(4)), none);
    let two = TestCluster::with(
        fixture::profile(Objects { devices: plugin([]), ..Objects::default() }),
        [node("n1", "a", json!({})), node("n2", "b", json!({}))],
    )
    .schedule(asking_for(2));
    assert_eq!(two, "train -> n2");
}

/// An attempt that was interrupted has left a claim, which may not fit any more.
#[test]
fn a_claim_that_was_left_behind_is_deleted() {
    let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "train", "uid": "train", "controller": true});
    let annotations = json!({"resource.kubernetes.io/extended-resource-claim": "true"});
    let stale = claim(
        "train-extended-resources-x",
        json!({"metadata": {"annotations": annotations, "ownerReferences": [owner]}}),
    );
    let (mut cluster, info) = (cluster(plugin([stale])), info(asking_for(1)));
    let mut state = CycleState::default();
    let error = cluster.decide(&info, &mut state).unwrap_err();
    assert_eq!(error.to_string(), "0/2 nodes are available: 2 cannot schedule extended resource claim.");
    let FitError::NoFit { diagnosis, .. } = &error else { panic!("{error}") };
    let (profile, snapshot, nominated) = (&cluster.profile, &cluster.snapshot, &Nominated::default());
    let failed = FailedCycle { profile, state: &state, pod: &info, snapshot, diagnosis, nominated };
    let result = profile.post_filter[0].post_filter(&failed).unwrap();
    assert_eq!(result.message, "deletion of ResourceClaim completed");
    let writes: Vec<String> = result.writes.iter().map(ToString::to_string).collect();
    let deleted =
        "delete resourceclaims.resource.k8s.io shop/train-extended-resources-x uid=train-extended-resources-x";
    assert_eq!(writes, ["update resourceclaims.resource.k8s.io shop/train-extended-resources-x", deleted]);
}

#[tokio::test(start_paused = true)]
async fn binding_makes_the_claim_and_names_it_in_the_pod() {
    let env = Env::simulated(1);
    let server = FakeServer::new(&env);
    server.put("pods", asking_for(2));
    let client = Client::from_service(&env, server.service(), "test");
    let mut devices = plugin([]);
    let recorder = Recorder::new(&client, "default-scheduler", "");
    devices.writer = Some(Writer::new(&client, recorder));
    let (info, mut state) = (info(asking_for(2)), CycleState::default());
    devices.pre_filter(&mut state, &info, &Snapshot::default()).unwrap();
    devices.filter(&state, &info, &place("n2", json!({}))).unwrap();
    devices.reserve(&mut state, &info, "n2").unwrap();
    assert_ne!(
        devices.sources.claims.allocated().0,
        Arc::default(),
        "the devices are reserved before the claim is there"
    );
    devices.pre_bind(&state, &info, "n2").await.unwrap();
    let made = server.list(COLLECTION);
    let [made] = made.as_slice() else { panic!("{made:?}") };
    let made = ResourceClaim::decode_value(made.clone()).unwrap();
    assert!(made.name().starts_with("train-extended-resources-"), "{}", made.name());
    assert!(has_finalizer(&made) && consumers(&made).len() == 1);
    assert_eq!(allocation(&made).unwrap().devices.as_ref().unwrap().results.as_ref().unwrap().len(), 2);
    let status = &server.get("pods", "shop/train").unwrap()["status"]["extendedResourceClaimStatus"];
    let mapping = json!({"containerName": "c", "requestName": "container-0-request-1", "resourceName": RESOURCE});
    assert_eq!(*status, json!({"requestMappings": [mapping], "resourceClaimName": made.name()}));
    let metrics = env.metrics().encode();
    assert!(metrics.contains("scheduler_resourceclaim_creates_total{status=\"success\"} 1"), "{metrics}");
    // The pod is not bound after all.
    devices.unreserve(&state, &info, "n2");
    while !server.list(COLLECTION).is_empty() {
        env.sleep(std::time::Duration::from_millis(10)).await;
    }
}
