//! The compactor: removes history that is older than two intervals, coordinated with all other API servers.
//!
//! Corresponds to k8s.io/apiserver/pkg/storage/etcd3/compact.go, and takes part in its protocol. The key
//! `compact_rev_key` counts rounds: its version is the number of the round, its value the revision that the round
//! compacted to. Each server remembers the last round it saw, and after an interval tries to write the next one. The
//! server that succeeds compacts to the revision that the store had an interval ago.
//!
//! ```text
//!   server A   round 7 at revision 900 ──5 min──> writes round 8 (900), compacts to 900, and the store is at 1400
//!   server B   round 7 at revision 910 ──5 min──> round 8 is there: next time it compacts to 1402, if it is first
//! ```
//!
//! So history lasts between one interval and two.

use super::cluster::{Cluster, Repeat};
use super::member::{Expected, Failure, KeyChange, Swap};
use component_base::env::Env;
use std::sync::Arc;
use std::time::Duration;

const KEY: &[u8] = b"compact_rev_key";

/// A server's state between two of its attempts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Round {
    /// The version of the key at the last attempt; 0: the key has never been written.
    number: u64,
    /// The store's revision at that time; 0: this server has just started.
    revision: u64,
}

/// Compacts until shutdown. An interval of 0 leaves compaction to others.
pub async fn run(env: Env, cluster: Arc<Cluster>, interval: Duration) {
    if interval.is_zero() {
        return;
    }
    let mut round = Round::default();
    loop {
        tokio::select! {
            biased;
            () = env.shutdown().cancelled() => return,
            () = cluster.ended().cancelled() => return,
            () = env.sleep(interval) => {}
        }
        match attempt(&cluster, round).await {
            Ok(next) => round = next,
            Err(failure) => tracing::warn!(%failure, "etcd's history could not be compacted"),
        }
    }
}

async fn attempt(cluster: &Cluster, round: Round) -> Result<Round, Failure> {
    let swap = Swap {
        key: KEY.to_owned(),
        expected: Expected::Version(round.number),
        change: KeyChange::Put { value: round.revision.to_string().into(), lease: 0 },
    };
    let swapped = cluster
        .call(Repeat::Never, |connection| {
            let swap = swap.clone();
            async move { connection.swap(swap).await }
        })
        .await?;
    let revision = swapped.header.revision;
    if !swapped.succeeded {
        // Another server was first, or this server has just started.
        return Ok(Round { number: swapped.key_value.map_or(0, |key_value| key_value.version), revision });
    }
    if round.revision > 0 {
        let to = round.revision;
        match cluster.call(Repeat::Always, |connection| async move { connection.compact(to).await }).await {
            Ok(_) => tracing::debug!(revision = to, "compacted etcd's history"),
            // A person has already compacted further.
            Err(Failure::Compacted) => {}
            Err(failure) => return Err(failure),
        }
    }
    Ok(Round { number: round.number + 1, revision })
}
