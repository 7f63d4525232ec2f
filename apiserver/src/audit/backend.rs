//! `Backend`: passes events to a sink (a log file or a webhook), in batches or while the request waits.
//!
//! Corresponds to k8s.io/apiserver/plugin/pkg/audit: buffered, log and webhook.

use super::event::Event;
use super::log::LogFile;
use super::truncation::Truncation;
use super::webhook::Webhook;
use async_trait::async_trait;
use clap::ValueEnum;
use component_base::env::Env;
use component_base::metrics::Counters;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// How a request and its events depend on each other: the request may wait until they are written, or fail with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    // No doc comments: clap would turn every flag's help into a page for them.
    Batch,
    Blocking,
    BlockingStrict,
}

/// Limits of the batches of `Mode::Batch`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Batching {
    /// Events that may wait. Further ones are dropped, counted and logged.
    pub buffer: usize,
    /// Events of one batch.
    pub max_size: usize,
    /// How long the first event of a batch waits for others.
    pub max_wait: Duration,
    /// Average rate of batches a second, and their burst; `None` for no limit.
    pub throttle: Option<(f64, u32)>,
}

/// Writes events to their destination.
#[async_trait]
pub trait Sink: Send + Sync {
    async fn write(&self, events: &[Arc<Event>]) -> Result<(), String>;
}

#[async_trait]
impl Sink for LogFile {
    async fn write(&self, events: &[Arc<Event>]) -> Result<(), String> {
        self.append(events).await.map_err(|error| error.to_string())
    }
}

#[async_trait]
impl Sink for Webhook {
    async fn write(&self, events: &[Arc<Event>]) -> Result<(), String> {
        self.send(events).await
    }
}

/// Passes a batch to a sink in pieces that are not too large.
struct SplittingSink {
    sink: Arc<dyn Sink>,
    truncation: Option<Truncation>,
}

#[async_trait]
impl Sink for SplittingSink {
    /// Writes every piece, even if one fails. Returns the last error.
    async fn write(&self, events: &[Arc<Event>]) -> Result<(), String> {
        let pieces = self.truncation.map_or_else(|| vec![events], |truncation| truncation.pieces(events));
        let mut written = Ok(());
        for piece in pieces {
            written = self.sink.write(piece).await.and(written);
        }
        written
    }
}

/// A sink, and the mode in which it gets events.
pub struct Backend {
    plugin: &'static str,
    delivery: Delivery,
    truncation: Option<Truncation>,
    errors: Counters,
}

/// Passes events through a buffer, or directly.
enum Delivery {
    Batch(mpsc::Sender<Arc<Event>>),
    Direct { sink: Arc<dyn Sink>, strict: bool },
}

impl Backend {
    pub fn new(
        env: &Env,
        plugin: &'static str,
        sink: Arc<dyn Sink>,
        mode: Mode,
        batching: Batching,
        truncation: Option<Truncation>,
    ) -> Self {
        let errors = env.metrics().counters("apiserver_audit_error_total", "Events that a backend could not take");
        let delivery = match mode {
            Mode::Batch => {
                let (sender, receiver) = mpsc::channel(batching.buffer.max(1));
                let sink = Arc::new(SplittingSink { sink, truncation });
                env.spawn(write_batches(env.clone(), plugin, sink, batching, receiver, errors.clone()));
                Delivery::Batch(sender)
            }
            mode => Delivery::Direct { sink, strict: mode == Mode::BlockingStrict },
        };
        Self { plugin, delivery, truncation, errors }
    }

    /// Removes the objects from an event that is too large. Returns `None`, and logs it, if that is not enough.
    fn fitted(&self, event: &Arc<Event>) -> Option<Arc<Event>> {
        let Some(truncation) = &self.truncation else { return Some(event.clone()) };
        let fitted = truncation.fit(event);
        if fitted.is_none() {
            failed(&self.errors, "truncate", 1, "event is too large even after truncating");
        }
        fitted
    }

    /// Passes an event on. Returns false if the request must fail because the event could not be written.
    pub async fn process(&self, event: &Arc<Event>) -> bool {
        let Some(event) = &self.fitted(event) else { return true };
        match &self.delivery {
            Delivery::Batch(_) => {
                self.process_later(event);
                true
            }
            Delivery::Direct { sink, strict } => match sink.write(std::slice::from_ref(event)).await {
                Ok(()) => true,
                Err(error) => {
                    failed(&self.errors, self.plugin, 1, &error);
                    !strict
                }
            },
        }
    }

    /// Passes an event on without waiting, at the end of a stream. A task of `env` writes it if the sink takes time.
    pub fn process_soon(&self, env: &Env, event: &Arc<Event>) {
        let Some(event) = &self.fitted(event) else { return };
        match &self.delivery {
            Delivery::Batch(_) => self.process_later(event),
            Delivery::Direct { sink, .. } => {
                let (sink, event, errors, plugin) = (sink.clone(), event.clone(), self.errors.clone(), self.plugin);
                env.spawn(async move {
                    if let Err(error) = sink.write(&[event]).await {
                        failed(&errors, plugin, 1, &error);
                    }
                });
            }
        }
    }

    /// Puts an event into the buffer.
    fn process_later(&self, event: &Arc<Event>) {
        let Delivery::Batch(sender) = &self.delivery else { return };
        if sender.try_send(event.clone()).is_err() {
            failed(&self.errors, self.plugin, 1, "audit buffer queue blocked");
        }
    }
}

/// Counts and logs lost events.
fn failed(errors: &Counters, plugin: &'static str, events: u64, why: &str) {
    errors.get_or_create(&vec![("plugin", plugin.to_owned())]).inc_by(events);
    tracing::error!(plugin, events, why, "audit events are lost");
}

/// Writes batches until shutdown, and then the remaining events.
async fn write_batches(
    env: Env,
    plugin: &'static str,
    sink: Arc<dyn Sink>,
    batching: Batching,
    mut receiver: mpsc::Receiver<Arc<Event>>,
    errors: Counters,
) {
    let mut throttle = batching.throttle.map(|(rate, burst)| Throttle::new(env.now(), rate, burst));
    let mut ending = false;
    while !ending {
        let mut batch = Vec::new();
        ending = fill(&env, batching, &mut receiver, &mut batch).await;
        if batch.is_empty() {
            continue;
        }
        if let Some(throttle) = throttle.as_mut().filter(|_| !ending) {
            let wait = throttle.take(env.now());
            env.sleep(wait).await;
        }
        if let Err(error) = sink.write(&batch).await {
            failed(&errors, plugin, batch.len() as u64, &error);
        }
    }
}

/// Fills a batch: waits for the first event, and then up to `max_wait` for others. Returns true at shutdown, with all
/// the remaining events.
async fn fill(
    env: &Env,
    batching: Batching,
    receiver: &mut mpsc::Receiver<Arc<Event>>,
    batch: &mut Vec<Arc<Event>>,
) -> bool {
    let mut until: Option<Instant> = None;
    while batch.len() < batching.max_size.max(1) {
        let waited = async {
            match until {
                Some(until) => env.sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            event = receiver.recv() => match event {
                Some(event) => batch.push(event),
                None => return true,
            },
            () = env.shutdown().cancelled() => {
                receiver.close();
                while let Ok(event) = receiver.try_recv() {
                    batch.push(event);
                }
                return true;
            }
            () = waited => return false,
        }
        until = until.or_else(|| Some(env.now() + batching.max_wait));
    }
    false
}

/// A token bucket: each batch takes a token.
struct Throttle {
    rate: f64,
    burst: f64,
    tokens: f64,
    at: Instant,
}

impl Throttle {
    fn new(now: Instant, rate: f64, burst: u32) -> Self {
        let burst = f64::from(burst.max(1));
        Self { rate: rate.max(0.001), burst, tokens: burst, at: now }
    }

    /// Takes a token, and returns how long to wait for it.
    fn take(&mut self, now: Instant) -> Duration {
        self.tokens = (self.tokens + now.duration_since(self.at).as_secs_f64() * self.rate).min(self.burst) - 1.0;
        self.at = now;
        if self.tokens >= 0.0 { Duration::ZERO } else { Duration::from_secs_f64(-self.tokens / self.rate) }
    }
}
