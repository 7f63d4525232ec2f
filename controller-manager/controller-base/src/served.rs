//! Whether the API server serves a resource whose group is off by default.
//!
//! Corresponds to the checks of discovery in cmd/kube-controller-manager/app, such as that for ClusterTrustBundles.

use client::{Client, ListOptions};
use proto::Gvr;
use std::time::Duration;

const RETRY: Duration = Duration::from_secs(10);

/// Asks until the server answers, or the process ends.
pub async fn is_served(client: &Client, gvr: &Gvr) -> bool {
    let env = client.env();
    let one = ListOptions { limit: 1, ..ListOptions::default() };
    loop {
        match client.dynamic(gvr, "").list(&one).await {
            Ok(_) => return true,
            Err(error) if error.is_not_found() => return false,
            Err(error) => tracing::warn!(%error, resource = %gvr, "whether it is served is not known yet"),
        }
        tokio::select! {
            biased;
            () = env.shutdown().cancelled() => return false,
            () = env.sleep(RETRY) => {}
        }
    }
}
