//! What a `User` does with quotas and disruption budgets: asks for more than a quota allows, and evicts more pods than a budget
//! allows.

use super::{User, deployment, service, template};
use client::{Error, ListOptions};
use proto::gvk::Gvr;
use serde_json::{Value, json};
use std::time::Duration;

/// The namespace that has a quota.
const LIMITED: &str = "limited";
/// Number of names for guarded Deployments.
const GUARDED: usize = 2;
/// Number of names for pods and Services in the limited namespace.
const NAMES: usize = 4;
/// Size of a guarded Deployment at the beginning, and the pods that its budget keeps.
const SIZE: usize = 5;
const KEPT: usize = 3;

fn limited(mut object: Value) -> Value {
    object["metadata"]["namespace"] = json!(LIMITED);
    object
}

fn quota(pods: usize, services: usize) -> Value {
    limited(json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "quota"},
        "spec": {"hard": {
            "pods": pods.to_string(), "requests.cpu": format!("{}m", pods * 100 - 50),
            "services": services.to_string(), "services.nodeports": "1",
        }},
    }))
}

/// Returns a budget for the pods of a Deployment.
fn budget(name: &str, limit: &str, number: usize) -> Value {
    let mut spec = json!({"selector": {"matchLabels": {"app": name}}});
    spec[limit] = json!(number);
    json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    })
}

fn lone_pod(name: &str) -> Value {
    let mut pod = limited(template(name, "web:1", "100m"));
    (pod["apiVersion"], pod["kind"], pod["metadata"]["name"]) = (json!("v1"), json!("Pod"), json!(name));
    pod
}

impl User<'_> {
    /// Works at the limits of a quota and of budgets for some time. In the end, the quota has room for everything.
    pub async fn work_at_limits(&self, how_long: Duration) {
        let end = self.simulation.env().now() + how_long;
        self.create_any(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": LIMITED}})).await;
        self.create_any(&quota(5, 2)).await;
        self.create_any(&limited(deployment("wide", 8, "web:1"))).await;
        for number in 0..GUARDED {
            let name = format!("guarded-{number}");
            self.create("apps", "deployments", deployment(&name, SIZE, "web:1")).await;
            let (limit, count) = if number == 0 { ("minAvailable", KEPT) } else { ("maxUnavailable", SIZE - KEPT) };
            self.create_any(&budget(&name, limit, count)).await;
        }
        self.repeat_until(end, async |user| user.act_at_limits().await).await;
        self.set_quota(2 * SIZE + NAMES, NAMES).await;
    }

    async fn act_at_limits(&self) {
        let random = &self.random;
        let guarded = format!("guarded-{}", random.below(GUARDED));
        let (lone, exposed) = (format!("lone-{}", random.below(NAMES)), format!("exposed-{}", random.below(NAMES)));
        match random.below(16) {
            0 | 1 => {
                let replicas = json!({"spec": {"replicas": random.below(2 * SIZE)}});
                self.patch("apps", "deployments", LIMITED, "wide", replicas).await;
            }
            2 | 3 => self.create_any(&lone_pod(&lone)).await,
            4 => self.delete_any(&lone_pod(&lone)).await,
            5 | 6 => {
                let mut service = limited(service(&exposed));
                service["spec"]["type"] = json!(["ClusterIP", "NodePort"][random.below(2)]);
                self.create_any(&service).await;
            }
            7 => self.delete_any(&limited(service(&exposed))).await,
            8 => self.set_quota(3 + random.below(4), 1 + random.below(3)).await,
            9 => {
                let replicas = json!({"spec": {"replicas": SIZE + random.below(2)}});
                self.patch("apps", "deployments", "default", &guarded, replicas).await;
            }
            10 => self.delete_a_pod(&guarded).await,
            _ => {
                // Several at once, as `kubectl drain` does.
                let evictions = (0..1 + random.below(3)).map(|_| self.evict_a_pod(&guarded));
                futures::future::join_all(evictions).await;
            }
        }
    }

    async fn set_quota(&self, pods: usize, services: usize) {
        let spec = json!({"spec": quota(pods, services)["spec"]});
        self.patch("", "resourcequotas", LIMITED, "quota", spec).await;
    }

    /// Evicts a pod unless its budget, or a conflict with another writer, forbids it.
    async fn evict_a_pod(&self, app: &str) {
        let pods = self.client.dynamic(&Gvr::new("", "v1", "pods"), "default");
        let Ok(found) = pods.list(&ListOptions::labels(format!("app={app}"))).await else { return };
        if found.items.is_empty() {
            return;
        }
        let name = found.items[self.random.below(found.items.len())]["metadata"]["name"].clone();
        self.note(format!("evict pods/{}", name.as_str().unwrap_or_default()));
        let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}});
        let evicted = pods.create_subresource(name.as_str().unwrap_or_default(), "eviction", &eviction).await;
        if let Err(Error::Status(status)) = evicted {
            self.simulation.cluster.log_line(&format!("the user may not evict: {status}"));
        }
    }
}
