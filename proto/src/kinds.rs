//! Typed views of the kinds that components read.
//!
//! The types are k8s-openapi's. `Kind` adds the names by which a client finds the collection, and functions that decode
//! and encode. These are instantiated in this crate alone, because every decoder takes long to compile.

use crate::gvk::{Gvk, Gvr};
use crate::serializer::json;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

pub use k8s_openapi::ByteString;
pub use k8s_openapi::api;
pub use k8s_openapi::apimachinery::pkg as apimachinery;
pub use k8s_openapi::apimachinery::pkg::apis::meta::v1 as metav1;
pub use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
pub use k8s_openapi::jiff;

/// A typed kind: the names of its collection, its metadata, and its JSON form.
pub trait Kind: Clone + Send + Sync + std::fmt::Debug + Default + 'static {
    const GROUP: &'static str;
    const VERSION: &'static str;
    const KIND: &'static str;
    /// Plural, lower case.
    const RESOURCE: &'static str;
    const NAMESPACED: bool;

    fn metadata(&self) -> &ObjectMeta;
    fn metadata_mut(&mut self) -> &mut ObjectMeta;
    fn decode(bytes: &[u8]) -> Result<Self, serde_json::Error>;
    /// Decodes a tree by way of its text, because a second decoder per type would double the time to compile.
    fn decode_value(value: Value) -> Result<Self, serde_json::Error> {
        Self::decode(&serde_json::to_vec(&value)?)
    }
    /// Returns the JSON tree, with `apiVersion` and `kind`.
    fn encode(&self) -> Value;

    fn gvr() -> Gvr {
        Gvr::new(Self::GROUP, Self::VERSION, Self::RESOURCE)
    }

    fn gvk() -> Gvk {
        Gvk::new(Self::GROUP, Self::VERSION, Self::KIND)
    }

    fn name(&self) -> &str {
        self.metadata().name.as_deref().unwrap_or_default()
    }

    /// Returns the namespace, empty for cluster-scoped objects.
    fn namespace(&self) -> &str {
        self.metadata().namespace.as_deref().unwrap_or_default()
    }

    fn uid(&self) -> &str {
        self.metadata().uid.as_deref().unwrap_or_default()
    }

    fn resource_version(&self) -> &str {
        self.metadata().resource_version.as_deref().unwrap_or_default()
    }

    fn is_deleting(&self) -> bool {
        self.metadata().deletion_timestamp.is_some()
    }

    /// Returns the key of caches and work queues: `namespace/name`, or the name alone for cluster-scoped objects.
    fn key(&self) -> String {
        match &self.metadata().namespace {
            Some(namespace) => [namespace, "/", self.name()].concat(),
            None => self.name().to_owned(),
        }
    }
}

macro_rules! kinds {
    ($($ty:path, $namespaced:literal;)+) => {$(
        impl Kind for $ty {
            const GROUP: &'static str = <$ty as k8s_openapi::Resource>::GROUP;
            const VERSION: &'static str = <$ty as k8s_openapi::Resource>::VERSION;
            const KIND: &'static str = <$ty as k8s_openapi::Resource>::KIND;
            const RESOURCE: &'static str = <$ty as k8s_openapi::Resource>::URL_PATH_SEGMENT;
            const NAMESPACED: bool = $namespaced;

            fn metadata(&self) -> &ObjectMeta {
                &self.metadata
            }

            fn metadata_mut(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }

            fn decode(bytes: &[u8]) -> Result<Self, serde_json::Error> {
                json::read(bytes)
            }

            fn encode(&self) -> Value {
                serde_json::to_value(self).expect("API types are plain data")
            }
        }
    )+

    #[cfg(test)]
    fn all() -> Vec<(Gvk, Gvr, bool)> {
        vec![$((<$ty>::gvk(), <$ty>::gvr(), <$ty>::NAMESPACED)),+]
    }
    };
}

kinds! {
    api::admissionregistration::v1::ValidatingAdmissionPolicy, false;
    api::core::v1::ConfigMap, true;
    api::core::v1::Endpoints, true;
    api::core::v1::Event, true;
    api::core::v1::LimitRange, true;
    api::core::v1::Namespace, false;
    api::core::v1::Node, false;
    api::core::v1::PersistentVolume, false;
    api::core::v1::PersistentVolumeClaim, true;
    api::core::v1::Pod, true;
    api::core::v1::ReplicationController, true;
    api::core::v1::ResourceQuota, true;
    api::core::v1::Secret, true;
    api::core::v1::Service, true;
    api::core::v1::ServiceAccount, true;
    api::apps::v1::ControllerRevision, true;
    api::apps::v1::DaemonSet, true;
    api::apps::v1::Deployment, true;
    api::apps::v1::ReplicaSet, true;
    api::apps::v1::StatefulSet, true;
    api::autoscaling::v2::HorizontalPodAutoscaler, true;
    api::batch::v1::CronJob, true;
    api::batch::v1::Job, true;
    api::apiserverinternal::v1alpha1::StorageVersion, false;
    api::certificates::v1::CertificateSigningRequest, false;
    api::certificates::v1beta1::ClusterTrustBundle, false;
    api::certificates::v1beta1::PodCertificateRequest, true;
    api::coordination::v1::Lease, true;
    api::discovery::v1::EndpointSlice, true;
    api::networking::v1::IPAddress, false;
    api::networking::v1::Ingress, true;
    api::networking::v1::ServiceCIDR, false;
    api::policy::v1::PodDisruptionBudget, true;
    api::rbac::v1::ClusterRole, false;
    api::rbac::v1::ClusterRoleBinding, false;
    api::rbac::v1::Role, true;
    api::rbac::v1::RoleBinding, true;
    api::scheduling::v1::PriorityClass, false;
    api::storagemigration::v1beta1::StorageVersionMigration, false;
    api::scheduling::v1alpha2::PodGroup, true;
    api::storage::v1::CSIDriver, false;
    api::storage::v1::CSINode, false;
    api::storage::v1::CSIStorageCapacity, true;
    api::storage::v1::StorageClass, false;
    api::storage::v1::VolumeAttributesClass, false;
    api::storage::v1::VolumeAttachment, false;
    api::resource::v1beta2::DeviceTaintRule, false;
    api::resource::v1::DeviceClass, false;
    api::resource::v1::ResourceClaim, true;
    api::resource::v1::ResourceClaimTemplate, true;
    api::resource::v1::ResourceSlice, false;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resources::Catalogue;

    #[test]
    fn typed_kinds_agree_with_the_table() {
        for (gvk, gvr, namespaced) in all() {
            let target = Catalogue::complete().by_gvr(&gvr).unwrap_or_else(|| panic!("{gvr} has a row"));
            assert_eq!((target.gvk(), target.row.is_namespaced()), (gvk, namespaced));
        }
    }

    #[test]
    fn keys_are_namespace_and_name() {
        let mut pod = api::core::v1::Pod::default();
        pod.metadata.name = Some("web".into());
        assert_eq!(pod.key(), "web");
        pod.metadata.namespace = Some("shop".into());
        assert_eq!(pod.key(), "shop/web");
        assert_eq!(pod.encode()["kind"], "Pod");
    }
}
