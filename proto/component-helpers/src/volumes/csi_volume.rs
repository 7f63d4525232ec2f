//! `CsiVolume`: a volume of a CSI driver, and the name under which a node's status lists it.
//!
//! Corresponds to GetVolumeName of pkg/volume/csi/csi_plugin.go and GetUniqueVolumeName of pkg/volume/util.

use crate::volumes::migrated;
use proto::kinds::api::core::v1::{Node, PersistentVolume};
use proto::kinds::api::storage::v1::CSIDriver;

/// Name of the plugin that begins the names of all volumes of CSI drivers.
const PLUGIN: &str = "kubernetes.io/csi/";
/// Stands between driver and handle.
const SEPARATOR: char = '^';

/// The driver that Orrery simulates in any case.
pub const SIMULATED_DRIVER: &str = "simulated.orrery.dev";
/// Annotation of a CSIDriver that makes its driver a simulated one.
pub const SIMULATED: &str = "orrery.dev/simulated";

/// A volume of a CSI driver. Two PersistentVolumes with the same driver and handle are one volume.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CsiVolume {
    pub driver: String,
    pub handle: String,
}

impl CsiVolume {
    /// Returns the CSI volume behind a PersistentVolume; `None` if its source is not one of a CSI driver. The sources
    /// that have moved to CSI drivers count as theirs.
    pub fn of(volume: &PersistentVolume) -> Option<Self> {
        match volume.spec.as_ref().and_then(|spec| spec.csi.as_ref()) {
            Some(source) => Some(Self { driver: source.driver.clone(), handle: source.volume_handle.clone() }),
            None => {
                let (driver, handle) = migrated::driver_and_handle(volume)?;
                Some(Self { driver: driver.to_owned(), handle })
            }
        }
    }

    /// Returns the name in `volumesAttached` and `volumesInUse` of a node's status.
    pub fn unique_name(&self) -> String {
        format!("{PLUGIN}{}{SEPARATOR}{}", self.driver, self.handle)
    }

    /// Parses such a name; `None` if it is of another plugin.
    pub fn from_unique_name(name: &str) -> Option<Self> {
        let (driver, handle) = name.strip_prefix(PLUGIN)?.split_once(SEPARATOR)?;
        Some(Self { driver: driver.to_owned(), handle: handle.to_owned() })
    }
}

/// Returns true if volumes of a driver have to be attached to a node. `object` describes the driver; without one they
/// have to be.
pub fn is_attach_required(object: Option<&CSIDriver>) -> bool {
    object.is_none_or(|object| object.spec.attach_required != Some(false))
}

/// Returns true if Orrery simulates the driver. `object` describes it.
pub fn is_simulated(driver: &str, object: Option<&CSIDriver>) -> bool {
    let annotations = object.and_then(|object| object.metadata.annotations.as_ref());
    let is_marked = annotations.is_some_and(|annotations| annotations.get(SIMULATED).is_some_and(|v| v == "true"));
    driver == SIMULATED_DRIVER || is_marked
}

/// Returns true if the controller manager has attached the volume to the node.
pub fn is_attached(node: &Node, unique_name: &str) -> bool {
    let attached = node.status.iter().flat_map(|status| status.volumes_attached.iter().flatten());
    attached.into_iter().any(|volume| volume.name == unique_name)
}

/// Returns true if the node says that pods use the volume, or are about to.
pub fn is_in_use(node: &Node, unique_name: &str) -> bool {
    let in_use = node.status.iter().flat_map(|status| status.volumes_in_use.iter().flatten());
    in_use.into_iter().any(|name| name == unique_name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto::kinds::Kind;
    use serde_json::json;

    #[test]
    fn a_name_has_driver_and_handle() {
        let volume = CsiVolume { driver: "a.test".into(), handle: "x^y".into() };
        assert_eq!(volume.unique_name(), "kubernetes.io/csi/a.test^x^y");
        assert_eq!(CsiVolume::from_unique_name(&volume.unique_name()), Some(volume));
        assert_eq!(CsiVolume::from_unique_name("kubernetes.io/nfs/x"), None);
    }

    #[test]
    fn the_drivers_object_decides() {
        let driver = |value| CSIDriver::decode_value(value).unwrap();
        let plain = driver(json!({"metadata": {"name": "a.test"}, "spec": {}}));
        let detached = driver(json!({"metadata": {"name": "a.test"}, "spec": {"attachRequired": false}}));
        let marked = driver(json!({"metadata": {"name": "a.test", "annotations": {SIMULATED: "true"}}, "spec": {}}));
        assert!(is_attach_required(None) && is_attach_required(Some(&plain)) && !is_attach_required(Some(&detached)));
        assert!(is_simulated(SIMULATED_DRIVER, None) && is_simulated("a.test", Some(&marked)));
        assert!(!is_simulated("a.test", None) && !is_simulated("a.test", Some(&plain)));
    }
}
