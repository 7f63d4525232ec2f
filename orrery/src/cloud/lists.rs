//! What the cloud holds, as tables. Pure.

use super::table::Table;
use simulated_cloud::model::{BalancedPort, LoadBalancer, Machine, Power, Route, SizedGroup};

pub fn machines(machines: &[Machine]) -> Table {
    let headers = ["NAME", "GROUP", "STATE", "TYPE", "ZONE", "INTERNAL-IP", "EXTERNAL-IP"];
    let mut table = Table::new(&headers);
    for machine in machines {
        let state = match machine.power {
            Power::Running => "Running",
            Power::Stopped => "Stopped",
        };
        table.row([
            machine.name.clone(),
            machine.group.clone(),
            state.to_owned(),
            machine.instance_type.clone(),
            machine.zone.clone(),
            machine.internal_address.to_string(),
            machine.external_address.map(|address| address.to_string()).unwrap_or_default(),
        ]);
    }
    table
}

pub fn load_balancers(balancers: &[LoadBalancer]) -> Table {
    let mut table = Table::new(&["NAME", "SERVICE", "ADDRESS", "PORT(S)", "SOURCES", "BACKENDS"]);
    for LoadBalancer { name, address, spec } in balancers {
        table.row([
            name.clone(),
            spec.description.clone(),
            address.to_string(),
            spec.ports.iter().map(port).collect::<Vec<_>>().join(","),
            spec.source_ranges.join(","),
            spec.backends.join(","),
        ]);
    }
    table
}

/// Returns a port as `kubectl get services` prints it.
fn port(port: &BalancedPort) -> String {
    match port.node_port {
        Some(node_port) => format!("{}:{node_port}/{}", port.port, port.protocol),
        None => format!("{}/{}", port.port, port.protocol),
    }
}

pub fn routes(routes: &[Route]) -> Table {
    let mut table = Table::new(&["NAME", "DESTINATION", "MACHINE"]);
    for Route { name, destination, machine } in routes {
        table.row([name.clone(), destination.clone(), machine.clone()]);
    }
    table
}

pub fn groups(groups: &[SizedGroup]) -> Table {
    let mut table = Table::new(&["NAME", "SIZE", "MIN", "MAX", "TYPE"]);
    for group in groups {
        let numbers = [group.size, group.min, group.max].map(|number| number.to_string());
        let [size, min, max] = numbers;
        table.row([group.name.clone(), size, min, max, group.instance_type.clone()]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use simulated_cloud::model::LoadBalancerSpec;

    #[test]
    fn a_load_balancer_is_a_line() {
        let port = |port, node_port| BalancedPort { name: String::new(), protocol: "TCP".into(), port, node_port };
        let spec = LoadBalancerSpec {
            description: "default/web".into(),
            ports: vec![port(80, Some(30080)), port(443, None)],
            source_ranges: vec!["0.0.0.0/0".into()],
            backends: vec!["node-0".into(), "node-1".into()],
            ..LoadBalancerSpec::default()
        };
        let balancer = LoadBalancer { name: "a1".into(), address: "203.0.113.1".parse().unwrap(), spec };
        let expected = "\
NAME   SERVICE       ADDRESS       PORT(S)                SOURCES     BACKENDS
a1     default/web   203.0.113.1   80:30080/TCP,443/TCP   0.0.0.0/0   node-0,node-1
";
        assert_eq!(load_balancers(&[balancer]).to_string(), expected);
        assert_eq!(routes(&[]).to_string(), "NAME   DESTINATION   MACHINE\n");
    }
}
