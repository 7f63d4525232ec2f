//! Writes a stored object in the requested version: the whole object, or its metadata alone.
//!
//! In the storage version nothing is encoded again: the answer consists of slices of the stored bytes.

use crate::object::Object;
use crate::resources::{Conversion, Target};
use crate::serializer::json;
use bytes::Bytes;

/// The requested version of meta.k8s.io, for tables and partial objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum MetaVersion {
    #[default]
    V1,
    V1Beta1,
}

impl MetaVersion {
    pub fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "meta.k8s.io/v1",
            Self::V1Beta1 => "meta.k8s.io/v1beta1",
        }
    }
}

/// Returns the whole object as slices of JSON.
pub fn whole(target: &Target, object: &Object) -> Vec<Bytes> {
    if target.is_storage_version() || matches!(target.served().conversion, Conversion::Webhook) {
        return object.to_wire().to_vec();
    }
    vec![Bytes::from(json::to_canonical(&target.served().from_storage(object.to_value())))]
}

/// Appends the object as PartialObjectMetadata.
pub fn write_metadata(out: &mut Vec<u8>, target: &Target, object: &Object, version: MetaVersion) {
    let api_version = version.api_version();
    out.extend_from_slice(
        format!("{{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"{api_version}\",\"metadata\":").as_bytes(),
    );
    match target.served().conversion {
        Conversion::Same | Conversion::Pruned | Conversion::Webhook => {
            object.metadata_to_wire().iter().for_each(|slice| out.extend_from_slice(slice))
        }
        // A conversion may turn fields into annotations.
        Conversion::With { .. } => {
            let shown = target.served().from_storage(object.to_value());
            out.extend_from_slice(&json::to_canonical(&shown["metadata"]));
        }
    }
    out.push(b'}');
}
