//! `Env`: the clock, randomness, tasks and network of a component. No other module may use the real ones.
//!
//! A component that runs as a process gets `Env::system()`. Inside the simulation it gets `Env::simulated(seed)`: its
//! time is tokio's paused clock, and the same seed gives the same run, byte for byte.
#![allow(clippy::disallowed_methods)] // this module wraps what clippy.toml bans everywhere else

use crate::metrics::Metrics;
use crate::network::{Network, Registry};
use crate::process_metrics;
use crate::rng::Random;
use futures::FutureExt;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Wall time at which every simulation begins: 2026-01-01T00:00:00Z.
const SIMULATION_EPOCH_S: i64 = 1_767_225_600;

/// The file in which Linux has the name of the machine.
const HOST_NAME: &str = "/proc/sys/kernel/hostname";

/// The environment of a component. Clones share everything. `child` gives a part of the process a shutdown of its own,
/// and `process` makes another process of the same simulation.
#[derive(Clone, Debug)]
pub struct Env {
    world: Arc<World>,
    shutdown: CancellationToken,
    tasks: TaskTracker,
}

#[derive(Debug)]
struct World {
    mode: Mode,
    network: Network,
    metrics: Metrics,
    /// Name of this process within the simulation; empty for the process that started it.
    process: String,
    /// Tasks of a simulated process; `kill` aborts them.
    running: Mutex<Running>,
}

/// Tasks that may not have ended yet.
#[derive(Debug, Default)]
struct Running {
    tasks: Vec<AbortHandle>,
    /// Number of tasks at which the ended ones are removed.
    prune_at: usize,
    killed: bool,
}

impl Running {
    fn add(&mut self, task: AbortHandle) {
        if self.killed {
            task.abort();
        }
        self.tasks.push(task);
        if self.tasks.len() >= self.prune_at {
            self.tasks.retain(|task| !task.is_finished());
            self.prune_at = (self.tasks.len() * 2).max(64);
        }
    }
}

/// How far the wall clock of a simulated process is wrong. Clones share it, so a process that restarts keeps the clock of
/// its machine.
#[derive(Clone, Debug, Default)]
pub struct ClockError(Arc<Mutex<SignedDuration>>);

impl ClockError {
    /// Sets the clock forward or, with a negative error, back. It is right without an error.
    pub fn set(&self, error: SignedDuration) {
        *self.0.lock() = error;
    }

    fn get(&self) -> SignedDuration {
        *self.0.lock()
    }
}

#[derive(Debug)]
enum Mode {
    System { random: Random },
    Simulated { seed: u64, began: Instant, clock_error: ClockError },
}

/// The deadline passed before the future was ready.
#[derive(Debug, thiserror::Error)]
#[error("deadline exceeded")]
pub struct Elapsed;

impl Env {
    /// Returns the environment of a real process: wall clock, entropy, sockets.
    pub fn system() -> Self {
        let env = Self::with(Mode::System { random: Random::from_entropy() }, Network::Sockets, "");
        process_metrics::show(env.metrics());
        env
    }

    /// Returns an environment whose runs repeat. Must be called inside a current-thread runtime with a paused clock.
    pub fn simulated(seed: u64) -> Self {
        let mode = Mode::Simulated { seed, began: Instant::now(), clock_error: ClockError::default() };
        Self::with(mode, Network::InProcess(Registry::default()), "")
    }

    /// Returns another process of the same simulation. It shares clock, seed and network, and has its own shutdown, tasks,
    /// metrics and random streams. A component that restarts takes a new name, and so draws other numbers.
    pub fn process(&self, name: &str) -> Self {
        self.process_with_clock(name, &ClockError::default())
    }

    /// Returns another process of the same simulation, like `process`, whose wall clock may be wrong.
    pub fn process_with_clock(&self, name: &str, clock_error: &ClockError) -> Self {
        let Mode::Simulated { seed, began, .. } = self.world.mode else { return self.child() };
        let mode = Mode::Simulated { seed, began, clock_error: clock_error.clone() };
        Self::with(mode, self.world.network.clone(), name)
    }

    fn with(mode: Mode, network: Network, process: &str) -> Self {
        let (metrics, running) = (Metrics::default(), Mutex::default());
        Self {
            world: Arc::new(World { mode, network, metrics, process: process.to_owned(), running }),
            shutdown: CancellationToken::new(),
            tasks: TaskTracker::new(),
        }
    }

    /// Returns an environment with its own tasks and shutdown; the parent's shutdown triggers it too.
    pub fn child(&self) -> Self {
        Self { world: self.world.clone(), shutdown: self.shutdown.child_token(), tasks: TaskTracker::new() }
    }

    /// Returns an environment for tasks that go on after the parent's shutdown began: only its own `drain` stops them.
    pub fn detached(&self) -> Self {
        Self { world: self.world.clone(), shutdown: CancellationToken::new(), tasks: TaskTracker::new() }
    }

    /// Returns the monotonic time.
    pub fn now(&self) -> Instant {
        Instant::now()
    }

    /// Returns the wall time, as it is written into objects.
    pub fn wall(&self) -> Timestamp {
        match &self.world.mode {
            Mode::System { .. } => Timestamp::now(),
            Mode::Simulated { began, clock_error, .. } => {
                let epoch = Timestamp::from_second(SIMULATION_EPOCH_S).expect("the epoch is in range");
                epoch + began.elapsed() + clock_error.get()
            }
        }
    }

    pub async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }

    pub async fn sleep_until(&self, deadline: Instant) {
        tokio::time::sleep_until(deadline).await;
    }

    /// Limits the time of a future from now on.
    pub fn timeout<F: Future>(&self, limit: Duration, future: F) -> impl Future<Output = Result<F::Output, Elapsed>> {
        // An async function would hold the future twice.
        tokio::time::timeout(limit, future).map(|ended| ended.map_err(|_| Elapsed))
    }

    /// Returns a random stream. In a simulation it depends only on the seed, the process and the stream's name, so the draws
    /// of one component never shift those of another. Ask once per component and keep the stream.
    pub fn random(&self, stream: &str) -> Random {
        match &self.world.mode {
            Mode::System { random } => random.clone(),
            Mode::Simulated { seed, .. } if self.world.process.is_empty() => Random::from_seed(*seed, stream),
            Mode::Simulated { seed, .. } => Random::from_seed(*seed, &format!("{}: {stream}", self.world.process)),
        }
    }

    /// Starts a task that `drain` waits for. The task has to end on `shutdown`.
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        // Boxed, so that the runtime's side of a task is compiled once and not for each future.
        let future: Pin<Box<dyn Future<Output = F::Output> + Send>> = Box::pin(future);
        let task = self.tasks.spawn(future);
        if self.is_simulated() {
            self.world.running.lock().add(task.abort_handle());
        }
        task
    }

    /// Runs work that blocks a thread. In a simulation it runs inline, since a second thread would stop the paused clock.
    pub async fn blocking<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        match &self.world.mode {
            Mode::System { .. } => match tokio::task::spawn_blocking(work).await {
                Ok(value) => value,
                Err(failed) => std::panic::resume_unwind(failed.into_panic()),
            },
            Mode::Simulated { .. } => work(),
        }
    }

    /// Starts a long-lived thread, such as a store's writer. Not for simulations, where such work has to run inline.
    pub fn thread(
        &self,
        name: &str,
        work: impl FnOnce() + Send + 'static,
    ) -> std::io::Result<std::thread::JoinHandle<()>> {
        std::thread::Builder::new().name(name.to_owned()).spawn(work)
    }

    /// Returns the name of the machine, as Go's `os.Hostname` does. A simulated process has a machine of its own, with the
    /// same name. `localhost` if there is no name.
    pub fn host_name(&self) -> String {
        let name = match &self.world.mode {
            Mode::System { .. } => std::fs::read_to_string(HOST_NAME).unwrap_or_default(),
            Mode::Simulated { .. } => self.world.process.clone(),
        };
        let name = name.trim();
        if name.is_empty() { "localhost".to_owned() } else { name.to_owned() }
    }

    pub fn is_simulated(&self) -> bool {
        matches!(self.world.mode, Mode::Simulated { .. })
    }

    /// Returns the token that is cancelled when this part has to stop.
    pub fn shutdown(&self) -> &CancellationToken {
        &self.shutdown
    }

    /// Asks this part to stop and waits until its tasks have ended.
    pub async fn drain(&self) {
        self.shutdown.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Ends a simulated process as SIGKILL does: none of its tasks runs any further. Call it from another process.
    pub async fn kill(&self) {
        let tasks = {
            let mut running = self.world.running.lock();
            running.killed = true;
            std::mem::take(&mut running.tasks)
        };
        tasks.iter().for_each(AbortHandle::abort);
        while !tasks.iter().all(AbortHandle::is_finished) {
            tokio::task::yield_now().await;
        }
        // For clones of this environment that other tasks still hold.
        self.shutdown.cancel();
    }

    pub fn network(&self) -> &Network {
        &self.world.network
    }

    /// Returns the metrics that `/metrics` shows. Components that share a process share the families.
    pub fn metrics(&self) -> &Metrics {
        &self.world.metrics
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn simulated_time_moves_only_when_everybody_waits() {
        let env = Env::simulated(1);
        assert_eq!(env.wall().to_string(), "2026-01-01T00:00:00Z");
        env.sleep(Duration::from_secs(90)).await;
        assert_eq!(env.wall().to_string(), "2026-01-01T00:01:30Z");
    }

    #[tokio::test(start_paused = true)]
    async fn the_clock_of_one_process_may_be_wrong() {
        let (env, error) = (Env::simulated(1), ClockError::default());
        let process = env.process_with_clock("a/1", &error);
        error.set(SignedDuration::from_hours(-1));
        assert_eq!(process.child().wall().to_string(), "2025-12-31T23:00:00Z");
        assert_eq!(env.wall().to_string(), "2026-01-01T00:00:00Z");
        assert_eq!(env.process_with_clock("a/2", &error).wall(), process.wall(), "the next process on that machine");
        assert_eq!(process.now(), env.now(), "only the wall clock steps");
        error.set(SignedDuration::ZERO);
        assert_eq!(process.wall(), env.wall());
    }

    #[tokio::test(start_paused = true)]
    async fn a_killed_process_says_no_last_word() {
        let world = Env::simulated(1);
        let (process, other) = (world.process("a/1"), world.process("b/1"));
        let said = Arc::new(Mutex::new(Vec::new()));
        let speak = |env: &Env, word: &'static str| {
            let (said, shutdown) = (said.clone(), env.shutdown().clone());
            env.spawn(async move {
                shutdown.cancelled().await;
                said.lock().push(word);
            });
        };
        speak(&process.child(), "killed");
        speak(&other, "stopped");
        tokio::task::yield_now().await;
        process.kill().await;
        speak(&process, "after its end");
        other.drain().await;
        assert_eq!(*said.lock(), ["stopped"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_process_that_starts_again_draws_other_numbers() {
        let world = Env::simulated(1);
        let draw = |process: &str| world.process(process).random("uid").u64();
        assert_eq!(draw("a/1"), draw("a/1"));
        assert_ne!(draw("a/1"), draw("a/2"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_parent_stops_its_children() {
        let env = Env::simulated(1);
        let child = env.child();
        let token = child.shutdown().clone();
        let task = child.spawn(async move { token.cancelled().await });
        env.drain().await;
        task.await.unwrap();
        assert!(child.shutdown().is_cancelled());
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_detached_outlasts_the_end() {
        let env = Env::simulated(1);
        let detached = env.detached();
        env.drain().await;
        assert!(!detached.shutdown().is_cancelled());
        detached.drain().await;
        assert!(detached.shutdown().is_cancelled());
    }
}
