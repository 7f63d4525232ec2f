//! What each plugin contributes to the signature of a pod.
//!
//! Corresponds to the methods SignPod of pkg/scheduler/framework/plugins.

use crate::dynamic_resources::DynamicResources;
use crate::image_locality::ImageLocality;
use crate::inter_pod_affinity::InterPodAffinity;
use crate::node_affinity::NodeAffinity;
use crate::node_name::NodeName;
use crate::node_ports::NodePorts;
use crate::node_resources_balanced_allocation::NodeResourcesBalancedAllocation;
use crate::node_resources_fit::NodeResourcesFit;
use crate::node_unschedulable::NodeUnschedulable;
use crate::node_volume_limits::NodeVolumeLimits;
use crate::pod_topology_spread::PodTopologySpread;
use crate::taint_toleration::TaintToleration;
use crate::volume_binding::VolumeBinding;
use crate::volume_restrictions::VolumeRestrictions;
use crate::volume_zone::VolumeZone;
use scheduling_framework::Sign;
use scheduling_framework::pod_info::PodInfo;
use scheduling_framework::sign::SignFragment;
use serde_json::{Value, json};

type Signed = Result<Vec<SignFragment>, String>;

fn tolerations(pod: &PodInfo) -> Signed {
    Ok(vec![("tolerations", json!(pod.spec().tolerations))])
}

/// Volumes but those that the kubelet makes itself on any node.
fn volumes(pod: &PodInfo) -> Signed {
    let volumes = pod.spec().volumes.iter().flatten().filter(|volume| {
        let is_synthetic = volume.config_map.is_some()
            || volume.secret.is_some()
            || volume.empty_dir.is_some()
            || volume.downward_api.is_some()
            || volume.projected.is_some();
        !is_synthetic
    });
    Ok(vec![("volumes", json!(volumes.collect::<Vec<_>>()))])
}

impl Sign for NodeUnschedulable {
    fn sign_pod(&self, pod: &PodInfo) -> Signed {
        tolerations(pod)
    }
}

impl Sign for TaintToleration {
    fn sign_pod(&self, pod: &PodInfo) -> Signed {
        tolerations(pod)
    }
}

impl Sign for NodeName {
    fn sign_pod(&self, pod: &PodInfo) -> Signed {
        Ok(vec![("nodeName", json!(pod.node_name()))])
    }
}

impl Sign for NodeAffinity {
    fn sign_pod(&self, pod: &PodInfo) -> Signed {
        let affinity = pod.spec().affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
        Ok(vec![("nodeAffinity", json!(affinity)), ("nodeSelector", json!(pod.spec().node_selector))])
    }
}

impl Sign for NodePorts {
    fn sign_pod(&self, pod: &PodInfo) -> Signed {
        let ports = pod.host_ports.iter().map(|port| json!([port.protocol, port.port, port.ip]));
        Ok(vec![("hostPorts", Value::Array(ports.collect()))])
    }
}

impl Sign for ImageLocality {
    fn sign_pod(&self, pod: &PodInfo) -> Signed {
        let containers = pod.spec().init_containers.iter().flatten().chain(&pod.spec().containers);
        let images: Vec<&str> = containers.filter_map(|container| container.image.as_deref()).collect();
        Ok(vec![("images", json!(images))])
    }
}

impl Sign for VolumeBinding {
    fn sign_pod(&self, pod: &PodInfo) -> Signed {
        volumes(pod)
    }
}

impl Sign for VolumeZone {
    fn sign_pod(&self, pod: &PodInfo) -> Signed {
        volumes(pod)
    }
}

impl Sign for NodeVolumeLimits {
    fn sign_pod(&self, pod: &PodInfo) -> Signed {
        volumes(pod)
    }
}

/// Other pods may have terms that match the labels.
impl Sign for InterPodAffinity {
    fn sign_pod(&self, pod: &PodInfo) -> Signed {
        if pod.has_affinity() {
            return Err("pods with interpodaffinity are not signable".to_owned());
        }
        Ok(vec![("labels", json!(pod.labels()))])
    }
}

/// Spreading depends on all nodes.
impl Sign for PodTopologySpread {
    fn signs_pods(&self) -> bool {
        !self.has_default_constraints()
    }

    fn sign_pod(&self, pod: &PodInfo) -> Signed {
        if pod.spec().topology_spread_constraints.as_ref().is_some_and(|constraints| !constraints.is_empty()) {
            return Err("pods with topology constraints are not signable".to_owned());
        }
        if self.has_default_constraints() {
            return Err("pods with default topology constraints are not signable".to_owned());
        }
        Ok(Vec::new())
    }
}

impl Sign for DynamicResources {
    fn sign_pod(&self, pod: &PodInfo) -> Signed {
        if pod.spec().resource_claims.as_ref().is_some_and(|claims| !claims.is_empty()) {
            return Err("pods with dra resource claims are not signable".to_owned());
        }
        Ok(Vec::new())
    }
}

impl Sign for VolumeRestrictions {
    fn sign_pod(&self, pod: &PodInfo) -> Signed {
        volumes(pod)
    }
}

/// Why requests are not signed: a device class may stand for one of them.
const EXTENDED: &str = "signature disabled when dra extended resources enabled";

impl Sign for NodeResourcesFit {
    fn signs_pods(&self) -> bool {
        false
    }

    fn sign_pod(&self, _pod: &PodInfo) -> Signed {
        Err(EXTENDED.to_owned())
    }
}

impl Sign for NodeResourcesBalancedAllocation {
    fn signs_pods(&self) -> bool {
        false
    }

    fn sign_pod(&self, _pod: &PodInfo) -> Signed {
        Err(EXTENDED.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use crate::fixture::{Objects, info, pod, profile, profile_of};
    use scheduling_framework::sign::PodSignature;
    use serde_json::{Value, json};

    /// Returns the signature in a profile without resources and without default constraints.
    fn signature(spec: Value) -> Option<PodSignature> {
        let disabled = json!([{"name": "NodeResourcesFit"}, {"name": "NodeResourcesBalancedAllocation"}]);
        let args = json!({"defaultingType": "List"});
        let profile = json!({
            "schedulerName": "s", "plugins": {"multiPoint": {"disabled": disabled}},
            "pluginConfig": [{"name": "PodTopologySpread", "args": args}],
        });
        profile_of(&profile, Objects::default()).sign_pod(&info(pod("p", "1", spec)))
    }

    #[test]
    fn equal_pods_have_equal_signatures() {
        let plain = signature(json!({})).unwrap();
        let volume = |volume: Value| json!({"volumes": [volume]});
        let claim = volume(json!({"name": "v", "persistentVolumeClaim": {"claimName": "c"}}));
        let spread = json!({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]});
        let term = json!({"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "p"}}});
        let affinity = json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}});
        for (spec, expected) in [
            (json!({"terminationGracePeriodSeconds": 3}), Some(true)),
            (volume(json!({"name": "v", "emptyDir": {}})), Some(true)),
            (json!({"nodeSelector": {"disk": "ssd"}}), Some(false)),
            (json!({"tolerations": [{"operator": "Exists"}]}), Some(false)),
            (claim, Some(false)),
            (spread, None),
            (affinity, None),
            (json!({"resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}]}), None),
        ] {
            assert_eq!(signature(spec.clone()).map(|other| other == plain), expected, "{spec}");
        }
        // As in Kubernetes, the default profile signs nothing.
        assert_eq!(profile(Objects::default()).sign_pod(&info(pod("p", "1", json!({})))), None);
    }
}
