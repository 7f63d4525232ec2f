//! Reading requests: what is asked for, with which options, and in which body.
//!
//! Corresponds to k8s.io/apiserver/pkg/endpoints/request and pkg/endpoints/handlers.

pub mod body;
pub mod deadline;
pub mod header_text;
pub mod ids;
pub mod info;
pub mod options;
pub mod query;
pub mod unbroken;
pub mod trace;
pub mod user_info;

pub use user_info::UserInfo;
