//! The command line of `cloud-sim`.

use crate::cloud::Site;
use crate::model::{NodeGroup, Settings};
use clap::Args;
use component_base::duration::parse_duration;
use component_base::options::ServingOptions;
use ipnet::Ipv4Net;
use serde_json::Value;
use std::path::PathBuf;
use std::time::Duration;

/// What may call the cloud: the cloud controller manager, and the administrator of the cluster.
const CLIENTS: &str = "system:cloud-controller-manager,kubernetes-admin";

#[derive(Args, Clone, Debug)]
pub struct Config {
    #[command(flatten)]
    pub serving: ServingOptions,
    /// Common names of the certificates whose owners may use the cloud
    #[arg(long, value_delimiter = ',', default_value = CLIENTS, value_name = "NAMES")]
    pub allowed_clients: Vec<String>,
    /// File in which the cloud keeps what it holds; without one, it forgets everything when it ends
    #[arg(long, value_name = "FILE")]
    pub state_file: Option<PathBuf>,
    /// Node group: its machines at the start, and the bounds of `orrery cloud scale`; as often as you like
    #[arg(long = "group", value_name = "NAME=SIZE:MIN:MAX", default_value = "node=3:0:10", value_parser = parse_group)]
    pub groups: Vec<NodeGroup>,
    /// Instance type of the machines
    #[arg(long, default_value = "orrery.simulated", value_name = "TYPE")]
    pub instance_type: String,
    /// Region of the cloud
    #[arg(long, default_value = "orrery", value_name = "NAME")]
    pub region: String,
    /// Zones that the machines are spread over in turn
    #[arg(long, value_delimiter = ',', default_value = "orrery-a,orrery-b,orrery-c", value_name = "NAMES")]
    pub zones: Vec<String>,
    /// Range of the machines' addresses; they are simulated, and nothing connects to them
    #[arg(long, default_value = "172.18.0.0/16", value_name = "CIDR")]
    pub node_cidr: Ipv4Net,
    #[command(flatten)]
    pub settings: SettingsOptions,
}

/// What a command line says about how the cloud behaves. What it leaves out stays as it is.
#[derive(Args, Clone, Debug)]
pub struct SettingsOptions {
    /// How long each request takes
    #[arg(long, value_parser = parse_duration, value_name = "DURATION")]
    pub latency: Option<Duration>,
    /// Part of the requests that fail, from 0 to 1
    #[arg(long, value_name = "PART")]
    pub fault_rate: Option<f64>,
    /// Most machines
    #[arg(long, value_name = "N")]
    pub machine_quota: Option<usize>,
    /// Most load balancers
    #[arg(long, value_name = "N")]
    pub load_balancer_quota: Option<usize>,
    /// Most routes
    #[arg(long, value_name = "N")]
    pub route_quota: Option<usize>,
}

impl Config {
    pub fn site(&self) -> Site {
        Site { network: self.node_cidr, region: self.region.clone(), zones: self.zones.clone() }
    }

    pub fn groups(&self) -> Vec<NodeGroup> {
        let of_type = |group: &NodeGroup| NodeGroup { instance_type: self.instance_type.clone(), ..group.clone() };
        self.groups.iter().map(of_type).collect()
    }
}

impl SettingsOptions {
    /// Returns the settings of an earlier run, changed by what the command line says.
    pub fn applied_to(&self, earlier: &Settings) -> Settings {
        Settings {
            latency_ms: self.latency_ms().unwrap_or(earlier.latency_ms),
            fault_rate: self.fault_rate.unwrap_or(earlier.fault_rate),
            machine_quota: self.machine_quota.unwrap_or(earlier.machine_quota),
            load_balancer_quota: self.load_balancer_quota.unwrap_or(earlier.load_balancer_quota),
            route_quota: self.route_quota.unwrap_or(earlier.route_quota),
        }
    }

    /// Returns the settings to change, under their names in the API.
    pub fn changes(&self) -> Value {
        let given = [
            ("latencyMs", self.latency_ms().map(Value::from)),
            ("faultRate", self.fault_rate.map(Value::from)),
            ("machineQuota", self.machine_quota.map(Value::from)),
            ("loadBalancerQuota", self.load_balancer_quota.map(Value::from)),
            ("routeQuota", self.route_quota.map(Value::from)),
        ];
        Value::Object(given.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect())
    }

    fn latency_ms(&self) -> Option<u64> {
        self.latency.map(|latency| u64::try_from(latency.as_millis()).unwrap_or(u64::MAX))
    }
}

fn parse_group(text: &str) -> Result<NodeGroup, String> {
    let invalid = || format!("{text:?} is not of the form NAME=SIZE:MIN:MAX");
    let (name, numbers) = text.split_once('=').ok_or_else(invalid)?;
    let numbers: Vec<u32> = numbers.split(':').map(str::parse).collect::<Result<_, _>>().map_err(|_| invalid())?;
    let [initial, min, max] = numbers[..] else { return Err(invalid()) };
    let wrong = proto::meta::names::dns1123_subdomain(name);
    if !wrong.is_empty() {
        return Err(wrong.join(", "));
    }
    if !(min..=max).contains(&initial) {
        return Err(format!("size {initial} is not from {min} to {max}"));
    }
    Ok(NodeGroup { name: name.to_owned(), min, max, initial, instance_type: String::new() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_written_as_its_size_and_its_bounds() {
        let group = parse_group("gpu=2:1:8").unwrap();
        assert_eq!((group.name.as_str(), group.initial, group.min, group.max), ("gpu", 2, 1, 8));
        for (wrong, why) in [
            ("gpu", r#""gpu" is not of the form NAME=SIZE:MIN:MAX"#),
            ("gpu=2", r#""gpu=2" is not of the form NAME=SIZE:MIN:MAX"#),
            ("gpu=2:-1:3", r#""gpu=2:-1:3" is not of the form NAME=SIZE:MIN:MAX"#),
            ("gpu=9:1:8", "size 9 is not from 1 to 8"),
        ] {
            assert_eq!(parse_group(wrong).unwrap_err(), why);
        }
        assert!(parse_group("Gpu=1:1:1").is_err());
    }
}
