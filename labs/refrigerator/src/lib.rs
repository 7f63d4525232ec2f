//! A refrigerator as a lab: two controllers between what people do and what machines do.
//!
//! Read in this order: the five kinds (`parts`), a part that is switched on and off (`switch`), the two controllers
//! (`lighting`, `cooling`), the simulated air inside (`air`), and the program that runs them all (`manager`). Corresponds to
//! k8s.io/sample-controller.

pub mod parts;
pub mod switch;
pub mod lighting;
pub mod cooling;
pub mod air;
pub mod manager;

#[cfg(test)]
mod tests;

use clap::Args;
use client::{Client, ConnectError};
use component_base::env::Env;
use component_base::options::ClientOptions;

/// The command line of `refrigerator`.
#[derive(Args, Clone, Debug)]
pub struct Config {
    #[command(flatten)]
    pub client: ClientOptions,
}

/// Runs as a process until the environment shuts down.
pub async fn run(config: Config, env: Env) -> Result<(), ConnectError> {
    manager::run(Client::from_options(&env, &config.client, "refrigerator")?).await;
    Ok(())
}
