//! Admission that users configure while the server runs: webhooks, and policies in CEL.
//!
//! [`matching`] decides which writes a webhook or a policy is about, [`admission_request`] and [`seen`] show it the write,
//! [`expressions`] evaluates CEL over it. Corresponds to k8s.io/apiserver/pkg/admission/plugin/{webhook,policy,cel}.

pub mod admission_request;
pub mod seen;
pub mod matching;
pub mod compiled;
pub mod expressions;
pub mod webhooks;
pub mod policies;
