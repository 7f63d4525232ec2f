//! The scenarios of simulated clusters, each run by name and seed.

use super::any_order;
use super::cluster::Layout;
use super::controller_caches::REPLICA_SETS;
use super::error_states;
use super::faults::FaultProfile;
use super::stories;
use super::user::{self, User};
use super::{LAST_WRITES, Run, Simulation, Start, ready_nodes};
use client::{Client, ListOptions};
use proto::kinds::api::apps::v1::{Deployment, ReplicaSet};
use proto::kinds::api::core::v1::Pod;
use serde_json::json;
use std::time::Duration;

/// Time for which a run has faults.
const FAULT_PHASE: Duration = Duration::from_secs(400);
const FAULT_PHASE_AT_SIZE: Duration = Duration::from_secs(60);
/// Time for which a converged cluster is observed.
const QUIET: Duration = Duration::from_secs(600);
/// The same for a large cluster. It is shorter, since the nodes alone write eleven times a second.
const QUIET_AT_SIZE: Duration = Duration::from_secs(120);
const HOUR: Duration = Duration::from_secs(3600);

/// A scenario and its name.
pub struct Scenario {
    pub name: &'static str,
    pub run: fn(Start) -> Run<()>,
}

pub const SCENARIOS: &[Scenario] = &[
    Scenario { name: "roll-out", run: |start| Simulation::run_whole(start, 3, async |s| roll_out(s, "web", 20).await) },
    Scenario { name: "growth", run: growth },
    Scenario { name: "survive", run: survive },
    Scenario { name: "daemon-sets", run: daemon_sets },
    Scenario { name: "at-size", run: at_size },
    Scenario { name: "at-tenth-of-size", run: at_tenth_of_size },
    Scenario { name: "stateful-sets", run: stateful_sets },
    Scenario { name: "scaled-and-attached", run: scaled_and_attached },
    Scenario { name: "limits", run: limits },
    Scenario { name: "service-cidrs", run: service_cidrs },
    Scenario { name: "devices", run: devices },
    Scenario { name: "gangs", run: gangs },
    Scenario { name: "cloud", run: cloud },
    Scenario { name: "clocks", run: clocks },
    Scenario { name: "quiet-hour", run: quiet_hour },
    Scenario { name: "stale-rollout", run: stale_rollout },
    Scenario { name: "stories", run: stories::played },
    Scenario { name: "killed-fleet", run: stories::killed },
    Scenario { name: "stories-under-faults", run: stories::under_faults },
    Scenario { name: "cut-off", run: stories::cut_off },
    Scenario { name: "error-states", run: error_states },
    Scenario { name: "any-order", run: |start| Simulation::run_whole(start, 3, async |s| any_order::check(s).await) },
    Scenario { name: "lost-node", run: stories::lost_node },
];

/// Deploys `replicas` pods, exposes them, and rolls out a new image.
pub async fn roll_out(simulation: &Simulation, name: &str, replicas: i32) {
    let user = User::new(simulation, 0);
    user.create("apps", "deployments", user::deployment(name, replicas.unsigned_abs() as usize, "web:1")).await;
    user.create("", "services", user::service(name)).await;
    available(simulation, name, replicas).await;
    let image = json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "web:2"}]}}}});
    user.patch("apps", "deployments", "default", name, image).await;
    available(simulation, name, replicas).await;
}

/// One Deployment grows to many pods, and then many Deployments to a few. `write_counts` counts what that takes.
fn growth(start: Start) -> Run<()> {
    const PODS: usize = 200;
    const EACH: usize = 10;
    Simulation::run_whole(start, 10, async |simulation| {
        let user = User::new(simulation, 0);
        let create = async |name: &str, replicas: usize| {
            user.create("apps", "deployments", user::deployment(name, replicas, "web:1")).await;
        };
        simulation.env().sleep(LAST_WRITES).await;
        simulation.cluster.log_line(&format!("one deployment of {PODS} begins"));
        create("large", PODS).await;
        available(simulation, "large", PODS as i32).await;
        simulation.env().sleep(LAST_WRITES).await;
        simulation.cluster.log_line(&format!("{} deployments of {EACH} begin", PODS / EACH));
        let small: Vec<String> = (0..PODS / EACH).map(|number| format!("small-{number}")).collect();
        futures::future::join_all(small.iter().map(|name| create(name, EACH))).await;
        for name in &small {
            available(simulation, name, EACH as i32).await;
        }
        simulation.env().sleep(LAST_WRITES).await;
        simulation.cluster.log_line("all have grown");
    })
}

/// Waits until the rollout is complete, as `kubectl rollout status` does.
pub async fn available(simulation: &Simulation, name: &str, replicas: i32) {
    let what = format!("{replicas} replicas of {name} are available");
    simulation
        .until(&what, async |client| {
            let Ok(deployment) = client.api::<Deployment>("default").get(name).await else { return false };
            let Some(status) = deployment.status else { return false };
            status.observed_generation == deployment.metadata.generation
                && status.updated_replicas == Some(replicas)
                && status.replicas == Some(replicas)
                && status.available_replicas == Some(replicas)
        })
        .await;
}

/// A user works under all faults; once faults stop, the cluster converges and stays quiet. Every third seed loses no
/// nodes, so that the available pods of rollouts can be checked.
fn survive(start: Start) -> Run<()> {
    let nodes = 3;
    let seed = start.seed;
    Simulation::run_whole(start, nodes, async |simulation| {
        let nodes_to_lose = if seed.is_multiple_of(3) { 0 } else { nodes };
        let profile = all_faults(nodes_to_lose);
        let user = User::new(simulation, nodes);
        let work = async {
            roll_out(simulation, "web", 16).await;
            user.work(FAULT_PHASE - Duration::from_secs(60)).await;
        };
        futures::join!(work, simulation.inject_faults(profile, FAULT_PHASE));
        comes_to_rest(simulation, QUIET).await;
        // The cluster still works after the quiet time.
        roll_out(simulation, "afterwards", 5).await;
    })
}

/// A user changes DaemonSets and moves nodes from one to another under all faults. Then every node has the pods that it
/// should have, and nothing more is written.
fn daemon_sets(start: Start) -> Run<()> {
    let layout = Layout { nodes: 4, ..Layout::default() };
    endure(start, layout, all_faults(layout.nodes), async |_, user| user.tend_daemons(FAULT_PHASE).await)
}

/// A thousand replicas on a hundred nodes roll out under faults, lose ten nodes and recover; the nodes return.
fn at_size(start: Start) -> Run<()> {
    lose_a_tenth(start, 100)
}

/// The same with a hundred replicas on ten nodes.
fn at_tenth_of_size(start: Start) -> Run<()> {
    lose_a_tenth(start, 10)
}

/// Ten replicas a node roll out under faults, lose a tenth of the nodes and recover; the nodes return.
fn lose_a_tenth(start: Start, nodes: u32) -> Run<()> {
    // More frequent than on a small cluster, since a rollout takes only seconds.
    let profile = FaultProfile { nodes_to_lose: 0, longest_pause: Duration::from_secs(4), steps_clocks: false };
    let replicas = i32::try_from(nodes * 10).expect("a small number");
    Simulation::run_whole(start, nodes, async |simulation| {
        let work = async {
            simulation.env().sleep(profile.longest_pause).await;
            roll_out(simulation, "web", replicas).await;
            let lost: Vec<String> = (0..nodes / 10).map(|n| format!("node-{}", n * 7)).collect();
            lost.iter().for_each(|node| simulation.set_unreachable(node, true));
            for node in &lost {
                let what = format!("the pods of {node} are given up");
                simulation.until(&what, async |client| has_lost_its_pods(client, node).await).await;
            }
            available(simulation, "web", replicas).await;
            lost.iter().for_each(|node| simulation.set_unreachable(node, false));
        };
        futures::join!(work, simulation.inject_faults(profile, FAULT_PHASE_AT_SIZE));
        comes_to_rest(simulation, QUIET_AT_SIZE).await;
    })
}

/// A user works on StatefulSets alone, under all faults. Once faults stop, each has its pods.
fn stateful_sets(start: Start) -> Run<()> {
    let layout = Layout { nodes: 3, ..Layout::default() };
    endure(start, layout, all_faults(layout.nodes), async |_, user| user.work_on_stateful_sets(FAULT_PHASE).await)
}

/// A user works on autoscalers and on pods whose volumes are attached, under all faults.
fn scaled_and_attached(start: Start) -> Run<()> {
    let layout = Layout { nodes: 3, ..Layout::default() };
    endure(start, layout, all_faults(layout.nodes), async |_, user| user.scale_and_attach(FAULT_PHASE).await)
}

/// A user works at the limits of a quota and of disruption budgets, under all faults.
fn limits(start: Start) -> Run<()> {
    let layout = Layout { nodes: 3, ..Layout::default() };
    endure(start, layout, all_faults(layout.nodes), async |_, user| user.work_at_limits(FAULT_PHASE).await)
}

/// A user adds and deletes ranges of Services, and Services in them, under all faults.
fn service_cidrs(start: Start) -> Run<()> {
    let layout = Layout { nodes: 1, ..Layout::default() };
    endure(start, layout, all_faults(layout.nodes), async |_, user| user.work_on_service_cidrs(FAULT_PHASE).await)
}

/// A user makes pods with devices, allocates and taints them, under all faults.
fn devices(start: Start) -> Run<()> {
    let layout = Layout { nodes: 2, devices: user::DEVICES, ..Layout::default() };
    endure(start, layout, all_faults(layout.nodes), async |_, user| user.work_on_devices(FAULT_PHASE).await)
}

/// A user works on gangs under all faults. Afterwards gangs contend for the nodes, and each of them runs.
fn gangs(start: Start) -> Run<()> {
    let layout = Layout { nodes: 3, devices: user::DEVICES, has_gangs: true, ..Layout::default() };
    Simulation::run_layout(start, layout, async |simulation| {
        let user = User::new(simulation, layout.nodes);
        futures::join!(
            user.work_on_gangs(FAULT_PHASE),
            simulation.inject_faults(all_faults(layout.nodes), FAULT_PHASE)
        );
        simulation.until("all nodes are ready", async |client| ready_nodes(client).await == layout.nodes).await;
        user.let_gangs_contend().await;
        comes_to_rest(simulation, QUIET).await;
    })
}

/// A user works in a cluster on a cloud, under all faults of both.
fn cloud(start: Start) -> Run<()> {
    let layout = Layout { nodes: 3, has_cloud: true, ..Layout::default() };
    endure(start, layout, all_faults(layout.nodes), async |simulation, user| {
        let Some(cloud) = &simulation.cloud else { return };
        user.work_on_cloud(cloud, FAULT_PHASE).await;
    })
}

/// A user works on objects that count time while the clocks of all parts step, among other faults.
fn clocks(start: Start) -> Run<()> {
    let layout = Layout { nodes: 2, ..Layout::default() };
    let profile = FaultProfile { steps_clocks: true, ..all_faults(0) };
    endure(start, layout, profile, async |_, user| user.work_with_deadlines(FAULT_PHASE).await)
}

/// Returns the faults of most scenarios. Every clock is right.
fn all_faults(nodes_to_lose: u32) -> FaultProfile {
    FaultProfile { nodes_to_lose, longest_pause: Duration::from_secs(20), steps_clocks: false }
}

/// A user works on one kind of object under faults. Once they stop, the cluster converges and stays quiet.
fn endure(
    start: Start,
    layout: Layout,
    profile: FaultProfile,
    work: impl AsyncFnOnce(&Simulation, &User<'_>),
) -> Run<()> {
    Simulation::run_layout(start, layout, async |simulation| {
        let user = User::new(simulation, layout.nodes);
        futures::join!(work(simulation, &user), simulation.inject_faults(profile, FAULT_PHASE));
        comes_to_rest(simulation, QUIET).await;
    })
}

/// Returns true if all pods of a node are deleted or being deleted.
async fn has_lost_its_pods(client: &Client, node: &str) -> bool {
    let on_node = ListOptions::fields(format!("spec.nodeName={node}"));
    let Ok(pods) = client.api::<Pod>("default").list(&on_node).await else { return false };
    pods.items.iter().all(|pod| pod.metadata.deletion_timestamp.is_some())
}

/// Waits until the cluster converges, and checks that it then writes nothing that `quiet` does not list.
async fn comes_to_rest(simulation: &Simulation, quiet: Duration) {
    let took = simulation.converges().await;
    let requests = simulation.stays_quiet(quiet).await;
    simulation.cluster.log_line(&format!("at rest after {took:?}; {requests} requests in {quiet:?} of quiet"));
}

/// Controllers meet states that they cannot reconcile, and a Deployment beside them works.
fn error_states(start: Start) -> Run<()> {
    Simulation::run_whole(start, 2, async |simulation| {
        error_states::endure(simulation).await;
        simulation.converges().await;
        roll_out(simulation, "afterwards", 3).await;
    })
}

/// Observes a cluster at rest for an hour.
fn quiet_hour(start: Start) -> Run<()> {
    Simulation::run_whole(start, 3, async |simulation| {
        roll_out(simulation, "web", 20).await;
        comes_to_rest(simulation, HOUR).await;
    })
}

/// A second rollout starts while the controllers' cache lacks the ReplicaSet of the first one. A controller that relied
/// on this cache would create the next ReplicaSet too, and exceed `maxSurge`.
fn stale_rollout(start: Start) -> Run<()> {
    const REPLICAS: i32 = 4;
    Simulation::run_whole(start, 3, async |simulation| {
        let user = User::new(simulation, 0);
        let mut web = user::deployment("web", REPLICAS as usize, "web:1");
        web["spec"]["strategy"] = json!({"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}});
        user.create("apps", "deployments", web).await;
        available(simulation, "web", REPLICAS).await;
        simulation.stall_controllers(REPLICA_SETS, Duration::from_secs(60));
        for (image, expected) in [("web:2", 2), ("web:3", 3)] {
            let containers = json!([{"name": "c", "image": image}]);
            let patch = json!({"spec": {"template": {"spec": {"containers": containers}}}});
            user.patch("apps", "deployments", "default", "web", patch).await;
            let what = format!("there are {expected} replica sets");
            simulation.until(&what, async |client| replica_sets(client).await == expected).await;
        }
        available(simulation, "web", REPLICAS).await;
    })
}

async fn replica_sets(client: &Client) -> usize {
    client.api::<ReplicaSet>("default").list(&ListOptions::default()).await.map_or(0, |list| list.items.len())
}
