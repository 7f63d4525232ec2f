//! The controllers at work on simulated nodes: Deployments, a StatefulSet and a DaemonSet from nothing to available, a
//! namespace that is deleted, and the memory that pods at rest take.
//!
//! The API server keeps its objects in memory. Each measurement ends when the workload says that its pods are available;
//! Events that the node agents write later are left to the time between two measurements.

use super::fleet::{Fleet, LOOK, PATIENCE, REST};
use super::load::closed_loop;
use super::measurement::Measurement;
use super::objects::{config_map, pod, post};
use super::{Bench, Error};
use client::request::{Call, JSON};
use http::Method;
use serde_json::{Value, json};

/// Nodes under the workloads of some thousand pods: few, so that their leases cost little beside the pods.
const NODES: usize = 1_000;
const REPLICAS: usize = 5_000;
const DEPLOYMENTS: usize = 500;
const REPLICAS_OF_EACH: usize = 10;
const STATEFUL: usize = 500;
/// Nodes under the DaemonSet and under the pods at rest.
const MANY_NODES: usize = 5_000;
const AT_REST: usize = 100_000;
const DOOMED: usize = 10_000;
const MANAGER: [&str; 2] = ["--leader-elect=false", "--allocate-node-cidrs=false"];
const WORKLOADS: &str = "/apis/apps/v1/namespaces/default";

/// How a kind of workload says how many pods it should have and has.
struct Kind {
    name: &'static str,
    resource: &'static str,
    wanted: &'static str,
    available: &'static str,
}

/// A Deployment whose pods only have to be there, where no node agents start them.
const PENDING: Kind =
    Kind { name: "Deployment", resource: "deployments", wanted: "/spec/replicas", available: "/status/replicas" };
const DEPLOYMENT: Kind = Kind {
    name: "Deployment",
    resource: "deployments",
    wanted: "/spec/replicas",
    available: "/status/availableReplicas",
};
const STATEFUL_SET: Kind = Kind {
    name: "StatefulSet",
    resource: "statefulsets",
    wanted: "/spec/replicas",
    available: "/status/availableReplicas",
};
const DAEMON_SET: Kind = Kind {
    name: "DaemonSet",
    resource: "daemonsets",
    wanted: "/status/desiredNumberScheduled",
    available: "/status/numberAvailable",
};

impl Kind {
    /// Returns true if the controller has seen the object, and as many pods are available as it wants.
    fn is_available(&self, object: &Value) -> bool {
        let wanted = object.pointer(self.wanted);
        wanted.is_some()
            && wanted == object.pointer(self.available)
            && object["status"]["observedGeneration"] == object["metadata"]["generation"]
    }

    /// Returns an object of the kind. Small requests let any number of its pods share a node.
    fn object(&self, name: &str, more: &Value) -> Value {
        let mut template = pod("template", 0);
        template["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "10m", "memory": "10Mi"}});
        let labels = json!({"app": name});
        let mut spec = json!({
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": template["spec"]},
        });
        for (field, value) in more.as_object().into_iter().flatten() {
            spec[field] = value.clone();
        }
        json!({"apiVersion": "apps/v1", "kind": self.name, "metadata": {"name": name}, "spec": spec})
    }
}

pub async fn run(bench: &Bench) -> Result<Vec<Measurement>, Error> {
    without_nodes(bench).await?;
    let fleet = start(bench, bench.count(NODES)).await?;
    let replicas = bench.count(REPLICAS);
    let what = format!("a Deployment from 0 to {replicas} pods, per pod");
    measure(&fleet, what, &DEPLOYMENT, 1, &json!({"replicas": replicas}), replicas).await?;
    let deployments = bench.count(DEPLOYMENTS);
    let pods = deployments * REPLICAS_OF_EACH;
    let what = format!("{deployments} Deployments of {REPLICAS_OF_EACH} pods, per pod");
    measure(&fleet, what, &DEPLOYMENT, deployments, &json!({"replicas": REPLICAS_OF_EACH}), pods).await?;
    let replicas = bench.count(STATEFUL);
    let more = json!({"replicas": replicas, "podManagementPolicy": "Parallel", "serviceName": "none"});
    let what = format!("a StatefulSet of {replicas} pods in parallel, per pod");
    measure(&fleet, what, &STATEFUL_SET, 1, &more, replicas).await?;
    namespace_ends(&fleet, bench.count(DOOMED)).await?;
    drop(fleet);

    let fleet = start(bench, bench.count(MANY_NODES)).await?;
    let what = format!("a DaemonSet on {} nodes, per pod", fleet.nodes);
    measure(&fleet, what, &DAEMON_SET, 1, &json!({}), fleet.nodes).await?;
    Ok(Vec::new())
}

/// Measures the manager's memory with many pods at rest.
pub async fn resident(bench: &Bench) -> Result<Vec<Measurement>, Error> {
    let fleet = start(bench, bench.count(MANY_NODES)).await?;
    at_rest(&fleet, bench.count(AT_REST)).await?;
    Ok(Vec::new())
}

/// Measures a Deployment where there are neither nodes nor a scheduler: what the API server and the manager do for a pod.
async fn without_nodes(bench: &Bench) -> Result<(), Error> {
    let mut fleet = Fleet::new(bench, "controllers", "memory", 0).await?;
    fleet.servers.add(bench, "controller-manager", &MANAGER)?;
    create(&fleet, &PENDING, "warm", 1, &json!({"replicas": 1})).await?;
    until_available(&fleet, &PENDING).await?;
    fleet.until_quiet().await?;
    let replicas = bench.count(REPLICAS);
    let what = format!("a Deployment from 0 to {replicas} pods without nodes, per pod");
    measure(&fleet, what, &PENDING, 1, &json!({"replicas": replicas}), replicas).await
}

/// Starts the nodes, the scheduler and every controller.
async fn start(bench: &Bench, nodes: usize) -> Result<Fleet<'_>, Error> {
    let mut fleet = Fleet::new(bench, "controllers", "memory", nodes).await?;
    fleet.servers.add(bench, "controller-manager", &MANAGER)?;
    fleet.servers.add(bench, "scheduler", &["--leader-elect=false"])?;
    fleet.start_nodes().await?;
    // One pod that is not counted shows that all are at work.
    create(&fleet, &DEPLOYMENT, "warm", 1, &json!({"replicas": 1})).await?;
    until_available(&fleet, &DEPLOYMENT).await?;
    fleet.until_quiet().await?;
    Ok(fleet)
}

/// Measures how workloads of one kind come to their pods, and deletes them again.
async fn measure(
    fleet: &Fleet<'_>,
    what: String,
    kind: &Kind,
    count: usize,
    more: &Value,
    pods: usize,
) -> Result<(), Error> {
    let start = fleet.start().await?;
    create(fleet, kind, "measured", count, more).await?;
    until_available(fleet, kind).await?;
    fleet.bench.record(fleet.end(what, pods, &start).await?);
    for number in 0..count {
        let path = format!("{WORKLOADS}/{}/measured-{number}", kind.resource);
        fleet.clients[0].call(&Call::new(Method::DELETE, path)).await?;
    }
    fleet.until_none("labelSelector=app%21%3Dwarm-0").await?;
    fleet.until_quiet().await
}

async fn create(fleet: &Fleet<'_>, kind: &Kind, prefix: &str, count: usize, more: &Value) -> Result<(), Error> {
    let collection = format!("{WORKLOADS}/{}", kind.resource);
    let creating = closed_loop(&fleet.bench.env, &fleet.clients, count, |client, number| {
        let collection = &collection;
        let object = kind.object(&format!("{prefix}-{number}"), more);
        async move { post(client, collection, object).await }
    });
    creating.await.must_succeed().map(drop)
}

/// Waits until all objects of the kind have their pods.
async fn until_available(fleet: &Fleet<'_>, kind: &Kind) -> Result<(), Error> {
    let path = format!("{WORKLOADS}/{}", kind.resource);
    let looking = async {
        loop {
            let list = fleet.get(&path).await?;
            let mut items = list["items"].as_array().into_iter().flatten();
            if items.all(|object| kind.is_available(object)) {
                return Ok(());
            }
            fleet.bench.env.sleep(LOOK).await;
        }
    };
    let impatient = |_| Error::Failed(format!("{path}: not all are available after {PATIENCE:?}"));
    fleet.bench.env.timeout(PATIENCE, looking).await.map_err(impatient)?
}

/// Deletes a namespace that holds ConfigMaps, and waits until it has gone.
async fn namespace_ends(fleet: &Fleet<'_>, objects: usize) -> Result<(), Error> {
    const DOOMED: &str = "/api/v1/namespaces/doomed";
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "doomed"}});
    fleet.clients[0].call(&Call::new(Method::POST, "/api/v1/namespaces").body(JSON, namespace.to_string())).await?;
    let filling = closed_loop(&fleet.bench.env, &fleet.clients, objects, |client, number| async move {
        post(client, &format!("{DOOMED}/configmaps"), config_map(&format!("c-{number}"), 1024, 0)).await
    });
    filling.await.must_succeed()?;
    let start = fleet.start().await?;
    fleet.clients[0].call(&Call::new(Method::DELETE, DOOMED)).await?;
    let looking = async {
        while fleet.get(DOOMED).await.is_ok() {
            fleet.bench.env.sleep(LOOK).await;
        }
    };
    let impatient = |_| Error::Failed(format!("the namespace is still there after {PATIENCE:?}"));
    fleet.bench.env.timeout(PATIENCE, looking).await.map_err(impatient)?;
    let what = format!("a namespace of {objects} ConfigMaps is deleted, per object");
    fleet.bench.record(fleet.end(what, objects, &start).await?);
    Ok(())
}

/// Measures what pods at rest cost: the memory that the manager has gained by each, and the CPU of a minute.
async fn at_rest(fleet: &Fleet<'_>, pods: usize) -> Result<(), Error> {
    let memory = || -> Result<f64, Error> {
        let usage = fleet.servers.usage()?;
        Ok(usage.get("controller-manager").map_or(0.0, |used| used.rss_mib))
    };
    let before = memory()?;
    let deployments = pods.div_ceil(REPLICAS);
    let start = fleet.start().await?;
    create(fleet, &DEPLOYMENT, "rest", deployments, &json!({"replicas": pods / deployments})).await?;
    until_available(fleet, &DEPLOYMENT).await?;
    let pods = pods / deployments * deployments;
    let what = format!("{deployments} Deployments of {} pods, per pod", pods / deployments);
    fleet.bench.record(fleet.end(what, pods, &start).await?);
    fleet.until_quiet().await?;
    fleet.bench.env.sleep(REST).await;
    let kib = (memory()? - before) * 1024.0 / pods as f64;
    let what = format!("{pods} pods at rest for a minute; each takes {kib:.2} KiB of the manager");
    fleet.bench.record(fleet.rest(what).await?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workload_is_available_once_its_status_says_so() {
        let mut object = DEPLOYMENT.object("web", &json!({"replicas": 2}));
        object["metadata"]["generation"] = json!(1);
        assert!(!DEPLOYMENT.is_available(&object), "it has no status");
        object["status"] = json!({"observedGeneration": 1, "availableReplicas": 1});
        assert!(!DEPLOYMENT.is_available(&object));
        object["status"]["availableReplicas"] = json!(2);
        assert!(DEPLOYMENT.is_available(&object));
        object["metadata"]["generation"] = json!(2);
        assert!(!DEPLOYMENT.is_available(&object), "the status is of the generation before");
        let daemons = json!({
            "metadata": {"generation": 1},
            "status": {"observedGeneration": 1, "desiredNumberScheduled": 3, "numberAvailable": 3},
        });
        assert!(DAEMON_SET.is_available(&daemons));
    }
}
