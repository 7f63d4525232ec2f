//! Templates of nodes: what machines a fleet has, read from the files of `--node-template`.
//!
//! `read` turns a document into a `NodeTemplate` or into all its mistakes, and `file` reads files. Without templates, the
//! flags describe all nodes.

mod values;
mod devices;
mod read;
pub mod file;

pub use devices::DeviceGroup;
pub use read::taints as read_taints;

use ipnet::Ipv4Net;
use pod_life::latency::Latency;
use proto::kinds::api::core::v1::Taint;
use std::collections::BTreeMap;
use std::time::Duration;

/// Label with the price of a machine for an hour, for schedulers and autoscalers that compare costs.
pub const PRICE: &str = "orrery.dev/price";
/// Label with the name of the template that a node is made from.
pub const TEMPLATE: &str = "orrery.dev/template";

/// A kind of machine, and how many of it there are. What a template does not say, the flags say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeTemplate {
    pub name: String,
    pub count: u32,
    /// The nodes' names, with `{number}` and perhaps `{zone}`.
    pub node_name: String,
    /// Zones that the nodes are spread over in turn.
    pub zones: Vec<String>,
    pub region: Option<String>,
    /// Types that the nodes have in turn.
    pub instance_types: Vec<String>,
    pub capacity: BTreeMap<String, String>,
    /// Resources that are kept from pods.
    pub reserved: BTreeMap<String, String>,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    pub taints: Vec<Taint>,
    /// Images that are on the machine from the start.
    pub images: Vec<String>,
    pub runtime_handlers: Option<Vec<String>>,
    pub price_per_hour: Option<String>,
    pub architecture: Option<String>,
    pub operating_system: Option<String>,
    /// Range of the pods; each node has a /24 of it, as `spec.podCIDR`.
    pub pod_cidr: Option<Ipv4Net>,
    pub latency: LatencyChanges,
    /// Devices that claims may ask for.
    pub devices: Vec<DeviceGroup>,
}

/// The times of a template that differ from those of the flags.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LatencyChanges {
    pub sandbox: Option<Duration>,
    pub image_pull: Option<Duration>,
    pub container_start: Option<Duration>,
    pub container_stop: Option<Duration>,
    pub init_run: Option<Duration>,
    pub job_run: Option<Duration>,
}

impl LatencyChanges {
    /// Returns the times with these changes.
    pub fn apply(&self, base: &Latency) -> Latency {
        Latency {
            sandbox: self.sandbox.unwrap_or(base.sandbox),
            image_pull: self.image_pull.unwrap_or(base.image_pull),
            container_start: self.container_start.unwrap_or(base.container_start),
            stop: self.container_stop.unwrap_or(base.stop),
            init_run: self.init_run.unwrap_or(base.init_run),
            job_run: self.job_run.unwrap_or(base.job_run),
        }
    }
}

impl NodeTemplate {
    /// Returns the name of the node with this place among those of the template.
    pub fn name_of(&self, place: u32) -> String {
        let zone = self.zone_of(place).unwrap_or_default();
        self.node_name.replace("{number}", &place.to_string()).replace("{zone}", zone)
    }

    pub fn zone_of(&self, place: u32) -> Option<&str> {
        in_turn(&self.zones, place)
    }
}

/// Returns the value for this place, when the values are given out in turn.
pub fn in_turn(values: &[String], place: u32) -> Option<&str> {
    (!values.is_empty()).then(|| values[place as usize % values.len()].as_str())
}

/// Returns how many nodes the templates have together.
pub fn count(templates: &[NodeTemplate]) -> u32 {
    templates.iter().map(|template| template.count).sum()
}

#[cfg(test)]
mod tests;
