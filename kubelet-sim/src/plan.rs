//! `NodePlan`: one node before it starts, with its settings and its machine, by flags or by a template.

use crate::config::Settings;
use crate::machine::Machine;
use crate::template::{self, NodeTemplate, PRICE, TEMPLATE, in_turn};
use ipnet::Ipv4Net;
use proto::kinds::apimachinery::api::resource::Quantity;
use proto::meta::node_labels;
use std::net::Ipv4Addr;
use std::sync::Arc;

/// Size of the range of a node's pods, a part of its template's range.
const POD_PREFIX_LEN: u8 = 24;

/// Returns how many nodes a fleet with these settings starts with.
pub fn node_count(settings: &Settings) -> u32 {
    match settings.templates.as_slice() {
        [] => settings.nodes,
        templates => template::count(templates),
    }
}

/// One node of the fleet before it starts.
pub struct NodePlan {
    pub settings: Arc<Settings>,
    pub machine: Machine,
    /// The machine's number in the whole fleet, from which its addresses follow.
    pub number: u32,
    template: Option<(NodeTemplate, u32)>,
    /// True for the first node of the fleet, on which the static pods of the control plane are.
    pub is_first: bool,
}

impl NodePlan {
    /// Returns the nodes that a fleet starts with.
    pub fn all(settings: &Settings) -> Vec<Self> {
        if settings.templates.is_empty() {
            let shared = Arc::new(settings.clone());
            let plan = |number| Self {
                machine: Machine::new(settings, number),
                settings: shared.clone(),
                number,
                template: None,
                is_first: number == settings.first_node,
            };
            return (settings.first_node..settings.first_node + settings.nodes).map(plan).collect();
        }
        Self::of_templates(&settings.templates, settings)
    }

    /// Returns the nodes of templates, numbered from the first one of the settings.
    pub fn of_templates(templates: &[NodeTemplate], settings: &Settings) -> Vec<Self> {
        let mut plans = Vec::new();
        let mut number = settings.first_node;
        // A node does not look at the templates of others: with one for each of thousands of nodes, copies of all for each
        // would take gigabytes.
        let base = Settings { templates: Vec::new(), ..settings.clone() };
        for template in templates {
            let own = Arc::new(settings_of(template, &base));
            for place in 0..template.count {
                let machine = machine_of(template, &own, place, number);
                let is_first = number == settings.first_node;
                let template = Some((template.clone(), place));
                plans.push(Self { machine, settings: own.clone(), number, template, is_first });
                number += 1;
            }
        }
        plans
    }

    /// Returns the same node with another number.
    pub fn numbered(self, number: u32) -> Self {
        if number == self.number {
            return self;
        }
        let machine = match &self.template {
            Some((template, place)) => machine_of(template, &self.settings, *place, number),
            None => Machine::named(&self.settings, number, self.machine.name.clone()),
        };
        Self { machine, number, is_first: false, ..self }
    }
}

/// Returns the settings of a template's nodes: the flags', changed by what the template says.
fn settings_of(template: &NodeTemplate, base: &Settings) -> Settings {
    let mut settings = base.clone();
    for (name, quantity) in &template.capacity {
        match name.as_str() {
            "cpu" => settings.cpu = quantity.clone(),
            "memory" => settings.memory = quantity.clone(),
            "ephemeral-storage" => settings.ephemeral_storage = quantity.clone(),
            "pods" => settings.max_pods = quantity.parse().unwrap_or(u32::MAX),
            _ => {
                settings.extended_resources.retain(|(known, _)| known != name);
                settings.extended_resources.push((name.clone(), quantity.clone()));
            }
        }
    }
    if !template.reserved.is_empty() {
        settings.kube_reserved = template.reserved.clone().into_iter().collect();
        settings.system_reserved = Vec::new();
    }
    if !template.zones.is_empty() {
        settings.zones = Vec::new(); // the labels below say the zone
    }
    settings.runtime_handlers = template.runtime_handlers.clone().unwrap_or(settings.runtime_handlers);
    settings.register_with_taints.extend(template.taints.iter().cloned());
    settings.latency = template.latency.apply(&base.latency);
    settings
}

/// Returns the machine with this place among those of the template. `number` is its place in the whole fleet.
fn machine_of(template: &NodeTemplate, settings: &Settings, place: u32, number: u32) -> Machine {
    let mut machine = Machine::named(settings, number, template.name_of(place));
    if let Some(zone) = template.zone_of(place) {
        let region = template.region.as_ref().unwrap_or(&settings.region);
        machine.labels.insert(node_labels::REGION.to_owned(), region.clone());
        machine.labels.insert(node_labels::ZONE.to_owned(), zone.to_owned());
    }
    if let Some(instance_type) = in_turn(&template.instance_types, place) {
        machine.labels.insert(node_labels::INSTANCE_TYPE.to_owned(), instance_type.to_owned());
    }
    if let Some(architecture) = &template.architecture {
        machine.labels.insert(node_labels::ARCH.to_owned(), architecture.clone());
        machine.labels.insert(node_labels::BETA_ARCH.to_owned(), architecture.clone());
        machine.system.architecture.clone_from(architecture);
    }
    if let Some(system) = &template.operating_system {
        machine.labels.insert(node_labels::OS.to_owned(), system.clone());
        machine.labels.insert(node_labels::BETA_OS.to_owned(), system.clone());
        machine.system.operating_system.clone_from(system);
    }
    if let Some(price) = &template.price_per_hour {
        machine.labels.insert(PRICE.to_owned(), price.clone());
    }
    machine.labels.insert(TEMPLATE.to_owned(), template.name.clone());
    machine.labels.extend(template.labels.clone());
    machine.annotations = template.annotations.clone();
    machine.images = template.images.clone();
    machine.devices = template.devices.clone();
    machine.pod_range = template.pod_cidr.and_then(|whole| pod_range(whole, place));
    if machine.system.operating_system == "windows" {
        let no_pages = |name: &str| !name.starts_with("hugepages-");
        machine.capacity.retain(|name, _| no_pages(name));
        machine.allocatable.retain(|name, _: &mut Quantity| no_pages(name));
    }
    machine
}

/// Returns the range of the node with this place; `None` past the end of the whole range.
fn pod_range(whole: Ipv4Net, place: u32) -> Option<Ipv4Net> {
    let prefix_len = POD_PREFIX_LEN.max(whole.prefix_len());
    let shift = place.checked_mul(1 << (32 - u32::from(prefix_len)))?;
    let first = u32::from(whole.network()).checked_add(shift)?;
    let range = Ipv4Net::new(Ipv4Addr::from(first), prefix_len).ok()?;
    whole.contains(&range).then_some(range)
}
