//! Tests what an event adds to the queues when its object comes last into the caches, as after a start.

use super::attachment;
use super::ledger::Ledger;
use super::observe::{BY_NODE, BY_REPORTED, BY_UNIQUE_NAME, Caches, unique_names};
use super::triggers::Triggers;
use client::{Event, Lister, WorkQueue};
use component_base::env::Env;
use component_helpers::volumes::csi_volume::CsiVolume;
use component_helpers::volumes::pod_volumes;
use controller_base::attach_detach_options::AttachDetachOptions;
use controller_base::indexes::{ATTACHMENTS_BY_VOLUME, PODS_BY_CLAIM, PODS_BY_NODE};
use controller_base::pod;
use proto::Kind;
use proto::kinds::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use proto::kinds::api::storage::v1::CSIDriver;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

fn object<T: Kind>(value: Value) -> T {
    T::decode_value(value).unwrap()
}

/// A pod on node-0 uses a claim, whose volume is attached there; the node's status does not say so.
fn caches(env: &Env) -> Caches {
    let pod = json!({"metadata": {"namespace": "shop", "name": "db-0"}, "spec": {
        "nodeName": "node-0", "containers": [],
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}],
    }});
    let claim = json!({"metadata": {"namespace": "shop", "name": "data", "uid": "u"}, "spec": {"volumeName": "pv"},
        "status": {"phase": "Bound"}});
    let volume = json!({"metadata": {"name": "pv"}, "spec": {
        "csi": {"driver": "csi.test", "volumeHandle": "vol"},
        "claimRef": {"namespace": "shop", "name": "data", "uid": "u"},
    }});
    let csi = CsiVolume { driver: "csi.test".to_owned(), handle: "vol".to_owned() };
    let mut attached = attachment::new(&csi, "pv", "node-0");
    attached.status.get_or_insert_default().attached = true;
    Caches {
        env: env.clone(),
        options: AttachDetachOptions {
            disable_attach_detach_reconcile_sync: false,
            attach_detach_reconcile_sync_period: Duration::from_secs(60),
            disable_force_detach_on_timeout: false,
        },
        pods: Lister::of([object::<Pod>(pod)])
            .indexed(PODS_BY_NODE, |pod| vec![pod::node_name(pod).to_owned()])
            .indexed(PODS_BY_CLAIM, pod_volumes::claim_keys),
        nodes: Lister::of([object(json!({"metadata": {"name": "node-0"}}))]).indexed(BY_REPORTED, |_| Vec::new()),
        claims: Lister::of([object(claim)]),
        volumes: Lister::of([object(volume)]).indexed(BY_UNIQUE_NAME, unique_names),
        attachments: Lister::of([attached])
            .indexed(BY_NODE, |attachment| vec![attachment.spec.node_name.clone()])
            .indexed(ATTACHMENTS_BY_VOLUME, |_| vec!["pv".to_owned()]),
        drivers: Lister::of([object(json!({"metadata": {"name": "csi.test"}, "spec": {}}))]),
        ledger: Ledger::default(),
    }
}

/// Returns the lengths of the queues of volumes and of nodes after an event.
fn added(handle: impl Fn(&Triggers)) -> (usize, usize) {
    let env = Env::simulated(1);
    let (volumes, nodes) = (WorkQueue::new(&env, "volumes"), WorkQueue::new(&env, "nodes"));
    let triggers = Triggers { caches: Arc::new(caches(&env)), volumes, nodes, sync_period: None };
    handle(&triggers);
    (triggers.volumes.len(), triggers.nodes.len())
}

/// Otherwise nothing would report the volume to the node, and its pod would wait for ever.
#[tokio::test(start_paused = true)]
async fn whatever_comes_last_the_node_is_looked_at() {
    let volume = |triggers: &Triggers| triggers.caches.volumes.get("", "pv").unwrap();
    let claim = |triggers: &Triggers| triggers.caches.claims.get("shop", "data").unwrap();
    let driver = |triggers: &Triggers| triggers.caches.drivers.get("", "csi.test").unwrap();
    assert_eq!(added(|it| it.on_volume(&Event::<PersistentVolume>::Added(volume(it)))), (1, 1));
    assert_eq!(added(|it| it.on_claim(&Event::<PersistentVolumeClaim>::Added(claim(it)))), (1, 1));
    assert_eq!(added(|it| it.on_driver(&Event::<CSIDriver>::Added(driver(it)))), (1, 1));
}
