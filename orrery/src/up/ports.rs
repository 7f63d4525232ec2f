//! Chooses the ports of a cluster: the default ones, or the first free ones for a cluster with another name.

use super::UpError;
use super::components::Component;
use crate::place::Place;
use std::net::{IpAddr, SocketAddr, TcpListener};

/// Default port of the API server.
pub const DEFAULT_PORT: u16 = 6443;
/// Distance between the first ports of named clusters.
const STEP: u16 = 10;
const MAX_CLUSTERS: u16 = 100;
/// Number of ports of a cluster with a cloud, one per component.
const EACH: u16 = 7;

/// Chooses the port of the API server; the others follow it.
pub fn choose(place: &Place, address: IpAddr) -> u16 {
    if place.has_default_name() {
        return DEFAULT_PORT;
    }
    let is_free = |port| TcpListener::bind(SocketAddr::new(address, port)).is_ok();
    let bases = (1..=MAX_CLUSTERS).map(|cluster| DEFAULT_PORT + cluster * STEP);
    let mut free = bases.filter(|base| (*base..*base + EACH).all(is_free));
    // If none is free, starting on the first one will report it.
    free.next().unwrap_or(DEFAULT_PORT + STEP)
}

/// Checks that all ports are free before anything is started.
pub fn check(address: IpAddr, components: &[Component]) -> Result<(), UpError> {
    for component in components {
        let address = SocketAddr::new(address, component.port);
        TcpListener::bind(address).map_err(|source| UpError::Port { component: component.name, address, source })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;
    use std::path::PathBuf;

    #[test]
    fn clusters_of_other_names_get_ports_that_are_free() {
        let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
        assert_eq!(choose(&Place::at(PathBuf::from("d")), address), DEFAULT_PORT);
        let named = Place { name: "lab".to_owned(), data_dir: None };
        let first = choose(&named, address);
        let taken = TcpListener::bind((address, first + 4));
        let second = choose(&named, address);
        assert!(taken.is_err() || second > first, "{first}, {second}");
        assert_eq!((first - DEFAULT_PORT) % STEP, 0);
    }
}
