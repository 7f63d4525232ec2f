//! Tables of the errors of a pod's volumes and of their mounts.

use super::errors;
use serde_json::{Value, json};

#[test]
fn a_volume_has_the_fields_that_its_kind_requires() {
    let volume = |source: Value| {
        let mut volume = json!({"name": "v"});
        volume.as_object_mut().unwrap().extend(source.as_object().unwrap().clone());
        errors(&[("/spec/volumes", json!([volume]))])
    };
    let cases: &[(Value, &[&str])] = &[
        // A volume without a source defaults to an emptyDir.
        (json!({}), &[]),
        (
            json!({"emptyDir": {}, "cephfs": {"monitors": ["m"]}, "downwardAPI": {}}),
            &[
                "spec.volumes[0].cephFS: Forbidden: may not specify more than 1 volume type",
                "spec.volumes[0].downwarAPI: Forbidden: may not specify more than 1 volume type",
            ],
        ),
        (
            json!({"secret": {"secretName": "s", "items": [{"key": "k", "path": "..x", "mode": 1000}]}}),
            &[
                "spec.volumes[0].secret.items[0].path: Invalid value: \"..x\": must not start with '..'",
                "spec.volumes[0].secret.items[0].mode: Invalid value: 1000: must be a number between 0 and 0777 (octal), both inclusive",
            ],
        ),
        (
            json!({"downwardAPI": {"items": [{"path": "", "fieldRef": {"fieldPath": "spec.nodeName"}}, {"path": "p"}]}}),
            &[
                "spec.volumes[0].downwardAPI.path: Required value",
                "spec.volumes[0].downwardAPI.fieldRef.fieldPath: Unsupported value: \"spec.nodeName\": supported values: \"metadata.annotations\", \"metadata.labels\", \"metadata.name\", \"metadata.namespace\", \"metadata.uid\"",
                "spec.volumes[0].downwardAPI: Required value: one of fieldRef and resourceFieldRef is required",
            ],
        ),
        (
            json!({"image": {"pullPolicy": "Odd"}}),
            &[
                "spec.volumes[0].image.reference: Required value",
                "spec.volumes[0].image.pullPolicy: Unsupported value: \"Odd\": supported values: \"Always\", \"IfNotPresent\", \"Never\"",
            ],
        ),
    ];
    for (source, expected) in cases {
        assert_eq!(volume(source.clone()), *expected, "{source}");
    }
}

#[test]
fn projected_sources_share_one_directory() {
    let sources = json!([
        {"secret": {"name": "s", "items": [{"key": "k", "path": "p"}]}},
        {"configMap": {"name": "m", "items": [{"key": "k", "path": "p"}]}, "secret": {"name": ""}},
        {"serviceAccountToken": {"path": "/t", "expirationSeconds": 5}},
    ]);
    let at = "spec.volumes[0].projected";
    assert_eq!(
        errors(&[
            ("/spec/volumes", json!([{"name": "v", "projected": {"sources": sources}}])),
            ("/spec/serviceAccountName", json!("s")),
        ]),
        [
            format!("{at}.sources[1].secret.name: Required value"),
            format!("{at}: Invalid value: \"m\": conflicting duplicate paths"),
            format!("{at}.sources[1]: Forbidden: may not specify more than 1 volume type per source"),
            format!(
                "{at}.sources[2].serviceAccountToken.expirationSeconds: Invalid value: 5: may not specify a duration less than 10 minutes"
            ),
            format!("{at}.path: Invalid value: \"/t\": must be a relative path"),
        ]
    );
}

#[test]
fn claims_of_ephemeral_volumes_have_the_name_of_the_pod() {
    let template = json!({"metadata": {"name": "n"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    assert_eq!(
        errors(&[(
            "/spec/volumes",
            json!([
                {"name": "v", "ephemeral": {"volumeClaimTemplate": template}},
                {"name": "w", "persistentVolumeClaim": {"claimName": "a-v"}},
            ])
        )]),
        [
            "spec.volumes[0].ephemeral.volumeClaimTemplate.metadata.name: Forbidden: cannot be set",
            "spec.volumes[1].persistentVolumeClaim.claimName: Invalid value: \"a-v\": must not reference a PVC that gets created for an ephemeral volume",
        ]
    );
}

#[test]
fn mounts_and_devices_have_different_names_and_paths() {
    let volumes = json!([{"name": "e", "emptyDir": {}}, {"name": "p", "persistentVolumeClaim": {"claimName": "c"}}]);
    let container = "spec.containers[0]";
    assert_eq!(
        errors(&[
            ("/spec/volumes", volumes),
            (
                "/spec/containers/0/volumeMounts",
                json!([
                    {"name": "p", "mountPath": "/d", "recursiveReadOnly": "Enabled"},
                    {"name": "e", "mountPath": "/d", "subPath": "/x", "recursiveReadOnly": "Odd"},
                ])
            ),
            (
                "/spec/containers/0/volumeDevices",
                json!([
                    {"name": "p", "devicePath": "/d"}, {"name": "e", "devicePath": "a/../b"}, {"name": "none", "devicePath": ""},
                ])
            ),
        ]),
        [
            format!("{container}.volumeMounts[0].name: Invalid value: \"p\": must not already exist in volumeDevices"),
            format!(
                "{container}.volumeMounts[0].mountPath: Invalid value: \"/d\": must not already exist as a path in volumeDevices"
            ),
            format!(
                "{container}.volumeMounts.recursiveReadOnly: Forbidden: may only be specified when readOnly is true"
            ),
            format!("{container}.volumeMounts[1].mountPath: Invalid value: \"/d\": must be unique"),
            format!("{container}.volumeMounts[1].name: Invalid value: \"e\": must not already exist in volumeDevices"),
            format!(
                "{container}.volumeMounts[1].mountPath: Invalid value: \"/d\": must not already exist as a path in volumeDevices"
            ),
            format!("{container}.volumeMounts.subPath: Invalid value: \"/x\": must be a relative path"),
            format!(
                "{container}.volumeMounts.recursiveReadOnly: Unsupported value: \"Odd\": supported values: \"Disabled\", \"Enabled\", \"IfPossible\""
            ),
            format!("{container}.volumeDevices[0].name: Invalid value: \"p\": must not already exist in volumeMounts"),
            format!(
                "{container}.volumeDevices[0].devicePath: Invalid value: \"/d\": must not already exist as a path in volumeMounts"
            ),
            format!(
                "{container}.volumeDevices[1].name: Invalid value: \"e\": can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
            ),
            format!(
                "{container}.volumeDevices[1].devicePath: Invalid value: \"a/../b\": can not contain backsteps ('..')"
            ),
            format!("{container}.volumeDevices[1].name: Invalid value: \"e\": must not already exist in volumeMounts"),
            format!("{container}.volumeDevices[2].name: Not found: \"none\""),
            format!("{container}.volumeDevices[2].devicePath: Required value"),
        ]
    );
}
