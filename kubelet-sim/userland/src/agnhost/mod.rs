//! The program of the image agnhost, with which Kubernetes' conformance tests look at containers.
//!
//! Corresponds to test/images/agnhost. Sub-commands that are not simulated wait until they are stopped.

pub mod flags;
pub mod mounttest;
pub mod output;
pub mod netexec;
pub mod servers;
pub mod clients;

use crate::process::proc::{Outcome, Proc};
use crate::programs::Program;
use crate::programs::system::no_new_privileges;
use std::time::Duration;

/// Sub-commands that only wait here.
const WAITING: [&str; 4] = ["grpc-health-checking", "nettest", "pause", "webhook"];

/// Returns the program of a file of the images `agnhost`, `pause` and `nonewprivs`.
pub fn program(name: &str) -> Option<Program> {
    match name {
        "agnhost" => Some(|proc, argv| Box::pin(agnhost(proc, argv))),
        "pause" => Some(|proc, _| Box::pin(pause(proc))),
        "nonewprivs" => Some(|proc, _| Box::pin(no_new_privileges(proc))),
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
        "netexec" => netexec::netexec(proc, &argv[1..]).await,
        "serve-hostname" => servers::serve_hostname(proc, &argv[1..]).await,
        "test-webserver" => servers::test_webserver(proc, &argv[1..]).await,
        "porter" => servers::porter(proc, &argv[1..]).await,
        "liveness" => servers::liveness(proc).await,
        "connect" => clients::connect(proc, &argv[1..]).await,
        "dns-suffix" => clients::resolver_line(proc, "search").await,
        "dns-server-list" => clients::resolver_line(proc, "nameserver").await,
        "etc-hosts" => clients::etc_hosts(proc).await,
        "inclusterclient" => clients::in_cluster_client(proc, &argv[1..]).await,
        "" | "help" | "--help" => output::help(proc).await,
        "pause" => {
            proc.print("Paused\n").await?;
            pause(proc).await
        }
        name if WAITING.contains(&name) => pause(proc).await,
        name => proc.fail(&format!("Error: unknown command {name:?} for \"app\""), 1).await,
    }
}
