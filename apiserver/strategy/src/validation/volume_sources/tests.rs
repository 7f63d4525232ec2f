//! Tables of the errors of volume sources: those that pods and PersistentVolumes share, then those that differ.

use crate::testing::create;
use serde_json::{Value, json};

/// Returns the errors of a source in a pod. `@` stands for the path of its volume.
fn in_pod_named(volume: &str, source: &Value) -> Vec<String> {
    let mut of_pod = json!({"name": volume});
    of_pod.as_object_mut().unwrap().extend(source.as_object().unwrap().clone());
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "spec": {
        "containers": [{"name": "c", "image": "i"}], "volumes": [of_pod],
    }});
    create(pod).iter().map(|error| error.replace("spec.volumes[0]", "@")).collect()
}

fn in_pod(source: &Value) -> Vec<String> {
    in_pod_named("v", source)
}

/// Returns the errors of a source in a PersistentVolume. `@` stands for `spec`.
fn in_volume_named(name: &str, source: &Value) -> Vec<String> {
    let mut volume = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": {
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
    }});
    volume["spec"].as_object_mut().unwrap().extend(source.as_object().unwrap().clone());
    create(volume)
        .iter()
        .map(|error| error.strip_prefix("spec").map_or(error.clone(), |rest| format!("@{rest}")))
        .collect()
}

fn in_volume(source: &Value) -> Vec<String> {
    in_volume_named("a", source)
}

const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start \
                     and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
                     '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
                         and must start and end with an alphanumeric character (e.g. 'example.com', regex used for \
                         validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const MANAGED: &str = "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}";
const BLOB: &str = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd";

#[test]
fn most_sources_have_the_same_errors_in_pods_and_persistent_volumes() {
    let cases: Vec<(Value, Vec<String>)> = vec![
        (json!({"hostPath": {"path": "", "type": "Odd"}}), vec!["@.hostPath.path: Required value".into()]),
        (
            json!({"hostPath": {"path": "/a/..", "type": "Odd"}}),
            vec![
                "@.hostPath.path: Invalid value: \"/a/..\": must not contain '..'".into(),
                "@.hostPath.type: Unsupported value: \"Odd\": supported values: \"\", \"BlockDevice\", \"CharDevice\", \
                 \"Directory\", \"DirectoryOrCreate\", \"File\", \"FileOrCreate\", \"Socket\""
                    .into(),
            ],
        ),
        (
            json!({"gcePersistentDisk": {"pdName": "", "partition": -1}}),
            vec![
                "@.persistentDisk.pdName: Required value".into(),
                "@.persistentDisk.partition: Invalid value: -1: must be between 1 and 255, inclusive".into(),
            ],
        ),
        (
            json!({"awsElasticBlockStore": {"volumeID": "", "partition": 256}}),
            vec![
                "@.awsElasticBlockStore.volumeID: Required value".into(),
                "@.awsElasticBlockStore.partition: Invalid value: 256: must be between 1 and 255, inclusive".into(),
            ],
        ),
        (
            json!({"nfs": {"server": "", "path": ""}}),
            vec![
                "@.nfs.server: Required value".into(),
                "@.nfs.path: Required value".into(),
                "@.nfs.path: Invalid value: \"\": must be an absolute path".into(),
            ],
        ),
        (
            json!({"flocker": {}}),
            vec!["@.flocker: Required value: one of datasetName and datasetUUID is required".into()],
        ),
        (
            json!({"flocker": {"datasetName": "a/b", "datasetUUID": "u"}}),
            vec![
                "@.flocker: Invalid value: \"resource\": datasetName and datasetUUID can not be specified simultaneously"
                    .into(),
                "@.flocker.datasetName: Invalid value: \"a/b\": must not contain '/'".into(),
            ],
        ),
        (
            json!({"fc": {}}),
            vec!["@.fc.targetWWNs: Required value: must specify either targetWWNs or wwids, but not both".into()],
        ),
        (
            json!({"fc": {"targetWWNs": ["w"], "wwids": ["i"]}}),
            vec![
                "@.fc.targetWWNs: Invalid value: [\"w\"]: targetWWNs and wwids can not be specified simultaneously".into(),
                "@.fc.lun: Required value: lun is required if targetWWNs is specified".into(),
            ],
        ),
        (
            json!({"fc": {"targetWWNs": ["w"], "lun": 256}}),
            vec!["@.fc.lun: Invalid value: 256: must be between 0 and 255, inclusive".into()],
        ),
        (json!({"fc": {"wwids": ["i"], "lun": 256}}), vec![]),
        (
            json!({"flexVolume": {"driver": "", "options": {"X.K8S.IO/a": "b"}}}),
            vec![
                "@.flexVolume.driver: Required value".into(),
                "@.flexVolume.options[X.K8S.IO/a]: Invalid value: \"X.K8S.IO/a\": kubernetes.io and k8s.io namespaces \
                 are reserved"
                    .into(),
            ],
        ),
        (json!({"flexVolume": {"driver": "d", "options": {"mykubernetes.io/a": "b"}}}), vec![]),
        (
            json!({"azureDisk": {"diskName": "", "diskURI": ""}}),
            vec![
                "@.azureDisk.diskName: Required value".into(),
                "@.azureDisk.diskURI: Required value".into(),
                format!("@.azureDisk.diskURI: Unsupported value: \"\": supported values: \"{BLOB}\""),
            ],
        ),
        (
            json!({"azureDisk": {"diskName": "d", "kind": "Managed"}}),
            vec![
                "@.azureDisk.diskURI: Required value".into(),
                format!("@.azureDisk.diskURI: Unsupported value: \"\": supported values: \"{MANAGED}\""),
            ],
        ),
        (
            json!({"azureDisk": {"diskName": "d", "diskURI": "https://x", "kind": "Odd", "cachingMode": "Odd"}}),
            vec![
                "@.azureDisk.cachingMode: Unsupported value: \"Odd\": supported values: \"None\", \"ReadOnly\", \"ReadWrite\""
                    .into(),
                "@.azureDisk.kind: Unsupported value: \"Odd\": supported values: \"Dedicated\", \"Managed\", \"Shared\""
                    .into(),
            ],
        ),
        (
            json!({"quobyte": {"registry": "", "volume": ""}}),
            vec![
                "@.quobyte.registry: Required value: must be a host:port pair or multiple pairs separated by commas".into(),
                "@.quobyte.volume: Required value".into(),
            ],
        ),
        (
            json!({"quobyte": {"registry": "r", "volume": "v", "tenant": "t".repeat(65)}}),
            vec![
                "@.quobyte.tenant: Required value: must be a UUID and may not exceed a length of 64 characters".into(),
            ],
        ),
        (
            json!({"glusterfs": {"endpoints": "", "path": ""}}),
            vec!["@.glusterfs.endpoints: Required value".into(), "@.glusterfs.path: Required value".into()],
        ),
        (
            json!({"rbd": {"monitors": [], "image": ""}}),
            vec!["@.rbd.monitors: Required value".into(), "@.rbd.image: Required value".into()],
        ),
        (json!({"cephfs": {"monitors": []}}), vec!["@.cephfs.monitors: Required value".into()]),
        (
            json!({"cinder": {"volumeID": "", "secretRef": {"namespace": "n"}}}),
            vec!["@.cinder.volumeID: Required value".into(), "@.cinder.secretRef.name: Required value".into()],
        ),
        (
            json!({"azureFile": {"secretName": "", "shareName": ""}}),
            vec!["@.azureFile.secretName: Required value".into(), "@.azureFile.shareName: Required value".into()],
        ),
        (json!({"vsphereVolume": {"volumePath": ""}}), vec!["@.vsphereVolume.volumePath: Required value".into()]),
        (
            json!({"photonPersistentDisk": {"pdID": ""}}),
            vec!["@.photonPersistentDisk.pdID: Required value".into()],
        ),
        (json!({"portworxVolume": {"volumeID": ""}}), vec!["@.portworxVolume.volumeID: Required value".into()]),
        (
            json!({"scaleIO": {"gateway": "", "system": "", "volumeName": ""}}),
            vec![
                "@.scaleIO.gateway: Required value".into(),
                "@.scaleIO.system: Required value".into(),
                "@.scaleIO.volumeName: Required value".into(),
            ],
        ),
        (
            json!({"storageos": {"volumeNamespace": "N", "secretRef": {"namespace": "n"}}}),
            vec![
                "@.storageos.volumeName: Required value".into(),
                format!("@.storageos.volumeNamespace: Invalid value: \"N\": {LABEL}"),
                "@.storageos.secretRef.name: Required value".into(),
            ],
        ),
        (
            json!({"storageos": {"volumeName": "V"}}),
            vec![format!("@.storageos.volumeName: Invalid value: \"V\": {LABEL}")],
        ),
        (
            json!({"csi": {"driver": "", "volumeHandle": "h"}}),
            vec!["@.csi.driver: Required value".into(), format!("@.csi.driver: Invalid value: \"\": {SUBDOMAIN}")],
        ),
        (
            json!({"nfs": {"server": "s", "path": "/"}, "cephfs": {"monitors": []}}),
            vec!["@.cephFS: Forbidden: may not specify more than 1 volume type".into()],
        ),
    ];
    for (source, expected) in cases {
        // References of a pod have no namespace.
        let mut of_pod = source.clone();
        for kind in ["cinder", "storageos"] {
            if let Some(secret) = of_pod.pointer_mut(&format!("/{kind}/secretRef")) {
                *secret = json!({});
            }
        }
        if let Some(csi) = of_pod.pointer_mut("/csi") {
            csi.as_object_mut().unwrap().remove("volumeHandle");
        }
        assert_eq!(in_pod(&of_pod), expected, "in a pod: {of_pod}");
        assert_eq!(in_volume(&source), expected, "in a persistent volume: {source}");
    }
}

#[test]
fn a_registry_is_a_list_of_hosts_with_ports() {
    let cases = [
        ("r", 1),
        ("r:1", 0),
        ("a:1,b:2", 0),
        ("a:1,b", 1),
        ("a,b", 2),
        ("a:1,", 1),
        (":1", 0),
        ("a:", 0),
        ("a:b:1", 1),
        ("[fd00::1]:80", 0),
        ("fd00::1:80", 1),
        ("[fd00::1]", 1),
        ("[fd00::1]80", 1),
        ("[fd00::1]:80:90", 1),
        ("[fd00::1:80", 1),
        ("a]:1", 1),
        ("a[:1", 1),
        ("[a]:1[", 1),
        ("[a]:1]", 1),
    ];
    for (registry, wrong) in cases {
        let why = "must be a host:port pair or multiple pairs separated by commas";
        let expected = vec![format!("@.quobyte.registry: Invalid value: \"{registry}\": {why}"); wrong];
        let source = json!({"quobyte": {"registry": registry, "volume": "v"}});
        assert_eq!(in_pod(&source), expected, "in a pod: {registry}");
        assert_eq!(in_volume(&source), expected, "in a persistent volume: {registry}");
    }
}

/// The error for a name of an unknown kind is longer in a pod.
#[test]
fn initiators_have_one_of_three_forms() {
    let (no_kind, no_form) = ("must be valid format starting with iqn, eui, or naa", "must be valid format");
    let digits = "0123456789abcdef";
    let cases: Vec<(String, Option<&str>)> = vec![
        ("iqn.2001-04.com.example:disk".into(), None),
        ("iqn.2001-04.com.example:disk:2".into(), None),
        ("iqn.x-iqn.2001-04.com.example:disk".into(), None),
        ("iqn.2001-04.com.example".into(), Some(no_form)),
        ("iqn.2001-04.com.example:".into(), Some(no_form)),
        ("iqn.2001-4.com.example:disk".into(), Some(no_form)),
        ("iqn.2001-04.com_example:disk".into(), Some(no_form)),
        ("iqn.2001-04.com.example:di sk".into(), Some(no_form)),
        (format!("eui.{digits}"), None),
        (format!("euié{digits}"), None),
        (format!("euié{}", &digits[1..]), Some(no_form)),
        (format!("eui.{digits}0"), Some(no_form)),
        (format!("naa.{digits}{digits}"), None),
        (format!("naaé{digits}{}", &digits[1..]), Some(no_form)),
        (format!("naa.{digits}"), Some(no_form)),
        ("odd".into(), Some(no_kind)),
    ];
    for (name, why) in cases {
        let source = json!({"iscsi": {"targetPortal": "t", "iqn": name, "lun": 0, "initiatorName": name}});
        let complaints = |why: Option<&str>| -> Vec<String> {
            let of = |why| ["iqn", "initiatorname"].map(|at| format!("@.iscsi.{at}: Invalid value: {name:?}: {why}"));
            why.map_or(Vec::new(), |why| of(why).to_vec())
        };
        assert_eq!(in_pod(&source), complaints(why), "in a pod: {name}");
        assert_eq!(in_volume(&source), complaints(why.map(|_| no_form)), "in a persistent volume: {name}");
    }
}

#[test]
fn iscsi_is_checked_in_this_order() {
    let bare = json!({"iscsi": {
        "targetPortal": "", "iqn": "", "lun": 256, "chapAuthSession": true, "initiatorName": "odd",
    }});
    let expected = |initiator: &str| {
        [
            "@.iscsi.targetPortal: Required value".to_owned(),
            "@.iscsi.iqn: Required value".to_owned(),
            "@.iscsi.lun: Invalid value: 256: must be between 0 and 255, inclusive".to_owned(),
            "@.iscsi.secretRef: Required value".to_owned(),
            format!("@.iscsi.initiatorname: Invalid value: \"odd\": {initiator}"),
        ]
    };
    assert_eq!(in_pod(&bare), expected("must be valid format starting with iqn, eui, or naa"));
    assert_eq!(in_volume(&bare), expected("must be valid format"));

    // Only a PersistentVolume requires the name of the secret.
    let named = json!({"iscsi": {
        "targetPortal": "t", "iqn": "odd", "lun": -1, "chapAuthDiscovery": true, "secretRef": {"name": ""}, "initiatorName": "",
    }});
    assert_eq!(
        in_volume(&named),
        [
            "@.iscsi.iqn: Invalid value: \"odd\": must be valid format",
            "@.iscsi.lun: Invalid value: -1: must be between 0 and 255, inclusive",
            "@.iscsi.secretRef.name: Required value",
            "@.iscsi.initiatorname: Invalid value: \"\": must be valid format",
        ]
    );
    assert_eq!(
        in_pod(&named),
        [
            "@.iscsi.iqn: Invalid value: \"odd\": must be valid format starting with iqn, eui, or naa",
            "@.iscsi.lun: Invalid value: -1: must be between 0 and 255, inclusive",
            "@.iscsi.initiatorname: Invalid value: \"\": must be valid format starting with iqn, eui, or naa",
        ]
    );
}

#[test]
fn the_length_of_volume_name_and_portal_is_limited_with_an_initiator_name() {
    let long = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is \
                specified.";
    let iqn = "iqn.2001-04.com.example:disk";
    let source = |portal: &str, initiator: Value| json!({"iscsi": {"targetPortal": portal, "iqn": iqn, "lun": 0, "initiatorName": initiator}});
    let (fits, name) = ("p".repeat(59), "disk");
    let over = format!("{fits}p");
    assert_eq!(in_pod_named(name, &source(&fits, json!(iqn))), [""; 0]);
    assert_eq!(in_volume_named(name, &source(&fits, json!(iqn))), [""; 0]);
    assert_eq!(in_pod_named(name, &source(&over, json!(null))), [""; 0]);
    assert_eq!(in_volume_named(name, &source(&over, json!(null))), [""; 0]);
    assert_eq!(
        in_pod_named(name, &source(&over, json!("iqn"))),
        [
            "@.iscsi.initiatorname: Invalid value: \"iqn\": must be valid format".to_owned(),
            format!("@.name: Invalid value: \"disk\": {long}"),
        ]
    );
    assert_eq!(
        in_volume_named(name, &source(&over, json!("iqn"))),
        [
            format!("@.iscsi.targetportal: Invalid value: \"{over}\": {long}"),
            "@.iscsi.initiatorname: Invalid value: \"iqn\": must be valid format".to_owned(),
        ]
    );
    let mut second = source(&over, json!("iqn"));
    second["hostPath"] = json!({"path": "/"});
    let forbidden = "@.iscsi: Forbidden: may not specify more than 1 volume type".to_owned();
    assert_eq!(in_pod_named(name, &second), [forbidden.clone(), format!("@.name: Invalid value: \"disk\": {long}")]);
    assert_eq!(in_volume_named(name, &second), [forbidden]);
}

#[test]
fn a_csi_volume_of_a_pod_refers_to_a_secret_by_name() {
    assert_eq!(
        in_pod(&json!({"csi": {"driver": "D".repeat(64), "nodePublishSecretRef": {"name": ""}}})),
        ["@.csi.driver: Too long: may not be more than 63 bytes", "@.csi.nodePublishSecretRef.name: Required value",]
    );
    assert_eq!(
        in_pod(&json!({"csi": {"driver": "d", "nodePublishSecretRef": {"name": "S"}}})),
        [format!("@.csi.name: Invalid value: \"S\": {SUBDOMAIN}")]
    );
}

#[test]
fn references_of_a_persistent_volume_have_a_namespace() {
    let secret = |name: &str| json!({"name": name, "namespace": ""});
    let cases: Vec<(Value, Vec<String>)> = vec![
        (
            json!({"cinder": {"volumeID": "i", "secretRef": secret("")}}),
            vec![
                "@.cinder.secretRef.name: Required value".into(),
                "@.cinder.secretRef.namespace: Required value".into(),
            ],
        ),
        (
            json!({"storageos": {"volumeName": "v", "secretRef": secret("s")}}),
            vec!["@.storageos.secretRef.namespace: Required value".into()],
        ),
        (
            json!({"azureFile": {"secretName": "", "shareName": "s", "secretNamespace": ""}}),
            vec!["@.azureFile.secretName: Required value".into(), "@.azureFile.secretNamespace: Required value".into()],
        ),
        (
            json!({"glusterfs": {"endpoints": "", "path": "p", "endpointsNamespace": ""}}),
            vec![
                "@.glusterfs.endpoints: Required value".into(),
                "@.glusterfs.endpointsNamespace: Invalid value: \"\": if the endpointnamespace is set, it must be a \
                 valid namespace name"
                    .into(),
            ],
        ),
        (
            json!({"glusterfs": {"endpoints": "e", "path": "p", "endpointsNamespace": "N"}}),
            vec![format!("@.glusterfs.endpointsNamespace: Invalid value: \"N\": {LABEL}")],
        ),
        (
            json!({"local": {"path": ""}}),
            vec![
                "@.local.path: Required value".into(),
                "@.nodeAffinity: Required value: Local volume requires node affinity".into(),
            ],
        ),
        (
            json!({"local": {"path": "a/.."}, "nodeAffinity": {}}),
            vec![
                "@.nodeAffinity.required: Required value: must specify required node constraints".into(),
                "@.local.path: Invalid value: \"a/..\": must not contain '..'".into(),
            ],
        ),
        (
            json!({"csi": {
                "driver": "d", "nodeExpandSecretRef": secret(""), "controllerExpandSecretRef": {"name": "S", "namespace": "N"},
            }}),
            vec![
                "@.csi.volumeHandle: Required value".into(),
                format!("@.csi.controllerExpandSecretRef.name: Invalid value: \"S\": {SUBDOMAIN}"),
                format!("@.csi.controllerExpandSecretRef.namespace: Invalid value: \"N\": {LABEL}"),
                "@.csi.nodeExpandSecretRef.name: Required value".into(),
                "@.csi.nodeExpandSecretRef.namespace: Required value".into(),
            ],
        ),
        // A second source is no error if it is a flexVolume.
        (
            json!({"nfs": {"server": "s", "path": "/"}, "flexVolume": {"driver": ""}, "local": {"path": "/"}}),
            vec![
                "@.flexVolume.driver: Required value".into(),
                "@.local: Forbidden: may not specify more than 1 volume type".into(),
            ],
        ),
        (json!({}), vec!["@: Required value: must specify a volume type".into()]),
    ];
    for (source, expected) in cases {
        assert_eq!(in_volume(&source), expected, "{source}");
    }
}

#[test]
fn a_host_path_to_the_root_is_not_recycled() {
    for (path, is_root) in [("/", true), ("//./", true), ("/a/..", true), ("/../..", true), ("/a", false), (".", false)]
    {
        let source = json!({"hostPath": {"path": path}, "persistentVolumeReclaimPolicy": "Recycle"});
        let why = "@.persistentVolumeReclaimPolicy: Forbidden: may not be 'recycle' for a hostPath mount of '/'";
        assert_eq!(in_volume(&source).iter().any(|error| error == why), is_root, "{path}");
    }
}
