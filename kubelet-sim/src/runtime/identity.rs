//! The name of a pod's machine, and the files that say it: `/etc/hostname` and `/etc/hosts`.
//!
//! Pure. Corresponds to GeneratePodHostNameAndDomain and managedHostsFileContent of pkg/kubelet/kubelet_pods.go.

use proto::kinds::api::core::v1::{HostAlias, PodSpec};
use std::net::IpAddr;

/// The longest name of a machine.
const MAX_HOSTNAME: usize = 63;
const HEADER: &str = "# Kubernetes-managed hosts file.\n";
const HOST_HEADER: &str = "# Kubernetes-managed hosts file (host network).\n";
const LOCAL: &str = "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\nfe00::0\tip6-localnet\n\
                     fe00::0\tip6-mcastprefix\nfe00::1\tip6-allnodes\nfe00::2\tip6-allrouters\n";

/// The names of a pod's machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodIdentity {
    /// What `hostname` prints.
    pub hostname: String,
    /// The first part of the name, as `/etc/hosts` has it.
    short: String,
    domain: Option<String>,
}

impl PodIdentity {
    /// Returns the names of a pod; `cluster_domain` is that of the cluster's DNS.
    pub fn of(spec: &PodSpec, name: &str, namespace: &str, cluster_domain: &str) -> Self {
        if spec.host_network == Some(true) {
            let node = spec.node_name.clone().unwrap_or_default();
            return Self { hostname: node.clone(), short: node, domain: None };
        }
        if let Some(given) = spec.hostname_override.as_deref().filter(|given| !given.is_empty()) {
            return Self { hostname: given.to_owned(), short: given.to_owned(), domain: None };
        }
        let given = spec.hostname.as_deref().filter(|given| !given.is_empty()).unwrap_or(name);
        let short = given[..given.len().min(MAX_HOSTNAME)].trim_end_matches(['-', '.']).to_owned();
        let domain = spec.subdomain.as_deref().filter(|subdomain| !subdomain.is_empty());
        let domain = domain.map(|subdomain| format!("{subdomain}.{namespace}.svc.{cluster_domain}"));
        let hostname = match (&domain, spec.set_hostname_as_fqdn) {
            (Some(domain), Some(true)) => format!("{short}.{domain}"),
            _ => short.clone(),
        };
        Self { hostname, short, domain }
    }

    /// Returns the content of `/etc/hosts`.
    pub fn hosts(&self, spec: &PodSpec, addresses: &[IpAddr]) -> String {
        let mut text = match spec.host_network {
            Some(true) => format!("{HOST_HEADER}{LOCAL}"),
            _ => format!("{HEADER}{LOCAL}"),
        };
        for address in addresses {
            text += &match &self.domain {
                Some(domain) => format!("{address}\t{short}.{domain}\t{short}\n", short = self.short),
                None => format!("{address}\t{}\n", self.short),
            };
        }
        let aliases = spec.host_aliases.as_deref().unwrap_or_default();
        if !aliases.is_empty() {
            text += "\n# Entries added by HostAliases.\n";
        }
        let line = |alias: &HostAlias| {
            format!("{}\t{}\n", alias.ip, alias.hostnames.as_deref().unwrap_or_default().join("\t"))
        };
        text + &aliases.iter().map(line).collect::<String>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn spec(mut fields: Value) -> PodSpec {
        fields["containers"] = json!([]);
        serde_json::from_value(fields).unwrap()
    }

    #[test]
    fn a_pod_has_a_name_and_perhaps_a_domain() {
        let address: IpAddr = "10.244.0.5".parse().unwrap();
        for (fields, hostname, line) in [
            (json!({}), "web-0", "10.244.0.5\tweb-0\n"),
            (json!({"hostname": "h"}), "h", "10.244.0.5\th\n"),
            (json!({"subdomain": "db"}), "web-0", "10.244.0.5\tweb-0.db.shop.svc.cluster.local\tweb-0\n"),
            (
                json!({"hostname": "h", "subdomain": "db", "setHostnameAsFQDN": true}),
                "h.db.shop.svc.cluster.local",
                "10.244.0.5\th.db.shop.svc.cluster.local\th\n",
            ),
            (json!({"hostnameOverride": "o.example", "subdomain": "db"}), "o.example", "10.244.0.5\to.example\n"),
            (json!({"hostNetwork": true, "nodeName": "node-7"}), "node-7", "10.244.0.5\tnode-7\n"),
        ] {
            let spec = spec(fields.clone());
            let identity = PodIdentity::of(&spec, "web-0", "shop", "cluster.local");
            let header = if spec.host_network == Some(true) { HOST_HEADER } else { HEADER };
            assert_eq!(identity.hostname, hostname, "{fields}");
            assert_eq!(identity.hosts(&spec, &[address]), format!("{header}{LOCAL}{line}"), "{fields}");
        }
        let long = PodIdentity::of(&spec(json!({})), &format!("{}-x", "a".repeat(62)), "shop", "cluster.local");
        assert_eq!(long.hostname, "a".repeat(62));
    }

    #[test]
    fn aliases_come_last() {
        let spec = spec(json!({"hostAliases": [
            {"ip": "1.2.3.4", "hostnames": ["foo.local", "bar.local"]}, {"ip": "1.2.3.5", "hostnames": ["baz"]},
        ]}));
        let hosts = PodIdentity::of(&spec, "web-0", "shop", "cluster.local").hosts(&spec, &[]);
        let expected = "\n# Entries added by HostAliases.\n1.2.3.4\tfoo.local\tbar.local\n1.2.3.5\tbaz\n";
        assert_eq!(hosts, format!("{HEADER}{LOCAL}{expected}"));
    }
}
