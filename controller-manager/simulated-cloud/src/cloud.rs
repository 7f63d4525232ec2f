//! `Cloud`: what may be done with machines, groups, load balancers and routes. Pure: time, chance and IO are others' business.
//!
//! Every operation can be repeated: a second one with the same arguments changes nothing.

use crate::addresses;
use crate::model::{
    Holdings, LoadBalancer, LoadBalancerSpec, Machine, NodeGroup, Origin, Power, Route, Settings, SizedGroup,
};
use crate::problem::{Problem, Reason};
use ipnet::{IpNet, Ipv4Net};
use std::collections::BTreeSet;
use std::net::Ipv4Addr;

/// What a machine is like that belongs to a new cloud.
#[derive(Clone, Debug)]
pub struct Site {
    /// Network of the machines.
    pub network: Ipv4Net,
    pub region: String,
    /// Zones that the machines are spread over in turn.
    pub zones: Vec<String>,
}

impl Default for Site {
    fn default() -> Self {
        Self {
            network: Ipv4Net::new(Ipv4Addr::new(172, 18, 0, 0), 16).expect("16 is a prefix length"),
            region: "orrery".to_owned(),
            zones: ["a", "b", "c"].map(|zone| format!("orrery-{zone}")).into(),
        }
    }
}

/// The cloud.
#[derive(Clone, Debug)]
pub struct Cloud {
    site: Site,
    holdings: Holdings,
}

impl Cloud {
    /// Goes on with what an earlier run of the cloud has left.
    pub fn new(site: Site, holdings: Holdings) -> Self {
        Self { site, holdings }
    }

    pub fn holdings(&self) -> &Holdings {
        &self.holdings
    }

    /// Creates a group, or gives the one of an earlier run other bounds. Its size changes only if the command line asks for
    /// another one than it did then.
    pub fn set_up_group(&mut self, group: NodeGroup) -> Result<(), Problem> {
        let (name, initial) = (group.name.clone(), group.initial);
        let before = self.holdings.groups.insert(name.clone(), group);
        if before.is_some_and(|before| before.initial == initial) {
            return Ok(());
        }
        self.resize(&name, initial, Origin::Start)
    }

    pub fn groups(&self) -> Vec<SizedGroup> {
        let sized = |group: &NodeGroup| SizedGroup {
            name: group.name.clone(),
            min: group.min,
            max: group.max,
            size: u32::try_from(self.members(&group.name).count()).unwrap_or(u32::MAX),
            instance_type: group.instance_type.clone(),
        };
        self.holdings.groups.values().map(sized).collect()
    }

    /// Lets a group have this many machines. It grows by the lowest free numbers and shrinks from the highest ones.
    pub fn scale(&mut self, name: &str, size: u32) -> Result<(), Problem> {
        let group = self.holdings.groups.get(name).ok_or_else(|| Problem::not_found("node group", name))?;
        if !(group.min..=group.max).contains(&size) {
            let message = format!("size {size} of node group {name:?} is not from {} to {}", group.min, group.max);
            return Err(Problem::new(Reason::Invalid, message));
        }
        self.resize(name, size, Origin::Scaled)
    }

    fn members(&self, group: &str) -> impl Iterator<Item = &Machine> {
        self.holdings.machines.values().filter(move |machine| machine.group == group)
    }

    fn resize(&mut self, group: &str, size: u32, origin: Origin) -> Result<(), Problem> {
        let index = |machine: &Machine| machine.name[group.len() + 1..].parse::<u32>().unwrap_or(u32::MAX);
        let mut present: Vec<u32> = self.members(group).map(index).collect();
        present.sort_unstable();
        while present.len() > size as usize {
            let last = present.pop().expect("it has more than none");
            self.holdings.machines.remove(&format!("{group}-{last}"));
        }
        for index in (0..).filter(|index| !present.contains(index)).take(size as usize - present.len()) {
            let initial = self.holdings.groups.get(group).map_or(0, |group| group.initial);
            // A machine that was there from the start and comes back has its own kubelet.
            let origin = if index < initial { Origin::Start } else { origin };
            self.add_machine(group, index, origin)?;
        }
        Ok(())
    }

    fn add_machine(&mut self, group: &str, index: u32, origin: Origin) -> Result<(), Problem> {
        let quota = self.holdings.settings.machine_quota;
        if self.holdings.machines.len() >= quota {
            return Err(Problem::quota("machines", quota));
        }
        let taken: BTreeSet<u32> = self.holdings.machines.values().map(|machine| machine.number).collect();
        let number = (0..).find(|number| !taken.contains(number)).expect("numbers outlast machines");
        let Some(internal_address) = addresses::internal(self.site.network, number) else {
            let message = format!("no address of {} is left", self.site.network);
            return Err(Problem::new(Reason::QuotaExceeded, message));
        };
        let zones = &self.site.zones;
        let zone = if zones.is_empty() { String::new() } else { zones[number as usize % zones.len()].clone() };
        let instance_type = self.holdings.groups.get(group).map(|group| group.instance_type.clone());
        let name = format!("{group}-{index}");
        let machine = Machine {
            name: name.clone(),
            group: group.to_owned(),
            number,
            instance_type: instance_type.unwrap_or_default(),
            zone,
            region: self.site.region.clone(),
            internal_address,
            external_address: addresses::external(number),
            power: Power::Running,
            origin,
        };
        self.holdings.machines.insert(name, machine);
        Ok(())
    }

    pub fn machine(&self, name: &str) -> Result<&Machine, Problem> {
        self.holdings.machines.get(name).ok_or_else(|| Problem::not_found("machine", name))
    }

    pub fn set_power(&mut self, name: &str, power: Power) -> Result<(), Problem> {
        let machine = self.holdings.machines.get_mut(name).ok_or_else(|| Problem::not_found("machine", name))?;
        machine.power = power;
        Ok(())
    }

    /// Lets a machine vanish, as by an accident. Its group does not replace it.
    pub fn delete_machine(&mut self, name: &str) -> Result<(), Problem> {
        self.holdings.machines.remove(name);
        Ok(())
    }

    pub fn load_balancer(&self, name: &str) -> Result<&LoadBalancer, Problem> {
        self.holdings.load_balancers.get(name).ok_or_else(|| Problem::not_found("load balancer", name))
    }

    /// Creates a load balancer, or changes the one of this name. It keeps its address unless another one is requested.
    pub fn put_load_balancer(&mut self, name: &str, spec: LoadBalancerSpec) -> Result<(), Problem> {
        if let Some(range) = spec.source_ranges.iter().find(|range| range.parse::<IpNet>().is_err()) {
            return Err(Problem::new(Reason::Invalid, format!("source range {range:?} is no network")));
        }
        let present = self.holdings.load_balancers.get(name).map(|balancer| balancer.address);
        let quota = self.holdings.settings.load_balancer_quota;
        if present.is_none() && self.holdings.load_balancers.len() >= quota {
            return Err(Problem::quota("load balancers", quota));
        }
        let address = self.address_for(name, present, spec.requested_address)?;
        let balancer = LoadBalancer { name: name.to_owned(), address, spec };
        self.holdings.load_balancers.insert(name.to_owned(), balancer);
        Ok(())
    }

    fn address_for(
        &self,
        name: &str,
        present: Option<Ipv4Addr>,
        requested: Option<Ipv4Addr>,
    ) -> Result<Ipv4Addr, Problem> {
        let others = self.holdings.load_balancers.values().filter(|other| other.name != name);
        let taken: BTreeSet<Ipv4Addr> = others.map(|other| other.address).collect();
        match requested {
            Some(wanted) if !addresses::is_of_balancers(wanted) => {
                Err(Problem::new(Reason::Invalid, format!("address {wanted} does not belong to this cloud")))
            }
            Some(wanted) if taken.contains(&wanted) => {
                Err(Problem::new(Reason::Conflict, format!("address {wanted} is in use by another load balancer")))
            }
            Some(wanted) => Ok(wanted),
            None => present
                .or_else(|| addresses::balancers().find(|address| !taken.contains(address)))
                .ok_or_else(|| Problem::new(Reason::QuotaExceeded, "no address of load balancers is left")),
        }
    }

    pub fn set_backends(&mut self, name: &str, backends: Vec<String>) -> Result<(), Problem> {
        let balancer = self.holdings.load_balancers.get_mut(name);
        balancer.ok_or_else(|| Problem::not_found("load balancer", name))?.spec.backends = backends;
        Ok(())
    }

    pub fn delete_load_balancer(&mut self, name: &str) -> Result<(), Problem> {
        self.holdings.load_balancers.remove(name);
        Ok(())
    }

    /// Creates a route, or points the one of this name elsewhere.
    pub fn put_route(&mut self, route: Route) -> Result<(), Problem> {
        if route.destination.parse::<IpNet>().is_err() {
            return Err(Problem::new(Reason::Invalid, format!("destination {:?} is no network", route.destination)));
        }
        self.machine(&route.machine)?;
        let routes = &self.holdings.routes;
        let is_rival = |other: &&Route| other.name != route.name && other.destination == route.destination;
        if let Some(other) = routes.values().find(is_rival) {
            let message = format!("route {:?} has the destination {} already", other.name, other.destination);
            return Err(Problem::new(Reason::Conflict, message));
        }
        let quota = self.holdings.settings.route_quota;
        if !routes.contains_key(&route.name) && routes.len() >= quota {
            return Err(Problem::quota("routes", quota));
        }
        self.holdings.routes.insert(route.name.clone(), route);
        Ok(())
    }

    pub fn delete_route(&mut self, name: &str) -> Result<(), Problem> {
        self.holdings.routes.remove(name);
        Ok(())
    }

    pub fn set_settings(&mut self, settings: Settings) -> Result<(), Problem> {
        if !(0.0..=1.0).contains(&settings.fault_rate) {
            return Err(Problem::new(Reason::Invalid, "faultRate must be from 0 to 1"));
        }
        self.holdings.settings = settings;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::BalancedPort;

    fn group(initial: u32) -> NodeGroup {
        NodeGroup { name: "node".into(), min: 1, max: 5, initial, instance_type: "small".into() }
    }

    fn cloud(initial: u32) -> Cloud {
        let mut cloud = Cloud::new(Site::default(), Holdings::default());
        cloud.set_up_group(group(initial)).unwrap();
        cloud
    }

    fn machines(cloud: &Cloud) -> String {
        let line = |machine: &Machine| format!("{} {:?} {}", machine.name, machine.origin, machine.internal_address);
        cloud.holdings.machines.values().map(line).collect::<Vec<_>>().join(", ")
    }

    fn spec(requested: Option<&str>) -> LoadBalancerSpec {
        let port = BalancedPort { name: String::new(), protocol: "TCP".into(), port: 80, node_port: Some(30080) };
        let requested_address = requested.map(|address| address.parse().unwrap());
        LoadBalancerSpec { requested_address, ports: vec![port], ..LoadBalancerSpec::default() }
    }

    #[test]
    fn a_group_grows_by_the_lowest_numbers_and_shrinks_from_the_highest() {
        let mut cloud = cloud(2);
        assert_eq!(machines(&cloud), "node-0 Start 172.18.0.2, node-1 Start 172.18.0.3");
        cloud.scale("node", 3).unwrap();
        cloud.delete_machine("node-0").unwrap();
        cloud.scale("node", 4).unwrap();
        let expected = "node-0 Start 172.18.0.2, node-1 Start 172.18.0.3, node-2 Scaled 172.18.0.4, \
                        node-3 Scaled 172.18.0.5";
        assert_eq!(machines(&cloud), expected);
        cloud.scale("node", 1).unwrap();
        assert_eq!(machines(&cloud), "node-0 Start 172.18.0.2");
        assert_eq!(cloud.holdings.machines["node-0"].zone, "orrery-a");
    }

    #[test]
    fn a_size_out_of_bounds_is_refused_and_changes_nothing() {
        let mut cloud = cloud(2);
        for (name, size, expected) in [
            ("node", 0, r#"Invalid: size 0 of node group "node" is not from 1 to 5"#),
            ("node", 6, r#"Invalid: size 6 of node group "node" is not from 1 to 5"#),
            ("gpu", 1, r#"NotFound: there is no node group "gpu""#),
        ] {
            assert_eq!(cloud.scale(name, size).unwrap_err().to_string(), expected);
        }
        cloud.set_settings(Settings { machine_quota: 3, ..Settings::default() }).unwrap();
        let full = cloud.scale("node", 5).unwrap_err().to_string();
        assert_eq!(full, "QuotaExceeded: the quota of 3 machines is used up");
        assert_eq!(cloud.groups()[0].size, 3);
    }

    #[test]
    fn a_restart_keeps_the_size_unless_the_command_line_asks_for_another() {
        let mut first = cloud(2);
        first.scale("node", 4).unwrap();
        let mut again = Cloud::new(Site::default(), first.holdings.clone());
        again.set_up_group(group(2)).unwrap();
        assert_eq!(again.holdings, first.holdings);
        again.set_up_group(group(3)).unwrap();
        assert_eq!(again.groups()[0].size, 3);
    }

    #[test]
    fn a_load_balancer_keeps_its_address_and_gets_the_one_that_it_requests() {
        let mut cloud = cloud(1);
        let address = |cloud: &Cloud, name: &str| cloud.load_balancer(name).unwrap().address.to_string();
        cloud.put_load_balancer("a", spec(None)).unwrap();
        cloud.put_load_balancer("b", spec(Some("203.0.113.9"))).unwrap();
        cloud.put_load_balancer("a", spec(None)).unwrap();
        assert_eq!((address(&cloud, "a"), address(&cloud, "b")), ("203.0.113.1".into(), "203.0.113.9".into()));
        cloud.put_load_balancer("a", spec(Some("203.0.113.7"))).unwrap();
        assert_eq!(address(&cloud, "a"), "203.0.113.7");
        let no_network = LoadBalancerSpec { source_ranges: vec!["everywhere".into()], ..spec(None) };
        for (spec, expected) in [
            (spec(Some("203.0.113.9")), "Conflict: address 203.0.113.9 is in use by another load balancer"),
            (spec(Some("10.0.0.1")), "Invalid: address 10.0.0.1 does not belong to this cloud"),
            (no_network, r#"Invalid: source range "everywhere" is no network"#),
        ] {
            assert_eq!(cloud.put_load_balancer("c", spec).unwrap_err().to_string(), expected);
        }
        cloud.set_settings(Settings { load_balancer_quota: 2, ..Settings::default() }).unwrap();
        let full = cloud.put_load_balancer("c", spec(None)).unwrap_err().to_string();
        assert_eq!(full, "QuotaExceeded: the quota of 2 load balancers is used up");
        cloud.delete_load_balancer("b").unwrap();
        cloud.delete_load_balancer("b").unwrap();
        cloud.put_load_balancer("c", spec(None)).unwrap();
        assert_eq!(address(&cloud, "c"), "203.0.113.1");
    }

    #[test]
    fn two_routes_never_have_one_destination() {
        let mut cloud = cloud(2);
        let route = |name: &str, destination: &str, machine: &str| Route {
            name: name.into(),
            destination: destination.into(),
            machine: machine.into(),
        };
        cloud.put_route(route("r0", "10.244.0.0/24", "node-0")).unwrap();
        for (wrong, expected) in [
            (
                route("r1", "10.244.0.0/24", "node-1"),
                r#"Conflict: route "r0" has the destination 10.244.0.0/24 already"#,
            ),
            (route("r1", "pods", "node-1"), r#"Invalid: destination "pods" is no network"#),
            (route("r1", "10.244.1.0/24", "node-7"), r#"NotFound: there is no machine "node-7""#),
        ] {
            assert_eq!(cloud.put_route(wrong).unwrap_err().to_string(), expected);
        }
        cloud.put_route(route("r0", "10.244.0.0/24", "node-1")).unwrap();
        assert_eq!(cloud.holdings.routes.len(), 1);
    }
}
