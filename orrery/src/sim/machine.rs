//! The machines of a study as kubelet-sim's node templates.

use experiments::cluster::Machine;
use kubelet_sim::template::NodeTemplate;

/// Reads the template of a machine. An error has a line for each mistake, with the machine's name.
pub fn template(machine: &Machine) -> Result<NodeTemplate, Vec<String>> {
    let read = NodeTemplate::read(&machine.template());
    read.map_err(|problems| problems.iter().map(|problem| format!("node {}: {problem}", machine.name)).collect())
}
