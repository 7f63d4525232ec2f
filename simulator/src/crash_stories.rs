//! Short stories of one kind of object each, whose every write is tried as a crash point.
//!
//! A story creates, changes and deletes a few objects, and waits for the result of each step. However often a component is
//! killed meanwhile, each step is completed, the cluster comes to rest, and no invariant is violated.

use super::cluster::Layout;
use super::crash_points::CrashPoint;
use super::metrics_source::MetricsSource;
use super::scenario::{available, roll_out};
use super::user::{self, Gang, User};
use super::{Run, Simulation};
use client::Propagation;
use proto::gvk::Gvr;
use serde_json::{Value, json};

/// The names of the stories.
pub const STORIES: [&str; 8] =
    ["deployment", "stateful-set", "daemon-set", "job", "claim", "autoscaler", "namespace", "gang"];
const NODES: u32 = 2;
const PODS: (&str, &str) = ("", "pods");
const DEPLOYMENTS: (&str, &str) = ("apps", "deployments");
const STATEFUL_SETS: (&str, &str) = ("apps", "statefulsets");
const DAEMON_SETS: (&str, &str) = ("apps", "daemonsets");

/// Runs a story, with a kill at one point, or without. Returns `None` if there is no such story.
pub fn run(story: &str, seed: u64, point: Option<CrashPoint>) -> Option<Run<()>> {
    let story = STORIES.into_iter().find(|name| *name == story)?;
    let layout = match story {
        "gang" => Layout { nodes: NODES, devices: user::DEVICES, has_gangs: true, ..Layout::default() },
        _ => Layout { nodes: NODES, ..Layout::default() },
    };
    Some(Simulation::run_layout(seed, layout, async |simulation| {
        simulation.wire.crash_at(point);
        play(story, simulation).await;
        simulation.converges().await;
        let (count, reached) = simulation.wire.crash_points();
        simulation.cluster.log_line(&format!("{count} crash points"));
        match (point, reached) {
            (Some(point), None) => simulation.fail(format!("there is no crash point {point}"), Vec::new()).await,
            (_, reached) => reached.iter().for_each(|reached| simulation.cluster.log_line(reached)),
        }
    }))
}

async fn play(story: &str, simulation: &Simulation) {
    let user = User::new(simulation, NODES);
    let teller = Teller { simulation, user: &user };
    match story {
        "deployment" => teller.deployment().await,
        "stateful-set" => teller.stateful_set().await,
        "daemon-set" => teller.daemon_set().await,
        "job" => teller.job().await,
        "claim" => teller.claim().await,
        "autoscaler" => teller.autoscaler().await,
        "gang" => teller.gang().await,
        _ => teller.namespace().await,
    }
}

struct Teller<'a> {
    simulation: &'a Simulation,
    user: &'a User<'a>,
}

impl Teller<'_> {
    /// Waits until an object has a state; it is null while the object does not exist.
    async fn until(&self, (group, resource): (&str, &str), name: &str, what: &str, has: impl Fn(&Value) -> bool) {
        let gvr = Gvr::new(group, "v1", resource);
        let namespace = if resource == "namespaces" { "" } else { "default" };
        let condition = async |client: &client::Client| match client.dynamic(&gvr, namespace).get(name).await {
            Ok(object) => has(&object),
            Err(error) => error.is_not_found() && has(&Value::Null),
        };
        self.simulation.until(&format!("{resource} {name} {what}"), condition).await;
    }

    async fn delete(&self, (group, resource): (&str, &str), name: &str) {
        self.user.delete(group, resource, name, Propagation::Foreground).await;
        self.until((group, resource), name, "is gone", Value::is_null).await;
    }

    async fn patch(&self, (group, resource): (&str, &str), name: &str, patch: Value) {
        self.user.patch(group, resource, "default", name, patch).await;
    }

    async fn deployment(&self) {
        roll_out(self.simulation, "web", 2).await;
        self.patch(DEPLOYMENTS, "web", json!({"spec": {"replicas": 3}})).await;
        available(self.simulation, "web", 3).await;
        self.delete(DEPLOYMENTS, "web").await;
    }

    async fn stateful_set(&self) {
        let mut set = user::stateful_set("db", 2, "db:1");
        let data = json!({"metadata": {"name": "data"}, "spec": user::claim("data", "disks")["spec"]});
        set["spec"]["volumeClaimTemplates"] = json!([data]);
        set["spec"]["persistentVolumeClaimRetentionPolicy"] = json!({"whenScaled": "Delete", "whenDeleted": "Delete"});
        self.user.create_any(&user::storage_class()).await;
        self.user.create_any(&in_default(set)).await;
        let has = |replicas: i64| {
            move |set: &Value| {
                let status = &set["status"];
                status["observedGeneration"] == set["metadata"]["generation"]
                    && ["replicas", "readyReplicas", "updatedReplicas"].iter().all(|count| status[count] == replicas)
                    && status["currentRevision"] == status["updateRevision"]
            }
        };
        self.until(STATEFUL_SETS, "db", "has 2 pods", has(2)).await;
        self.patch(STATEFUL_SETS, "db", with_image("db:2")).await;
        self.until(STATEFUL_SETS, "db", "is updated", has(2)).await;
        self.patch(STATEFUL_SETS, "db", json!({"spec": {"replicas": 1}})).await;
        self.until(STATEFUL_SETS, "db", "has 1 pod", has(1)).await;
        self.until(("", "persistentvolumeclaims"), "data-db-1", "is gone", Value::is_null).await;
        self.delete(STATEFUL_SETS, "db").await;
        self.until(("", "persistentvolumeclaims"), "data-db-0", "is gone", Value::is_null).await;
    }

    async fn daemon_set(&self) {
        let mut set = user::deployment("logs", 1, "logs:1");
        set["kind"] = json!("DaemonSet");
        if let Some(spec) = set["spec"].as_object_mut() {
            spec.remove("replicas");
        }
        self.user.create_any(&in_default(set)).await;
        let is_updated = |set: &Value| {
            let status = &set["status"];
            status["observedGeneration"] == set["metadata"]["generation"]
                && ["updatedNumberScheduled", "numberAvailable"].iter().all(|count| status[count] == NODES)
        };
        self.until(DAEMON_SETS, "logs", "runs on all nodes", is_updated).await;
        self.patch(DAEMON_SETS, "logs", with_image("logs:2")).await;
        self.until(DAEMON_SETS, "logs", "is updated", is_updated).await;
        self.delete(DAEMON_SETS, "logs").await;
    }

    async fn job(&self) {
        let cron_job = json!({
            "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "cron", "namespace": "default"},
            "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": user::job("cron", 1, 1)["spec"]}},
        });
        self.user.create_any(&cron_job).await;
        self.user.create_any(&in_default(user::job("work", 3, 2))).await;
        let is_complete = |job: &Value| job["status"]["succeeded"] == 3 && job["status"]["completionTime"].is_string();
        self.until(("batch", "jobs"), "work", "is complete", is_complete).await;
        let has_succeeded = |job: &Value| job["status"]["lastSuccessfulTime"].is_string();
        self.until(("batch", "cronjobs"), "cron", "has succeeded", has_succeeded).await;
        self.delete(("batch", "cronjobs"), "cron").await;
        self.delete(("batch", "jobs"), "work").await;
    }

    async fn claim(&self) {
        let claims = ("", "persistentvolumeclaims");
        self.user.create_any(&user::storage_class()).await;
        self.user.create_any(&in_default(user::claim("data", "disks"))).await;
        for name in ["first", "second"] {
            self.user.create_any(&user::pod_with_claim(name, "data")).await;
            self.until(PODS, name, "runs", |pod| pod["status"]["phase"] == "Running").await;
            let size = json!({"spec": {"resources": {"requests": {"storage": "2Gi"}}}});
            self.patch(claims, "data", size).await;
            self.until(claims, "data", "is 2Gi", |claim| claim["status"]["capacity"]["storage"] == "2Gi").await;
            self.delete(PODS, name).await;
        }
        self.delete(claims, "data").await;
    }

    async fn autoscaler(&self) {
        for object in MetricsSource::registration() {
            self.user.create_any(&object).await;
        }
        self.simulation.metrics.set("load", "30");
        self.user.create("apps", "deployments", user::deployment("web", 1, "web:1")).await;
        self.user.create_any(&in_default(user::autoscaler("web", 1, 3))).await;
        available(self.simulation, "web", 3).await;
        self.simulation.metrics.set("load", "10");
        available(self.simulation, "web", 1).await;
    }

    /// One gang runs, with devices and a volume that is bound together with its pod. Another waits for its nodes.
    async fn gang(&self) {
        let gang = |name: &str, pods: usize| Gang { name: name.to_owned(), min_count: pods, pods, run_for: None };
        let (first, second) = (gang("first", 3), gang("second", 2));
        let mut class = user::storage_class();
        class["volumeBindingMode"] = json!("WaitForFirstConsumer");
        self.user.create_any(&class).await;
        self.user.create_any(&in_default(user::claim("data", "disks"))).await;
        for object in Gang::prerequisites() {
            self.user.create_any(&object).await;
        }
        self.user.create_any(&first.group()).await;
        let mut with_volume = first.pod(0);
        with_volume["spec"]["volumes"] = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]);
        self.user.create_any(&with_volume).await;
        self.user.create_gang(&first).await;
        let runs = |pod: &Value| pod["status"]["phase"] == "Running";
        for number in 0..first.pods {
            self.until(PODS, &first.pod_name(number), "runs", runs).await;
        }
        self.user.create_gang(&second).await;
        let waits = |pod: &Value| pod["status"]["conditions"][0]["reason"] == "Unschedulable";
        for number in 0..second.pods {
            self.until(PODS, &second.pod_name(number), "waits", waits).await;
        }
        self.user.delete_gang(&first).await;
        for number in 0..second.pods {
            self.until(PODS, &second.pod_name(number), "runs", runs).await;
        }
        self.user.delete_gang(&second).await;
        self.until(PODS, &second.pod_name(0), "is gone", Value::is_null).await;
        self.delete(("", "persistentvolumeclaims"), "data").await;
    }

    async fn namespace(&self) {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "short"}});
        self.user.create_any(&namespace).await;
        let mut web = user::deployment("web", 2, "web:1");
        web["metadata"]["namespace"] = json!("short");
        self.user.create_any(&web).await;
        let has_pods = async |client: &client::Client| {
            let got = client.dynamic(&Gvr::new("apps", "v1", "deployments"), "short").get("web").await;
            got.is_ok_and(|web| web["status"]["availableReplicas"] == 2)
        };
        self.simulation.until("the namespace has pods", has_pods).await;
        self.user.delete_any(&namespace).await;
        self.until(("", "namespaces"), "short", "is gone", Value::is_null).await;
    }
}

fn in_default(mut object: Value) -> Value {
    object["metadata"]["namespace"] = json!("default");
    object
}

fn with_image(image: &str) -> Value {
    json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}})
}
