//! Servers beyond the cluster's own that this one asks: aggregated API servers, and webhooks.
//!
//! [`reference`] says where a Service really leads, [`callers`] keeps the connections, and [`webhook`] asks one question;
//! [`answers`] bounds what is read of others. [`reviewer`] is who a kubeconfig file names, and [`remembered`] what was answered.
//! Corresponds to k8s.io/apiserver/pkg/util/proxy and pkg/util/webhook.

#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod answers;
pub mod callers;
pub mod exchange;
pub mod reference;
pub mod remembered;
pub mod reviewer;
pub mod users;
pub mod webhook;
