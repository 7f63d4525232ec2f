//! Reads the configuration file again on SIGHUP.
//!
//! Kubernetes' scheduler reads its file once.

use crate::Config;
use crate::config::aggregate;
use crate::extenders::Extenders;
use crate::scheduler::registry;
use client::{Client, Informers};
use component_base::lifecycle::Hangups;
use component_base::options::ConfigFileError;
use scheduling_framework::configuration::Configuration;
use scheduling_framework::{Handle, Profiles, Register, WaitingPods};
use std::sync::Arc;
use tokio::sync::watch;

/// Makes the profiles and extenders of a configuration on trial, with informers that never start.
pub fn check(config: &Config, client: &Client, register: &Register) -> Result<(), ConfigFileError> {
    let (informers, waiting_pods) = (Informers::new(client), WaitingPods::default());
    let handle = Handle { client, informers: &informers, env: client.env(), waiting_pods: &waiting_pods };
    let configuration = &config.settings.configuration;
    let assembled = Profiles::assemble(configuration, &registry(&handle, register));
    let connected = assembled.and_then(|_| Extenders::new(client.env(), &configuration.extenders));
    connected.map(drop).map_err(|errors| ConfigFileError::Invalid {
        path: config.config_file.clone().unwrap_or_default(),
        message: format!("initializing profiles: {}", aggregate(&errors)),
    })
}

/// Sends the configuration that the file has after each SIGHUP. A bad file is one line of log, and changes nothing.
pub async fn follow_hangups(
    given: Config,
    client: Client,
    register: Register,
    sender: watch::Sender<Arc<Configuration>>,
) {
    let mut hangups = match Hangups::listen() {
        Ok(hangups) => hangups,
        Err(error) => return tracing::warn!("SIGHUP will not read the configuration again: {error}"),
    };
    while hangups.next(client.env()).await {
        let read = given.clone().with_file().and_then(|read| check(&read, &client, &register).map(|()| read));
        match read {
            Ok(read) => {
                tracing::info!("the configuration was read again");
                sender.send_replace(Arc::new(read.settings.configuration));
            }
            Err(error) => tracing::error!("the configuration stays as it is: {error}"),
        }
    }
}
