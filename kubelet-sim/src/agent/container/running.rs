//! The processes of a container that a client looks at.

use crate::fleet::Fleet;
use crate::runtime::SharedProcesses;
use crate::runtime::container::PodContainer;
use crate::runtime::run::Run;
use crate::runtime::switch;
use proto::kinds::jiff::Timestamp;
use std::sync::Arc;
use userland::process::processes::Processes;

/// The processes of one run of a container, with everything that they reach over the network.
#[derive(Clone)]
pub struct Running {
    fleet: Arc<Fleet>,
    node: String,
    container: PodContainer,
    run: Run,
    processes: SharedProcesses,
}

impl Running {
    /// Finds the processes of a run; starts them when nobody has looked at them before.
    pub async fn of(fleet: &Arc<Fleet>, node: &str, container: &PodContainer, run: &Run) -> Self {
        let processes = container.processes(&fleet.context_of(node), run).await;
        Self { fleet: fleet.clone(), node: node.to_owned(), container: container.clone(), run: run.clone(), processes }
    }

    /// Returns the processes.
    pub fn lock(&self) -> impl std::ops::DerefMut<Target = Processes> + '_ {
        self.processes.lock()
    }

    /// Records that a client runs a command beside the processes.
    pub fn touch(&self) {
        self.fleet.context_of(&self.node).runtime.touch(&self.container.key(&self.run));
    }

    /// Lets the processes go on up to the present time.
    pub async fn advance(&self) {
        let node = self.fleet.context_of(&self.node);
        switch::advance(&node, &self.container, &self.container.key(&self.run), &self.processes).await;
    }

    /// Returns the next time at which the processes, or those to which they are connected, go on by themselves.
    pub fn next_wake(&self) -> Option<Timestamp> {
        let node = self.fleet.context_of(&self.node);
        switch::next_wake(&node, &self.container.key(&self.run), &self.processes)
    }
}
