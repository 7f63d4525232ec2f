//! Tests the errors of PersistentVolumeClaims and the kinds of storage.k8s.io, in Kubernetes' order.

use crate::testing::{create, update, update_of};
use serde_json::{Value, json};

fn claim(spec: Value) -> Value {
    let mut claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}},
    }});
    claim["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    claim
}

#[test]
fn a_claim_requests_a_positive_amount_of_storage() {
    let size = |size: Value| create(claim(json!({"resources": {"requests": size}})));
    assert_eq!(size(json!({})), ["spec.resources[storage]: Required value"]);
    let none = "must be greater than zero";
    assert_eq!(size(json!({"storage": "0"})), [format!("spec.resources[storage]: Invalid value: \"0\": {none}")]);
    assert_eq!(size(json!({"storage": "-1Gi"})), [format!("spec.resources[storage]: Invalid value: \"-1Gi\": {none}")]);
    let modes = "supported values: \"ReadOnlyMany\", \"ReadWriteMany\", \"ReadWriteOnce\", \"ReadWriteOncePod\"";
    assert_eq!(
        create(claim(json!({"accessModes": ["ReadWriteOncePod", "Odd"]}))),
        [format!("spec.accessModes: Unsupported value: \"Odd\": {modes}")],
        "only known modes contradict each other"
    );
}

#[test]
fn a_claim_has_one_data_source() {
    assert_eq!(
        create(claim(json!({"dataSourceRef": {"kind": "Pod", "name": ""}}))),
        [
            "spec.dataSource.name: Required value",
            "spec.dataSource: Invalid value: \"Pod\": must be 'PersistentVolumeClaim' when referencing the default apiGroup",
            "spec.dataSourceRef.name: Required value",
            "spec.dataSourceRef: Invalid value: \"Pod\": must be 'PersistentVolumeClaim' when referencing the default apiGroup",
        ],
        "the source is made of the reference"
    );
    assert_eq!(create(claim(json!({"dataSource": {"kind": "Pod", "name": ""}}))), [""; 0], "an odd source is ignored");
    let (a, b) =
        (json!({"kind": "PersistentVolumeClaim", "name": "a"}), json!({"kind": "PersistentVolumeClaim", "name": "b"}));
    assert_eq!(
        create(claim(json!({"dataSource": a, "dataSourceRef": b}))),
        ["spec: Invalid value: {}: must match dataSourceRef"]
    );
    let elsewhere = json!({"kind": "PersistentVolumeClaim", "name": "a", "namespace": "n"});
    let crossing = claim(json!({"dataSource": a, "dataSourceRef": elsewhere}));
    assert_eq!(create(crossing.clone()), [""; 0], "sources of other namespaces are switched off");
    assert_eq!(
        update(crossing.clone(), crossing),
        ["spec: Invalid value: {}: may not be specified when dataSourceRef.namespace is specified"],
        "unless they are there"
    );
}

#[test]
fn a_bound_claim_may_request_more_or_shrink_to_its_capacity() {
    let bound = |size: &str| {
        let mut claim = claim(json!({"resources": {"requests": {"storage": size}}, "volumeName": "v"}));
        claim["status"] = json!({"phase": "Bound", "capacity": {"storage": "1Gi"}});
        claim
    };
    for size in ["3Gi", "2Gi", "1500Mi"] {
        assert_eq!(update(bound("2Gi"), bound(size)), [""; 0], "{size}");
    }
    assert_eq!(
        update(bound("2Gi"), bound("1Gi")),
        ["spec.resources.requests.storage: Forbidden: field can not be less than status.capacity"]
    );
    let attributes = |class: Value| {
        let mut claim = bound("2Gi");
        claim["spec"]["volumeAttributesClassName"] = class;
        claim
    };
    assert_eq!(update(attributes(json!("a")), attributes(json!("b"))), [""; 0]);
    assert_eq!(
        update(attributes(json!("a")), attributes(json!(""))),
        ["spec.volumeAttributesClassName: Forbidden: update from non-nil value to an empty string is forbidden"]
    );
    let errors = update(attributes(json!("a")), bound("2Gi"));
    assert_eq!(errors.len(), 2, "{errors:?}");
    assert_eq!(errors[1], "spec.volumeAttributesClassName: Forbidden: update from non-nil value to nil is forbidden");
}

#[test]
fn the_storage_class_in_an_annotation_is_immutable() {
    let annotated = |class: Option<&str>, field: Option<&str>| {
        let mut claim = claim(json!({}));
        claim["metadata"] =
            json!({"annotations": class.map(|class| json!({"volume.beta.kubernetes.io/storage-class": class}))});
        if let Some(field) = field {
            claim["spec"]["storageClassName"] = json!(field);
        }
        claim
    };
    assert_eq!(update(annotated(Some("a"), None), annotated(None, Some("a"))), [""; 0], "it moves to the field");
    assert_eq!(
        update(annotated(Some("a"), None), annotated(Some("b"), None)),
        ["metadata.annotations.volume.beta.kubernetes.io/storage-class: Invalid value: \"b\": field is immutable"]
    );
}

#[test]
fn the_status_of_a_claim_has_storage_only() {
    let with = |status: Value| {
        let mut claim = claim(json!({}));
        claim["status"] = status;
        claim
    };
    let status = json!({
        "capacity": {"storage": "-1"}, "allocatedResourceStatuses": {"cpu": "Odd"}, "allocatedResources": {"storage": "-2"},
    });
    assert_eq!(
        update_of("status", with(json!({})), with(status)),
        [
            "status.capacity[storage]: Invalid value: -1: must be a valid resource quantity",
            "status.allocatedResourceStatus: Unsupported value: \"cpu\": supported values: \"storage\"",
            "status.allocatedResourceStatus: Unsupported value: \"cpu\": supported values: \"ControllerResizeInProgress\", \
             \"ControllerResizeInfeasible\", \"NodeResizeInProgress\", \"NodeResizeInfeasible\", \"NodeResizePending\"",
            "status.allocatedResources[storage]: Invalid value: -2: must be a valid resource quantity",
        ]
    );
}

fn storage(kind: &str, fields: Value) -> Value {
    let mut object = json!({"apiVersion": "storage.k8s.io/v1", "kind": kind});
    object.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    object
}

#[test]
fn topology_keys_and_values_of_a_class_are_unique() {
    let zone = |zone: &str| json!({"matchLabelExpressions": [{"key": "zone", "values": [zone]}]});
    let class = |topologies: Value| {
        create(storage("StorageClass", json!({"provisioner": "p.test", "allowedTopologies": topologies})))
    };
    assert_eq!(
        class(json!([zone("a"), zone("b"), zone("a")])),
        ["allowedTopologies[2].matchLabelExpressions: Duplicate value: \"\""]
    );
    let twice = json!({"matchLabelExpressions": [{"key": "zone", "values": ["a"]}, {"key": "zone", "values": ["b"]}]});
    assert_eq!(class(json!([twice])), ["allowedTopologies[0].matchLabelExpressions[1].key: Duplicate value: \"zone\""]);
    let many: serde_json::Map<String, Value> = (0..513).map(|n| (format!("k{n}"), json!(""))).collect();
    let limited =
        |parameters: Value| create(storage("StorageClass", json!({"provisioner": "p.test", "parameters": parameters})));
    assert_eq!(limited(json!(many)), ["parameters: Too long: may not be more than 512 bytes"]);
    assert_eq!(
        limited(json!({"k": "x".repeat(256 * 1024)})),
        ["parameters: Too long: may not be more than 262144 bytes"]
    );
    let class = |provisioner: &str| storage("StorageClass", json!({"provisioner": provisioner}));
    let errors = update(class("p.test"), class(""));
    assert_eq!(
        errors,
        ["provisioner: Required value", "provisioner: Forbidden: updates to provisioner are forbidden."]
    );
}

#[test]
fn csi_drivers_and_csi_nodes_are_checked() {
    let driver = |spec: Value| storage("CSIDriver", json!({"spec": spec}));
    let requests = json!([{"audience": "a"}, {"audience": "a", "expirationSeconds": 1}]);
    assert_eq!(
        create(driver(json!({"tokenRequests": requests, "nodeAllocatableUpdatePeriodSeconds": 9}))),
        [
            "spec.tokenRequests[1].audience: Duplicate value: \"a\"",
            "spec.nodeAllocatableUpdatePeriodSeconds: Invalid value: 9: must be greater than or equal to 10 seconds",
        ]
    );
    assert_eq!(
        update(driver(json!({"attachRequired": true})), driver(json!({"attachRequired": false}))),
        ["spec.attachedRequired: Invalid value: false: field is immutable"]
    );
    let node = |id: &str, keys: Value| {
        storage("CSINode", json!({"spec": {"drivers": [{"name": "d.test", "nodeID": id, "topologyKeys": keys}]}}))
    };
    assert_eq!(
        create(node("", json!(["a", "a"]))),
        ["spec.drivers[0].nodeID: Required value", "spec.drivers[0]: Duplicate value: \"a\""]
    );
    assert_eq!(
        update(node("n", json!(["a"])), node("m", json!(["a"]))),
        [
            "spec.drivers: Invalid value: {\"Name\":\"d.test\",\"NodeID\":\"m\",\"TopologyKeys\":[\"a\"],\"Allocatable\":null}: \
             field is immutable"
        ]
    );
}

#[test]
fn an_attachment_has_one_source() {
    let attachment = |spec: Value| create(storage("VolumeAttachment", json!({"spec": spec})));
    let one = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    assert_eq!(
        attachment(json!({"attacher": "a.test", "nodeName": "n", "source": {}})),
        [format!("spec.source: Required value: {one}")]
    );
    let errors = attachment(json!({"attacher": "", "nodeName": "n", "source": {"persistentVolumeName": "v"}}));
    assert_eq!(errors[..2], ["spec.attacher: Required value", "spec.attacher: Required value"]);
    assert!(errors[2].starts_with("spec.attacher: Invalid value: \"\": a lowercase RFC 1123 subdomain"), "{errors:?}");
}

#[test]
fn an_inline_volume_has_no_claim_and_no_capacity() {
    let inline = |spec: Value| {
        let source = json!({"inlineVolumeSpec": spec});
        create(storage("VolumeAttachment", json!({"spec": {"attacher": "a.test", "nodeName": "n", "source": source}})))
    };
    let (at, inline_only) = ("spec.source.inlineVolumeSpec", "in the context of inline volumes");
    assert_eq!(
        inline(json!({
            "accessModes": [], "capacity": {"storage": "1Gi"}, "claimRef": {}, "hostPath": {"path": ""}, "nodeAffinity": {},
            "persistentVolumeReclaimPolicy": "Delete", "storageClassName": "s", "volumeAttributesClassName": "",
            "volumeMode": "Block",
        })),
        [
            format!("{at}.claimRef: Forbidden: may not be specified {inline_only}"),
            format!("{at}.capacity: Forbidden: may not be specified {inline_only}"),
            format!("{at}.csi: Required value: has to be specified {inline_only}"),
            format!("{at}.accessModes: Required value"),
            format!("{at}.persistentVolumeReclaimPolicy: Forbidden: may only be Retain {inline_only}"),
            format!("{at}.nodeAffinity: Forbidden: may not be specified {inline_only}"),
            format!("{at}.hostPath.path: Required value"),
            format!("{at}.storageClassName: Forbidden: may not be specified {inline_only}"),
            format!("{at}.volumeMode: Forbidden: may not specify volumeMode other than Filesystem {inline_only}"),
        ]
    );
    assert_eq!(
        inline(json!({
            "accessModes": ["ReadWriteOnce"], "csi": {"driver": "d", "volumeHandle": ""}, "local": {"path": "/"},
            "persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem",
        })),
        [
            format!("{at}.nodeAffinity: Required value: Local volume requires node affinity"),
            format!("{at}.csi: Forbidden: may not specify more than 1 volume type"),
        ]
    );
}

#[test]
fn a_volume_attributes_class_has_a_driver_and_is_immutable() {
    let class = |driver: &str, parameters: Value| {
        storage("VolumeAttributesClass", json!({"driverName": driver, "parameters": parameters}))
    };
    assert_eq!(
        create(class("", json!({}))),
        ["driverName: Required value", "parameters: Required value: must contain at least one key/value pair"]
    );
    assert_eq!(
        update(class("d.test", json!({"a": "1"})), class("", json!({"a": "2"}))),
        [
            "driverName: Forbidden: updates to driverName are forbidden.",
            "parameters: Forbidden: updates to parameters are forbidden.",
            "driverName: Required value",
        ]
    );
}
