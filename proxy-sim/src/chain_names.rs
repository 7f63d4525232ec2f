//! Names of the chains of service ports: a prefix and a hash of the port's name, as kube-proxy computes them.
//!
//! Corresponds to pkg/proxy/iptables servicePortChainName and servicePortEndpointChainName: the first sixteen
//! characters of the base32 form of a SHA-256.

use crate::model::{Endpoint, ServicePortName};
use sha2::{Digest, Sha256};

const BASE32: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
const HASH_CHARACTERS: usize = 16;

/// Returns the chain to all endpoints that the Cluster policy allows.
pub fn service(name: &ServicePortName) -> String {
    chain("KUBE-SVC-", name, "")
}

/// Returns the chain to the endpoints on this node.
pub fn service_local(name: &ServicePortName) -> String {
    chain("KUBE-SVL-", name, "")
}

/// Returns the chain that traffic from outside the cluster enters.
pub fn external(name: &ServicePortName) -> String {
    chain("KUBE-EXT-", name, "")
}

/// Returns the chain that checks the source ranges of a load balancer.
pub fn firewall(name: &ServicePortName) -> String {
    chain("KUBE-FW-", name, "")
}

/// Returns the chain to one endpoint.
pub fn endpoint(name: &ServicePortName, endpoint: &Endpoint) -> String {
    chain("KUBE-SEP-", name, &endpoint.to_string())
}

fn chain(prefix: &str, name: &ServicePortName, tail: &str) -> String {
    let digest = Sha256::digest(format!("{name}{}{tail}", name.protocol));
    let mut text = prefix.to_owned();
    for i in 0..HASH_CHARACTERS {
        // Five bits a character, from the most significant end.
        let bit = i * 5;
        let pair = u16::from_be_bytes([digest[bit / 8], digest[bit / 8 + 1]]);
        let index = (pair >> (11 - bit % 8)) & 0x1f;
        text.push(char::from(BASE32[usize::from(index)]));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chain_of_the_kubernetes_service_has_its_well_known_name() {
        let name = ServicePortName {
            namespace: "default".into(),
            name: "kubernetes".into(),
            port: "https".into(),
            protocol: "tcp".into(),
        };
        assert_eq!(service(&name), "KUBE-SVC-NPX46M4PTMTKRN6Y");
    }
}
