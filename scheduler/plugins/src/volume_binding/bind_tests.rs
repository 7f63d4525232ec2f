//! Tests the end of a binding: what is written, and every reason for which a pod has to be scheduled again.
//!
//! The cases are worked out from the comments of BindPodVolumes and checkBindings in
//! pkg/scheduler/framework/plugins/volumebinding/binder.go.

use super::tests::{Storage, bound, claim, in_zone, plugin, pod_with, volume};
use super::*;
use crate::fixture::{info, merge};
use client_testing::FakeServer;
use component_helpers::volumes::annotations::{BIND_COMPLETED, SELECTED_NODE};
use serde_json::{Value, json};

/// The default of `bindTimeoutSeconds`.
const TIMEOUT: Duration = Duration::from_secs(600);

/// What the caches hold when the scheduler looks after its writes. The pod was to get the free volume `disk` for its claim
/// `data`, and a new volume for its claim `more`, both on `n1`.
struct Later {
    has_pod: bool,
    node: &'static str,
    data: PersistentVolumeClaim,
    more: PersistentVolumeClaim,
    volumes: Vec<PersistentVolume>,
}

impl Later {
    /// All is bound.
    fn complete() -> Self {
        let made = json!({
            "metadata": {"annotations": {BIND_COMPLETED: "yes", SELECTED_NODE: "n1"}}, "spec": {"volumeName": "new"},
        });
        let volumes = vec![taken(json!({})), volume("new", "10Gi", json!({}))];
        Self { has_pod: true, node: "n1", data: bound("data", "disk"), more: later_claim(made), volumes }
    }
}

fn later_claim(extra: Value) -> PersistentVolumeClaim {
    let mut fields = json!({"metadata": {"resourceVersion": "9"}});
    merge(&mut fields, extra);
    claim("more", fields)
}

/// Returns the volume after the scheduler's write.
fn taken(extra: Value) -> PersistentVolume {
    let reference = json!({"namespace": "shop", "name": "data", "uid": "data"});
    let mut fields = json!({"metadata": {"resourceVersion": "9"}, "spec": {"claimRef": reference}});
    merge(&mut fields, extra);
    volume("disk", "10Gi", fields)
}

/// A server with the objects that the scheduler chose from.
struct Chosen {
    env: Env,
    server: FakeServer,
    volumes: NodeVolumes,
}

impl Chosen {
    fn new() -> Self {
        let env = Env::simulated(1);
        let server = FakeServer::new(&env);
        server.put("persistentvolumes", serde_json::to_value(volume("disk", "10Gi", json!({}))).unwrap());
        server.put("persistentvolumeclaims", serde_json::to_value(claim("more", json!({}))).unwrap());
        let disk = PersistentVolume::decode_value(server.get("persistentvolumes", "disk").unwrap()).unwrap();
        let more = server.get("persistentvolumeclaims", "shop/more").unwrap();
        let more = PersistentVolumeClaim::decode_value(more).unwrap();
        let volumes = NodeVolumes {
            bindings: vec![(Arc::new(disk), Arc::new(claim("data", json!({}))))],
            provisions: vec![Arc::new(more)],
            ..NodeVolumes::default()
        };
        Self { env, server, volumes }
    }

    /// Binds, and returns for how many seconds that took.
    async fn bind(&self, later: Later) -> (Result<(), String>, u64) {
        let pod = info(pod_with(&["data", "more"]));
        let claims = vec![later.data, later.more];
        let mut plugin = plugin(Storage { claims, volumes: later.volumes, ..Storage::default() });
        plugin.sources.pods = Lister::of(later.has_pod.then(|| (*pod.pod).clone()));
        let client = Client::from_service(&self.env, self.server.service(), "test");
        let start = self.env.now();
        let bound = bind::bind(&client, &self.env, &plugin.sources, &pod, later.node, &self.volumes, TIMEOUT).await;
        (bound, (self.env.now() - start).as_secs())
    }
}

#[tokio::test(start_paused = true)]
async fn a_choice_is_written_and_then_waited_for() {
    let chosen = Chosen::new();
    assert_eq!(chosen.bind(Later::complete()).await, (Ok(()), 1));
    let disk = chosen.server.get("persistentvolumes", "disk").unwrap();
    assert_eq!(disk["spec"]["claimRef"]["uid"], "data");
    assert_eq!(disk["metadata"]["annotations"]["pv.kubernetes.io/bound-by-controller"], "yes");
    let more = chosen.server.get("persistentvolumeclaims", "shop/more").unwrap();
    assert_eq!(more["metadata"]["annotations"][SELECTED_NODE], "n1");
    assert_eq!(chosen.server.count("PUT"), 2);
}

#[tokio::test(start_paused = true)]
async fn a_binding_that_cannot_succeed_fails_at_once_and_any_other_after_ten_minutes() {
    let complete = Later::complete;
    let with_volume = |disk: PersistentVolume| Later { volumes: vec![disk], ..complete() };
    let with_more = |fields: Value| Later { more: later_claim(fields), ..complete() };
    let given_back = json!({"metadata": {"annotations": {"volume.kubernetes.io/storage-provisioner": "x"}}});
    let asked = json!({"metadata": {"annotations": {SELECTED_NODE: "n1"}}});
    let made_elsewhere = vec![taken(json!({})), volume("new", "10Gi", in_zone("b"))];
    for (later, expected, seconds) in [
        (Later { has_pod: false, ..complete() }, "pod does not exist any more: pod \"db\" not found", 1),
        (Later { node: "n9", ..complete() }, "failed to get node \"n9\": node \"n9\" not found", 1),
        (
            Later { volumes: Vec::new(), ..complete() },
            "failed to check binding: could not find v1.PersistentVolume \"disk\"",
            1,
        ),
        (
            Later { data: claim("data", json!({"metadata": {"uid": "another"}})), ..complete() },
            "failed to check binding: could not find v1.PersistentVolumeClaim \"shop/data\"",
            1,
        ),
        (
            with_volume(taken(in_zone("b"))),
            "pv \"disk\" node affinity doesn't match node \"n1\": no matching NodeSelectorTerms",
            1,
        ),
        (with_volume(taken(json!({"spec": {"claimRef": null}}))), "ClaimRef got reset for pv \"disk\"", 1),
        (
            Later { more: later_claim(json!({"metadata": {"uid": "another"}})), ..complete() },
            "failed to check provisioning pvc: could not find v1.PersistentVolumeClaim \"shop/more\"",
            1,
        ),
        (with_more(given_back), "provisioning failed for PVC \"more\"", 1),
        (with_more(json!({})), "selectedNode annotation reset for PVC \"more\"", 1),
        (
            Later { volumes: made_elsewhere, ..complete() },
            "pv \"new\" node affinity doesn't match node \"n1\": no matching NodeSelectorTerms",
            1,
        ),
        // The caches do not show the write, the claim is not bound, the provisioner is slow, the new volume is not seen.
        (with_volume(volume("disk", "10Gi", json!({}))), "context deadline exceeded", 600),
        (Later { data: claim("data", json!({})), ..complete() }, "context deadline exceeded", 600),
        (with_more(asked), "context deadline exceeded", 600),
        (with_volume(taken(json!({}))), "context deadline exceeded", 600),
    ] {
        assert_eq!(Chosen::new().bind(later).await, (Err(format!("binding volumes: {expected}")), seconds));
    }
}

#[tokio::test(start_paused = true)]
async fn a_volume_that_another_claim_has_got_meanwhile_is_not_taken() {
    let chosen = Chosen::new();
    let reference = json!({"spec": {"claimRef": {"namespace": "shop", "name": "other", "uid": "other"}}});
    chosen.server.put("persistentvolumes", serde_json::to_value(volume("disk", "10Gi", reference)).unwrap());
    let conflict = "Operation cannot be fulfilled on persistentvolumes \"disk\": the object has been modified; please apply \
                    your changes to the latest version and try again";
    assert_eq!(chosen.bind(Later::complete()).await, (Err(conflict.to_owned()), 0));
    assert_eq!(chosen.server.get("persistentvolumes", "disk").unwrap()["spec"]["claimRef"]["name"], "other");
    let more = chosen.server.get("persistentvolumeclaims", "shop/more").unwrap();
    assert_eq!(more["metadata"]["annotations"][SELECTED_NODE], Value::Null, "nothing else was written");
}
