//! Reads the configuration file again on SIGHUP, and the scripts when their files change.
//!
//! Kubernetes' scheduler reads its file once.

use crate::Config;
use crate::extenders::Extenders;
use crate::scheduler::registry;
use client::{Client, Informers};
use component_base::file_watch::FileWatch;
use component_base::lifecycle::SignalListener;
use component_base::options::ConfigFileError;
use component_base::options::config_file::aggregate;
use scheduling_framework::configuration::Configuration;
use scheduling_framework::{Handle, PodGroups, Profiles, Register, WaitingPods};
use std::sync::Arc;
use tokio::sync::watch;

/// Makes the profiles and extenders of a configuration on trial, with informers that never start. Returns all that is wrong.
pub fn problems(configuration: &Configuration, client: &Client, register: &Register) -> Vec<String> {
    let (informers, waiting_pods, pod_groups) = (Informers::new(client), WaitingPods::default(), PodGroups::default());
    let handle = Handle {
        client,
        informers: &informers,
        env: client.env(),
        waiting_pods: &waiting_pods,
        pod_groups: &pod_groups,
        features: &configuration.features,
    };
    let assembled = Profiles::assemble(configuration, &registry(&handle, register));
    let connected = assembled.and_then(|_| Extenders::new(client.env(), &configuration.extenders));
    connected.err().unwrap_or_default()
}

fn errors(configuration: &Configuration, client: &Client, register: &Register) -> Option<String> {
    let problems = problems(configuration, client, register);
    (!problems.is_empty()).then(|| format!("initializing profiles: {}", aggregate(&problems)))
}

/// Returns an error if the profiles of a file cannot be made.
pub fn check(config: &Config, client: &Client, register: &Register) -> Result<(), ConfigFileError> {
    match errors(&config.settings.configuration, client, register) {
        None => Ok(()),
        Some(message) => {
            Err(ConfigFileError::Invalid { path: config.config_file.clone().unwrap_or_default(), message })
        }
    }
}

/// Sends the configuration that the file has after each SIGHUP. A bad file is one line of log, and changes nothing.
pub async fn follow_hangups(
    given: Config,
    client: Client,
    register: Register,
    sender: watch::Sender<Arc<Configuration>>,
) {
    let mut hangups = match SignalListener::hangups() {
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

/// Sends the configuration again after the file of a script has changed. A bad script is one line of log, and the one before
/// stays.
pub async fn follow_scripts(client: Client, register: Register, sender: watch::Sender<Arc<Configuration>>) {
    let (env, mut receiver) = (client.env().clone(), sender.subscribe());
    loop {
        let configuration = receiver.borrow_and_update().clone();
        let mut files = FileWatch::new(scheduler_scripts::paths(&configuration));
        loop {
            tokio::select! {
                biased;
                () = env.shutdown().cancelled() => return,
                changed = receiver.changed() => match changed {
                    Ok(()) if Arc::ptr_eq(&receiver.borrow_and_update(), &configuration) => continue,
                    Ok(()) => break,
                    Err(_) => return,
                },
                () = files.changed(&env), if !files.is_empty() => {}
            }
            match errors(&configuration, &client, &register) {
                None => {
                    tracing::info!("the scripts were read again");
                    // Not if a SIGHUP has brought another configuration meanwhile.
                    sender.send_if_modified(|present| Arc::ptr_eq(present, &configuration));
                }
                Some(why) => tracing::error!("the scripts stay as they are: {why}"),
            }
        }
    }
}

#[cfg(test)]
mod tests;
