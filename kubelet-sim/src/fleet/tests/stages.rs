//! Pods and nodes that go through stages, in virtual time.

use super::*;
use ::stages::document::parse;

/// A pod's way from its creation to its end, with delays, weights and names of its containers.
const POD: &str = r#"
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: pod-created}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchExpressions:
    - {key: .metadata.deletionTimestamp, operator: DoesNotExist}
    - {key: .status.podIP, operator: DoesNotExist}
  delay: {durationMilliseconds: 1000, jitterDurationMilliseconds: 5000}
  next:
    event: {type: Normal, reason: Created, message: 'Created container {{ (index .spec.containers 0).name }}'}
    statusTemplate: |
      {{ $now := Now }}
      conditions:
      {{ if .spec.initContainers }}
      - {type: Initialized, status: "False", reason: ContainersNotInitialized, lastTransitionTime: {{ $now | Quote }}}
      {{ else }}
      - {type: Initialized, status: "True", lastTransitionTime: {{ $now | Quote }}}
      {{ end }}
      containerStatuses:
      {{ range .spec.containers }}
      - image: {{ .image | Quote }}
        name: {{ .name | Quote }}
        ready: false
        restartCount: 0
        state: {waiting: {reason: ContainerCreating}}
      {{ end }}
      hostIP: {{ NodeIPWith .spec.nodeName | Quote }}
      podIP: {{ PodIPWith .spec.nodeName ( or .spec.hostNetwork false ) ( or .metadata.uid "" ) ( or .metadata.name "" ) ( or .metadata.namespace "" ) | Quote }}
      phase: Pending
      startTime: {{ $now | Quote }}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: pod-running}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchExpressions:
    - {key: .metadata.deletionTimestamp, operator: DoesNotExist}
    - key: '.status.conditions.[] | select( .type == "Initialized" ) | .status'
      operator: In
      values: ["True"]
    - {key: '.status.containerStatuses.[].state.running.startedAt', operator: DoesNotExist}
  delay: {durationMilliseconds: 2000}
  next:
    statusTemplate: |
      {{ $now := Now }}
      {{ $root := . }}
      conditions:
      - {type: Ready, status: "True", lastTransitionTime: {{ $now | Quote }}}
      containerStatuses:
      {{ range $index, $item := .spec.containers }}
      {{ $origin := index $root.status.containerStatuses $index }}
      - image: {{ $item.image | Quote }}
        name: {{ $item.name | Quote }}
        ready: true
        restartCount: {{ $origin.restartCount }}
        state: {running: {startedAt: {{ $now | Quote }}}}
      {{ end }}
      phase: Running
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: pod-deleted}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector: {matchExpressions: [{key: .metadata.deletionTimestamp, operator: Exists}]}
  delay: {durationMilliseconds: 3000}
  next: {finalizers: {empty: true}, delete: true}
"#;

const FAILING: &str = r#"
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: pod-fails}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchLabels: {chaos: "true"}
    matchExpressions: [{key: .status.phase, operator: In, values: [Running]}]
  delay: {durationFrom: {expressionFrom: '.metadata.annotations["chaos/after"]'}}
  next: {statusTemplate: '{phase: Failed, reason: Chaos, message: {{ Quote .metadata.name }}}'}
"#;

const NODE: &str = r#"
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: node-started}
spec:
  resourceRef: {apiGroup: v1, kind: Node}
  selector: {matchExpressions: [{key: .status.phase, operator: NotIn, values: [Running]}]}
  next:
    statusTemplate: |
      conditions:
      {{ range NodeConditions }}
      - {type: {{ .type | Quote }}, status: {{ .status | Quote }}, reason: {{ .reason | Quote }}, lastHeartbeatTime: {{ Now | Quote }}}
      {{ end }}
      addresses:
      {{ with .status.addresses }}
      {{ YAML . 1 }}
      {{ else }}
      - {address: {{ NodeIP | Quote }}, type: InternalIP}
      {{ end }}
      phase: Running
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: node-beats}
spec:
  resourceRef: {apiGroup: v1, kind: Node}
  selector:
    matchExpressions:
    - {key: .status.phase, operator: In, values: [Running]}
    - {key: '.status.conditions.[] | select( .type == "Ready" ) | .status', operator: In, values: ["True"]}
  delay: {durationMilliseconds: 20000}
  next:
    statusTemplate: |
      conditions:
      - {type: Ready, status: "True", reason: Beat, lastHeartbeatTime: {{ Now | Quote }}}
"#;

async fn world(files: &[&str]) -> World {
    let mut world = World::of(1);
    world.settings.stages = files.iter().flat_map(|text| parse(text).unwrap()).collect();
    world.start();
    world.pass(100).await;
    world.give_range("node-0", "10.244.3.0/24");
    world
}

#[tokio::test(start_paused = true)]
async fn a_pod_goes_through_its_stages() {
    let world = world(&[POD]).await;
    world.bind("web", nginx());
    world.pass(900).await;
    assert_eq!(world.status("web"), Value::Null, "the first delay is at least a second");
    world.pass(4_200).await;
    let status = world.status("web");
    assert_eq!((&status["podIP"], &status["hostIP"]), (&json!("10.244.3.2"), &json!("172.18.0.2")));
    let reason = &status["containerStatuses"][0]["state"]["waiting"]["reason"];
    let running = &status["containerStatuses"][0]["state"]["running"]["startedAt"];
    assert!(reason == "ContainerCreating" || running.is_string(), "{status}");
    world.pass(2_000).await;
    let status = world.status("web");
    assert_eq!(status["phase"], "Running");
    assert_eq!(status["containerStatuses"][0]["containerID"], Value::Null, "no kubelet has started it");
    assert_eq!(world.events("web"), ["Created: Created container web"]);

    // Nothing happens before something changes, and then the stage of that change.
    let requests = world.server.count("PATCH /api/v1/namespaces/shop/pods/web");
    world.pass(120_000).await;
    assert_eq!(world.server.count("PATCH /api/v1/namespaces/shop/pods/web"), requests);
    let mut pod = world.server.get("pods", "shop/web").unwrap();
    pod["metadata"]["deletionTimestamp"] = json!(world.env.wall());
    world.server.put("pods", pod);
    world.pass(2_900).await;
    assert!(world.server.get("pods", "shop/web").is_some());
    world.pass(200).await;
    assert!(world.server.get("pods", "shop/web").is_none());

    // Its address is free again.
    world.bind("next", nginx());
    world.pass(8_000).await;
    assert_eq!(world.status("next")["phase"], "Running");
}

#[tokio::test(start_paused = true)]
async fn two_runs_with_one_seed_take_the_same_time() {
    let mut times = Vec::new();
    for _ in 0..2 {
        let world = world(&[POD]).await;
        for name in ["a", "b", "c"] {
            world.bind(name, nginx());
        }
        world.pass(10_000).await;
        times.push(["a", "b", "c"].map(|name| world.status(name)["startTime"].clone()));
    }
    assert_eq!(times[0], times[1]);
    assert_ne!(times[0][0], times[0][1], "each pod has a delay of its own");
}

/// A stage may interfere with a pod that the kubelet runs.
#[tokio::test(start_paused = true)]
async fn a_pod_that_no_stage_selects_behaves_as_ever() {
    let world = world(&[FAILING]).await;
    world.bind("calm", nginx());
    world.bind("wild", nginx());
    world.pass(5_000).await;
    assert_eq!(
        (&world.status("calm")["phase"], &world.status("wild")["phase"]),
        (&json!("Running"), &json!("Running"))
    );
    let mut pod = world.server.get("pods", "shop/wild").unwrap();
    pod["metadata"]["labels"] = json!({"chaos": "true"});
    pod["metadata"]["annotations"] = json!({"chaos/after": "10s"});
    world.server.put("pods", pod);
    world.pass(9_000).await;
    assert_eq!(world.status("wild")["phase"], "Running");
    world.pass(2_000).await;
    let status = world.status("wild");
    assert_eq!((&status["phase"], &status["message"]), (&json!("Failed"), &json!("wild")));
    assert_eq!(world.status("calm")["phase"], "Running");
}

#[tokio::test(start_paused = true)]
async fn a_node_is_kept_alive_by_stages() {
    let world = world(&[NODE]).await;
    world.pass(1_000).await;
    let node = || world.server.get("nodes", "node-0").unwrap()["status"].clone();
    let ready = || node()["conditions"].as_array().unwrap().iter().find(|c| c["type"] == "Ready").unwrap().clone();
    assert_eq!((&node()["phase"], &ready()["status"]), (&json!("Running"), &json!("True")));
    world.pass(25_000).await;
    let first = ready();
    assert_eq!(first["reason"], "Beat");
    world.pass(20_000).await;
    assert_ne!(ready()["lastHeartbeatTime"], first["lastHeartbeatTime"]);
    world.bind("web", nginx());
    world.pass(5_000).await;
    assert_eq!(world.status("web")["phase"], "Running", "without stages for pods, the kubelet runs them");
}

#[tokio::test(start_paused = true)]
async fn a_stage_that_fails_is_reported_once() {
    let broken = FAILING.replace("{{ Quote .metadata.name }}", "{{ div 1 0 }}");
    let world = world(&[&broken]).await;
    world.bind("web", nginx());
    world.pass(5_000).await;
    let mut pod = world.server.get("pods", "shop/web").unwrap();
    pod["metadata"]["labels"] = json!({"chaos": "true"});
    world.server.put("pods", pod);
    world.pass(60_000).await;
    let failed: Vec<String> =
        world.events("web").into_iter().filter(|event| event.starts_with("StageFailed")).collect();
    assert_eq!(
        failed,
        ["StageFailed: stage pod-fails: spec.next.statusTemplate: error calling div: integer divide by zero"]
    );
    assert_eq!(world.status("web")["phase"], "Running");
}
