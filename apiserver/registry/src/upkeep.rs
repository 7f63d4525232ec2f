//! `Upkeep`: the parts of the server that its background loops work with.
//!
//! Corresponds to the post-start hook context of k8s.io/apiserver/pkg/server.

use super::Registry;
use super::post_start::PostStartHooks;
use component_base::env::Env;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Context of the server's background loops. Each loop gets a clone of it.
#[derive(Clone)]
pub struct Upkeep {
    pub env: Env,
    pub registry: Arc<Registry>,
    /// The hooks that a loop marks as finished.
    pub hooks: Arc<PostStartHooks>,
    /// Cancelled when the server begins to terminate. A loop that writes objects stops then.
    pub ending: CancellationToken,
}

impl Upkeep {
    /// Runs a loop until the process shuts down.
    pub async fn until_shutdown(&self, work: impl Future<Output = ()>) {
        tokio::select! {
            biased;
            () = self.env.shutdown().cancelled() => {}
            () = work => {}
        }
    }

    /// Runs a loop that writes objects until the server begins to terminate.
    pub async fn until_end(&self, work: impl Future<Output = ()>) {
        tokio::select! {
            biased;
            () = self.env.shutdown().cancelled() => {}
            () = self.ending.cancelled() => {}
            () = work => {}
        }
    }
}
