//! The task that writes events: one after another, trying again while the server cannot be reached.
//!
//! Corresponds to recordToSink of k8s.io/client-go/tools/record/event.go.

use super::Occurrence;
use super::correlator::{Correlated, Correlator};
use crate::client::Client;
use crate::error::Error;
use crate::options::{Patch, PatchOptions};
use component_base::rng::Random;
use proto::gvk::Gvr;
use std::time::Duration;
use tokio::sync::mpsc;

/// As often, and as far apart, as client-go tries.
const MAX_TRIES: u32 = 12;
const RETRY_PAUSE: Duration = Duration::from_secs(10);
/// What waits at shutdown is written within this time, or dropped.
const LAST_WORDS: Duration = Duration::from_secs(2);

pub(super) async fn write_all(client: Client, component: String, mut waiting: mpsc::Receiver<Occurrence>) {
    let env = client.env().clone();
    let random = env.random(&format!("client/events/{component}/retry"));
    let mut correlator = Correlator::new();
    loop {
        let next = tokio::select! {
            biased;
            () = env.shutdown().cancelled() => break,
            next = waiting.recv() => next,
        };
        let Some(event) = next else { return };
        let correlated = correlator.correlate(event, env.now());
        tokio::select! {
            biased;
            () = write_with_retries(&client, &random, &correlated) => {}
            () = env.shutdown().cancelled() => break,
        }
    }
    waiting.close();
    let rest = async {
        while let Some(event) = waiting.recv().await {
            // One try: whoever could write it then may be gone already.
            let _ = write(&client, &correlator.correlate(event, env.now())).await;
        }
    };
    if env.timeout(LAST_WORDS, rest).await.is_err() {
        tracing::warn!(component, dropped = waiting.len(), "events dropped at shutdown");
    }
}

async fn write_with_retries(client: &Client, random: &Random, correlated: &Correlated) {
    for attempt in 1..=MAX_TRIES {
        match write(client, correlated).await {
            Ok(()) => return,
            Err(error) if is_final(&error) => {
                tracing::debug!(%error, "event refused");
                return;
            }
            Err(error) => {
                tracing::warn!(%error, attempt, "event not written");
                // Those whom the server lost together do not return together.
                let pause = if attempt == 1 { RETRY_PAUSE.mul_f64(random.unit()) } else { RETRY_PAUSE };
                client.env().sleep(pause).await;
            }
        }
    }
}

/// What the server has understood and refused, it will refuse again.
fn is_final(error: &Error) -> bool {
    error.status().is_some()
}

async fn write(client: &Client, correlated: &Correlated) -> Result<(), Error> {
    let gvr = Gvr::new("", "v1", "events");
    match correlated {
        Correlated::Skip => Ok(()),
        Correlated::Create(event) => {
            writer_of(client, event).dynamic(&gvr, event.namespace()).create(&event.to_value()).await.map(drop)
        }
        Correlated::Count(event, patch) => {
            let api = writer_of(client, event).dynamic(&gvr, event.namespace());
            let patch = Patch::Strategic(patch.clone());
            match api.patch(&event.name, &patch, &PatchOptions::default()).await {
                // Events expire: what was counted is gone, and begins again with the count it had.
                Err(error) if error.is_not_found() => api.create(&event.to_value()).await.map(drop),
                other => other.map(drop),
            }
        }
    }
}

fn writer_of<'a>(client: &'a Client, event: &'a Occurrence) -> &'a Client {
    event.identity.as_ref().unwrap_or(client)
}
