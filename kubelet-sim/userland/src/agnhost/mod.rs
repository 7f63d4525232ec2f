//! The program of the image agnhost, with which Kubernetes' conformance tests look at containers.
//!
//! Corresponds to test/images/agnhost. Sub-commands that need a network wait until they are stopped.

pub mod mounttest;
pub mod output;
pub mod server;

use crate::process::proc::{Outcome, Proc};
use crate::programs::Program;
use std::time::Duration;

/// Sub-commands that serve, or wait.
const WAITING: [&str; 10] = [
    "liveness",
    "netexec",
    "nettest",
    "pause",
    "porter",
    "serve-hostname",
    "test-webserver",
    "inclusterclient",
    "grpc-health-checking",
    "webhook",
];

/// Returns the program of a file of the images `agnhost` and `pause`.
pub fn program(name: &str) -> Option<Program> {
    match name {
        "agnhost" => Some(|proc, argv| Box::pin(agnhost(proc, argv))),
        "pause" => Some(|proc, _| Box::pin(pause(proc))),
        _ => None,
    }
}

async fn pause(proc: &mut Proc) -> Outcome {
    proc.sleep(Duration::MAX).await;
    Ok(0)
}

async fn agnhost(proc: &mut Proc, argv: &[String]) -> Outcome {
    // `agnhost-2` is the same program under another name; the tests pass its sub-command as the first argument too.
    let name = argv.get(1).map(String::as_str).unwrap_or_default();
    match name {
        "mounttest" => mounttest::mounttest(proc, &argv[1..]).await,
        "entrypoint-tester" => output::entrypoint_tester(proc, argv).await,
        "logs-generator" => output::logs_generator(proc, &argv[1..]).await,
        "" | "help" | "--help" => output::help(proc).await,
        "pause" => {
            proc.print("Paused\n").await?;
            pause(proc).await
        }
        name if WAITING.contains(&name) => pause(proc).await,
        name => proc.fail(&format!("Error: unknown command {name:?} for \"app\""), 1).await,
    }
}
