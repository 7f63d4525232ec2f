//! Metrics of admission, under kube-apiserver's names.
//!
//! Corresponds to k8s.io/apiserver/pkg/admission/metrics.

pub mod chain;
pub mod policies;
pub mod webhooks;
