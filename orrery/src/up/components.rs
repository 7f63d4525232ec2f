//! The components that `up` starts, in order, with their ports and command lines.
//!
//! They are a pure function of the options, so that a test can read them. Flags have the names of Kubernetes' originals.

use super::data_dir::DataDir;
use super::{Options, StoreKind};
use crate::certificates::{CLOUD_CONFIG, FRONT_PROXY_CLIENT};
use simulated_cloud::model::Settings as CloudSettings;
use std::net::IpAddr;
use std::path::Path;

/// A process to start.
#[derive(Clone, Debug, PartialEq)]
pub struct Component {
    /// Sub-command of this program, and name in progress lines and logs.
    pub name: &'static str,
    /// Port of its API, or of its health and metrics.
    pub port: u16,
    pub arguments: Vec<String>,
    /// Additional arguments of the first start.
    pub first_arguments: Vec<String>,
}

/// Offsets from `--port`, the API server first.
const PORTS: [(&str, u16); 7] = [
    ("apiserver", 0),
    ("controller-manager", 1),
    ("scheduler", 2),
    ("kubelet-sim", 3),
    ("proxy-sim", 4),
    (CLOUD, 5),
    ("cloud-controller-manager", 6),
];
/// The cloud itself.
pub const CLOUD: &str = "cloud-sim";
/// Components that run only with `--cloud`.
const OF_CLOUD: [&str; 2] = [CLOUD, "cloud-controller-manager"];
/// The node group of the machines that nodes run on.
const GROUP: &str = "node";
/// How many nodes the group may at least have.
const SMALLEST_MAX: u32 = 10;

/// Admission plugins besides the default ones, as kubeadm sets them.
const ADMISSION_PLUGINS: &str = "NodeRestriction";

/// Attempts of the scheduler that `orrery explain` can show.
const EXPLAINED_ATTEMPTS: usize = 1000;

/// Returns all components in the order of starting.
pub fn components(options: &Options, verbosity: u8, data_dir: &DataDir) -> Vec<Component> {
    PORTS
        .iter()
        .filter(|(name, _)| options.cloud || !OF_CLOUD.contains(name))
        .map(|(name, offset)| {
            let port = options.base_port() + offset;
            let mut arguments = vec![
                flag("v", verbosity),
                flag("bind-address", options.bind_address),
                flag("secure-port", port),
                path_flag("tls-cert-file", &data_dir.pki_of(name).join("tls.crt")),
                path_flag("tls-private-key-file", &data_dir.pki_of(name).join("tls.key")),
                path_flag("client-ca-file", &data_dir.pki_of(name).join("ca.crt")),
            ];
            arguments.extend(own_arguments(name, options, data_dir));
            arguments.extend(options.passed_on.arguments(name));
            let restored = options.restore.as_ref().filter(|_| *name == "apiserver");
            let first_arguments = restored.map(|file| path_flag("restore", file)).into_iter().collect();
            Component { name, port, arguments, first_arguments }
        })
        .collect()
}

/// Returns the order of a clean stop: node agents first, the API server last.
pub fn stop_order() -> [&'static str; 7] {
    [
        "kubelet-sim",
        "proxy-sim",
        "scheduler",
        "cloud-controller-manager",
        "cloud-sim",
        "controller-manager",
        "apiserver",
    ]
}

fn own_arguments(name: &str, options: &Options, data_dir: &DataDir) -> Vec<String> {
    let pki = data_dir.pki_of(name);
    if name == "apiserver" {
        let mut arguments = vec![
            flag("store", options.store),
            path_flag("data-dir", &data_dir.store()),
            path_flag("service-account-signing-key-file", &pki.join("sa.key")),
            flag("enable-admission-plugins", ADMISSION_PLUGINS),
            path_flag("kubelet-certificate-authority", &pki.join("ca.crt")),
            path_flag("kubelet-client-certificate", &pki.join("kubelet-client.crt")),
            path_flag("kubelet-client-key", &pki.join("kubelet-client.key")),
            path_flag("proxy-client-cert-file", &pki.join("front-proxy-client.crt")),
            path_flag("proxy-client-key-file", &pki.join("front-proxy-client.key")),
            path_flag("requestheader-client-ca-file", &pki.join("front-proxy-ca.crt")),
            flag("requestheader-allowed-names", FRONT_PROXY_CLIENT),
            flag("requestheader-username-headers", "X-Remote-User"),
            flag("requestheader-group-headers", "X-Remote-Group"),
            flag("requestheader-extra-headers-prefix", "X-Remote-Extra-"),
        ];
        // On loopback only this machine's users can ask for traces; on other addresses administrators have to enable them.
        if options.bind_address.is_loopback() {
            arguments.push(flag("enable-request-trace", true));
        }
        arguments.extend(etcd_arguments(options));
        return arguments;
    }
    if name == CLOUD {
        return cloud_arguments(options, data_dir);
    }
    let mut arguments = vec![path_flag("kubeconfig", &pki.join("kubeconfig"))];
    match name {
        "controller-manager" => {
            arguments.push(path_flag("root-ca-file", &pki.join("ca.crt")));
            arguments.push(path_flag("service-account-private-key-file", &pki.join("sa.key")));
            arguments.push(path_flag("cluster-signing-cert-file", &pki.join("ca.crt")));
            arguments.push(path_flag("cluster-signing-key-file", &pki.join("ca.key")));
            arguments.push(flag("cluster-cidr", cluster_cidr(most_nodes(options))));
            arguments.push(path_flag("volume-dir", &data_dir.volumes()));
        }
        "cloud-controller-manager" => {
            arguments.push(flag("cloud-provider", "orrery"));
            arguments.push(path_flag("cloud-config", &pki.join(CLOUD_CONFIG)));
            arguments.push(flag("use-service-account-credentials", true));
            arguments.push(flag("allocate-node-cidrs", true));
            arguments.push(flag("cluster-cidr", cluster_cidr(most_nodes(options))));
        }
        "kubelet-sim" => {
            if options.cloud {
                arguments.push(flag("cloud-provider", "external"));
            }
            match options.node_template.is_empty() {
                true => arguments.push(flag("nodes", options.nodes)),
                false => arguments.extend(options.node_template.iter().map(|path| path_flag("node-template", path))),
            }
            arguments.push(path_flag("volume-dir", &data_dir.volumes()));
            arguments.extend(options.failure_model.iter().map(|path| path_flag("failure-model", path)));
            arguments.push(path_flag("requestheader-client-ca-file", &pki.join("front-proxy-ca.crt")));
            arguments.push(flag("requestheader-allowed-names", FRONT_PROXY_CLIENT));
            if options.static_control_plane {
                arguments.push(path_flag("pod-manifest-path", &data_dir.manifests()));
            }
            arguments.extend(options.stages.iter().map(|path| path_flag("stages", path)));
        }
        "scheduler" => arguments.push(flag("explain-attempts", EXPLAINED_ATTEMPTS)),
        "proxy-sim" => arguments.push(flag("cluster-cidr", cluster_cidr(most_nodes(options)))),
        _ => {}
    }
    arguments
}

fn cloud_arguments(options: &Options, data_dir: &DataDir) -> Vec<String> {
    // A cluster that forgets begins with a cloud that does.
    let remembers = options.store != StoreKind::Memory;
    let state_file = remembers.then(|| path_flag("state-file", &data_dir.cloud().join("state.json")));
    let most = most_nodes(options);
    let group = flag("group", format!("{GROUP}={}:0:{most}", options.nodes));
    // The default quotas are for clusters of the usual size.
    let is_large = most as usize > CloudSettings::default().machine_quota;
    let quotas = ["machine-quota", "route-quota"].into_iter().filter(|_| is_large).map(|quota| flag(quota, most));
    [group].into_iter().chain(state_file).chain(quotas).collect()
}

/// Returns how many nodes there may be at one time: in a cloud, their number can grow.
fn most_nodes(options: &Options) -> u32 {
    if options.cloud { (2 * options.nodes).max(SMALLEST_MAX) } else { options.nodes }
}

/// Returns the range of pods' addresses, of which each node gets 256: the usual one if it suffices, else the half of
/// 10.0.0.0/8 without addresses of Services and nodes.
fn cluster_cidr(nodes: u32) -> &'static str {
    if nodes <= 256 { "10.244.0.0/16" } else { "10.128.0.0/9" }
}

/// Returns the flags for an external etcd.
fn etcd_arguments(options: &Options) -> Vec<String> {
    let files = [
        ("etcd-cafile", &options.etcd_cafile),
        ("etcd-certfile", &options.etcd_certfile),
        ("etcd-keyfile", &options.etcd_keyfile),
    ];
    let servers = (!options.etcd_endpoints.is_empty()).then(|| flag("etcd-servers", options.etcd_endpoints.join(",")));
    let files = files.into_iter().filter_map(|(name, path)| path.as_ref().map(|path| path_flag(name, path)));
    servers.into_iter().chain(files).collect()
}

fn flag(name: &str, value: impl std::fmt::Display) -> String {
    format!("--{name}={value}")
}

fn path_flag(name: &str, path: &Path) -> String {
    flag(name, path.display())
}

/// Returns `host:port` of the component that serves metrics.k8s.io.
pub fn metrics_endpoint(options: &Options, components: &[Component]) -> String {
    let port = components.iter().find(|component| component.name == "kubelet-sim").map_or(0, |found| found.port);
    server_url(options.bind_address, port).trim_start_matches("https://").to_owned()
}

/// Returns the URL of the cloud; `None` if none runs.
pub fn cloud_url(options: &Options) -> Option<String> {
    let offset = PORTS.iter().find(|(name, _)| *name == CLOUD).map_or(0, |(_, offset)| *offset);
    options.cloud.then(|| server_url(options.bind_address, options.base_port() + offset))
}

/// Returns the URL of the API server for this machine.
pub fn server_url(bind_address: IpAddr, port: u16) -> String {
    let host = match bind_address {
        IpAddr::V4(address) if address.is_unspecified() => "127.0.0.1".to_owned(),
        IpAddr::V6(address) if address.is_unspecified() => "[::1]".to_owned(),
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    };
    format!("https://{host}:{port}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    #[test]
    fn every_component_has_a_port_and_its_own_files() {
        let folder = tempfile::tempdir().unwrap();
        let data_dir = DataDir::open(&folder.path().join("d")).unwrap();
        let options = Options { nodes: 7, port: Some(7000), ..Options::defaults(PathBuf::from("d")) };
        let components = components(&options, 4, &data_dir);
        let ports: Vec<(&str, u16)> = components.iter().map(|c| (c.name, c.port)).collect();
        assert_eq!(ports[0], ("apiserver", 7000));
        assert_eq!(ports[4], ("proxy-sim", 7004));
        assert!(components[3].arguments.contains(&"--nodes=7".to_owned()));
        for component in &components {
            for argument in component.arguments.iter().filter(|a| a.contains("/pki/")) {
                assert!(argument.contains(&format!("/pki/{}/", component.name)), "{argument}");
            }
        }
        assert!(components.iter().all(|component| component.arguments.contains(&"--v=4".to_owned())));
        let stopped = stop_order();
        assert!(components.iter().all(|c| stopped.contains(&c.name)));
    }

    #[test]
    fn a_cloud_adds_two_components_and_nodes_wait_for_it() {
        let folder = tempfile::tempdir().unwrap();
        let data_dir = DataDir::open(&folder.path().join("d")).unwrap();
        let options = Options { cloud: true, port: Some(7000), ..Options::defaults(PathBuf::from("d")) };
        let all = components(&options, 0, &data_dir);
        let of = |name: &str| all.iter().find(|component| component.name == name).unwrap();
        assert_eq!((of("cloud-sim").port, of("cloud-controller-manager").port), (7005, 7006));
        assert!(of("cloud-sim").arguments.contains(&"--group=node=3:0:10".to_owned()));
        assert!(of("kubelet-sim").arguments.contains(&"--cloud-provider=external".to_owned()));
        let large = components(&Options { nodes: 2000, ..options.clone() }, 0, &data_dir);
        let of_cloud = large.iter().find(|component| component.name == CLOUD).unwrap();
        assert!(of_cloud.arguments.contains(&"--machine-quota=4000".to_owned()));
        let cloudless = components(&Options { cloud: false, ..options }, 0, &data_dir);
        assert!(cloudless.iter().all(|component| !component.name.starts_with("cloud")));
        assert!(!cloudless[3].arguments.iter().any(|argument| argument.starts_with("--cloud-provider")));
    }

    #[test]
    fn requests_are_traced_where_only_this_machine_can_ask() {
        let folder = tempfile::tempdir().unwrap();
        let data_dir = DataDir::open(&folder.path().join("d")).unwrap();
        let traced = |address: &str| {
            let bind_address = address.parse().unwrap();
            let options = Options { bind_address, ..Options::defaults(PathBuf::from("d")) };
            components(&options, 0, &data_dir)[0].arguments.contains(&"--enable-request-trace=true".to_owned())
        };
        assert!(traced("127.0.0.1") && traced("::1"));
        assert!(!traced("0.0.0.0") && !traced("10.0.0.9"));
    }

    #[test]
    fn an_unspecified_address_is_reached_over_loopback() {
        assert_eq!(server_url("0.0.0.0".parse().unwrap(), 6443), "https://127.0.0.1:6443");
        assert_eq!(server_url("::".parse().unwrap(), 1), "https://[::1]:1");
        assert_eq!(server_url("10.0.0.9".parse().unwrap(), 1), "https://10.0.0.9:1");
    }
}
