//! What a `User` does with devices: makes pods with claims of their own and with shared ones, allocates devices as a scheduler
//! does, and taints them.

use super::{RETRY, User};
use crate::cluster::DRIVER;
use client::{ListOptions, Propagation};
use proto::gvk::Gvr;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Duration;

/// Number of names for pods with claims, and for claims that pods share.
const PODS: usize = 5;
const SHARED: usize = 2;
/// Number of devices of a node: enough for all claims.
pub const DEVICES: u32 = 8;
const TEMPLATE: &str = "gpus";
/// Node of the devices that shared claims get, and of the pods that share them.
const SHARED_NODE: &str = "node-0";
/// Time in which the last claims are allocated.
const LAST_ALLOCATIONS: Duration = Duration::from_secs(120);
const FINALIZER: &str = "resource.kubernetes.io/delete-protection";

fn request() -> Value {
    json!({"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": DRIVER}}]}})
}

fn template() -> Value {
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate",
        "metadata": {"name": TEMPLATE, "namespace": "default"}, "spec": {"spec": request()},
    })
}

fn shared_claim(name: &str) -> Value {
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": name, "namespace": "default"},
        "spec": request(),
    })
}

/// Returns a pod on a node. `run_for` limits its life.
fn pod(name: &str, node: &str, claim: &Value, run_for: Option<&str>) -> Value {
    let mut claim = claim.clone();
    claim["name"] = json!("gpu");
    let container = json!({"name": "c", "image": "train:1", "resources": {"claims": [{"name": "gpu"}]}});
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "annotations": {"orrery.dev/run-for": run_for}},
        "spec": {
            "nodeName": node, "restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container],
            "resourceClaims": [claim],
        },
    })
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn items<'a>(object: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> {
    object.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
}

impl User<'_> {
    /// Works on devices for some time. In the end, every pod has what it needs.
    pub async fn work_on_devices(&self, how_long: Duration) {
        let end = self.simulation.env().now() + how_long;
        self.create_any(&template()).await;
        self.repeat_until(end, async |user| user.act_on_devices().await).await;
        let end = end + LAST_ALLOCATIONS;
        while self.simulation.env().now() < end {
            for number in 0..SHARED {
                self.create_any(&shared_claim(&format!("shared-{number}"))).await;
            }
            self.release_deleted_claims().await;
            self.allocate().await;
            self.simulation.env().sleep(RETRY).await;
        }
    }

    async fn act_on_devices(&self) {
        let random = &self.random;
        let (pod_name, shared) = (format!("gpu-{}", random.below(PODS)), format!("shared-{}", random.below(SHARED)));
        match random.below(14) {
            0..=2 => {
                let node = format!("node-{}", random.below(self.nodes as usize));
                let run_for = [None, Some("20s")][random.below(2)];
                let claim = json!({"resourceClaimTemplateName": TEMPLATE});
                self.create_any(&pod(&pod_name, &node, &claim, run_for)).await;
            }
            3 | 4 => {
                let run_for = [None, Some("20s")][random.below(2)];
                let claim = json!({"resourceClaimName": shared});
                self.create_any(&pod(&pod_name, SHARED_NODE, &claim, run_for)).await;
            }
            5 => self.create_any(&shared_claim(&shared)).await,
            6 => self.delete_any(&shared_claim(&shared)).await,
            7 | 8 => self.delete("", "pods", &pod_name, Propagation::Background).await,
            9 => self.taint_a_device().await,
            10 => {
                self.delete_any(&template()).await;
                self.create_any(&template()).await;
            }
            _ => self.allocate().await,
        }
    }

    async fn list(&self, group: &str, resource: &str, namespace: &str) -> Vec<Value> {
        let api = self.client.dynamic(&Gvr::new(group, "v1", resource), namespace);
        api.list(&ListOptions::default()).await.map(|list| list.items).unwrap_or_default()
    }

    /// Gives a free device to each claim that has none. Reserves it for nobody, as if the pods had no scheduler.
    async fn allocate(&self) {
        let (claims, pods) = (self.list("resource.k8s.io", "resourceclaims", "default").await, self.pods().await);
        let devices = "/status/allocation/devices/results";
        let of_claims = claims.iter().flat_map(|claim| items(claim, devices));
        let mut taken: BTreeSet<(String, String)> =
            of_claims.map(|it| (text(it, "/pool").to_owned(), text(it, "/device").to_owned())).collect();
        let is_waiting = |claim: &&Value| {
            claim.pointer("/status/allocation").is_none() && text(claim, "/metadata/deletionTimestamp").is_empty()
        };
        for claim in claims.iter().filter(is_waiting) {
            let owner = text(claim, "/metadata/ownerReferences/0/uid");
            let pod = pods.iter().find(|pod| text(pod, "/metadata/uid") == owner);
            let node = pod.map_or(SHARED_NODE, |pod| text(pod, "/spec/nodeName"));
            let free = (0..DEVICES).map(|number| (node.to_owned(), format!("gpu-{number}")));
            let Some(device) = free.into_iter().find(|device| !taken.contains(device)) else { continue };
            self.allocate_to(claim, &device).await;
            taken.insert(device);
        }
    }

    async fn pods(&self) -> Vec<Value> {
        self.list("", "pods", "default").await
    }

    /// Writes an allocation, unless another writer is faster.
    async fn allocate_to(&self, claim: &Value, (pool, device): &(String, String)) {
        let api = self.client.dynamic(&Gvr::new("resource.k8s.io", "v1", "resourceclaims"), "default");
        let mut claim = claim.clone();
        claim["metadata"]["finalizers"] = json!([FINALIZER]);
        self.note(format!("allocate {pool}/{device}"));
        let Ok(mut claim) = api.update(&claim).await else { return };
        let result = json!({"request": "gpu", "driver": DRIVER, "pool": pool, "device": device});
        claim["status"] = json!({"allocation": {"devices": {"results": [result]}}});
        // The next attempt repeats what is lost.
        let _ = api.update_status(&claim).await;
    }

    /// Taints a device, or removes its taint.
    async fn taint_a_device(&self) {
        let api = self.client.dynamic(&Gvr::new("resource.k8s.io", "v1", "resourceslices"), "");
        let node = format!("node-{}", self.random.below(self.nodes as usize));
        let Ok(mut slice) = api.get(&format!("{node}-{DRIVER}")).await else { return };
        let device = &mut slice["spec"]["devices"][self.random.below(DEVICES as usize / 2)];
        device["taints"] = match device["taints"].is_null() {
            true => json!([{"key": "broken", "effect": "NoExecute"}]),
            false => Value::Null,
        };
        self.note(format!("taint or untaint a device of {node}"));
        // The node's driver may write it at the same time.
        let _ = api.update(&slice).await;
    }

    /// Deletes the pods that use claims which are being deleted.
    async fn release_deleted_claims(&self) {
        let claims = self.list("resource.k8s.io", "resourceclaims", "default").await;
        let pods = self.pods().await;
        for claim in claims.iter().filter(|claim| !text(claim, "/metadata/deletionTimestamp").is_empty()) {
            let name = text(claim, "/metadata/name");
            for pod in pods.iter().filter(|pod| text(pod, "/spec/resourceClaims/0/resourceClaimName") == name) {
                self.delete("", "pods", text(pod, "/metadata/name"), Propagation::Background).await;
            }
        }
    }
}
