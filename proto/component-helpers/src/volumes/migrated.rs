//! The volume sources of clouds that have moved to CSI drivers: each names a volume of its driver.
//!
//! Corresponds to k8s.io/csi-translation-lib/plugins.

use proto::kinds::Kind;
use proto::kinds::api::core::v1::{AzureFilePersistentVolumeSource, PersistentVolume};
use proto::meta::node_labels::{BETA_ZONE, ZONE};

const RESOURCE_GROUP: &str = "kubernetes.io/azure-file-resource-group";
/// Labels with the zone of a volume; the second is the older one.
const ZONES: [&str; 2] = [ZONE, BETA_ZONE];

/// Returns the driver that serves a source of a cloud, and its handle of the volume; `None` for every other source.
pub fn driver_and_handle(volume: &PersistentVolume) -> Option<(&'static str, String)> {
    let spec = volume.spec.as_ref()?;
    if let Some(source) = &spec.aws_elastic_block_store {
        // `aws://eu-1a/vol-1` or `vol-1`.
        let id = source.volume_id.strip_prefix("aws://").and_then(|path| path.rsplit('/').next());
        return Some(("ebs.csi.aws.com", id.unwrap_or(&source.volume_id).to_owned()));
    }
    if let Some(source) = &spec.gce_persistent_disk {
        return Some(("pd.csi.storage.gke.io", disk_path(volume, &source.pd_name)));
    }
    if let Some(source) = &spec.azure_disk {
        return Some(("disk.csi.azure.com", source.disk_uri.clone()));
    }
    if let Some(source) = &spec.azure_file {
        return Some(("file.csi.azure.com", file_share(volume, source)));
    }
    if let Some(source) = &spec.cinder {
        return Some(("cinder.csi.openstack.org", source.volume_id.clone()));
    }
    if let Some(source) = &spec.vsphere_volume {
        return Some(("csi.vsphere.vmware.com", source.volume_path.clone()));
    }
    spec.portworx_volume.as_ref().map(|source| ("pxd.portworx.com", source.volume_id.clone()))
}

/// Returns the path of a disk; a label with several zones (`a__b`) belongs to a disk of their region.
fn disk_path(volume: &PersistentVolume, disk: &str) -> String {
    let label = |name: &&str| volume.metadata.labels.as_ref()?.get(*name);
    let place = match ZONES.iter().find_map(label) {
        None => "zones/UNSPECIFIED".to_owned(),
        Some(zones) => match zones.split_once("__") {
            None => format!("zones/{zones}"),
            Some((first, _)) => format!("regions/{}", first.rsplit_once('-').map_or(first, |(region, _)| region)),
        },
    };
    format!("projects/UNSPECIFIED/{place}/disks/{disk}")
}

fn file_share(volume: &PersistentVolume, source: &AzureFilePersistentVolumeSource) -> String {
    let annotations = volume.metadata.annotations.as_ref();
    let group = annotations.and_then(|annotations| annotations.get(RESOURCE_GROUP)).map_or("", String::as_str);
    let account = source.secret_name.strip_prefix("azure-storage-account-").unwrap_or(&source.secret_name);
    let account = account.strip_suffix("-secret").unwrap_or(account);
    let namespace = source.secret_namespace.as_deref().unwrap_or("default");
    format!("{group}#{account}#{}#{}#{namespace}", source.share_name, volume.name())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn each_source_names_a_volume_of_its_driver() {
        let zone = |zone: &str| json!({ZONES[0]: zone});
        let cases: [(Value, Value, &str); 10] = [
            (json!({"awsElasticBlockStore": {"volumeID": "vol-1"}}), json!({}), "ebs.csi.aws.com vol-1"),
            (json!({"awsElasticBlockStore": {"volumeID": "aws://eu-1a/vol-1"}}), json!({}), "ebs.csi.aws.com vol-1"),
            (
                json!({"gcePersistentDisk": {"pdName": "d"}}),
                zone("eu-1-a"),
                "pd.csi.storage.gke.io projects/UNSPECIFIED/zones/eu-1-a/disks/d",
            ),
            (
                json!({"gcePersistentDisk": {"pdName": "d"}}),
                zone("eu-1-a__eu-1-b"),
                "pd.csi.storage.gke.io projects/UNSPECIFIED/regions/eu-1/disks/d",
            ),
            (json!({"azureDisk": {"diskName": "d", "diskURI": "/d"}}), json!({}), "disk.csi.azure.com /d"),
            (
                json!({"azureFile": {"shareName": "s", "secretName": "azure-storage-account-ann-secret"}}),
                json!({}),
                "file.csi.azure.com #ann#s#pv#default",
            ),
            (json!({"cinder": {"volumeID": "v"}}), json!({}), "cinder.csi.openstack.org v"),
            (json!({"vsphereVolume": {"volumePath": "[a] v"}}), json!({}), "csi.vsphere.vmware.com [a] v"),
            (json!({"portworxVolume": {"volumeID": "v"}}), json!({}), "pxd.portworx.com v"),
            (json!({"nfs": {"server": "s", "path": "/"}}), json!({}), ""),
        ];
        for (spec, labels, expected) in cases {
            let volume =
                PersistentVolume::decode_value(json!({"metadata": {"name": "pv", "labels": labels}, "spec": spec}));
            let found = driver_and_handle(&volume.unwrap()).map(|(driver, handle)| format!("{driver} {handle}"));
            let found = found.unwrap_or_default();
            assert_eq!(found, expected);
        }
    }
}
