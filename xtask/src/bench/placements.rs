//! Checks the placements of a benchmark by the reference evaluator: reads nodes and pods back from the API server, and puts
//! the pods on their nodes again, one after the other.
//!
//! Filters that read one node and its pods judge every placement. Filters that count all pods or devices of the cluster judge every
//! one too, up to thousands, and a sample of more: the reference evaluator counts anew for each decision, so that the cost of
//! all grows with the square of the cluster.

use super::Error;
use client::{Client, ListOptions};
use proto::Kind;
use proto::kinds::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod};
use proto::kinds::api::resource::v1::{DeviceClass, ResourceClaim, ResourceSlice};
use proto::kinds::api::storage::v1::{CSINode, StorageClass};
use scheduler_reference::{Cluster, Devices, Settings, Storage};
use serde::Serialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The filters that read all of the cluster.
const COUNT_ALL: [&str; 3] = ["PodTopologySpread", "InterPodAffinity", "DynamicResources"];
/// Largest number of placements of which all filters judge every one.
const WHOLE: usize = 6000;
/// Number of placements that all filters judge where there are more, spread evenly over all placements.
const SAMPLE: usize = 500;
/// A pod that does not fit is tried again after so many later placements, and then at growing distances. No scheduler has more
/// bindings in flight for long.
const OFTEN: usize = 64;

/// How many placements were judged, and how many are wrong.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Checked {
    /// Placements that the filters that read one node have judged.
    pub placements: usize,
    /// Placements that all filters have judged.
    pub by_all_filters: usize,
    /// Pods that the default profile does not allow where they are, and devices that have two claims.
    pub wrong: usize,
}

/// Checks all placements. `gone` are nodes that were there for a time.
pub async fn check(client: &Client, gone: impl Iterator<Item = Value>) -> Result<Checked, Error> {
    let mut cluster = Cluster::default();
    let gone = gone.filter_map(|node| Node::decode_value(node).ok());
    gone.chain(all(client).await?).for_each(|node| cluster.set_node(Arc::new(node)));
    cluster.storage = Arc::new(Storage {
        claims: shared(all::<PersistentVolumeClaim>(client).await?),
        volumes: shared(all::<PersistentVolume>(client).await?),
        classes: shared(all::<StorageClass>(client).await?),
        csi_nodes: shared(all::<CSINode>(client).await?),
        ..Storage::default()
    });
    let claims = all::<ResourceClaim>(client).await?;
    cluster.devices = Arc::new(Devices {
        claims: shared(claims.iter().cloned().map(|claim| ResourceClaim { status: None, ..claim }).collect()),
        classes: shared(all::<DeviceClass>(client).await?),
        slices: shared(all::<ResourceSlice>(client).await?),
    });
    let taken_twice = taken_twice(&claims);
    let pods = all(client).await?;
    let sample = if pods.len() > WHOLE { SAMPLE } else { WHOLE };
    let Replayed { placements, by_all_filters, wrong } = replay(cluster, pods, &claims, sample);
    for (name, why) in wrong.iter().take(3) {
        eprintln!("bench: {name} should not be there: {why}");
    }
    for device in taken_twice.iter().take(3) {
        eprintln!("bench: two claims have the device {device}");
    }
    Ok(Checked { placements, by_all_filters, wrong: wrong.len() + taken_twice.len() })
}

async fn all<T: Kind>(client: &Client) -> Result<Vec<T>, Error> {
    Ok(client.api::<T>("").list(&ListOptions::default()).await?.items)
}

fn shared<T>(objects: Vec<T>) -> Vec<Arc<T>> {
    objects.into_iter().map(Arc::new).collect()
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
            Arc::make_mut(&mut cluster.devices).claims[*at] = Arc::new(self.claims[*at].clone());
        }
    }
}

fn revision(pod: &Pod) -> u64 {
    pod.metadata.resource_version.as_ref().and_then(|version| version.parse().ok()).unwrap_or_default()
}

#[derive(Debug, Default, PartialEq)]
struct Replayed {
    placements: usize,
    by_all_filters: usize,
    /// Pods that do not fit, and why.
    wrong: Vec<(String, String)>,
}

/// A pod that does not fit yet.
struct Waiting {
    pod: Arc<Pod>,
    is_sampled: bool,
    why: String,
    /// Number of pods that were placed since.
    later: usize,
}

/// Puts pods on their nodes in the order of their bindings.
///
/// Nobody runs the pods, so the binding is the last write of each. Bindings are written at the same time, and one may be
/// written before that of a pod that was decided earlier. A pod that does not fit is therefore tried again after later ones.
fn replay(mut cluster: Cluster, pods: Vec<Pod>, claims: &[ResourceClaim], sample: usize) -> Replayed {
    let (by_all, allocations) = (Settings::default(), Allocations::of(claims));
    let by_node = Settings::default().without_filters(&COUNT_ALL);
    let node_of = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).unwrap_or_default();
    let mut bound: Vec<Arc<Pod>> = pods.into_iter().filter(|pod| !node_of(pod).is_empty()).map(Arc::new).collect();
    bound.sort_by_key(|pod| revision(pod));
    let every = bound.len().div_ceil(sample).max(1);
    let mut replayed = Replayed { placements: bound.len(), by_all_filters: bound.len() / every, wrong: Vec::new() };
    let mut waiting: Vec<Waiting> = Vec::new();
    let place = |cluster: &mut Cluster, pod: &Arc<Pod>, is_sampled: bool| {
        let node = node_of(pod);
        match cluster.rejection(pod, if is_sampled { &by_all } else { &by_node }, &node) {
            None => {
                cluster.place(pod.clone(), &node);
                allocations.place(cluster, pod);
                Ok(())
            }
            Some(why) => Err(why.to_string()),
        }
    };
    for (at, pod) in bound.into_iter().enumerate() {
        let is_sampled = at % every == every - 1;
        if let Err(why) = place(&mut cluster, &pod, is_sampled) {
            waiting.push(Waiting { pod, is_sampled, why, later: 0 });
            continue;
        }
        waiting.retain_mut(|one| {
            one.later += 1;
            if one.later > OFTEN && !one.later.is_power_of_two() {
                return true;
            }
            let tried = place(&mut cluster, &one.pod, one.is_sampled);
            tried.map_err(|why| one.why = why).is_err()
        });
    }
    waiting.retain(|one| place(&mut cluster, &one.pod, one.is_sampled).is_err());
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
        let replayed = replay(cluster(), pods, &[], 9);
        let wrong = vec![("x/c".to_owned(), "Insufficient cpu (NodeResourcesFit)".to_owned())];
        assert_eq!(replayed, Replayed { placements: 3, by_all_filters: 3, wrong });
    }

    #[test]
    fn bindings_may_be_written_in_another_order() {
        let late = |node: &str| {
            replay(cluster(), vec![pod("a", 5, node, near("b")), pod("b", 6, "n2", json!({}))], &[], 9).wrong
        };
        assert_eq!(late("n2"), []);
        let wrong = ("x/a".to_owned(), "node(s) didn't match pod affinity rules (InterPodAffinity)".to_owned());
        assert_eq!(late("n1"), [wrong]);
    }

    /// Pods that are far from those that they want to be near, and too many pods. The last one is the sample.
    #[test]
    fn a_sample_is_judged_by_all_filters_and_every_pod_by_those_of_its_node() {
        let far = |at: u64| pod(&format!("p{at}"), at, "n1", near("nobody"));
        let replayed = replay(cluster(), vec![far(1), far(2)], &[], 1);
        let why = "node(s) didn't match pod affinity rules (InterPodAffinity)".to_owned();
        assert_eq!(replayed, Replayed { placements: 2, by_all_filters: 1, wrong: vec![("x/p2".to_owned(), why)] });
        let plain = |at: u64| pod(&format!("p{at}"), at, "n1", json!({}));
        let replayed = replay(cluster(), (1..=3).map(plain).collect(), &[], 1);
        let why = "Insufficient cpu (NodeResourcesFit)".to_owned();
        assert_eq!(replayed, Replayed { placements: 3, by_all_filters: 1, wrong: vec![("x/p3".to_owned(), why)] });
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
            claims: shared(vec![claim("a", None), claim("b", None)]),
            classes: shared(vec![DeviceClass::decode_value(class).unwrap()]),
            slices: shared(vec![ResourceSlice::decode_value(slice).unwrap()]),
        });
        let pod = |name: &str, version: u64| {
            let entry = json!({"name": "c", "resourceClaimName": name});
            let metadata = json!({"namespace": "x", "name": name, "uid": name, "resourceVersion": version.to_string()});
            let spec = json!({"nodeName": "n1", "containers": [], "resourceClaims": [entry]});
            Pod::decode_value(json!({"metadata": metadata, "spec": spec})).unwrap()
        };
        let claims = [claim("a", Some("g0")), claim("b", Some("g0"))];
        let replayed = replay(cluster, vec![pod("a", 1), pod("b", 2)], &claims, 9);
        assert_eq!(replayed.wrong, [("x/b".to_owned(), "cannot allocate all claims (DynamicResources)".to_owned())]);
        assert_eq!(taken_twice(&claims), ["d/n1/g0"]);
    }
}
