//! The task that writes events, with retries while the server cannot be reached. Events that wait together are written
//! together, except that events about one object keep their order.
//!
//! Corresponds to recordToSink of k8s.io/client-go/tools/record/event.go and of tools/events/event_broadcaster.go.

use super::correlator::{Correlated, Correlator};
use super::series::SeriesKeeper;
use super::{Form, Occurrence};
use crate::client::Client;
use crate::error::Error;
use crate::options::{Patch, PatchOptions};
use component_base::rng::Random;
use futures::future::join_all;
use proto::gvk::Gvr;
use proto::kinds::jiff::Timestamp;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// Number of tries and pause between them, as in client-go.
const MAX_TRIES: u32 = 12;
const RETRY_PAUSE: Duration = Duration::from_secs(10);
/// Most events that are written at once. Their requests share packets and the store's syncs.
const MAX_AT_ONCE: usize = 16;
/// Time to write the queued events at shutdown; the rest is dropped.
const SHUTDOWN_LIMIT: Duration = Duration::from_secs(2);

/// The events that this task has seen, by which it recognises repeats.
enum Seen {
    Counted(Correlator),
    Series(SeriesKeeper),
}

impl Seen {
    fn new(form: Form, now: Instant) -> Self {
        match form {
            Form::Counted => Seen::Counted(Correlator::new()),
            Form::Series => Seen::Series(SeriesKeeper::new(now)),
        }
    }

    fn correlate(&mut self, event: Occurrence, now: Instant) -> Correlated {
        match self {
            Seen::Counted(correlator) => correlator.correlate(event, now),
            Seen::Series(keeper) => keeper.correlate(event),
        }
    }

    /// Returns when to call `due`, if ever.
    fn next_due(&self) -> Option<Instant> {
        match self {
            Seen::Counted(_) => None,
            Seen::Series(keeper) => keeper.next_due(),
        }
    }

    /// Returns the writes whose time has come.
    fn due(&mut self, now: Instant, wall: Timestamp) -> Vec<Correlated> {
        match self {
            Seen::Series(keeper) if keeper.next_due().is_some_and(|due| due <= now) => keeper.due(now, wall),
            _ => Vec::new(),
        }
    }
}

pub(super) async fn write_all(client: Client, component: String, form: Form, mut waiting: mpsc::Receiver<Occurrence>) {
    let env = client.env().clone();
    let random = env.random(&format!("client/events/{component}/retry"));
    let mut seen = Seen::new(form, env.now());
    // Events of agents that were cut off while they were written.
    let mut postponed = Vec::new();
    loop {
        let next_due = seen.next_due();
        let next = tokio::select! {
            biased;
            () = env.shutdown().cancelled() => break,
            next = waiting.recv() => match next {
                Some(event) => Some(event),
                None => return,
            },
            () = env.sleep(RETRY_PAUSE), if !postponed.is_empty() => None,
            () = env.sleep_until(next_due.unwrap_or_else(|| env.now())), if next_due.is_some() => None,
        };
        let mut due = std::mem::take(&mut postponed);
        due.extend(seen.due(env.now(), env.wall()));
        let more = std::iter::from_fn(|| waiting.try_recv().ok());
        for event in next.into_iter().chain(more).take(MAX_AT_ONCE) {
            match event.agent.clone().filter(|agent| agent.client.is_cut_off()) {
                // It waits for its own agent alone, and not the events of others for it.
                Some(agent) => agent.hold(event),
                None => due.push(seen.correlate(event, env.now())),
            }
        }
        for group in groups(due) {
            let writes = group.iter().map(|correlated| write_with_retries(&client, &random, correlated));
            let written = tokio::select! {
                biased;
                written = join_all(writes) => written,
                () = env.shutdown().cancelled() => break,
            };
            let all = group.into_iter().zip(written);
            postponed
                .extend(all.filter(|(_, written)| *written == Written::LinkIsCut).map(|(correlated, _)| correlated));
        }
    }
    waiting.close();
    let rest = async {
        while let Some(event) = waiting.recv().await {
            // One try only, since the server may be shutting down too.
            let _ = write(&client, &seen.correlate(event, env.now())).await;
        }
    };
    if env.timeout(SHUTDOWN_LIMIT, rest).await.is_err() {
        tracing::warn!(component, dropped = waiting.len(), "events dropped at shutdown");
    }
}

/// Splits events into groups that are written at once. No group has two events about one object.
fn groups(due: Vec<Correlated>) -> Vec<Vec<Correlated>> {
    let mut groups: Vec<Vec<Correlated>> = Vec::new();
    for correlated in due {
        let Some(event) = correlated.event() else { continue };
        let is_about = |other: &Correlated| other.event().is_some_and(|other| is_same_object(event, other));
        match groups.last_mut().filter(|group| group.len() < MAX_AT_ONCE && !group.iter().any(is_about)) {
            Some(group) => group.push(correlated),
            None => groups.push(vec![correlated]),
        }
    }
    groups
}

fn is_same_object(one: &Occurrence, other: &Occurrence) -> bool {
    let (one, other) = (&one.spec.regarding, &other.spec.regarding);
    one.name == other.name && one.namespace == other.namespace && one.kind == other.kind
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
    let Some(event) = correlated.event() else { return Ok(()) };
    let group = match event.form {
        Form::Counted => "",
        Form::Series => "events.k8s.io",
    };
    let api = writer_of(client, event).dynamic(&Gvr::new(group, "v1", "events"), event.namespace());
    if matches!(correlated, Correlated::Repeat(_)) {
        let patch = Patch::Strategic(event.patch());
        match api.patch(&event.name, &patch, &PatchOptions::default()).await {
            // The event has expired, so it is created again with its present count.
            Err(error) if error.is_not_found() => {}
            other => return other.map(drop),
        }
    }
    api.create_unread(event.to_json()).await
}

fn writer_of<'a>(client: &'a Client, event: &'a Occurrence) -> &'a Client {
    event.agent.as_ref().map_or(client, |agent| &agent.client)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::{EventSpec, EventType, Form, Regarding};
    use component_base::env::Env;

    #[tokio::test(start_paused = true)]
    async fn events_about_one_object_are_never_in_one_group() {
        let env = Env::simulated(1);
        let mut correlator = Correlator::new();
        let mut correlate = |name: &str, message: usize| {
            let regarding = Regarding { name: name.to_owned(), ..Regarding::default() };
            let event = Occurrence {
                form: Form::Counted,
                spec: EventSpec::new(&regarding, EventType::Normal, "Reason", message.to_string()),
                component: "test".into(),
                host: "".into(),
                agent: None,
                name: format!("{name}.{message}"),
                is_shared: false,
                count: 1,
                first_at: env.wall(),
                last_at: env.wall(),
            };
            correlator.correlate(event, env.now())
        };
        let show = |due: Vec<Correlated>| -> Vec<Vec<String>> {
            let name = |correlated: &Correlated| correlated.event().unwrap().name.clone();
            groups(due).iter().map(|group| group.iter().map(name).collect()).collect()
        };
        let due = ["a", "b", "a", "c", "b", "b"].into_iter().enumerate().map(|(n, name)| correlate(name, n));
        assert_eq!(show(due.collect()), [vec!["a.0", "b.1"], vec!["a.2", "c.3", "b.4"], vec!["b.5"]]);
        let many = (0..40).map(|n| correlate(&format!("p-{n}"), n)).collect();
        assert_eq!(show(many).iter().map(Vec::len).collect::<Vec<_>>(), [16, 16, 8]);
    }
}
