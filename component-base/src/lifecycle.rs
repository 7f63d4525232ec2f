//! The lifecycle of a process: runtime, signals and exit.
//!
//! Corresponds to k8s.io/apiserver/pkg/server/signal.go and k8s.io/component-base/cli.

use crate::descriptors;
use crate::env::Env;
use crate::memory::{self, MemoryLimits, Sufficiency};
use crate::tls;
use futures::FutureExt;
use futures::future::LocalBoxFuture;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::fmt::Display;
use std::future::Future;
use std::panic::PanicHookInfo;
use std::process::ExitCode;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// If this variable is set, the process ends when its standard input closes, that is when its parent has ended.
pub const PARENT_PIPE: &str = "ORRERY_PARENT_PIPE";

/// Time that tasks get to end after the component has ended; shorter than a parent waits before it kills.
const DRAIN_LIMIT: Duration = Duration::from_secs(8);

/// The threads that run the tasks of a process. Work that blocks has threads of its own in both cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    /// As many as there are cores.
    PerCore,
    /// One. A component whose work is one sequence loses more by waking another thread than it wins.
    One,
}

/// Runs a component until it ends, or until SIGTERM, SIGINT or the parent's end asks it to. A second signal ends it at
/// once. A failure is one line on standard error and exit code 1.
pub fn run_main<F, E>(name: &str, component: impl FnOnce(Env) -> F) -> ExitCode
where
    F: Future<Output = Result<(), E>>,
    E: Display,
{
    run_main_on(Threads::PerCore, name, component)
}

/// Runs a component as `run_main` does, on so many threads.
pub fn run_main_on<F, E>(threads: Threads, name: &str, component: impl FnOnce(Env) -> F) -> ExitCode
where
    F: Future<Output = Result<(), E>>,
    E: Display,
{
    let component = |env| async { component(env).await.map_err(|error| error.to_string()) }.boxed_local();
    run_boxed(threads, name, Box::new(component))
}

/// Does the work of `run_main_on` without its type parameters, so that it is compiled once.
fn run_boxed<'a>(
    threads: Threads,
    name: &str,
    component: Box<dyn FnOnce(Env) -> LocalBoxFuture<'a, Result<(), String>> + 'a>,
) -> ExitCode {
    match MemoryLimits::read().check(memory::least_bytes(name)) {
        Sufficiency::Enough => {}
        Sufficiency::Tight(why) => tracing::warn!("{why}"),
        Sufficiency::TooLittle(why) => return failed(name, &why),
    }
    descriptors::raise_limit();
    tls::install_provider();
    std::panic::set_hook(Box::new(log_panic));
    let mut builder = match threads {
        Threads::PerCore => tokio::runtime::Builder::new_multi_thread(),
        Threads::One => tokio::runtime::Builder::new_current_thread(),
    };
    let runtime = match builder.enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(name, &error),
    };
    let code = runtime.block_on(async {
        let env = Env::system();
        let signals = match Signals::listen(&env) {
            Ok(signals) => signals,
            Err(error) => return failed(name, &error),
        };
        let run = async {
            let ended = component(env.clone()).await;
            if env.timeout(DRAIN_LIMIT, env.drain()).await.is_err() {
                tracing::warn!("tasks still ran {DRAIN_LIMIT:?} after shutdown");
            }
            ended
        };
        tokio::select! {
            biased;
            ended = run => match ended {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => failed(name, &error),
            },
            () = signals.wait_for_second(&env) => failed(name, &"stopped at the second signal, before everything had ended"),
        }
    });
    // Does not wait for threads that are blocked.
    runtime.shutdown_background();
    code
}

/// Logs a panic as one line, with a backtrace if `RUST_BACKTRACE` asks for it.
fn log_panic(panic: &PanicHookInfo<'_>) {
    let text = panic.payload().downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.payload().downcast_ref::<String>().map(String::as_str));
    let message = text.unwrap_or("?").replace('\n', "; ");
    let place = panic.location().map(ToString::to_string).unwrap_or_default();
    let backtrace = Backtrace::capture();
    match backtrace.status() {
        BacktraceStatus::Captured => tracing::error!("panicked at {place}: {message}\n{backtrace}"),
        _ => tracing::error!("panicked at {place}: {message}"),
    }
}

fn failed(name: &str, error: &dyn Display) -> ExitCode {
    // The error's text may hold line breaks.
    let text = error.to_string().replace('\n', "; ");
    eprintln!("{name}: {text}");
    ExitCode::FAILURE
}

/// The signals that ask a process to end.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

/// A signal that asks a process for something else than to end. Without a listener it ends the process.
pub struct SignalListener(Signal);

impl SignalListener {
    /// SIGHUP, which asks a process to read its configuration again.
    pub fn hangups() -> std::io::Result<Self> {
        Ok(Self(signal(SignalKind::hangup())?))
    }

    /// SIGUSR2, which asks a process to log its state.
    pub fn user_defined_2() -> std::io::Result<Self> {
        Ok(Self(signal(SignalKind::user_defined2())?))
    }

    /// Waits for the next signal. Returns false if the environment shuts down first.
    pub async fn next(&mut self, env: &Env) -> bool {
        tokio::select! {
            biased;
            () = env.shutdown().cancelled() => false,
            received = self.0.recv() => received.is_some(),
        }
    }
}

impl Signals {
    fn listen(env: &Env) -> std::io::Result<Self> {
        if std::env::var_os(PARENT_PIPE).is_some() {
            let shutdown = env.shutdown().clone();
            // Reading may block for ever, so it has its own thread, which the process does not wait for.
            env.thread("parent-pipe", move || {
                let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
                shutdown.cancel();
            })?;
        }
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Shuts the environment down at the first signal, and returns at the second.
    async fn wait_for_second(mut self, env: &Env) {
        for _ in 0..2 {
            tokio::select! {
                biased;
                _ = self.terminate.recv() => {}
                _ = self.interrupt.recv() => {}
            }
            env.shutdown().cancel();
        }
    }
}
