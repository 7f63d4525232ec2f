//! Admission webhooks: servers of somebody else's that change or refuse writes.
//!
//! [`hook`] is one webhook of a configuration, [`seen`] what it gets to see, [`review`] the question and what may come
//! back, [`calling`] asks it; [`mutating`] and [`validating`] are the two plugins. Corresponds to k8s.io/apiserver/pkg/admission/plugin/webhook.

pub mod calling;
pub mod hook;
pub mod mutating;
pub mod review;
pub mod validating;

pub use mutating::MutatingAdmissionWebhook;
pub use validating::ValidatingAdmissionWebhook;
