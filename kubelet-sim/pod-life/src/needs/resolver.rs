//! The resolver's configuration of a pod: `/etc/resolv.conf`.
//!
//! Corresponds to GetPodDNS of pkg/kubelet/network/dns.

use proto::kinds::api::core::v1::PodSpec;
use std::collections::BTreeMap;

/// The names that a node itself looks up, in `/etc/resolv.conf` of the simulated machine.
const NODE_NAMESERVER: &str = "172.18.0.1";

/// The DNS of the cluster.
#[derive(Clone, Debug)]
pub struct ClusterDns {
    /// Addresses of its servers.
    pub servers: Vec<String>,
    pub domain: String,
}

/// Returns the content of the file.
pub fn resolv_conf(spec: &PodSpec, namespace: &str, cluster: &ClusterDns) -> String {
    let host_network = spec.host_network == Some(true);
    let policy = match spec.dns_policy.as_deref().unwrap_or("ClusterFirst") {
        "ClusterFirst" if host_network => "Default",
        policy => policy,
    };
    let (mut nameservers, mut searches, mut options) = (Vec::new(), Vec::new(), BTreeMap::new());
    match policy {
        "None" => {}
        "Default" => nameservers.push(NODE_NAMESERVER.to_owned()),
        _ => {
            nameservers.extend(cluster.servers.iter().cloned());
            let domain = &cluster.domain;
            searches.extend([format!("{namespace}.svc.{domain}"), format!("svc.{domain}"), domain.clone()]);
            options.insert("ndots".to_owned(), Some("5".to_owned()));
        }
    }
    if let Some(own) = &spec.dns_config {
        nameservers.extend(own.nameservers.iter().flatten().cloned());
        searches.extend(own.searches.iter().flatten().cloned());
        options.extend(own.options.iter().flatten().filter_map(|o| Some((o.name.clone()?, o.value.clone()))));
    }
    let distinct = |list: Vec<String>| {
        let mut kept: Vec<String> = Vec::new();
        list.into_iter().for_each(|one| {
            if !kept.contains(&one) {
                kept.push(one)
            }
        });
        kept
    };
    let mut text = String::new();
    let searches = distinct(searches);
    if !searches.is_empty() {
        text += &format!("search {}\n", searches.join(" "));
    }
    text.extend(distinct(nameservers).iter().map(|server| format!("nameserver {server}\n")));
    if !options.is_empty() {
        let options = options.iter().map(|(name, value)| match value {
            Some(value) => format!("{name}:{value}"),
            None => name.clone(),
        });
        text += &format!("options {}\n", options.collect::<Vec<_>>().join(" "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn the_policy_and_the_pods_own_configuration_decide() {
        let cluster = ClusterDns { servers: vec!["10.96.0.10".into()], domain: "cluster.local".into() };
        let of_cluster =
            "search shop.svc.cluster.local svc.cluster.local cluster.local\nnameserver 10.96.0.10\noptions ndots:5\n";
        let own = json!({
            "nameservers": ["1.1.1.1", "10.96.0.10"], "searches": ["example.com"],
            "options": [{"name": "ndots", "value": "2"}, {"name": "edns0"}],
        });
        for (spec, expected) in [
            (json!({}), of_cluster),
            (json!({"hostNetwork": true}), "nameserver 172.18.0.1\n"),
            (json!({"hostNetwork": true, "dnsPolicy": "ClusterFirstWithHostNet"}), of_cluster),
            (json!({"dnsPolicy": "Default"}), "nameserver 172.18.0.1\n"),
            (
                json!({"dnsPolicy": "None", "dnsConfig": own}),
                "search example.com\nnameserver 1.1.1.1\nnameserver 10.96.0.10\noptions edns0 ndots:2\n",
            ),
            (
                json!({"dnsConfig": own}),
                "search shop.svc.cluster.local svc.cluster.local cluster.local example.com\nnameserver 10.96.0.10\n\
                 nameserver 1.1.1.1\noptions edns0 ndots:2\n",
            ),
        ] {
            let mut whole: Value = json!({"containers": []});
            whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
            let parsed: PodSpec = serde_json::from_value(whole).unwrap();
            assert_eq!(resolv_conf(&parsed, "shop", &cluster), expected, "{spec}");
        }
    }
}
