//! Dynamic admission: webhooks and CEL policies, which users configure while the server runs.
//!
//! Reading order: [`matching`] selects the writes for a webhook or policy; [`admission_request`] and
//! [`versioned_attributes`] are the write as it sees it; [`expressions`] evaluates CEL over the write; [`webhooks`] and
//! [`policies`] are the plugins. Corresponds to k8s.io/apiserver/pkg/admission/plugin/{webhook,policy,cel}.

pub mod matching;
pub mod admission_request;
pub mod versioned_attributes;
pub mod configuration_manager;
pub mod expressions;
pub mod webhooks;
pub mod policies;
