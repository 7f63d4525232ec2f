//! Kernel parameters that a pod asks for.
//!
//! Corresponds to pkg/kubelet/sysctl: those that could disturb other pods have to be allowed on the node.

use crate::admission::Rejection;
use proto::kinds::api::core::v1::PodSpec;

/// The parameters that are allowed on every node.
const SAFE: [&str; 12] = [
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ping_group_range",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_wmem",
];

/// Refuses a pod with a parameter that is neither safe nor allowed by `--allowed-unsafe-sysctls`, whose patterns may end
/// in `*`.
pub fn check(spec: &PodSpec, allowed: &[String]) -> Result<(), Rejection> {
    let context = spec.security_context.as_ref();
    let asked = context.and_then(|context| context.sysctls.as_ref());
    for sysctl in asked.into_iter().flatten() {
        // Kubernetes accepts slashes for dots.
        let name = sysctl.name.replace('/', ".");
        let matches = |pattern: &String| match pattern.strip_suffix('*') {
            Some(prefix) => name.starts_with(prefix),
            None => *pattern == name,
        };
        if !SAFE.contains(&name.as_str()) && !allowed.iter().any(matches) {
            let message = format!("forbidden sysctl: {:?} not allowlisted", sysctl.name);
            return Err(Rejection { reason: "SysctlForbidden".to_owned(), message });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn unsafe_parameters_have_to_be_allowed() {
        let allowed = ["kernel.msg*".to_owned(), "net.core.somaxconn".to_owned()];
        for (name, is_allowed) in [
            ("kernel.shm_rmid_forced", true),
            ("net/ipv4/tcp_syncookies", true),
            ("kernel.msgmax", true),
            ("net.core.somaxconn", true),
            ("net.core.somaxconn2", false),
            ("kernel.sem", false),
        ] {
            let spec = json!({"containers": [], "securityContext": {"sysctls": [{"name": name, "value": "1"}]}});
            let found = check(&serde_json::from_value(spec).unwrap(), &allowed).map_err(|error| error.message);
            let expected = if is_allowed { Ok(()) } else { Err(format!("forbidden sysctl: {name:?} not allowlisted")) };
            assert_eq!(found, expected);
        }
    }
}
