//! Tests of leader election in virtual time.

use crate::client::Client;
use crate::leader::{LeaderElection, LeadershipLost, identity};
use client_testing::FakeServer;
use component_base::env::Env;
use component_base::kubeconfig::Connection;
use component_base::network::{Network, Registry};
use parking_lot::Mutex;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;

struct World {
    env: Env,
    server: FakeServer,
    client: Client,
    /// `+a` when candidate a begins to lead, `-a` when its work has stopped.
    log: Arc<Mutex<Vec<String>>>,
}

const AUTHORITY: &str = "apiserver:6443";

fn world() -> World {
    let env = Env::simulated(5);
    let server = FakeServer::new(&env);
    registry(&env).register(AUTHORITY, server.service());
    let connection = Connection { server: format!("https://{AUTHORITY}"), ..Connection::default() };
    let client = Client::connect(&env, &connection, "test").unwrap();
    World { env, server, client, log: Arc::default() }
}

fn registry(env: &Env) -> &Registry {
    match env.network() {
        Network::InProcess(registry) => registry,
        Network::Sockets => panic!("simulations have no sockets"),
    }
}

impl World {
    fn stand(&self, who: &'static str) -> (Env, JoinHandle<Result<(), LeadershipLost>>) {
        let env = self.env.child();
        let (client, log) = (self.client.clone(), self.log.clone());
        let task = self.env.spawn({
            let env = env.clone();
            async move {
                let election = LeaderElection::new("controllers", "kube-system", who);
                let lead = move |leading: Env| async move {
                    log.lock().push(format!("+{who}"));
                    leading.shutdown().cancelled().await;
                    log.lock().push(format!("-{who}"));
                };
                election.run(&env, &client, lead).await
            }
        });
        (env, task)
    }

    fn taken(&self) -> Vec<String> {
        std::mem::take(&mut *self.log.lock())
    }

    async fn pass(&self, seconds: u64) {
        self.env.sleep(Duration::from_secs(seconds)).await;
    }

    fn lease(&self, field: &str) -> serde_json::Value {
        self.server.get("leases.coordination.k8s.io", "kube-system/controllers").unwrap()["spec"][field].clone()
    }
}

#[tokio::test(start_paused = true)]
async fn one_leads_and_hands_over_when_asked_to_stop() {
    let world = world();
    let (first, first_task) = world.stand("a");
    world.pass(1).await;
    let (_second, _second_task) = world.stand("b");
    world.pass(60).await;
    assert_eq!(world.taken(), ["+a"]);
    assert_eq!(world.lease("holderIdentity"), "a");
    assert_eq!(world.lease("leaseDurationSeconds"), 15);
    assert_eq!(world.lease("leaseTransitions"), 0);
    // The leader knows the Lease that it wrote and does not read it; the other reads every 2 to 4.4 seconds.
    let reads = world.server.count("GET /apis/coordination.k8s.io/v1/namespaces/kube-system/leases/controllers");
    assert!((14..=31).contains(&reads), "{reads}");
    first.shutdown().cancel();
    first_task.await.unwrap().unwrap();
    assert_eq!(world.lease("holderIdentity"), json!(null));
    assert_eq!(world.lease("leaseDurationSeconds"), 1);
    // A retry period is at most 4.4 s with jitter.
    world.pass(5).await;
    assert_eq!(world.taken(), ["-a", "+b"]);
    assert_eq!(world.lease("leaseTransitions"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_silent_leader_is_replaced_only_after_its_lease_has_run_out() {
    let world = world();
    world.server.put(
        "leases.coordination.k8s.io",
        json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": "controllers", "namespace": "kube-system"},
            // The times in the Lease do not count, only for how long this candidate has observed no change.
            "spec": {"holderIdentity": "dead", "leaseDurationSeconds": 15, "leaseTransitions": 3,
                     "renewTime": "2031-01-01T00:00:00.000000Z"}
        }),
    );
    let (_env, _task) = world.stand("a");
    world.pass(14).await;
    assert!(world.taken().is_empty());
    world.pass(6).await;
    assert_eq!(world.taken(), ["+a"]);
    assert_eq!(world.lease("leaseTransitions"), 4);
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_cannot_renew_stops_before_its_lease_runs_out() {
    let world = world();
    let (_env, task) = world.stand("a");
    world.pass(30).await;
    assert_eq!(world.taken(), ["+a"]);
    registry(&world.env).remove(AUTHORITY);
    world.pass(13).await;
    assert_eq!(world.taken(), ["-a"]);
    let lost = task.await.unwrap().unwrap_err();
    assert_eq!(lost.to_string(), "leader election lost: lease kube-system/controllers was not renewed within 10s");
}

#[tokio::test(start_paused = true)]
async fn a_short_absence_of_the_server_costs_nothing() {
    let world = world();
    let (_env, task) = world.stand("a");
    world.pass(30).await;
    registry(&world.env).remove(AUTHORITY);
    world.pass(8).await;
    registry(&world.env).register(AUTHORITY, world.server.service());
    world.pass(60).await;
    assert_eq!(world.taken(), ["+a"]);
    assert!(!task.is_finished());
    assert_eq!(world.lease("renewTime"), "2026-01-01T00:01:36.000000Z");
}

#[tokio::test(start_paused = true)]
async fn who_was_leading_under_the_same_identity_goes_on_at_once() {
    let world = world();
    let (_first, first_task) = world.stand("a");
    world.pass(5).await;
    // As in a crash, nothing is released.
    first_task.abort();
    let (_second, _task) = world.stand("a");
    world.pass(1).await;
    assert_eq!(world.taken(), ["+a", "+a"]);
    assert_eq!(world.lease("leaseTransitions"), 0);
}

#[tokio::test(start_paused = true)]
async fn identities_repeat_with_the_seed() {
    let (one, same, other) = (Env::simulated(1), Env::simulated(1), Env::simulated(2));
    assert_eq!(identity(&one, "host"), identity(&same, "host"));
    assert_ne!(identity(&one, "host"), identity(&other, "host"));
    assert!(identity(&one, "host").starts_with("host_"));
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_panics_gives_up_its_lease_and_does_not_look_well() {
    let world = world();
    let (env, client) = (world.env.clone(), world.client.clone());
    let task = world.env.spawn(async move {
        let election = LeaderElection::new("controllers", "kube-system", "a");
        election.run(&env, &client, |_| async { panic!("a mistake") }).await
    });
    assert!(task.await.unwrap_err().is_panic());
    assert_eq!(world.lease("holderIdentity"), json!(null));
}
