//! Calls of other servers: aggregated API servers, and webhooks.
//!
//! Corresponds to k8s.io/apiserver/pkg/util/proxy and pkg/util/webhook.
//!
//! Reading order: [`reference`] (the address of a Service), [`clients`] (clients and their connections), [`answers`]
//! (limits on the size of responses), [`exchange`] (one request and its response), [`users`] (credentials for
//! webhooks), [`webhook`] (calls of admission and conversion webhooks), [`reviewer`] (calls of a server that a
//! kubeconfig file names), [`expiring_cache`].

pub mod reference;
pub mod clients;
pub mod answers;
pub mod exchange;
pub mod users;
pub mod webhook;
pub mod reviewer;
pub mod expiring_cache;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
