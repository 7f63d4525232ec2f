//! `Steered`: a trial of the whole control plane whose clock its caller stops and lets go on. While it stands, the cluster answers requests.
//!
//! ```text
//! let mut cluster = Steered::replay(setup, submissions, audience);
//! cluster.go_on(Duration::from_secs(90), stop.notified())?;
//! let pods = cluster.stand(async |admin, _| admin.send(request).await);
//! ```
//!
//! A replay begins with its trial. A cluster that is scheduled from outside begins before, so that a scheduler can come to it: its trial
//! begins at `arrive`.

use super::setup::{Depth, Setup, Submission};
use super::{Audience, Guest, play};
use crate::virtual_runtime;
use client::Client;
use component_base::env::Env;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::sync::Notify;
use tokio::time::Instant;

type Run = Pin<Box<dyn Future<Output = Result<Duration, String>>>>;

/// Learns from a trial when it began, and how its API server is reached.
#[derive(Default)]
pub struct Onlooker {
    scene: OnceLock<(Instant, Env, Client)>,
    has_begun: Notify,
    has_arrived: Notify,
}

impl Onlooker {
    /// Notes the beginning. Only the first call counts.
    pub fn begin(&self, began: Instant, env: &Env, admin: Client) {
        self.scene.get_or_init(|| (began, env.clone(), admin));
        self.has_begun.notify_one();
    }

    /// Waits for the scheduler from outside.
    pub async fn arrival(&self) {
        self.has_arrived.notified().await;
    }
}

pub struct Steered {
    // Dropped before the runtime whose timers it has.
    run: Run,
    runtime: Runtime,
    onlooker: Arc<Onlooker>,
}

impl Steered {
    /// Prepares a trial of depth `full` for those who look at the cluster. Nothing happens before `go_on`.
    pub fn replay(setup: Setup, submissions: Vec<Submission>, audience: impl Audience + 'static) -> Self {
        Self::new(Setup { keeps_events: true, ..setup }, submissions, audience)
    }

    /// Prepares a trial of depth `full` that has no scheduler of its own for its pods. Nothing happens before `go_on`, and no pod
    /// comes before `arrive`.
    pub fn scheduled_from_outside(
        setup: Setup,
        submissions: Vec<Submission>,
        audience: impl Audience + 'static,
    ) -> Self {
        Self::new(Setup { is_scheduled_from_outside: true, ..setup }, submissions, audience)
    }

    fn new(setup: Setup, submissions: Vec<Submission>, mut audience: impl Audience + 'static) -> Self {
        let onlooker = Arc::new(Onlooker::default());
        let setup = Setup { depth: Depth::Full, ..setup };
        let guest = Guest::Onlooker(onlooker.clone());
        let run: Run = Box::pin(async move { play(setup, submissions, &mut audience, guest).await });
        Self { run, runtime: virtual_runtime(), onlooker }
    }

    /// Lets the trial begin as soon as time goes on, because the scheduler from outside is there.
    pub fn arrive(&self) {
        self.onlooker.has_arrived.notify_one();
    }

    /// Lets time go on until a moment after the beginning, or until `stop`. The cluster stays when the trial has ended.
    pub fn go_on(&mut self, until: Duration, stop: impl Future<Output = ()>) -> Result<(), String> {
        let (run, onlooker) = (&mut self.run, &self.onlooker);
        self.runtime.block_on(async {
            if onlooker.scene.get().is_none() {
                tokio::select! {
                    biased;
                    () = onlooker.has_begun.notified() => {}
                    ended = &mut *run => return ended.map(|_| ()),
                }
            }
            let Some((began, env, _)) = onlooker.scene.get() else { return Ok(()) };
            tokio::select! {
                biased;
                () = stop => Ok(()),
                () = env.sleep_until(*began + until) => Ok(()),
                ended = run => ended.map(|_| ()),
            }
        })
    }

    /// Does some work while the clock stands. Components go on with what needs no time.
    pub fn stand<T>(&mut self, work: impl AsyncFnOnce(Client, Env) -> T) -> Option<T> {
        let (_, env, admin) = self.onlooker.scene.get()?;
        let (env, admin) = (env.clone(), admin.clone());
        Some(self.runtime.block_on(async {
            // A paused clock does not go on by itself while blocking work runs; this work lasts until `clock` is dropped.
            let (clock, stands) = std::sync::mpsc::channel::<()>();
            #[expect(clippy::disallowed_methods, reason = "an Env would run it inline, and wait for it")]
            let still = tokio::task::spawn_blocking(move || stands.recv());
            let done = work(admin, env).await;
            drop(clock);
            let _ = still.await; // the error says that `clock` was dropped
            done
        }))
    }

    /// Returns the virtual time since the beginning.
    pub fn now(&self) -> Duration {
        let Some((began, env, _)) = self.onlooker.scene.get() else { return Duration::ZERO };
        let _runtime = self.runtime.enter();
        env.now().duration_since(*began)
    }
}
