//! Keeps claims, volumes and attributes classes that are in use, although somebody has deleted them, until nobody uses them.
//!
//! The API server gives each a finalizer when it is created; the controllers here remove it. Corresponds to
//! pkg/controller/volume/pvcprotection, pvprotection and vacprotection.

pub mod claim;
pub mod volume;
pub mod attributes_class;
