//! The command line: `up`, and a sub-command for each component.

use crate::{addons, certs, cloud, down, explain, health, node, sim, snapshot, status, trace, up};
use clap::{Parser, Subcommand};
use component_base::command::LoggingOptions;
use component_base::lifecycle::{run_main, run_main_on};
use std::process::ExitCode;

/// A working model of the Kubernetes control plane
#[derive(Parser, Debug)]
#[command(name = "orrery", version, about, propagate_version = true)]
pub struct Cli {
    #[command(flatten)]
    pub logging: LoggingOptions,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand, Debug)]
pub enum Command {
    /// Start a whole cluster, every component a process of its own
    Up(up::Options),
    /// Show how the components of a cluster are; fails unless all are ready
    Status(status::Options),
    /// End a cluster that `up --detach` has started
    Down(down::Options),
    /// Let nodes join, leave and fail
    Node(node::Options),
    /// Save the whole state of a cluster to a file, or restore it
    Snapshot(snapshot::Options),
    /// Show the way of one request through a cluster
    Trace(trace::Options),
    /// Show why the scheduler has put a pod on its node, or on none
    Explain(explain::Options),
    /// Run scheduling studies in virtual time
    Sim(sim::Options),
    /// Serve the Kubernetes API
    Apiserver(apiserver::Config),
    /// Run the controllers
    ControllerManager(controller_manager::Config),
    /// Show what the cloud of a cluster holds, and change its machines
    Cloud(cloud::Options),
    /// Simulate a cloud
    CloudSim(simulated_cloud::Config),
    /// Run the controllers of the cloud, which is simulated
    CloudControllerManager(controller_manager::cloud::options::Config),
    /// Assign pods to nodes
    Scheduler(scheduler::Config),
    /// Simulate nodes
    KubeletSim(kubelet_sim::Config),
    /// Simulate service proxies, or print what one would program
    ProxySim(proxy_sim::Config),
    /// Serve the usage of nodes that have processes of their own
    MetricsServer(metrics_server::Config),
    /// Issue everybody's certificates and kubeconfigs, for components that are started one by one
    Certs(certs::Options),
    /// Give such a cluster `kubectl top` and a default StorageClass
    Addons(addons::Options),
    /// Ask a component how it is; fails unless it is well
    Health(health::Options),
}

/// Runs the sub-command.
pub fn run(cli: Cli) -> ExitCode {
    let Cli { logging, command } = cli;
    // `up` itself only shows progress; the verbosity is for the components that it starts.
    let is_component = !matches!(
        command,
        Command::Up(_)
            | Command::Node(_)
            | Command::Cloud(_)
            | Command::Snapshot(_)
            | Command::Trace(_)
            | Command::Explain(_)
            | Command::Sim(_)
    );
    component_base::logging::init(if is_component { logging.verbosity } else { 0 });
    match command {
        Command::Up(options) => run_main("orrery", |env| up::run(options, logging.verbosity, env)),
        Command::Status(options) => run_main("status", |env| status::run(options, env)),
        Command::Down(options) => run_main("down", |env| down::run(options, env)),
        Command::Node(options) => run_main("node", |env| node::run(options, env)),
        Command::Snapshot(options) => run_main("snapshot", |env| snapshot::run(options, env)),
        Command::Trace(options) => run_main("trace", |env| trace::run(options, env)),
        Command::Explain(options) => run_main("explain", |env| explain::run(options, env)),
        Command::Sim(options) => sim::main(options),
        Command::Apiserver(config) => run_main("apiserver", |env| apiserver::run(config, env)),
        Command::ControllerManager(config) => {
            run_main("controller-manager", |env| controller_manager::run(config, env))
        }
        Command::Cloud(options) => run_main("cloud", |env| cloud::run(options, env)),
        Command::CloudSim(config) => run_main("cloud-sim", |env| simulated_cloud::run(config, env)),
        Command::CloudControllerManager(config) => {
            run_main("cloud-controller-manager", |env| controller_manager::cloud::run(config, env))
        }
        Command::Scheduler(config) => run_main_on(scheduler::THREADS, "scheduler", |env| scheduler::run(config, env)),
        Command::KubeletSim(config) => run_main("kubelet-sim", |env| kubelet_sim::run(config, env)),
        Command::ProxySim(config) => run_main("proxy-sim", |env| proxy_sim::run(config, env)),
        Command::MetricsServer(config) => run_main("metrics-server", |env| metrics_server::run(config, env)),
        Command::Certs(options) => run_main("certs", async |env| certs::run(&options, &env)),
        Command::Addons(options) => run_main("addons", |env| addons::run(options, env)),
        Command::Health(options) => run_main("health", |env| health::run(options, env)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use std::collections::BTreeSet;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_table_of_the_readme_lists_the_options_of_up() {
        let rows = include_str!("../../README.md").lines().filter(|line| line.starts_with("| `-"));
        let listed = rows.flat_map(|row| row.split('`').skip(1).step_by(2)).filter(|code| code.starts_with('-'));
        let listed: BTreeSet<String> = listed.filter_map(|code| Some(code.split(' ').next()?.to_owned())).collect();
        let command = Cli::command();
        let up = command.find_subcommand("up").expect("there is a sub-command `up`");
        let visible = up.get_arguments().filter(|option| !option.is_hide_set());
        let mut options: BTreeSet<String> =
            visible.filter_map(|option| Some(format!("--{}", option.get_long()?))).collect();
        options.insert("-v".to_owned()); // of every sub-command
        assert_eq!(listed, options);
    }
}
