//! What a `User` does with gangs: makes and deletes Workloads, PodGroups and their pods, and lets gangs contend for nodes of
//! which each needs more than half.

use super::{RETRY, User};
use crate::cluster::DRIVER;
use client::{ListOptions, Propagation};
use proto::gvk::Gvr;
use serde_json::{Value, json};
use std::time::Duration;

/// Number of names for gangs.
const GANGS: usize = 3;
/// Number of pods of a gang. Three nodes have room for six such pods, so two whole gangs never run at once.
const SIZE: usize = 4;
const CPU: &str = "3";
const WORKLOAD: &str = "training";
const TEMPLATE: &str = "gpu";

/// A gang: a PodGroup and its pods.
pub struct Gang {
    pub name: String,
    pub min_count: usize,
    /// Number of its pods, which may be more or fewer than `min_count`.
    pub pods: usize,
    /// How long each pod runs; for ever without it.
    pub run_for: Option<&'static str>,
}

impl Gang {
    /// Returns the class of all devices, and the template of the claims of all pods: one device for each.
    pub fn prerequisites() -> [Value; 2] {
        let expression = format!("device.driver == {DRIVER:?}");
        let class = json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": DRIVER},
            "spec": {"selectors": [{"cel": {"expression": expression}}]},
        });
        let request = json!({"name": "gpu", "exactly": {"deviceClassName": DRIVER}});
        let template = json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate",
            "metadata": {"name": TEMPLATE, "namespace": "default"}, "spec": {"spec": {"devices": {"requests": [request]}}},
        });
        [class, template]
    }

    pub fn group(&self) -> Value {
        let policy = json!({"gang": {"minCount": self.min_count}});
        object("PodGroup", &self.name, json!({"schedulingPolicy": policy}))
    }

    /// Returns the name of a pod, by its number from 0.
    pub fn pod_name(&self, number: usize) -> String {
        format!("{}-{number}", self.name)
    }

    /// Returns a pod that needs a device.
    pub fn pod(&self, number: usize) -> Value {
        let resources = json!({"requests": {"cpu": CPU, "memory": "64Mi"}, "claims": [{"name": "gpu"}]});
        let annotations = json!({"orrery.dev/run-for": self.run_for});
        // A simulated container that is not to be restarted ends soon by itself.
        let restart_policy = if self.run_for.is_some() { "Never" } else { "Always" };
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": self.pod_name(number), "namespace": "default", "annotations": annotations},
            "spec": {
                "restartPolicy": restart_policy, "terminationGracePeriodSeconds": 1,
                "schedulingGroup": {"podGroupName": self.name},
                "containers": [{"name": "c", "image": "train:1", "resources": resources}],
                "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": TEMPLATE}],
            },
        })
    }

    /// Returns the Workload whose template the groups follow.
    fn workload(&self) -> Value {
        let policy = json!({"gang": {"minCount": self.min_count}});
        let templates = json!([{"name": "workers", "schedulingPolicy": policy}]);
        object("Workload", WORKLOAD, json!({"podGroupTemplates": templates}))
    }

    /// Returns the group as one that was made from the Workload's template.
    fn group_of_workload(&self) -> Value {
        let mut group = self.group();
        let template = json!({"workloadName": WORKLOAD, "podGroupTemplateName": "workers"});
        group["spec"]["podGroupTemplateRef"] = json!({"workload": template});
        group
    }
}

fn object(kind: &str, name: &str, spec: Value) -> Value {
    let metadata = json!({"name": name, "namespace": "default"});
    json!({"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": kind, "metadata": metadata, "spec": spec})
}

impl User<'_> {
    pub async fn create_gang(&self, gang: &Gang) {
        self.create_any(&gang.group()).await;
        for number in 0..gang.pods {
            self.create_any(&gang.pod(number)).await;
        }
    }

    pub async fn delete_gang(&self, gang: &Gang) {
        self.delete_any(&gang.group()).await;
        for number in 0..gang.pods {
            self.delete("", "pods", &gang.pod_name(number), Propagation::Background).await;
        }
    }

    /// Works on gangs for some time.
    pub async fn work_on_gangs(&self, how_long: Duration) {
        let end = self.simulation.env().now() + how_long;
        for object in Gang::prerequisites() {
            self.create_any(&object).await;
        }
        self.create_any(&self.any_gang().workload()).await;
        self.repeat_until(end, async |user| user.act_on_gangs().await).await;
        self.uncordon_all().await;
    }

    fn any_gang(&self) -> Gang {
        let random = &self.random;
        Gang {
            name: format!("gang-{}", random.below(GANGS)),
            min_count: 2 + random.below(SIZE - 1),
            pods: SIZE,
            run_for: [None, Some("30s")][random.below(2)],
        }
    }

    async fn act_on_gangs(&self) {
        let (gang, number) = (self.any_gang(), self.random.below(SIZE));
        match self.random.below(12) {
            0..=3 => self.create_gang(&gang).await,
            4 => self.create_any(&gang.group_of_workload()).await,
            5 | 6 => self.create_any(&gang.pod(number)).await,
            7 => self.delete("", "pods", &gang.pod_name(number), Propagation::Background).await,
            8 => self.delete_any(&gang.group()).await,
            9 | 10 => self.delete_gang(&gang).await,
            _ => self.cordon().await,
        }
    }

    /// Lets three gangs contend, of which only one at a time has room. Each must run to its end. In the end one gang runs, and
    /// another waits for a pod that nobody makes.
    pub async fn let_gangs_contend(&self) {
        let gang = |name: String| Gang { name, min_count: SIZE, pods: SIZE, run_for: Some("30s") };
        let gangs: Vec<Gang> = (0..GANGS).map(|number| gang(format!("gang-{number}"))).collect();
        for gang in &gangs {
            self.delete_gang(gang).await;
        }
        self.until_pods("all gangs are gone", |pods| pods.is_empty()).await;
        // The protection of a PodGroup ends after its last pod.
        self.simulation.env().sleep(RETRY).await;
        for gang in &gangs {
            self.create_gang(gang).await;
        }
        let has_run = |pod: &Value| pod["status"]["phase"] == "Succeeded";
        self.until_pods("all gangs have run", |pods| pods.len() == GANGS * SIZE && pods.iter().all(has_run)).await;
        for gang in &gangs {
            self.delete_gang(gang).await;
        }
        self.create_gang(&Gang { run_for: None, ..gang("runs".to_owned()) }).await;
        self.create_gang(&Gang { pods: SIZE - 1, ..gang("waits".to_owned()) }).await;
    }

    async fn until_pods(&self, what: &str, condition: impl Fn(&[Value]) -> bool) {
        let pods = Gvr::new("", "v1", "pods");
        let condition = async |client: &client::Client| {
            let got = client.dynamic(&pods, "default").list(&ListOptions::default()).await;
            got.is_ok_and(|list| condition(&list.items))
        };
        self.simulation.until(what, condition).await;
    }
}
