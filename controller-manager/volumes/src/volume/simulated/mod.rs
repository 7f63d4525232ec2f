//! The simulated storage system: the provisioner `orrery.dev/simulated`, and the programs that run beside a CSI driver.
//!
//! Volumes cost nothing: kubelet-sim keeps the files of a volume by its handle, and what is not written takes no space. A
//! class may limit how much there is, say how long a call takes, spread volumes over zones, and let calls fail.
//!
//! Read `parameters` (what a class may say), `call` (how a call goes), then `provision`, `delete`, `resize`, `modify`
//! and `capacity`. Corresponds to the external-provisioner and external-resizer of kubernetes-csi, and to sig-storage-lib-external-provisioner.

pub mod parameters;
pub mod call;
pub mod storage;
pub mod driver;
pub mod zone;
pub mod source;
pub mod made;
pub mod provision;
pub mod delete;
pub mod resize;
pub mod modify;
pub mod capacity;
pub mod controller;

/// Name of the provisioner in classes, claims and events.
pub const PROVISIONER: &str = "orrery.dev/simulated";
/// Name of the driver in volumes and in VolumeAttributesClasses: a CSI driver's name has no slash.
pub const DRIVER: &str = "simulated.orrery.dev";
/// Keeps a volume until the driver has deleted what is behind it.
pub const FINALIZER: &str = "external-provisioner.volume.kubernetes.io/finalizer";
