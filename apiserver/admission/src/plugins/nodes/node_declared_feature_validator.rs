//! NodeDeclaredFeatureValidator: refuses a change of a running pod that its node cannot carry out.
//!
//! A node declares in its status which changes its kubelet supports. Corresponds to
//! plugin/pkg/admission/nodedeclaredfeatures and k8s.io/component-helpers/nodedeclaredfeatures.

use crate::plugins::pod_parts::{items, text};
use crate::{AdmissionPlugin, Attributes, Operation};
use async_trait::async_trait;
use cacher::lookup::ObjectKey;
use proto::Status;
use proto::meta::quantity::Quantity;
use serde_json::Value;

/// A feature by its name, and the test whether a change of a pod needs it.
type Feature = (&'static str, fn(old: &Value, new: &Value) -> bool);

/// The features that changes of pods need, by name. Those that only a scheduler asks for are not among them.
const FEATURES: [Feature; 3] = [
    ("GuaranteedQoSPodCPUResize", changes_guaranteed_cpu),
    ("InPlacePodLevelResourcesVerticalScaling", changes_pod_resources),
    ("InPlacePodVerticalScalingInitContainers", changes_init_resources),
];

pub struct NodeDeclaredFeatureValidator {
    /// Whether the gate NodeDeclaredFeatures is on. Without it, nodes declare nothing.
    pub is_gate_on: bool,
}

#[async_trait]
impl AdmissionPlugin for NodeDeclaredFeatureValidator {
    async fn validate(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        let is_pod = attributes.gvr().resource == "pods" && attributes.gvr().group.is_empty();
        let is_concerned =
            is_pod && attributes.operation == Operation::Update && matches!(attributes.subresource, "" | "resize");
        let (old, new) = (attributes.old(), attributes.new_object());
        let name = text(new, "/spec/nodeName");
        if !self.is_gate_on || !is_concerned || name.is_empty() {
            return Ok(());
        }
        let needed: Vec<&str> =
            FEATURES.iter().filter(|(_, is_needed)| is_needed(old, new)).map(|(name, _)| *name).collect();
        if needed.is_empty() {
            return Ok(());
        }
        let Some(node) = attributes.lookup.find(ObjectKey::cluster("", "nodes", name)).await? else {
            return Err(attributes.forbidden(format_args!("node {name:?} not found")));
        };
        let node = node.value();
        let is_declared = |feature: &str| items(&node, "/status/declaredFeatures").any(|known| known == feature);
        let missing: Vec<&str> = needed.into_iter().filter(|feature| !is_declared(feature)).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let missing = missing.join(", ");
        Err(attributes
            .forbidden(format_args!("pod update requires features {missing} which are not available on node {name:?}")))
    }
}

/// Tells whether the CPU request of a container changes in a pod whose QoS class is Guaranteed.
fn changes_guaranteed_cpu(old: &Value, new: &Value) -> bool {
    let request = |container: &Value| {
        let text = text(container, "/resources/requests/cpu");
        Quantity::parse(if text.is_empty() { "0" } else { text }).ok()
    };
    let mut pairs = items(old, "/spec/containers").zip(items(new, "/spec/containers"));
    let is_guaranteed = old.get("status").is_none() || text(old, "/status/qosClass") == "Guaranteed";
    is_guaranteed && pairs.any(|(old, new)| request(old) != request(new))
}

fn changes_pod_resources(old: &Value, new: &Value) -> bool {
    old.pointer("/spec/resources") != new.pointer("/spec/resources")
}

/// Tells whether the resources of an init container change that is no sidecar.
fn changes_init_resources(old: &Value, new: &Value) -> bool {
    let mut pairs = items(old, "/spec/initContainers").zip(items(new, "/spec/initContainers"));
    pairs.any(|(old, new)| text(old, "/restartPolicy") != "Always" && old.get("resources") != new.get("resources"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Write;
    use serde_json::json;

    fn pod(class: &str, spec: Value) -> Value {
        let mut pod = json!({
            "metadata": {"namespace": "shop", "name": "web"},
            "spec": {"nodeName": "node-0", "containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]},
            "status": {"qosClass": class},
        });
        for (field, value) in spec.as_object().unwrap() {
            pod["spec"][field] = value.clone();
        }
        pod
    }

    fn cpu(cpu: &str) -> Value {
        json!({"containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]})
    }

    fn init(cpu: &str, restarts: &str) -> Value {
        json!({"initContainers": [{"name": "first", "restartPolicy": restarts, "resources": {"requests": {"cpu": cpu}}}]})
    }

    async fn refusal(subresource: &str, declared: &[&str], is_gate_on: bool, old: Value, new: Value) -> String {
        let node = json!({"metadata": {"name": "node-0"}, "status": {"declaredFeatures": declared}});
        let write = Write::update("", "pods", old, new).subresource(subresource).beside("", "nodes", node);
        write.run(&NodeDeclaredFeatureValidator { is_gate_on }).await.message().to_owned()
    }

    #[tokio::test]
    async fn a_change_needs_what_the_node_declares() {
        let (guaranteed, burstable) = (|spec| pod("Guaranteed", spec), |spec| pod("Burstable", spec));
        let whole = |cpu: &str| json!({"resources": {"requests": {"cpu": cpu}}});
        let both = || {
            let mut spec = cpu("2");
            spec["resources"] = json!({"requests": {"cpu": "2"}});
            guaranteed(spec)
        };
        let (cpus, pods, inits) = (FEATURES[0].0, FEATURES[1].0, FEATURES[2].0);
        let all = format!("{cpus}, {pods}");
        let cases = [
            (vec![], guaranteed(cpu("1")), guaranteed(cpu("2")), cpus),
            (vec![cpus], guaranteed(cpu("1")), guaranteed(cpu("2")), ""),
            (vec![], guaranteed(cpu("1")), guaranteed(cpu("1000m")), ""),
            (vec![], burstable(cpu("1")), burstable(cpu("2")), ""),
            (vec![cpus], burstable(whole("1")), burstable(whole("2")), pods),
            (vec![pods], burstable(whole("1")), burstable(whole("2")), ""),
            (vec![], burstable(init("1", "")), burstable(init("2", "")), inits),
            (vec![inits], burstable(init("1", "")), burstable(init("2", "")), ""),
            (vec![], burstable(init("1", "Always")), burstable(init("2", "Always")), ""),
            (vec!["A", "B"], guaranteed(cpu("1")), both(), all.as_str()),
        ];
        for (declared, old, new, missing) in cases {
            let why = refusal("resize", &declared, true, old.clone(), new.clone()).await;
            if missing.is_empty() {
                assert_eq!(why, "", "{declared:?} {new}");
            } else {
                let end = format!("pod update requires features {missing} which are not available on node \"node-0\"");
                assert!(why.ends_with(&end), "{why}");
            }
            assert_eq!(refusal("resize", &declared, false, old, new).await, "", "the gate is off");
        }
    }

    #[tokio::test]
    async fn only_bound_pods_and_their_specs_are_looked_at() {
        let (old, new) = (pod("Guaranteed", cpu("1")), pod("Guaranteed", cpu("2")));
        assert_eq!(refusal("status", &[], true, old.clone(), new.clone()).await, "");
        let unbound = |mut pod: Value| {
            pod["spec"]["nodeName"] = json!("");
            pod
        };
        assert_eq!(refusal("resize", &[], true, unbound(old.clone()), unbound(new.clone())).await, "");
        let elsewhere = |mut pod: Value| {
            pod["spec"]["nodeName"] = json!("gone");
            pod
        };
        let why = refusal("resize", &[], true, elsewhere(old), elsewhere(new)).await;
        assert!(why.ends_with("node \"gone\" not found"), "{why}");
    }
}
