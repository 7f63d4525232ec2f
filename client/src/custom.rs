//! `CustomResource`: an object of a kind that a user has defined, with the user's own types for its spec and its status.
//!
//! Corresponds to the types that controller-gen and kube-rs's `CustomResource` work with. Here a trait names the kind:
//!
//! ```text
//! #[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
//! struct DoorSpec { open: bool }
//!
//! impl CustomSpec for DoorSpec {
//!     type Status = ();
//!     const GROUP: &'static str = "kitchen.example.com";
//!     const VERSION: &'static str = "v1";
//!     const KIND: &'static str = "Door";
//!     const RESOURCE: &'static str = "doors";
//! }
//!
//! type Door = CustomResource<DoorSpec>;
//! ```

use proto::kinds::Kind;
use proto::kinds::metav1::ObjectMeta;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt::Debug;

/// The spec of a custom resource, with the names that its CustomResourceDefinition gives to the kind.
pub trait CustomSpec: Content {
    /// `()` for a kind without a status.
    type Status: Content;
    const GROUP: &'static str;
    const VERSION: &'static str;
    const KIND: &'static str;
    /// Plural, lower case.
    const RESOURCE: &'static str;
    const NAMESPACED: bool = true;
}

/// Plain data that has a JSON form. Every type with these traits has this one too.
pub trait Content: Clone + Debug + Default + Send + Sync + Serialize + DeserializeOwned + 'static {}

impl<T: Clone + Debug + Default + Send + Sync + Serialize + DeserializeOwned + 'static> Content for T {}

/// A custom resource. It is a `Kind`, so informers, listers, `Api` and `Action` take it as they take a Pod.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(bound = "")]
pub struct CustomResource<Spec: CustomSpec> {
    #[serde(default)]
    pub metadata: ObjectMeta,
    #[serde(default)]
    pub spec: Spec,
    /// `None` until somebody has reported it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Spec::Status>,
}

impl<Spec: CustomSpec> CustomResource<Spec> {
    pub fn new(namespace: &str, name: &str, spec: Spec) -> Self {
        let metadata = ObjectMeta {
            namespace: (!namespace.is_empty()).then(|| namespace.to_owned()),
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        };
        Self { metadata, spec, status: None }
    }
}

impl<Spec: CustomSpec> Kind for CustomResource<Spec> {
    const GROUP: &'static str = Spec::GROUP;
    const VERSION: &'static str = Spec::VERSION;
    const KIND: &'static str = Spec::KIND;
    const RESOURCE: &'static str = Spec::RESOURCE;
    const NAMESPACED: bool = Spec::NAMESPACED;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }

    fn decode(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(bytes)
    }

    fn encode(&self) -> Value {
        let mut value = serde_json::to_value(self).expect("a spec and a status are plain data");
        value["apiVersion"] = Value::from(Self::gvk().api_version());
        value["kind"] = Value::from(Self::KIND);
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
    #[serde(default, rename_all = "camelCase")]
    struct KettleSpec {
        target_celsius: f64,
    }

    #[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
    struct KettleStatus {
        boils: bool,
    }

    impl CustomSpec for KettleSpec {
        type Status = KettleStatus;
        const GROUP: &'static str = "kitchen.example.com";
        const VERSION: &'static str = "v1";
        const KIND: &'static str = "Kettle";
        const RESOURCE: &'static str = "kettles";
    }

    type Kettle = CustomResource<KettleSpec>;

    #[test]
    fn it_is_a_kind_with_its_own_types() {
        let mut kettle = Kettle::new("kitchen", "red", KettleSpec { target_celsius: 80.5 });
        let new = json!({
            "apiVersion": "kitchen.example.com/v1", "kind": "Kettle",
            "metadata": {"namespace": "kitchen", "name": "red"}, "spec": {"targetCelsius": 80.5},
        });
        assert_eq!(kettle.encode(), new, "a status that nobody has reported is not written");
        assert_eq!(Kettle::gvr().path(Some("kitchen")), "/apis/kitchen.example.com/v1/namespaces/kitchen/kettles");
        assert_eq!(kettle.key(), "kitchen/red");
        kettle.status = Some(KettleStatus { boils: true });
        assert_eq!(Kettle::decode_value(kettle.encode()).unwrap(), kettle);
    }

    #[test]
    fn what_is_missing_has_its_default() {
        let bare = Kettle::decode(br#"{"metadata": {"name": "red"}, "unknown": 1}"#).unwrap();
        assert_eq!((bare.spec, bare.status), (KettleSpec::default(), None));
        assert!(Kettle::decode(br#"{"spec": {"targetCelsius": "hot"}}"#).is_err());
    }
}
