//! `Upkeep`: what a background loop of the server works with.
//!
//! Corresponds to the post-start hook context of k8s.io/apiserver/pkg/server.

use super::Registry;
use super::post_start::PostStartHooks;
use component_base::env::Env;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// The parts of a server that its background loops share. Each loop gets a clone of it.
#[derive(Clone)]
pub struct Upkeep {
    pub env: Env,
    pub registry: Arc<Registry>,
    /// Where a loop reports that its first work is done.
    pub hooks: Arc<PostStartHooks>,
    /// Cancelled when the server has announced its end. A loop that writes objects stops then.
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

    /// Runs a loop that writes objects: until the server announces its end.
    pub async fn until_end(&self, work: impl Future<Output = ()>) {
        tokio::select! {
            biased;
            () = self.env.shutdown().cancelled() => {}
            () = self.ending.cancelled() => {}
            () = work => {}
        }
    }
}
