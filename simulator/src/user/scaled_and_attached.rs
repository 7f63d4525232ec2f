//! What a `User` does with autoscalers and with pods whose volumes are attached: changes the load and the bounds, and moves
//! pods from node to node.

use super::{LOAD, LONGEST_PAUSE, User, claim, deployment, storage_class};
use crate::metrics_source::MetricsSource;
use client::Propagation;
use serde_json::{Value, json};
use std::time::Duration;

/// Number of names for autoscalers, and for pods with a claim.
const NAMES: usize = 2;

/// Returns an autoscaler that gives each pod of a Deployment a load of ten. It follows the load at once.
pub fn autoscaler(name: &str, least: usize, most: usize) -> Value {
    let external = json!({"metric": {"name": LOAD}, "target": {"type": "AverageValue", "averageValue": "10"}});
    json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "minReplicas": least, "maxReplicas": most, "behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}},
            "metrics": [{"type": "External", "external": external}],
        },
    })
}

/// Returns a pod with a claim.
pub fn pod_with_claim(name: &str, claim: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default", "labels": {"app": name}},
        "spec": {
            "containers": [{"name": "c", "image": "web:1"}], "terminationGracePeriodSeconds": 1,
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}],
        },
    })
}

impl User<'_> {
    /// Works on autoscalers and on pods with claims for some time. Every claim and every target is there in the end.
    pub async fn scale_and_attach(&self, how_long: Duration) {
        let end = self.simulation.env().now() + how_long;
        self.create_scaled_and_attached(NAMES).await;
        self.repeat_until(end, async |user| user.act_on_scaled_and_attached(NAMES).await).await;
        self.settle_scaled_and_attached(NAMES).await;
        self.uncordon_all().await;
        self.simulation.env().sleep(LONGEST_PAUSE).await;
    }

    /// Sets the load to a value that every autoscaler can follow, and leaves one pod for each volume: a second one on another
    /// node would wait for ever.
    pub(super) async fn settle_scaled_and_attached(&self, names: usize) {
        self.set_load("25");
        for number in 0..names {
            self.delete("", "pods", &format!("disk-{number}-b"), Propagation::Background).await;
        }
    }

    /// Creates so many claims, and targets with their autoscalers, and registers the server of the metric.
    pub(super) async fn create_scaled_and_attached(&self, names: usize) {
        for object in MetricsSource::registration() {
            self.create_any(&object).await;
        }
        self.create_any(&storage_class()).await;
        for number in 0..names {
            self.create("", "persistentvolumeclaims", claim(&format!("disk-{number}"), "disks")).await;
            self.create("apps", "deployments", deployment(&format!("scaled-{number}"), 2, "web:1")).await;
            self.create_any(&autoscaler(&format!("scaled-{number}"), 1, 5)).await;
        }
    }

    pub(super) async fn act_on_scaled_and_attached(&self, names: usize) {
        let random = &self.random;
        let number = random.below(names);
        let (scaled, disk) = (format!("scaled-{number}"), format!("disk-{number}"));
        match random.below(12) {
            0..=3 => self.set_load(["-1", "0", "3", "15", "27", "40", "70"][random.below(7)]),
            4 => {
                let least = 1 + random.below(3);
                let bounds = json!({"spec": {"minReplicas": least, "maxReplicas": least + random.below(5)}});
                self.patch_autoscaler(&scaled, bounds).await;
            }
            5 => self.set_image_of("deployments", &scaled).await,
            6 => {
                // Its target keeps its last size, and then follows the next one.
                self.delete_any(&autoscaler(&scaled, 1, 5)).await;
                self.create_any(&autoscaler(&scaled, 1 + random.below(2), 4 + random.below(3))).await;
            }
            7..=9 => {
                // Two pods want the volume, perhaps on two nodes.
                let name = format!("{disk}-{}", ["a", "b"][random.below(2)]);
                self.create_any(&pod_with_claim(&name, &disk)).await;
            }
            10 => {
                let name = format!("{disk}-{}", ["a", "b"][random.below(2)]);
                self.delete("", "pods", &name, Propagation::Background).await;
            }
            _ => self.cordon().await,
        }
    }

    async fn patch_autoscaler(&self, name: &str, patch: Value) {
        let api = self.client.dynamic(&proto::Gvr::new("autoscaling", "v2", "horizontalpodautoscalers"), "default");
        let what = format!("patch horizontalpodautoscalers/{name} with {patch}");
        let patch = client::Patch::Merge(patch);
        self.retry(what, async || api.patch(name, &patch, &client::PatchOptions::default()).await.map(drop)).await;
    }
}
