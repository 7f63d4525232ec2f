//! Key change: when the encryption keys change, values that could not be decrypted are read again.
//!
//! In Kubernetes, the watch cache of a resource with such a value never becomes ready. Here it serves the other objects.

use super::Registry;
use cacher::encryption::Encryption;
use component_base::env::Env;
use std::sync::Arc;

/// Reads unreadable values again after each change of the keys, until shutdown.
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
