//! The simulated storage system: the driver `orrery.dev/simulated`, and the programs that run beside a CSI driver.
//!
//! Volumes cost nothing and have no size on any disk: kubelet-sim keeps the files of a volume by its uid. A class may limit
//! how much there is, say how long a call takes, spread volumes over zones, and let calls fail.
//!
//! Read `parameters` (what a class may say), `call` (how a call goes), then `provision`, `delete` and `resize`. Corresponds to
//! the external-provisioner and external-resizer of kubernetes-csi, and to sig-storage-lib-external-provisioner.

pub mod parameters;
pub mod call;
pub mod zone;
pub mod made;
pub mod provision;
pub mod delete;
pub mod resize;
pub mod controller;

/// Name of the driver, in classes as `provisioner`, and in volumes.
pub const DRIVER: &str = "orrery.dev/simulated";
/// Keeps a volume until the driver has deleted what is behind it.
pub const FINALIZER: &str = "external-provisioner.volume.kubernetes.io/finalizer";
