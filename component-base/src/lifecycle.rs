//! The life of a process: runtime, signals, and how it ends.
//!
//! Corresponds to k8s.io/apiserver/pkg/server/signal.go and k8s.io/component-base/cli.

use crate::env::Env;
use crate::tls;
use std::fmt::Display;
use std::future::Future;
use std::process::ExitCode;
use tokio::signal::unix::{SignalKind, signal};

/// When this variable is set, the process ends as soon as its standard input does: whoever started it is gone.
pub const PARENT_PIPE: &str = "ORRERY_PARENT_PIPE";

/// Runs a component until it ends or is asked to: SIGTERM, SIGINT, or the parent's end.
/// A failure is one line on standard error and exit code 1.
pub fn run_main<F, E>(name: &str, component: impl FnOnce(Env) -> F) -> ExitCode
where
    F: Future<Output = Result<(), E>>,
    E: Display,
{
    tls::install_provider();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(name, &error),
    };
    runtime.block_on(async {
        let env = Env::system();
        if let Err(error) = end_when_asked(&env) {
            return failed(name, &error);
        }
        let ended = component(env.clone()).await;
        env.drain().await;
        match ended {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => failed(name, &error),
        }
    })
}

fn failed(name: &str, error: &dyn Display) -> ExitCode {
    // One line, whatever the error's text holds.
    let text = error.to_string().replace('\n', "; ");
    eprintln!("{name}: {text}");
    ExitCode::FAILURE
}

/// Cancels the environment's shutdown token on a signal, or when the parent's pipe closes.
fn end_when_asked(env: &Env) -> std::io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let shutdown = env.shutdown().clone();
    env.spawn(async move {
        tokio::select! {
            biased;
            () = shutdown.cancelled() => {}
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        shutdown.cancel();
    });
    if std::env::var_os(PARENT_PIPE).is_some() {
        let shutdown = env.shutdown().clone();
        // A thread of its own: it may wait for ever, and the process ends without it.
        env.thread("parent-pipe", move || {
            let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
            shutdown.cancel();
        })?;
    }
    Ok(())
}
