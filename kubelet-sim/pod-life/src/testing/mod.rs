//! What tests of this crate and of `kubelet-sim` share.

pub mod reference;
