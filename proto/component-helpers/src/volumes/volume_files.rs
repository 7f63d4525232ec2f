//! Where the files of a simulated volume lie: their name, and the folder of that name.
//!
//! Corresponds to the volume handle that a CSI driver gives its volumes. The nodes write the files; the driver's part in the
//! controller manager copies and deletes them.

use crate::volumes::csi_volume::{CsiVolume, SIMULATED_DRIVER};
use proto::Kind;
use proto::kinds::api::core::v1::PersistentVolume;

/// File in the folder of a volume. Whoever adds or removes names there holds a lock on it.
pub const LOCK: &str = "lock";
/// Bytes of a folder's name that every file system takes.
const MAX_NAME_BYTES: usize = 200;

/// Returns the name of a volume's files: its handle, so that they are found again when an administrator makes another
/// PersistentVolume for it; the uid of the object for volumes that are not the simulated driver's.
pub fn name_of(volume: &PersistentVolume) -> String {
    let simulated = CsiVolume::of(volume).filter(|volume| volume.driver == SIMULATED_DRIVER);
    simulated.map_or_else(|| volume.uid().to_owned(), |volume| volume.handle)
}

/// Returns the folder for the files of this name. Anybody may choose a handle, so other characters than letters, digits, `-`
/// and `_` are written as `%` and two digits, and a long name is cut and ends in a hash.
pub fn folder_of(name: &str) -> String {
    let mut folder = String::new();
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' => folder.push(char::from(byte)),
            // A file system may ignore the case.
            _ => folder.push_str(&format!("%{byte:02x}")),
        }
    }
    if folder.len() > MAX_NAME_BYTES {
        // FNV-1a.
        let hash = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325, hash);
        folder.truncate(MAX_NAME_BYTES);
        folder.push_str(&format!("%{hash:016x}"));
    }
    folder
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn volume(source: serde_json::Value) -> PersistentVolume {
        let mut spec = source;
        spec["capacity"] = json!({"storage": "1Gi"});
        PersistentVolume::decode_value(json!({"metadata": {"name": "v", "uid": "u-1"}, "spec": spec})).unwrap()
    }

    #[test]
    fn files_belong_to_the_handle_of_the_simulated_driver_or_to_the_object() {
        for (source, expected) in [
            (json!({"csi": {"driver": SIMULATED_DRIVER, "volumeHandle": "pvc-9"}}), "pvc-9"),
            (json!({"csi": {"driver": "other.example.com", "volumeHandle": "pvc-9"}}), "u-1"),
            (json!({"hostPath": {"path": "/srv"}}), "u-1"),
        ] {
            assert_eq!(name_of(&volume(source)), expected);
        }
    }

    #[test]
    fn no_name_leads_out_of_the_folder() {
        assert_eq!(folder_of("pvc-0d138211"), "pvc-0d138211");
        assert_eq!(folder_of("../Up/é"), "%2e%2e%2f%55p%2f%c3%a9");
        let (one, other) = (folder_of(&"a".repeat(300)), folder_of(&"a".repeat(301)));
        assert!(one != other && one.len() <= 255 && other.len() <= 255, "{one} {other}");
    }
}
