//! Defaults of volumes, persistent volumes, claims and storage classes.
//!
//! Corresponds to `SetDefaults_Volume` and its sources, and to pkg/apis/storage.

use super::DefaultValue::{Bool, Empty, Int, Of, Text, Texts};
use super::Row::{self, Each, Fix, In, Off, Set, SetIf};
use super::{Members, pod_fixes, resources, text};
use serde_json::Value;

/// `0644`
const DEFAULT_MODE: i64 = 0o644;

pub const VOLUME: &[Row] = &[
    SetIf(has_no_source, "emptyDir", Empty),
    In("secret", MODE),
    In("configMap", MODE),
    In("downwardAPI", MODE),
    Each("downwardAPI.items", DOWNWARD_ITEM),
    In("projected", MODE),
    Each("projected.sources", PROJECTION),
    In("image", &[Set("pullPolicy", Of(image_volume_pull_policy))]),
    In("ephemeral.volumeClaimTemplate.spec", CLAIM_SPEC),
    In("hostPath", HOST_PATH),
    In("iscsi", ISCSI),
    In("rbd", RBD),
    In("azureDisk", AZURE_DISK),
    In("scaleIO", SCALE_IO),
];

const MODE: &[Row] = &[Set("defaultMode", Int(DEFAULT_MODE))];
pub const FIELD_REF: &[Row] = &[Set("apiVersion", Text("v1"))];
const DOWNWARD_ITEM: &[Row] = &[In("fieldRef", FIELD_REF)];
const PROJECTION: &[Row] = &[
    Off("clusterTrustBundle"),
    Off("podCertificate"),
    In("serviceAccountToken", &[Set("expirationSeconds", Int(60 * 60))]),
    Each("downwardAPI.items", DOWNWARD_ITEM),
];
/// The type of a host path is empty by default, and is always written.
const HOST_PATH: &[Row] = &[Fix(|source| {
    source.entry("type").or_insert(Value::from(""));
})];
const ISCSI: &[Row] = &[Set("iscsiInterface", Text("default"))];
const RBD: &[Row] = &[Set("pool", Text("rbd")), Set("user", Text("admin")), Set("keyring", Text("/etc/ceph/keyring"))];
const AZURE_DISK: &[Row] = &[
    Set("cachingMode", Text("ReadWrite")),
    Set("kind", Text("Shared")),
    Set("fsType", Text("ext4")),
    Set("readOnly", Bool(false)),
];
const SCALE_IO: &[Row] = &[Set("storageMode", Text("ThinProvisioned")), Set("fsType", Text("xfs"))];

fn has_no_source(volume: &Members) -> bool {
    volume.keys().all(|field| field == "name")
}

fn image_volume_pull_policy(image: &Members) -> Option<Value> {
    Some(Value::from(pod_fixes::image_pull_policy(text(image, "reference"))))
}

pub const PERSISTENT_VOLUME: &[Row] = &[
    In("status", &[Set("phase", Text("Pending"))]),
    In("spec", &[Set("persistentVolumeReclaimPolicy", Text("Retain")), Set("volumeMode", Text("Filesystem"))]),
    In("spec", PERSISTENT_SOURCE),
];

/// The capacity and the source, of a persistent volume or of a volume inside a VolumeAttachment.
const PERSISTENT_SOURCE: &[Row] = &[
    Fix(|spec| resources::round_up(spec, "capacity")),
    In("hostPath", HOST_PATH),
    In("iscsi", ISCSI),
    In("rbd", RBD),
    In("azureDisk", AZURE_DISK),
    In("scaleIO", SCALE_IO),
];

pub const VOLUME_ATTACHMENT: &[Row] = &[In("spec.source.inlineVolumeSpec", PERSISTENT_SOURCE)];

pub const PERSISTENT_VOLUME_CLAIM: &[Row] = &[
    In("status", &[Set("phase", Text("Pending")), Fix(|status| resources::round_up(status, "capacity"))]),
    In("spec", CLAIM_SPEC),
];

const CLAIM_SPEC: &[Row] = &[Set("volumeMode", Text("Filesystem")), In("resources", resources::REQUIREMENTS)];

pub const STORAGE_CLASS: &[Row] = &[Set("reclaimPolicy", Text("Delete")), Set("volumeBindingMode", Text("Immediate"))];

pub const CSI_DRIVER: &[Row] = &[In(
    "spec",
    &[
        Set("attachRequired", Bool(true)),
        Set("podInfoOnMount", Bool(false)),
        Set("storageCapacity", Bool(false)),
        Set("fsGroupPolicy", Text("ReadWriteOnceWithFSType")),
        Set("volumeLifecycleModes", Texts(&["Persistent"])),
        Set("requiresRepublish", Bool(false)),
        Set("seLinuxMount", Bool(false)),
    ],
)];
