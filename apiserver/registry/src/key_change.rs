//! When the keys of the store change, what no key opened before is looked at again.
//!
//! Kubernetes' caches of such a resource never come up before they can read all of it; these serve the rest meanwhile.

use super::Registry;
use cacher::encryption::Encryption;
use component_base::env::Env;
use std::sync::Arc;

/// Until shutdown.
pub async fn run(env: Env, encryption: Encryption, registry: Arc<Registry>) {
    loop {
        tokio::select! {
            biased;
            () = env.shutdown().cancelled() => return,
            () = encryption.replaced() => {}
        }
        for row in registry.rows() {
            if row.cacher.has_unreadable() {
                row.cacher.relist();
            }
        }
    }
}
