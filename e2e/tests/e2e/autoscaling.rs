//! Tests an autoscaler as its user sees it through a stock `kubectl`: it grows with the load, and shrinks with it.

use crate::cluster_with;
use e2e::kubectl::Kubectl;
use e2e::store::Store;
use e2e::wait;

const WEB: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: web, image: nginx, resources: {requests: {cpu: 100m}}}
"#;

/// An autoscaler of a deployment that does not exist.
const LOST: &str = r#"
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: lost}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: none}
  maxReplicas: 3
"#;

#[test]
fn a_deployment_follows_its_load() {
    let directory = tempfile::tempdir().unwrap();
    // Short periods, and pods that count as soon as they are ready.
    let flags = [
        "--controller-manager-arg=horizontal-pod-autoscaler-sync-period=500ms",
        "--controller-manager-arg=horizontal-pod-autoscaler-cpu-initialization-period=0s",
    ];
    let cluster = cluster_with(directory.path(), Store::Memory, &flags);
    let kubectl = cluster.kubectl();
    uses(&kubectl, "300m");
    kubectl.with_input("apply -f -", WEB).succeeded();
    kubectl.with_input("apply -f -", LOST).succeeded();
    kubectl.ok("autoscale deployment web --cpu-percent=50 --min=1 --max=4");
    it_grows(&kubectl);
    it_shrinks(&kubectl);
    what_is_wrong_is_told(&kubectl);
    cluster.stop();
}

/// Lets each container of the deployment use that much CPU.
fn uses(kubectl: &Kubectl, cpu: &str) {
    let rules = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: orrery-behaviour, namespace: kube-system}}\n\
         data: {{rules: \"- {{labels: {{app: web}}, words: {{cpu: {cpu}}}}}\"}}\n"
    );
    kubectl.with_input("apply -f -", &rules).succeeded();
}

/// Waits until `kubectl describe` shows all of these texts. Returns what it shows.
fn described(kubectl: &Kubectl, name: &str, texts: &[&str]) -> String {
    let mut shown = String::new();
    let is_shown = wait::whether(|| {
        shown = kubectl.ok(&format!("describe hpa {name}"));
        // Columns are as wide as their longest text.
        let words: String = shown.split_whitespace().collect::<Vec<_>>().join(" ");
        texts.iter().all(|text| words.contains(text))
    });
    assert!(is_shown, "{texts:?} is not in\n{shown}");
    shown
}

/// 300m of 100m are 300 percent, six times the target of 50: from 1 pod to 4, the most.
fn it_grows(kubectl: &Kubectl) {
    kubectl.ok("wait --for=jsonpath={.spec.replicas}=4 deployment/web --timeout=30s");
    let above = "cpu resource utilization (percentage of request)";
    let texts = [
        "resource cpu on pods (as a percentage of request): 300% (300m) / 50%",
        "AbleToScale True ReadyForNewScale recommended size matches current size",
        &format!(
            "ScalingActive True ValidMetricFound the HPA was able to successfully calculate a replica count from {above}"
        ),
        "ScalingLimited True TooManyReplicas the desired replica count is more than the maximum replica count",
        &format!("horizontal-pod-autoscaler New size: 4; reason: {above} above target"),
    ];
    described(kubectl, "web", &texts);
    let row = kubectl.ok("get hpa web --no-headers");
    assert_eq!(
        row.split_whitespace().take(6).collect::<Vec<_>>(),
        ["web", "Deployment/web", "cpu:", "300%/50%", "1", "4"],
        "{row}"
    );
}

/// 10m of 100m are 10 percent, a fifth of the target: from 4 pods to 1.
fn it_shrinks(kubectl: &Kubectl) {
    uses(kubectl, "10m");
    // For five minutes the higher recommendations of before would hold.
    let texts = ["AbleToScale True ScaleDownStabilized recent recommendations were higher than current one"];
    described(kubectl, "web", &texts);
    assert_eq!(kubectl.ok("get deployment web -o jsonpath={.spec.replicas}"), "4");
    let patch = r#"{"spec":{"behavior":{"scaleDown":{"stabilizationWindowSeconds":0}}}}"#;
    kubectl.ok_args(&["patch", "hpa", "web", "-p", patch]);
    kubectl.ok("wait --for=jsonpath={.spec.replicas}=1 deployment/web --timeout=30s");
    let texts = ["horizontal-pod-autoscaler New size: 1; reason: All metrics below target", "10% (10m) / 50%"];
    described(kubectl, "web", &texts);
}

fn what_is_wrong_is_told(kubectl: &Kubectl) {
    let texts = [
        "AbleToScale False FailedGetScale the HPA controller was unable to get the target's current scale: deployments.apps \"none\" not found",
        "horizontal-pod-autoscaler deployments.apps \"none\" not found",
    ];
    described(kubectl, "lost", &texts);
    kubectl.ok("autoscale deployment web --name=rival --cpu-percent=50 --min=1 --max=9");
    let both = "pods by selector app=web are controlled by multiple HPAs: [default/rival default/web]";
    for name in ["web", "rival"] {
        described(kubectl, name, &[&format!("ScalingActive False AmbiguousSelector {both}")]);
    }
    kubectl.ok("delete hpa rival");
    described(kubectl, "web", &["ScalingActive True ValidMetricFound"]);
}
