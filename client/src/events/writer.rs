//! The task that writes events one after another, with retries while the server cannot be reached.
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

/// Number of tries and pause between them, as in client-go.
const MAX_TRIES: u32 = 12;
const RETRY_PAUSE: Duration = Duration::from_secs(10);
/// Time to write the queued events at shutdown; the rest is dropped.
const SHUTDOWN_LIMIT: Duration = Duration::from_secs(2);

pub(super) async fn write_all(client: Client, component: String, mut waiting: mpsc::Receiver<Occurrence>) {
    let env = client.env().clone();
    let random = env.random(&format!("client/events/{component}/retry"));
    let mut correlator = Correlator::new();
    // Events of agents that were cut off while they were written.
    let mut postponed = Vec::new();
    loop {
        let next = tokio::select! {
            biased;
            () = env.shutdown().cancelled() => break,
            next = waiting.recv() => match next {
                Some(event) => Some(event),
                None => return,
            },
            () = env.sleep(RETRY_PAUSE), if !postponed.is_empty() => None,
        };
        let mut due = std::mem::take(&mut postponed);
        if let Some(event) = next {
            match event.agent.clone().filter(|agent| agent.client.is_cut_off()) {
                // It waits for its own agent alone, and not the events of others for it.
                Some(agent) => agent.hold(event),
                None => due.push(correlator.correlate(event, env.now())),
            }
        }
        for correlated in due {
            let written = tokio::select! {
                biased;
                written = write_with_retries(&client, &random, &correlated) => written,
                () = env.shutdown().cancelled() => break,
            };
            if written == Written::LinkIsCut {
                postponed.push(correlated);
            }
        }
    }
    waiting.close();
    let rest = async {
        while let Some(event) = waiting.recv().await {
            // One try only, since the server may be shutting down too.
            let _ = write(&client, &correlator.correlate(event, env.now())).await;
        }
    };
    if env.timeout(SHUTDOWN_LIMIT, rest).await.is_err() {
        tracing::warn!(component, dropped = waiting.len(), "events dropped at shutdown");
    }
}

/// What became of an event.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Written {
    /// The server has it, has refused it, or could not be reached for too long.
    Done,
    /// Its agent cannot reach the server at present.
    LinkIsCut,
}

async fn write_with_retries(client: &Client, random: &Random, correlated: &Correlated) -> Written {
    for attempt in 1..=MAX_TRIES {
        if correlated.event().is_some_and(|event| writer_of(client, event).is_cut_off()) {
            return Written::LinkIsCut;
        }
        match write(client, correlated).await {
            Ok(()) => break,
            Err(error) if is_final(&error) => {
                tracing::debug!(%error, "event refused");
                break;
            }
            Err(error) => {
                tracing::warn!(%error, attempt, "event not written");
                // Randomized, so that clients that lost the server together do not retry together.
                let pause = if attempt == 1 { RETRY_PAUSE.mul_f64(random.unit()) } else { RETRY_PAUSE };
                client.env().sleep(pause).await;
            }
        }
    }
    Written::Done
}

/// Returns true if the server refused the event, so that a retry is useless.
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
                // The event has expired, so it is created again with its present count.
                Err(error) if error.is_not_found() => api.create(&event.to_value()).await.map(drop),
                other => other.map(drop),
            }
        }
    }
}

fn writer_of<'a>(client: &'a Client, event: &'a Occurrence) -> &'a Client {
    event.agent.as_ref().map_or(client, |agent| &agent.client)
}
