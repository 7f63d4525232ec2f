//! The simulated cloud beside a simulated cluster: three machines, which the cluster's nodes are.

use super::keys;
use super::part::Part;
use client::Client;
use component_base::env::Env;
use component_base::options;
use simulated_cloud::model::NodeGroup;
use simulated_cloud::running::RunningCloud;

/// Name of the group of machines.
pub const GROUP: &str = "node";
const URL: &str = "https://cloud-sim:10300";

/// Starts the cloud. Faults do not kill it; its settings make it slow and faulty.
pub async fn start(env: &Env) -> RunningCloud {
    let group = NodeGroup { name: GROUP.to_owned(), min: 1, max: 5, initial: 3, instance_type: String::new() };
    let config = simulated_cloud::Config { groups: vec![group], ..options::defaults() };
    simulated_cloud::run::start(&config, &env.process("cloud-sim/1")).await.expect("the settings are good")
}

/// Returns a client of the cloud for a part of the cluster.
pub fn client(env: &Env, part: Part) -> Client {
    let connection = keys::connection(URL, part.user());
    Client::connect(env, &connection, part.name()).expect("an in-process connection needs nothing")
}
