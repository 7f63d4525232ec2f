//! Tests with a stock `kubectl` what changes the behaviour of pods besides their manifests: stages as custom resources,
//! and the rules of a ConfigMap.

use crate::cluster;
use e2e::kubectl::Kubectl;
use e2e::store::Store;
use e2e::wait;

/// The CustomResourceDefinition of Stages, without a schema.
const DEFINITION: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: stages.kwok.x-k8s.io}
spec:
  group: kwok.x-k8s.io
  names: {kind: Stage, listKind: StageList, plural: stages, singular: stage}
  scope: Cluster
  versions:
  - name: v1alpha1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, x-kubernetes-preserve-unknown-fields: true}}}}
"#;

const STAGES: &str = r#"
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: pod-held}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchLabels: {app: staged}
    matchExpressions:
    - {key: .metadata.deletionTimestamp, operator: DoesNotExist}
    - {key: .status.podIP, operator: DoesNotExist}
  steps:
  - event: {type: Normal, reason: Held, message: "{{ .metadata.name }} waits"}
  - finalizers: {add: [{value: example.com/held}]}
  - patch:
      root: status
      subresource: status
      type: strategic
      template: |
        {{ define "container" }}
        {{ with .item }}
          image: {{ .image | Quote }}
          imageID: ""
          name: {{ .name | Quote }}
          ready: true
          restartCount: {{ $.restarts }}
          state: {running: {startedAt: {{ Now | Quote }}}}
        {{ end }}
        {{ end }}
        $setElementOrder/conditions: [{type: Ready}, {type: PodScheduled}]
        conditions:
        - {type: Ready, status: "True", lastTransitionTime: {{ Now | Quote }}, lastProbeTime: null}
        containerStatuses:
        {{ range .spec.containers }}
        -
        {{ template "container" dict "item" . "restarts" (len .name) }}
        {{ end }}
        phase: Running
        podIP: {{ PodIPWith .spec.nodeName false .metadata.uid .metadata.name .metadata.namespace | Quote }}
        hostIP: {{ NodeIP | Quote }}
        startTime: {{ Now | Quote }}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: pod-gone}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchLabels: {app: staged}
    matchExpressions: [{key: .metadata.deletionTimestamp, operator: Exists}]
  next: {finalizers: {remove: [{value: example.com/held}]}, delete: true}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: wrong}
spec: {resourceRef: {kind: Pod}, selector: {}, next: {statusTemplates: x}}
"#;

const RULES: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata: {name: orrery-behaviour, namespace: kube-system}
data:
  rules: |
    - namespaces: [defaul?]
      images: ["*busybox:*"]
      words: {run-for: 1s, exit-code: "7"}
    - words: {livenes: fail}
"#;

/// Creates the CustomResourceDefinition of Stages.
pub fn define_stages(kubectl: &Kubectl) {
    kubectl.with_input("apply -f -", DEFINITION).succeeded();
    kubectl.ok("wait --for=condition=Established crd/stages.kwok.x-k8s.io");
}

#[test]
fn stages_and_rules_drive_pods() {
    let directory = tempfile::tempdir().unwrap();
    let cluster = cluster(directory.path(), Store::Memory);
    let kubectl = cluster.kubectl();
    define_stages(&kubectl);
    kubectl.with_input("apply -f -", RULES).succeeded();
    kubectl.ok("create clusterrole stages --verb=patch --resource=pods");
    kubectl.ok("create clusterrolebinding stages --clusterrole=stages --user=system:orrery:node-fleet");
    kubectl.with_input("apply -f -", STAGES).succeeded();
    recorded(&kubectl, "default", "wrong", "InvalidStage", "spec.next.statusTemplates: unknown field");
    stages_drive_a_pod(&kubectl);
    rules_end_containers(&kubectl);
    cluster.stop();
}

/// Waits for an event about an object.
pub fn recorded(kubectl: &Kubectl, namespace: &str, name: &str, reason: &str, message: &str) {
    let line = format!(
        "get events -n {namespace} --field-selector=involvedObject.name={name},reason={reason} --output=jsonpath={{..message}}"
    );
    wait::until(&format!("{name} has an event {reason}"), || kubectl.ok(&line).contains(message));
}

fn stages_drive_a_pod(kubectl: &Kubectl) {
    kubectl.ok("run staged --image=nginx --labels=app=staged");
    kubectl.ok("wait --for=condition=Ready pod/staged --timeout=60s");
    recorded(kubectl, "default", "staged", "Held", "staged waits");
    let field = |path: &str| kubectl.ok(&format!("get pod staged --show-managed-fields --output=jsonpath={{{path}}}"));
    assert_eq!(field(".metadata.finalizers"), "[\"example.com/held\"]");
    assert_eq!(field(".status.containerStatuses[0].restartCount"), "6");
    assert_eq!(field(".status.containerStatuses[0].containerID"), "");
    assert!(field(".status.podIP").starts_with("10.244."), "{}", field(".status.podIP"));
    assert!(field(".metadata.managedFields[*].manager").contains("orrery-stages"));
    kubectl.ok("delete pod staged --timeout=60s");
}

fn rules_end_containers(kubectl: &Kubectl) {
    recorded(kubectl, "kube-system", "orrery-behaviour", "InvalidBehaviour", "data.rules[1].words.livenes: no word");
    kubectl.ok("run batch --image=busybox:1 --restart=Never");
    kubectl.ok("run other --image=nginx");
    let code = "get pod batch --output=jsonpath={.status.containerStatuses[0].state.terminated.exitCode}";
    wait::until("the container has ended", || kubectl.ok(code) == "7");
    kubectl.ok("wait --for=condition=Ready pod/other --timeout=60s");
    assert_eq!(kubectl.ok("get pod batch --output=jsonpath={.metadata.annotations}"), "");
}
