//! Reads the manifests of static pods, and syncs those pods and their mirrors.
//!
//! Corresponds to pkg/kubelet/config and to syncPod for static pods.

use crate::fleet::kubelet::SimulatedKubelet;
use crate::fleet::pod_sync::{self, PREEMPTION_POLL, Shared};
use crate::fleet::{Fleet, mirror};
use crate::static_pods::manifest::SOURCE;
use crate::static_pods::table::StaticPod;
use client::ReconcileError;
use pod_life::conditions;
use proto::Kind;
use proto::kinds::api::core::v1::Pod;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

impl Fleet {
    /// Reads the manifests of a node; its pods are synced when they differ from before.
    pub(super) async fn read_manifests(&self, kubelet: &SimulatedKubelet) {
        let node = &kubelet.machine.name;
        let mut found = kubelet.manifests.read(node, &self.env).await;
        let known = self.static_pods.of_node(node);
        if found.lacks_url {
            let of_url = known.iter().filter(|known| is_of_url(&known.pod) && !known.pod.is_deleting());
            found.pods.extend(of_url.map(|known| (known.pod.key(), Pod::clone(&known.pod))));
        }
        kubelet.report_manifests(&found.problems);
        for key in self.static_pods.update(node, found.pods, self.env.wall()) {
            self.pod_queue.add(key);
        }
        // From now on, a mirror pod without a static pod is known to be left over.
        if !kubelet.has_read_manifests.swap(true, Ordering::AcqRel) {
            let mirrors = self.pods_of(node).unwrap_or_default();
            mirrors.iter().filter(|pod| mirror::is_mirror(pod)).for_each(|pod| self.pod_queue.add(pod.key()));
        }
    }

    pub(super) async fn sync_static_pod(&self, key: String, known: StaticPod) -> Result<(), ReconcileError> {
        let Some(kubelet) = &self.members.named(&known.node) else { return Ok(()) };
        if !kubelet.power.is_on() {
            return Ok(());
        }
        let node = self.node(&known.node).unwrap_or_else(|| Arc::new(kubelet.initial_node(&self.env)));
        let preempt = |key: &str| self.preempt(kubelet, key);
        let shared = Shared {
            memory: &self.memory,
            objects: &self.objects,
            context: self.context_of(&known.node),
            latency: &kubelet.latency(),
            env: &self.env,
            preempt: &preempt,
        };
        let Some(step) = pod_sync::take_step(kubelet, &node, &known.pod, &known.status, &shared).await else {
            self.pod_queue.add_after(key, PREEMPTION_POLL);
            return Ok(());
        };
        let uid = known.pod.uid();
        let stopping = pod_sync::record_events(kubelet, &known.pod, &step, &self.memory);
        pod_sync::run_hooks(&shared.context, &known.pod, (&known.status, &step.status), &stopping).await;
        self.static_pods.set_status(&key, uid, step.status.clone());
        let stored = self.pods.by_key(&key);
        if conditions::is_terminal(&step.status) {
            kubelet.release(uid);
        }
        if step.ended {
            self.runtime.release(uid);
            self.memory.forget(&key);
            if let Some(stored) = stored.filter(|stored| mirror::is_mirror(stored)) {
                mirror::delete(kubelet, &stored).await?;
            }
            self.static_pods.finish(&key, uid);
            self.pod_queue.add_after(key, Duration::from_millis(1));
            return Ok(());
        }
        // The pod goes on whether or not its mirror can be written.
        if let Some(after) = pod_sync::until_next(&step, kubelet.power.wall(&self.env)) {
            self.pod_queue.add_after(key, after.max(Duration::from_millis(1)));
        }
        mirror::reconcile(kubelet, &known.pod, &step.status, stored.as_deref()).await?;
        Ok(())
    }

    /// Deletes a mirror pod whose static pod has gone. Returns true when the pod was one.
    pub(super) async fn delete_orphan(&self, kubelet: &SimulatedKubelet, pod: &Pod) -> Result<bool, ReconcileError> {
        if !mirror::is_mirror(pod) {
            return Ok(false);
        }
        if kubelet.has_read_manifests.load(Ordering::Acquire) {
            mirror::delete(kubelet, pod).await?;
        }
        Ok(true)
    }
}

fn is_of_url(pod: &Pod) -> bool {
    pod.metadata.annotations.as_ref().and_then(|annotations| annotations.get(SOURCE)).is_some_and(|of| of == "http")
}
