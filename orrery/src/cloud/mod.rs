//! `orrery cloud`: shows what the cloud of a cluster holds, and changes its machines and its settings.
//!
//! It calls the cloud's own API (docs/cloud.md), with the certificate of the cluster's administrator.

mod lists;
mod table;

use crate::place::Place;
use crate::up::components::CLOUD;
use crate::up::record::Record;
use clap::{Args, Subcommand};
use client::Client;
use component_base::env::Env;
use component_base::kubeconfig::{self, Connection, KubeconfigError};
use serde_json::json;
use simulated_cloud::cloud_client::CloudClient;
use simulated_cloud::config::SettingsOptions;
use simulated_cloud::model::Power;
use simulated_cloud::problem::Problem;
use std::path::PathBuf;

/// Options of `orrery cloud`.
#[derive(Args, Clone, Debug)]
pub struct Options {
    #[command(subcommand)]
    pub command: Command,
}

/// The cluster whose cloud is meant.
#[derive(Args, Clone, Debug)]
pub struct Access {
    #[command(flatten)]
    pub place: Place,
    /// Kubeconfig of an administrator [default: the cluster's own]
    #[arg(long, value_name = "PATH")]
    pub kubeconfig: Option<PathBuf>,
    /// URL of the cloud [default: that of the running `up --cloud`]
    #[arg(long, value_name = "URL")]
    pub cloud_server: Option<String>,
}

#[derive(Subcommand, Clone, Debug)]
pub enum Command {
    /// List machines
    Machines(Access),
    /// List load balancers
    Lb(Access),
    /// List routes
    Routes(Access),
    /// List node groups
    Groups(Access),
    /// Change how many machines a node group has; nodes join and leave with them
    Scale {
        /// How many machines there are then
        size: u32,
        /// Name of the node group
        #[arg(long, default_value = "node", value_name = "NAME")]
        group: String,
        #[command(flatten)]
        access: Access,
    },
    /// Turn machines on
    Start(Machines),
    /// Turn machines off
    Stop(Machines),
    /// Let machines vanish
    Delete(Machines),
    /// Change how the cloud behaves
    Set(SetOptions),
}

#[derive(Args, Clone, Debug)]
pub struct Machines {
    /// Names of machines
    #[arg(required = true, value_name = "MACHINE")]
    pub machines: Vec<String>,
    #[command(flatten)]
    pub access: Access,
}

#[derive(Args, Clone, Debug)]
pub struct SetOptions {
    #[command(flatten)]
    pub settings: SettingsOptions,
    #[command(flatten)]
    pub access: Access,
}

impl Command {
    /// Returns the cluster that the command is for.
    pub fn access(&self) -> &Access {
        match self {
            Self::Machines(access) | Self::Lb(access) | Self::Routes(access) | Self::Groups(access) => access,
            Self::Scale { access, .. } => access,
            Self::Start(machines) | Self::Stop(machines) | Self::Delete(machines) => &machines.access,
            Self::Set(options) => &options.access,
        }
    }
}

/// Why the cloud did not do it, in one line.
#[derive(Debug, thiserror::Error)]
pub enum CloudError {
    #[error("cluster {0} runs no cloud: start it with `orrery up --cloud`, or give --cloud-server")]
    NoCloud(String),
    #[error(transparent)]
    Kubeconfig(#[from] KubeconfigError),
    #[error("{0}")]
    Client(#[from] client::Error),
    #[error("{0}")]
    Refused(#[from] Problem),
}

/// Prints a table, or makes a change and prints what was done.
pub async fn run(options: Options, env: Env) -> Result<(), CloudError> {
    let cloud = connect(options.command.access(), &env)?;
    match options.command {
        Command::Machines(_) => print!("{}", lists::machines(&cloud.machines().await?)),
        Command::Lb(_) => print!("{}", lists::load_balancers(&cloud.load_balancers().await?)),
        Command::Routes(_) => print!("{}", lists::routes(&cloud.routes().await?)),
        Command::Groups(_) => print!("{}", lists::groups(&cloud.groups().await?)),
        Command::Scale { size, group, .. } => {
            cloud.scale(&group, size).await?;
            println!("group/{group} scaled");
        }
        Command::Start(named) => set_power(&cloud, &named.machines, Power::Running, "started").await?,
        Command::Stop(named) => set_power(&cloud, &named.machines, Power::Stopped, "stopped").await?,
        Command::Delete(named) => {
            for machine in &named.machines {
                cloud.delete_machine(machine).await?;
                println!("machine/{machine} deleted");
            }
        }
        Command::Set(options) => {
            let settings = cloud.change_settings(&options.settings.changes()).await?;
            println!("{}", json!(settings));
        }
    }
    Ok(())
}

async fn set_power(cloud: &CloudClient, machines: &[String], power: Power, done: &str) -> Result<(), CloudError> {
    for machine in machines {
        cloud.set_power(machine, power).await?;
        println!("machine/{machine} {done}");
    }
    Ok(())
}

fn connect(access: &Access, env: &Env) -> Result<CloudClient, CloudError> {
    let Access { place, kubeconfig: path, cloud_server } = access;
    let recorded = || {
        let mut record = Record::read(&place.root())?;
        Some(record.component(CLOUD)?.server.clone())
    };
    let server = cloud_server.clone().or_else(recorded);
    let server = server.ok_or_else(|| CloudError::NoCloud(place.name.clone()))?;
    let path = path.clone().unwrap_or_else(|| place.kubeconfig());
    let connection = Connection { server, ..kubeconfig::read(&path)? };
    Ok(CloudClient::new(&Client::connect(env, &connection, "orrery-cloud")?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cloud {
        #[command(flatten)]
        options: Options,
    }

    #[test]
    fn only_what_is_given_is_changed() {
        let parse = |line: &str| Cloud::try_parse_from(line.split(' ')).map(|cloud| cloud.options.command);
        let Ok(Command::Set(options)) = parse("cloud set --latency=1m --load-balancer-quota=2") else { panic!() };
        assert_eq!(options.settings.changes(), json!({"latencyMs": 60_000, "loadBalancerQuota": 2}));
        let Ok(Command::Scale { size, group, .. }) = parse("cloud scale 5") else { panic!() };
        assert_eq!((size, group.as_str()), (5, "node"));
        assert!(parse("cloud stop").is_err());
    }
}
