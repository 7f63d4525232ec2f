//! Who calls: authenticators run in turn until one knows the caller.
//!
//! Corresponds to k8s.io/apiserver/pkg/authentication.

pub mod user_info;

pub use user_info::UserInfo;
