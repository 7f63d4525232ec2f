//! Machines whose clock jumps by an hour, forward and backward, in virtual time.

use super::*;

/// Shifts the clock of the first machine.
fn shift(world: &World, skew: &str) {
    let metadata = json!({"name": "orrery-fleet", "namespace": "kube-system", "uid": "fleet"});
    let data = json!({"machine.node-0": format!("clockSkew: {skew}")});
    world.server.put("configmaps", json!({"metadata": metadata, "data": data}));
}

fn renewals(world: &World) -> usize {
    world.server.count("PUT /apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/node-0")
}

fn statuses_written(world: &World) -> usize {
    world.server.count("PATCH /api/v1/namespaces/shop/pods/web/status")
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_jumps_by_an_hour_ends_no_pod_and_floods_nobody() {
    for skew in ["1h", "-1h"] {
        let world = World::of(1);
        world.start();
        world.pass(100).await;
        world.give_range("node-0", "10.244.3.0/24");
        let probe = json!({"tcpSocket": {"port": 80}, "periodSeconds": 1});
        let probed = json!({
            "name": "web", "image": "nginx:1", "ports": [{"containerPort": 80}],
            "readinessProbe": probe, "livenessProbe": probe,
        });
        world.bind("web", probed.clone());
        world.bind("leaver", probed);
        world.pass(30_000).await;
        let ready = || world.status("web")["containerStatuses"][0]["ready"] == true;
        assert!(ready());
        let (written, requests) = (statuses_written(&world), world.server.requests().len());

        for jump in [skew, "0s", skew] {
            shift(&world, jump);
            let before = renewals(&world);
            // A change of the pod makes its node look at it.
            let mut pod = world.server.get("pods", "shop/web").unwrap();
            pod["metadata"]["labels"] = json!({"jump": jump});
            world.server.put("pods", pod);
            world.pass(60_000).await;
            assert!((5..=8).contains(&(renewals(&world) - before)), "the lease is renewed every 10 s after {jump}");
            let status = world.status("web");
            assert_eq!(status["phase"], "Running");
            assert_eq!(status["containerStatuses"][0]["restartCount"], 0);
            assert!(ready(), "after {jump}");
        }
        assert!(statuses_written(&world) - written <= 6, "{} writes", statuses_written(&world) - written);
        let requests = world.server.requests().len() - requests;
        assert!(requests < 100, "{requests} requests in three minutes");

        let mut pod = world.server.get("pods", "shop/leaver").unwrap();
        pod["metadata"]["deletionTimestamp"] = json!(world.env.wall() + Duration::from_secs(30));
        pod["metadata"]["deletionGracePeriodSeconds"] = json!(30);
        world.server.put("pods", pod);
        world.pass(40_000).await;
        assert!(world.server.get("pods", "shop/leaver").is_none(), "a pod can be deleted after {skew}");

        // A container that crashes is restarted, as the clock of its machine says.
        let annotations = json!({"orrery.dev/crash-after": "5s"});
        let metadata = json!({"name": "crasher", "namespace": "shop", "uid": "c", "annotations": annotations});
        let spec = json!({"nodeName": "node-0", "containers": [nginx()]});
        world.server.put("pods", json!({"metadata": metadata, "spec": spec}));
        world.pass(20_000).await;
        assert_eq!(world.status("crasher")["containerStatuses"][0]["restartCount"], 1);
    }
}

/// A clock that was wrong for a time delays nothing beyond that.
#[tokio::test(start_paused = true)]
async fn a_clock_that_is_right_again_lets_pods_go_on_at_their_times() {
    let world = World::of(1);
    world.start();
    world.pass(100).await;
    world.give_range("node-0", "10.244.3.0/24");
    let annotations = json!({"orrery.dev/run-for": "100s"});
    let metadata = json!({"name": "batch", "namespace": "shop", "uid": "b", "annotations": annotations});
    let spec = json!({"nodeName": "node-0", "restartPolicy": "Never", "containers": [nginx()]});
    world.server.put("pods", json!({"metadata": metadata, "spec": spec}));
    world.pass(10_000).await;
    shift(&world, "-1h");
    world.pass(100_000).await;
    assert_eq!(world.status("batch")["phase"], "Running", "its end is not due by that clock");
    shift(&world, "0s");
    world.pass(5_000).await;
    assert_eq!(world.status("batch")["phase"], "Succeeded");
}
