//! `Part`: the parts of a simulated cluster, each of which is a simulated process.

use std::fmt;

/// A component, or all nodes or all proxies together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    ApiServer,
    ControllerManager,
    Scheduler,
    Nodes,
    Proxies,
    CloudControllerManager,
}

impl Part {
    /// All parts of a cluster without a cloud, except the API server.
    pub const CLIENTS: [Part; 4] = [Part::ControllerManager, Part::Scheduler, Part::Nodes, Part::Proxies];

    pub fn name(self) -> &'static str {
        match self {
            Part::ApiServer => "apiserver",
            Part::ControllerManager => "controller-manager",
            Part::Scheduler => "scheduler",
            Part::Nodes => "kubelet-sim",
            Part::Proxies => "proxy-sim",
            Part::CloudControllerManager => "cloud-controller-manager",
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
        }
    }

    /// Returns the part that sends a user agent. Controllers append their name after a slash.
    pub fn of_user_agent(agent: &str) -> Option<Part> {
        let name = agent.split('/').next().unwrap_or_default();
        Self::CLIENTS.into_iter().chain([Part::CloudControllerManager]).find(|part| part.name() == name)
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
