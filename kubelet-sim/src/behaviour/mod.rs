//! How users change the behaviour of pods and nodes without their manifests: stages, and rules of a ConfigMap.
//!
//! There is no kubelet counterpart; the stages are those of KWOK. The modules here decide; `fleet::stages` and
//! `fleet::watched` act.

pub mod files;
pub mod rules;
