//! Plugins that look at persistent volumes and their claims.

pub mod persistent_volume_claim_resize;
pub mod storage_object_in_use_protection;
