//! Machines for tests.

use simulated_cloud::cloud::{Cloud, Site};
use simulated_cloud::model::{Holdings, Machine, NodeGroup, Origin, Power};

/// Returns the machine `node-1` of a cloud with two.
pub fn machine(origin: Origin, power: Power) -> Machine {
    let mut cloud = Cloud::new(Site::default(), Holdings::default());
    let group = NodeGroup { name: "node".into(), min: 0, max: 9, initial: 2, instance_type: "small".into() };
    cloud.set_up_group(group).expect("the cloud has room");
    Machine { origin, power, ..cloud.machine("node-1").expect("it has two").clone() }
}
