//! `Part`: the parts of a simulated cluster, each of which is a simulated process.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A component, or all nodes or all proxies together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    #[serde(rename = "apiserver")]
    ApiServer,
    ControllerManager,
    Scheduler,
    #[serde(rename = "kubelet-sim")]
    Nodes,
    #[serde(rename = "proxy-sim")]
    Proxies,
    CloudControllerManager,
    /// The demonstration of `cashier.rs`.
    Cashier,
}

impl Part {
    /// All parts of a cluster without a cloud, except the API server.
    pub const CLIENTS: [Part; 4] = [Part::ControllerManager, Part::Scheduler, Part::Nodes, Part::Proxies];

    /// All parts except the API server.
    pub const OTHERS: [Part; 6] = [
        Part::ControllerManager,
        Part::Scheduler,
        Part::Nodes,
        Part::Proxies,
        Part::CloudControllerManager,
        Part::Cashier,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Part::ApiServer => "apiserver",
            Part::ControllerManager => "controller-manager",
            Part::Scheduler => "scheduler",
            Part::Nodes => "kubelet-sim",
            Part::Proxies => "proxy-sim",
            Part::CloudControllerManager => "cloud-controller-manager",
            Part::Cashier => "cashier",
        }
    }

    /// Returns the user of the part's certificate.
    pub fn user(self) -> &'static str {
        match self {
            Part::ApiServer => "system:apiserver",
            Part::ControllerManager => "system:kube-controller-manager",
            Part::Scheduler => "system:kube-scheduler",
            Part::Nodes => "system:orrery:node-fleet",
            Part::Proxies => "system:kube-proxy",
            Part::CloudControllerManager => "system:cloud-controller-manager",
            Part::Cashier => "kubernetes-admin",
        }
    }

    /// Returns the part that sends a user agent. Controllers append their name after a slash.
    pub fn of_user_agent(agent: &str) -> Option<Part> {
        let name = agent.split('/').next().unwrap_or_default();
        Self::OTHERS.into_iter().find(|part| part.name() == name)
    }

    /// Returns the part with a name, other than the API server.
    pub fn named(name: &str) -> Option<Part> {
        Self::of_user_agent(name).filter(|part| part.name() == name)
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
