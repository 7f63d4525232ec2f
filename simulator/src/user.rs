//! `User`: creates, changes and deletes objects at random, and retries each request until the server accepts it.

mod daemons;
mod scaled_and_attached;
mod limits;
mod service_cidrs;
mod devices;
mod cloud;
mod deadlines;
mod gangs;

pub use devices::DEVICES;
pub use gangs::Gang;
pub use scaled_and_attached::{autoscaler, pod_with_claim};
pub use service_cidrs::service_cidr;

use super::Simulation;
use client::{Client, DeleteOptions, DynamicApi, Error, ListOptions, Patch, PatchOptions, Propagation};
use component_base::rng::Random;
use parking_lot::Mutex;
use proto::gvk::{Gvk, Gvr, split_api_version};
use proto::resources::Catalogue;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::Instant;

/// Longest pause between two actions.
const LONGEST_PAUSE: Duration = Duration::from_secs(15);
/// Pause before a retry.
const RETRY: Duration = Duration::from_secs(1);
/// Number of names for Deployments, Services, Jobs and claims.
const NAMES: usize = 4;
/// Number of names for StatefulSets.
const STATEFUL_NAMES: usize = 2;

/// Name of the external metric that autoscalers follow.
const LOAD: &str = "load";

/// Returns a pod template with resource requests.
pub(super) fn template(app: &str, image: &str, cpu: &str) -> Value {
    let requests = json!({"cpu": cpu, "memory": "64Mi"});
    json!({
        "metadata": {"labels": {"app": app}},
        "spec": {"containers": [{"name": "c", "image": image, "resources": {"requests": requests}}]},
    })
}

/// Returns a Deployment as a user writes it.
pub fn deployment(name: &str, replicas: usize, image: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": template(name, image, "100m"),
        },
    })
}

/// Returns a Service for the Deployment of that name.
pub fn service(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
        "spec": {"selector": {"app": name}, "ports": [{"port": 80}]},
    })
}

/// Returns a Job as a user writes it.
pub fn job(name: &str, completions: usize, parallelism: usize) -> Value {
    let mut template = template(name, "batch:1", "100m");
    template["spec"]["restartPolicy"] = json!("Never");
    json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name},
        "spec": {"completions": completions, "parallelism": parallelism, "template": template},
    })
}

/// Returns a class whose volumes take their time and sometimes cannot be made.
pub fn storage_class() -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "disks"},
        "provisioner": "orrery.dev/simulated", "allowVolumeExpansion": true,
        "parameters": {"latency": "2s", "provisioningFaults": "0.25", "deletionFaults": "0.25"},
    })
}

/// Returns a volume of an administrator, which is kept when its claim goes.
fn kept_volume(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "kept",
            "csi": {"driver": "disks.example.com", "volumeHandle": name},
        },
    })
}

/// Returns a claim for a volume of a class.
pub fn claim(name: &str, class: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name},
        "spec": {
            "storageClassName": class, "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
        },
    })
}

/// Returns a StatefulSet as a user writes it.
pub fn stateful_set(name: &str, replicas: usize, image: &str) -> Value {
    let mut set = deployment(name, replicas, image);
    set["kind"] = json!("StatefulSet");
    set["spec"]["serviceName"] = json!(name);
    set
}

/// Returns kind and name of an object.
fn shown(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    format!("{}/{}", text(&object["kind"]), text(&object["metadata"]["name"]))
}

/// A user of the cluster. The seed decides its actions.
pub struct User<'a> {
    simulation: &'a Simulation,
    client: Client,
    random: Random,
    nodes: u32,
    /// What it has done, in words.
    done: Mutex<Vec<String>>,
}

impl<'a> User<'a> {
    pub fn new(simulation: &'a Simulation, nodes: u32) -> Self {
        let random = simulation.env().random("simulation/user");
        Self { simulation, client: simulation.admin(), random, nodes, done: Mutex::default() }
    }

    /// Performs actions for some time. Leaves only objects that can converge, and uncordons all nodes.
    pub async fn work(&self, how_long: Duration) {
        let end = self.simulation.env().now() + how_long;
        self.create("apps", "deployments", self.new_deployment("steady-0", true)).await;
        self.create_scaled_and_attached(1).await;
        for number in 0..NAMES {
            self.create("", "persistentvolumes", kept_volume(&format!("kept-{number}"))).await;
        }
        self.create("apps", "statefulsets", self.new_stateful_set("db-0")).await;
        self.repeat_until(end, async |user| user.act().await).await;
        self.settle_scaled_and_attached(1).await;
        self.uncordon_all().await;
    }

    /// Takes one action after another, with random pauses. Each has random numbers of its own, so that it stays the same where
    /// others are left out.
    async fn repeat_until(&self, end: Instant, act: impl AsyncFn(&User<'_>)) {
        let (env, actions) = (self.simulation.env(), &self.simulation.actions);
        while env.now() < end {
            let (number, is_kept) = actions.draw(env.now().duration_since(self.simulation.began));
            if is_kept {
                let random = env.random(&format!("simulation/user/{number}"));
                let user = User { client: self.client.clone(), random, done: Mutex::default(), ..*self };
                act(&user).await;
                actions.describe(number, user.done.into_inner().join(", "));
            }
            env.sleep(LONGEST_PAUSE.mul_f64(self.random.unit())).await;
        }
    }

    async fn uncordon_all(&self) {
        for node in 0..self.nodes {
            self.patch("", "nodes", "", &format!("node-{node}"), json!({"spec": {"unschedulable": null}})).await;
        }
    }

    /// Creates, changes and deletes StatefulSets and their pods for some time.
    pub async fn work_on_stateful_sets(&self, how_long: Duration) {
        let end = self.simulation.env().now() + how_long;
        self.repeat_until(end, async |user| user.act_on_stateful_sets().await).await;
    }

    async fn act_on_stateful_sets(&self) {
        let db = format!("db-{}", self.random.below(STATEFUL_NAMES));
        match self.random.below(10) {
            0..=2 => self.create("apps", "statefulsets", self.new_stateful_set(&db)).await,
            3 | 4 => self.change_stateful_set(&db, json!({"replicas": self.random.below(5)})).await,
            5 | 6 => self.change_stateful_set(&db, json!({"template": self.new_image()})).await,
            7 | 8 => self.delete_a_pod(&db).await,
            _ => self.delete("apps", "statefulsets", &db, self.any_propagation()).await,
        }
    }

    async fn act(&self) {
        let (random, number) = (&self.random, self.random.below(NAMES));
        let (app, work, data) = (format!("app-{number}"), format!("work-{number}"), format!("data-{number}"));
        match random.below(26) {
            0..=2 => self.create("apps", "deployments", self.new_deployment(&app, false)).await,
            3 => self.create("", "services", self.new_service(&app)).await,
            4 | 5 => self.scale(if random.below(3) == 0 { "steady-0" } else { &app }).await,
            6 | 7 => self.set_image(if random.below(2) == 0 { "steady-0" } else { &app }).await,
            8 => self.create("batch", "jobs", job(&work, 1 + random.below(5), 1 + random.below(3))).await,
            9 => self.delete("apps", "deployments", &app, self.any_propagation()).await,
            10 => self.delete("batch", "jobs", &work, Propagation::Background).await,
            11 => self.delete("", "services", &app, Propagation::Background).await,
            12 => self.delete_a_pod(&app).await,
            13 | 14 => {
                let class = ["disks", "kept"][random.below(2)];
                self.create("", "persistentvolumeclaims", claim(&data, class)).await;
            }
            15 => self.delete("", "persistentvolumeclaims", &data, Propagation::Background).await,
            16 => {
                let size = json!({"spec": {"resources": {"requests": {"storage": "2Gi"}}}});
                self.patch("", "persistentvolumeclaims", "default", &data, size).await;
            }
            17..=19 => self.act_on_stateful_sets().await,
            20 | 21 => self.act_on_daemons().await,
            22..=24 => self.act_on_scaled_and_attached(1).await,
            _ => self.cordon().await,
        }
    }

    fn new_deployment(&self, name: &str, steady: bool) -> Value {
        let mut object = deployment(name, 2 + self.random.below(8), "web:1");
        let limits = [("25%", "25%"), ("1", "0"), ("0", "1"), ("50%", "2")];
        let (surge, unavailable) = limits[self.random.below(limits.len())];
        let number = |text: &str| text.parse::<u32>().map_or(json!(text), |number| json!(number));
        object["spec"]["strategy"] =
            json!({"rollingUpdate": {"maxSurge": number(surge), "maxUnavailable": number(unavailable)}});
        if steady {
            object["metadata"]["labels"] = json!({"steady": ""});
        } else if self.random.below(4) == 0 {
            object["spec"]["strategy"] = json!({"type": "Recreate"});
        }
        object
    }

    fn new_stateful_set(&self, name: &str) -> Value {
        let mut object = stateful_set(name, 1 + self.random.below(4), "db:1");
        let policies = ["OrderedReady", "Parallel"];
        object["spec"]["podManagementPolicy"] = json!(policies[self.random.below(policies.len())]);
        object["spec"]["updateStrategy"] =
            json!({"type": "RollingUpdate", "rollingUpdate": {"partition": self.random.below(2)}});
        object["spec"]["revisionHistoryLimit"] = json!(self.random.below(2));
        object
    }

    async fn change_stateful_set(&self, name: &str, spec: Value) {
        self.patch("apps", "statefulsets", "default", name, json!({"spec": spec})).await;
    }

    /// Returns the part of a pod template with another image.
    fn new_image(&self) -> Value {
        let image = format!("web:{}", 1 + self.random.below(5));
        json!({"spec": {"containers": [{"name": "c", "image": image}]}})
    }

    fn new_service(&self, app: &str) -> Value {
        let mut object = service(app);
        object["spec"]["type"] = json!(if self.random.below(2) == 0 { "ClusterIP" } else { "NodePort" });
        object
    }

    fn any_propagation(&self) -> Propagation {
        [Propagation::Background, Propagation::Foreground][self.random.below(2)]
    }

    async fn scale(&self, app: &str) {
        // A steady Deployment is never scaled down, since that removes pods legitimately.
        let replicas = if app == "steady-0" { 10 } else { self.random.below(10) };
        self.patch("apps", "deployments", "default", app, json!({"spec": {"replicas": replicas}})).await;
    }

    async fn set_image(&self, app: &str) {
        let patch = json!({"spec": {"template": self.new_image()}});
        self.patch("apps", "deployments", "default", app, patch).await;
        self.set_image_of("deployments", app).await;
    }

    async fn set_image_of(&self, resource: &str, app: &str) {
        let image = format!("web:{}", 1 + self.random.below(5));
        let containers = json!([{"name": "c", "image": image}]);
        let patch = json!({"spec": {"template": {"spec": {"containers": containers}}}});
        self.patch("apps", resource, "default", app, patch).await;
    }

    async fn delete_a_pod(&self, app: &str) {
        let pods = self.client.dynamic(&Gvr::new("", "v1", "pods"), "default");
        let selector = ListOptions::labels(format!("app={app}"));
        let Ok(found) = pods.list(&selector).await else { return };
        if found.items.is_empty() {
            return;
        }
        let pod = &found.items[self.random.below(found.items.len())];
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        self.retry(format!("delete pods/{name}"), async || pods.delete(name, &DeleteOptions::default()).await).await;
    }

    async fn cordon(&self) {
        let node = format!("node-{}", self.random.below(self.nodes as usize));
        let unschedulable = self.random.below(2) == 0;
        self.patch("", "nodes", "", &node, json!({"spec": {"unschedulable": unschedulable}})).await;
    }

    pub async fn create(&self, group: &str, resource: &str, object: Value) {
        let namespace = if matches!(resource, "storageclasses" | "persistentvolumes") { "" } else { "default" };
        let api = self.client.dynamic(&Gvr::new(group, "v1", resource), namespace);
        let what = format!("create {resource}/{}", object["metadata"]["name"].as_str().unwrap_or_default());
        self.retry(what, async || api.create(&object).await.map(drop)).await;
    }

    /// Creates an object of any kind of Kubernetes.
    pub async fn create_any(&self, object: &Value) {
        let (api, object) = self.collection(object);
        self.retry(format!("create {}", shown(&object)), async || api.create(&object).await.map(drop)).await;
    }

    /// Deletes the object that has the kind, namespace and name of this one.
    pub async fn delete_any(&self, object: &Value) {
        let (api, object) = self.collection(object);
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        self.retry(format!("delete {}", shown(&object)), async || api.delete(name, &DeleteOptions::default()).await)
            .await;
    }

    /// Patches an object of a collection.
    pub async fn patch_in(&self, gvr: &Gvr, namespace: &str, name: &str, patch: &Patch) {
        let api = self.client.dynamic(gvr, namespace);
        self.retry(format!("patch {}/{name}", gvr.resource), async || {
            api.patch(name, patch, &PatchOptions::default()).await.map(drop)
        })
        .await;
    }

    /// Deletes an object of a collection.
    pub async fn delete_in(&self, gvr: &Gvr, namespace: &str, name: &str, propagation: Option<Propagation>) {
        let api = self.client.dynamic(gvr, namespace);
        let options = DeleteOptions { propagation, ..DeleteOptions::default() };
        self.retry(format!("delete {}/{name}", gvr.resource), async || api.delete(name, &options).await).await;
    }

    /// Returns the collection that an object belongs to, and the object without a namespace if its kind has none.
    fn collection(&self, object: &Value) -> (DynamicApi, Value) {
        let mut object = object.clone();
        let (group, version) = split_api_version(object["apiVersion"].as_str().unwrap_or_default());
        let kind = object["kind"].as_str().unwrap_or_default();
        let target = Catalogue::complete().by_gvk(&Gvk::new(group, version, kind)).expect("a kind of Kubernetes");
        if let Some(metadata) = object["metadata"].as_object_mut().filter(|_| !target.row.is_namespaced()) {
            metadata.remove("namespace");
        }
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
        (self.client.dynamic(&target.gvr(), namespace), object)
    }

    pub async fn patch(&self, group: &str, resource: &str, namespace: &str, name: &str, patch: Value) {
        let api = self.client.dynamic(&Gvr::new(group, "v1", resource), namespace);
        let what = format!("patch {resource}/{name} with {patch}");
        let patch = Patch::Strategic(patch);
        self.retry(what, async || api.patch(name, &patch, &PatchOptions::default()).await.map(drop)).await;
    }

    pub async fn delete(&self, group: &str, resource: &str, name: &str, propagation: Propagation) {
        let api = self.client.dynamic(&Gvr::new(group, "v1", resource), "default");
        let options = DeleteOptions { propagation: Some(propagation), ..DeleteOptions::default() };
        self.retry(format!("delete {resource}/{name}"), async || api.delete(name, &options).await).await;
    }

    fn note(&self, what: String) {
        self.done.lock().push(what);
    }

    /// Changes the load that autoscalers follow.
    fn set_load(&self, value: &str) {
        self.note(format!("set the load to {value}"));
        self.simulation.metrics.set(LOAD, value);
    }

    /// Repeats a request until it succeeds, or until the answer shows that a retry is pointless. `what` says it in words.
    async fn retry(&self, what: String, act: impl AsyncFn() -> Result<(), Error>) {
        self.note(what);
        loop {
            match act().await {
                Ok(()) => return,
                Err(error) if error.is_not_found() || error.is_already_exists() => return,
                Err(Error::Status(status)) if status.code == 422 || status.code == 403 => {
                    return self.simulation.cluster.log_line(&format!("the user is refused: {status}"));
                }
                Err(_) => self.simulation.env().sleep(RETRY).await,
            }
        }
    }
}
