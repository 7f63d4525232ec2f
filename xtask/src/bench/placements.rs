//! Checks the placements of a benchmark by the reference evaluator: reads nodes and pods back from the API server, and puts
//! the pods on their nodes again, one after the other.
//!
//! All filters judge every placement. The reference evaluator counts all pods anew for each of them, so that a check takes
//! time with the square of the cluster.
//!
//! The choice among the nodes that fit is not judged: bindings are in flight at the same time, so that nobody outside knows
//! which pods a cycle has seen. `bench-cycles` judges choices.

use super::Error;
use client::{Client, ListOptions};
use component_base::env::Env;
use proto::Kind;
use proto::kinds::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod};
use proto::kinds::api::resource::v1::{DeviceClass, ResourceClaim, ResourceSlice};
use proto::kinds::api::storage::v1::{CSINode, StorageClass};
use scheduler_reference::{Cluster, Devices, Named, Settings, Storage};
use serde::Serialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A pod that does not fit is tried again after so many later placements, and then at growing distances. No scheduler has more
/// bindings in flight for long.
const OFTEN: usize = 64;

/// How many placements were judged, and how many are wrong.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Checked {
    pub placements: usize,
    /// Placements that all filters have judged.
    pub by_all_filters: usize,
    /// Pods that the default profile does not allow where they are, and devices that have two claims.
    pub wrong: usize,
    /// How long the reference evaluator took.
    pub seconds: f64,
}

/// Checks all placements. `gone` are nodes that were there for a time.
pub async fn check(env: &Env, client: &Client, gone: impl Iterator<Item = Value>) -> Result<Checked, Error> {
    let mut cluster = Cluster::default();
    let gone = gone.filter_map(|node| Node::decode_value(node).ok());
    gone.chain(all(client).await?).for_each(|node| cluster.set_node(Arc::new(node)));
    cluster.storage = Arc::new(Storage {
        claims: named(all::<PersistentVolumeClaim>(client).await?),
        volumes: named(all::<PersistentVolume>(client).await?),
        classes: named(all::<StorageClass>(client).await?),
        csi_nodes: named(all::<CSINode>(client).await?),
        ..Storage::default()
    });
    let claims = all::<ResourceClaim>(client).await?;
    cluster.devices = Arc::new(Devices {
        claims: claims.iter().cloned().map(|claim| ResourceClaim { status: None, ..claim }).collect(),
        classes: named(all::<DeviceClass>(client).await?),
        slices: all::<ResourceSlice>(client).await?.into_iter().collect(),
    });
    let taken_twice = taken_twice(&claims);
    let pods = all(client).await?;
    let began = env.now();
    let Replayed { placements, wrong } = replay(cluster, pods, &claims);
    let seconds = env.now().duration_since(began).as_secs_f64();
    for (name, why) in wrong.iter().take(3) {
        eprintln!("bench: {name} should not be there: {why}");
    }
    for device in taken_twice.iter().take(3) {
        eprintln!("bench: two claims have the device {device}");
    }
    let wrong = wrong.len() + taken_twice.len();
    Ok(Checked { placements, by_all_filters: placements, wrong, seconds: (seconds * 10.0).round() / 10.0 })
}

async fn all<T: Kind>(client: &Client) -> Result<Vec<T>, Error> {
    Ok(client.api::<T>("").list(&ListOptions::default()).await?.items)
}

fn named<T: Kind>(objects: Vec<T>) -> Named<T> {
    objects.into_iter().collect()
}

/// Returns the devices that several claims have.
fn taken_twice(claims: &[ResourceClaim]) -> Vec<String> {
    let allocations = claims.iter().filter_map(|claim| claim.status.as_ref()?.allocation.as_ref()?.devices.as_ref());
    let results = allocations.flat_map(|devices| devices.results.iter().flatten());
    let (mut taken, mut twice) = (BTreeSet::new(), Vec::new());
    for device in results.map(|result| format!("{}/{}/{}", result.driver, result.pool, result.device)) {
        if !taken.insert(device.clone()) {
            twice.push(device);
        }
    }
    twice
}

/// The allocations of claims, which the cluster does not have until the pods of the claims are placed.
struct Allocations<'a> {
    claims: &'a [ResourceClaim],
    /// Numbers of the claims by the pod that owns them.
    of_pod: BTreeMap<&'a str, Vec<usize>>,
}

impl<'a> Allocations<'a> {
    fn of(claims: &'a [ResourceClaim]) -> Self {
        let mut of_pod: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (at, claim) in claims.iter().enumerate() {
            for owner in claim.metadata.owner_references.iter().flatten() {
                of_pod.entry(&owner.uid).or_default().push(at);
            }
        }
        Self { claims, of_pod }
    }

    /// Lets the claims of a pod have their devices.
    fn place(&self, cluster: &mut Cluster, pod: &Pod) {
        for at in self.of_pod.get(pod.uid()).into_iter().flatten() {
            Arc::make_mut(&mut cluster.devices).claims.set(self.claims[*at].clone());
        }
    }
}

fn revision(pod: &Pod) -> u64 {
    pod.metadata.resource_version.as_ref().and_then(|version| version.parse().ok()).unwrap_or_default()
}

#[derive(Debug, Default, PartialEq)]
struct Replayed {
    placements: usize,
    /// Pods that do not fit, and why.
    wrong: Vec<(String, String)>,
}

/// A pod that does not fit yet.
struct Waiting {
    pod: Arc<Pod>,
    why: String,
    /// Number of pods that were placed since.
    later: usize,
}

/// Puts pods on their nodes in the order of their bindings.
///
/// Nobody runs the pods, so the binding is the last write of each. Bindings are written at the same time, and one may be
/// written before that of a pod that was decided earlier. A pod that does not fit is therefore tried again after later ones.
fn replay(mut cluster: Cluster, pods: Vec<Pod>, claims: &[ResourceClaim]) -> Replayed {
    let (settings, allocations) = (Settings::default(), Allocations::of(claims));
    let node_of = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).unwrap_or_default();
    let mut bound: Vec<Arc<Pod>> = pods.into_iter().filter(|pod| !node_of(pod).is_empty()).map(Arc::new).collect();
    bound.sort_by_key(|pod| revision(pod));
    let mut replayed = Replayed { placements: bound.len(), wrong: Vec::new() };
    let mut waiting: Vec<Waiting> = Vec::new();
    let place = |cluster: &mut Cluster, pod: &Arc<Pod>| {
        let node = node_of(pod);
        match cluster.rejection(pod, &settings, &node) {
            None => {
                cluster.place(pod.clone(), &node);
                allocations.place(cluster, pod);
                Ok(())
            }
            Some(why) => Err(why.to_string()),
        }
    };
    for pod in bound {
        if let Err(why) = place(&mut cluster, &pod) {
            waiting.push(Waiting { pod, why, later: 0 });
            continue;
        }
        waiting.retain_mut(|one| {
            one.later += 1;
            if one.later > OFTEN && !one.later.is_power_of_two() {
                return true;
            }
            let tried = place(&mut cluster, &one.pod);
            tried.map_err(|why| one.why = why).is_err()
        });
    }
    waiting.retain(|one| place(&mut cluster, &one.pod).is_err());
    replayed.wrong = waiting.into_iter().map(|one| (one.pod.key(), one.why)).collect();
    replayed
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn cluster() -> Cluster {
        let node = |name: &str| {
            let labels = json!({"kubernetes.io/hostname": name});
            json!({"metadata": {"name": name, "labels": labels}, "status": {"allocatable": {"cpu": "2", "pods": "9"}}})
        };
        let mut cluster = Cluster::default();
        for name in ["n1", "n2"] {
            cluster.set_node(Arc::new(Node::decode_value(node(name)).unwrap()));
        }
        cluster
    }

    fn pod(name: &str, version: u64, node: &str, affinity: Value) -> Pod {
        let container = json!({"name": "c", "resources": {"requests": {"cpu": "1"}}});
        let metadata = json!({"namespace": "x", "name": name, "uid": name, "resourceVersion": version.to_string(),
            "labels": {"app": name}});
        let spec = json!({"nodeName": node, "containers": [container], "affinity": affinity});
        Pod::decode_value(json!({"metadata": metadata, "spec": spec})).unwrap()
    }

    fn near(app: &str) -> Value {
        let term = json!({"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": app}}});
        json!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}})
    }

    #[test]
    fn a_pod_that_does_not_fit_is_named() {
        let pods = vec![
            pod("c", 7, "n1", json!({})),
            pod("a", 5, "n1", json!({})),
            pod("b", 6, "n1", json!({})),
            pod("pending", 8, "", json!({})),
        ];
        let replayed = replay(cluster(), pods, &[]);
        let wrong = vec![("x/c".to_owned(), "Insufficient cpu (NodeResourcesFit)".to_owned())];
        assert_eq!(replayed, Replayed { placements: 3, wrong });
    }

    #[test]
    fn bindings_may_be_written_in_another_order() {
        let late =
            |node: &str| replay(cluster(), vec![pod("a", 5, node, near("b")), pod("b", 6, "n2", json!({}))], &[]).wrong;
        assert_eq!(late("n2"), []);
        let wrong = ("x/a".to_owned(), "node(s) didn't match pod affinity rules (InterPodAffinity)".to_owned());
        assert_eq!(late("n1"), [wrong]);
    }

    fn claim(name: &str, device: Option<&str>) -> ResourceClaim {
        let request =
            json!({"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}});
        let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": name, "uid": name, "controller": true});
        let mut claim = json!({
            "metadata": {"namespace": "x", "name": name, "uid": name, "ownerReferences": [owner]},
            "spec": {"devices": {"requests": [request]}},
        });
        if let Some(device) = device {
            let result = json!({"request": "r", "driver": "d", "pool": "n1", "device": device});
            claim["status"] = json!({"allocation": {"devices": {"results": [result]}}});
        }
        ResourceClaim::decode_value(claim).unwrap()
    }

    #[test]
    fn a_device_has_one_claim() {
        let slice = json!({"metadata": {"name": "s"}, "spec": {"driver": "d", "nodeName": "n1", "devices": [{"name": "g0"}],
            "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1}}});
        let class = json!({"metadata": {"name": "gpu"}, "spec": {}});
        let mut cluster = cluster();
        cluster.devices = Arc::new(Devices {
            claims: named(vec![claim("a", None), claim("b", None)]),
            classes: named(vec![DeviceClass::decode_value(class).unwrap()]),
            slices: [ResourceSlice::decode_value(slice).unwrap()].into_iter().collect(),
        });
        let pod = |name: &str, version: u64| {
            let entry = json!({"name": "c", "resourceClaimName": name});
            let metadata = json!({"namespace": "x", "name": name, "uid": name, "resourceVersion": version.to_string()});
            let spec = json!({"nodeName": "n1", "containers": [], "resourceClaims": [entry]});
            Pod::decode_value(json!({"metadata": metadata, "spec": spec})).unwrap()
        };
        let claims = [claim("a", Some("g0")), claim("b", Some("g0"))];
        let replayed = replay(cluster, vec![pod("a", 1), pod("b", 2)], &claims);
        assert_eq!(replayed.wrong, [("x/b".to_owned(), "cannot allocate all claims (DynamicResources)".to_owned())]);
        assert_eq!(taken_twice(&claims), ["d/n1/g0"]);
    }
}
