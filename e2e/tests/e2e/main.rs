//! Tests the whole control plane as a user runs it: as processes, over TLS, with a stock `kubectl`.

#![allow(clippy::unwrap_used)] // everything here is a test

mod admission_policies;
mod admission_webhooks;
mod aggregation;
mod attached_volumes;
mod audit;
mod autoscaling;
mod bad_etcd;
mod bad_input;
mod bad_requests;
mod bad_start;
mod certificates;
mod cloud;
mod command_list;
mod component_crashes;
mod component_requests;
mod compose;
mod config_files;
mod conversion_webhook;
mod crashes;
mod credentials;
mod custom_resources;
mod daemon_sets;
mod determinism;
mod devices;
mod disk;
mod dual_stack;
mod encryption;
mod every_verb;
mod extenders;
mod external_schedulers;
mod faulty_proxy;
mod feature_gates;
mod flood;
mod front_proxy;
mod gated_kinds;
mod hostile;
mod housekeeping;
mod kube_rs;
mod kubectl_output;
mod least_privilege;
mod learning;
mod lifecycle;
mod node_behaviour;
mod node_bootstrap;
mod node_conformance;
mod node_failures;
mod node_identity;
mod node_limits;
mod node_stories;
mod single_nodes;
mod persistent_volumes;
mod python_client;
mod quota;
mod raw_requests;
mod refrigerator;
mod replays;
mod request_trace;
mod scheduler_profiles;
mod scheduling;
mod separation;
mod service_cidrs;
mod shortest_command_lines;
mod simulation;
mod exploration;
mod stateful_sets;
mod stolen_credentials;
mod streams;
mod studies;
mod student_commands;
mod topology_hints;
mod tour;
mod traced;
mod two_servers;
mod two_versions;
mod usage;
mod watch_order;
mod web_sockets;
mod webhook_server;
mod write_counts;

use component_base_testing::etcd_process::{EtcdOptions, EtcdProcess};
use component_base_testing::test_needs;
use e2e::processes::{Cluster, Start, free_ports};
use e2e::store::Store;
use std::path::Path;

/// The program under test, built with this test.
fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_orrery-under-test"))
}

/// Starts a cluster of three nodes with its data in a directory.
fn cluster(directory: &Path, store: Store<'_>) -> Cluster {
    cluster_with(directory, store, &[])
}

/// Starts a cluster of three nodes with further flags of `up`.
fn cluster_with(directory: &Path, store: Store<'_>, flags: &[&str]) -> Cluster {
    Cluster::start(&Start { program: program(), directory, store, nodes: 3, port: free_ports(), flags })
}

/// Starts an etcd of one member with its data in a directory. If there is no etcd program, returns `None` and records
/// the test as skipped.
#[track_caller]
fn etcd(directory: &Path) -> Option<EtcdProcess> {
    test_needs::etcd().then(|| EtcdProcess::start(directory, &EtcdOptions::default()))
}
