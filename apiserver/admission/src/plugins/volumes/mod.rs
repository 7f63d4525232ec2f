//! Plugins that handle PersistentVolumes and PersistentVolumeClaims.

pub mod persistent_volume_claim_resize;
pub mod storage_object_in_use_protection;
