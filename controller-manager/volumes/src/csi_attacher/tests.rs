//! Tables of attachments and volumes, each with the plan of the simulated driver.

use super::{attachment_plan, finalizer, volume_plan};
use controller_base::fixture;
use proto::Kind;
use proto::kinds::api::core::v1::PersistentVolume;
use proto::kinds::api::storage::v1::VolumeAttachment;
use serde_json::{Value, json};
use std::sync::Arc;

const FINALIZER: &str = "external-attacher/simulated-orrery-dev";

fn volume(attributes: Value, more: Value) -> PersistentVolume {
    let mut metadata = json!({"name": "pv", "uid": "uid-pv"});
    metadata.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let csi = json!({"driver": "simulated.orrery.dev", "volumeHandle": "v", "volumeAttributes": attributes});
    PersistentVolume::decode_value(json!({"metadata": metadata, "spec": {"csi": csi}})).unwrap()
}

fn attachment(metadata: Value, status: Value) -> VolumeAttachment {
    let mut all = json!({"name": "va", "uid": "uid-va", "creationTimestamp": fixture::time(0)});
    all.as_object_mut().unwrap().extend(metadata.as_object().unwrap().clone());
    let spec = json!({"attacher": "simulated.orrery.dev", "nodeName": "n", "source": {"persistentVolumeName": "pv"}});
    VolumeAttachment::decode_value(json!({"metadata": all, "spec": spec, "status": status})).unwrap()
}

#[test]
fn a_driver_attaches_and_detaches_as_the_volume_says() {
    let held = json!({"finalizers": [FINALIZER]});
    let leaving = json!({"finalizers": [FINALIZER], "deletionTimestamp": fixture::time(10)});
    let waiting = json!({"attached": false});
    let done = r#"merge patch volumeattachments.storage.k8s.io/status va {"metadata":{"uid":"uid-va"},"status":{"attachError":null,"attached":true}}"#;
    let failed = |field: &str, attached: bool, message: &str| {
        let mut status = json!({"attached": attached});
        status[field] = json!({"message": message, "time": fixture::time(20)});
        let patch = json!({"metadata": {"uid": "uid-va"}, "status": status});
        format!("merge patch volumeattachments.storage.k8s.io/status va {patch}")
    };
    let bad = "rpc error: code = InvalidArgument desc = orrery.dev/attach-latency: invalid duration \"soon\": want for example 300ms, 5s or 1m30s";
    let cases = [
        (
            "a new attachment",
            attachment(json!({}), waiting.clone()),
            Some(volume(json!({}), json!({}))),
            vec![
                format!(
                    r#"strategic patch persistentvolumes pv {{"metadata":{{"finalizers":["{FINALIZER}"],"uid":"uid-pv"}}}}"#
                ),
                format!(
                    r#"strategic patch volumeattachments.storage.k8s.io va {{"metadata":{{"finalizers":["{FINALIZER}"],"uid":"uid-va"}}}}"#
                ),
                done.to_owned(),
            ],
        ),
        (
            "attached",
            attachment(held.clone(), json!({"attached": true})),
            Some(volume(json!({}), held.clone())),
            vec![],
        ),
        (
            "slow",
            attachment(held.clone(), waiting.clone()),
            Some(volume(json!({"orrery.dev/attach-latency": "1m"}), held.clone())),
            vec!["look again after 40s".to_owned()],
        ),
        (
            "broken",
            attachment(held.clone(), waiting.clone()),
            Some(volume(json!({"orrery.dev/attach-error": "no slot"}), held.clone())),
            vec![failed("attachError", false, "no slot")],
        ),
        (
            "broken, and said so",
            attachment(held.clone(), json!({"attached": false, "attachError": {"message": "no slot"}})),
            Some(volume(json!({"orrery.dev/attach-error": "no slot"}), held.clone())),
            vec![],
        ),
        (
            "a mistake",
            attachment(held.clone(), waiting.clone()),
            Some(volume(json!({"orrery.dev/attach-latency": "soon"}), held.clone())),
            vec![failed("attachError", false, bad)],
        ),
        (
            "no volume",
            attachment(json!({}), waiting.clone()),
            None,
            vec![failed("attachError", false, "persistentvolume \"pv\" not found")],
        ),
        (
            "a volume that is being deleted",
            attachment(json!({}), waiting.clone()),
            Some(volume(json!({}), json!({"deletionTimestamp": fixture::time(0), "finalizers": ["other"]}))),
            vec![failed(
                "attachError",
                false,
                "could not add PersistentVolume finalizer: PersistentVolume \"pv\" is marked for deletion",
            )],
        ),
        (
            "detached",
            attachment(leaving.clone(), json!({"attached": true})),
            Some(volume(json!({}), held.clone())),
            vec![format!(
                r#"strategic patch volumeattachments.storage.k8s.io va {{"metadata":{{"$deleteFromPrimitiveList/finalizers":["{FINALIZER}"],"uid":"uid-va"}}}}"#
            )],
        ),
        (
            "slow to leave",
            attachment(leaving.clone(), json!({"attached": true})),
            Some(volume(json!({"orrery.dev/detach-latency": "30s"}), held.clone())),
            vec!["look again after 20s".to_owned()],
        ),
        (
            "stuck",
            attachment(leaving, json!({"attached": true})),
            Some(volume(json!({"orrery.dev/detach-error": "busy"}), held)),
            vec![failed("detachError", true, "busy")],
        ),
    ];
    for (what, attachment, volume, expected) in cases {
        let observed = attachment_plan::Observed { attachment: Arc::new(attachment), volume: volume.map(Arc::new) };
        let plan = attachment_plan::plan(&observed, fixture::at(20)).to_string();
        assert_eq!(plan.lines().collect::<Vec<&str>>(), expected, "{what}");
    }
}

#[test]
fn a_volume_may_go_when_it_is_attached_nowhere() {
    let driver = "simulated.orrery.dev".to_owned();
    assert_eq!(finalizer::name(&driver), FINALIZER);
    let leaving = json!({"finalizers": ["a/b", FINALIZER], "deletionTimestamp": fixture::time(0)});
    for (metadata, is_attached, expected) in [
        (json!({"finalizers": [FINALIZER]}), false, 0),
        (leaving.clone(), true, 0),
        (leaving, false, 1),
        (json!({"finalizers": ["a/b"], "deletionTimestamp": fixture::time(0)}), false, 0),
    ] {
        let volume = Arc::new(volume(json!({}), metadata));
        let observed = volume_plan::Observed { volume, driver: driver.clone(), is_attached };
        assert_eq!(volume_plan::plan(&observed).actions.len(), expected);
    }
}
