//! Admission webhooks: other servers that mutate or reject writes.
//!
//! Reading order: [`hook`] is one webhook of a configuration, [`review`] builds the AdmissionReview and reads the response,
//! [`calling`] sends it; [`mutating`] and [`validating`] are the two plugins. Corresponds to
//! k8s.io/apiserver/pkg/admission/plugin/webhook.

pub mod hook;
pub mod review;
pub mod calling;
pub mod mutating;
pub mod validating;

pub use mutating::MutatingAdmissionWebhook;
pub use validating::ValidatingAdmissionWebhook;
