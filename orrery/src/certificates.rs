//! Issues the certificates and kubeconfigs of all components and the administrator.
//!
//! The authority and the key of service account tokens are made once and kept. A certificate is reissued when it expires
//! soon or lacks a name. So a cluster can run longer than a year, and its address may change between starts.

use component_base::kubeconfig::{self, Connection, KubeconfigError};
use component_base::pki::{self, Authority, CertKey, PkiError, Subject};
use component_base::private_file;
use jiff::Timestamp;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Name of the cluster in kubeconfigs.
pub const CLUSTER: &str = "orrery";
pub const ADMIN: &str = "kubernetes-admin";
/// Group of the administrator, who is allowed everything.
const ADMIN_GROUP: &str = "system:masters";

/// Component that signs CertificateSigningRequests.
const SIGNER: &str = "controller-manager";

/// Components with a kubeconfig, and the users of their client certificates.
const CLIENTS: [(&str, &str); 3] = [
    ("controller-manager", "system:kube-controller-manager"),
    ("scheduler", "system:kube-scheduler"),
    ("proxy-sim", "system:kube-proxy"),
];

/// The process that acts for many nodes, and the user of its client certificate.
const FLEET: (&str, &str) = ("kubelet-sim", "system:orrery:node-fleet");
/// The process that measures nodes with processes of their own, and the user of its client certificate.
const METRICS_SERVER: (&str, &str) = ("metrics-server", metrics_server::register::USER);
/// The controllers of a cloud, and the user of their client certificate; and the cloud, which is simulated.
const CLOUD_CONTROLLERS: (&str, &str) = ("cloud-controller-manager", "system:cloud-controller-manager");
const CLOUD: &str = "cloud-sim";
/// File that tells the controllers how to reach their cloud.
pub const CLOUD_CONFIG: &str = "cloud-config";
/// Group of all nodes.
const NODES_GROUP: &str = "system:nodes";

/// Base name of the API server's client certificate for node agents (`kubelet-client.crt` and `.key`), and its user.
const KUBELET_CLIENT: (&str, &str) = ("kubelet-client", "kube-apiserver-kubelet-client");

/// User and base name of the API server's client certificate for aggregated API servers. It has its own authority, because
/// a client with a certificate of that authority can act as any user.
pub const FRONT_PROXY_CLIENT: &str = "front-proxy-client";
const FRONT_PROXY_AUTHORITY: &str = "front-proxy-ca";

/// Local names in every serving certificate.
const LOCAL_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];
/// Names of the API server inside the cluster.
const SERVER_NAMES: [&str; 4] =
    ["kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"];

/// The certificates to issue, and their folder.
#[derive(Clone, Debug)]
pub struct Identities {
    /// Folder with a private folder for each component, for the authorities and for the administrator.
    pub pki: PathBuf,
    /// URL of the API server for the components.
    pub server: String,
    /// Further names and addresses in every serving certificate.
    pub names: Vec<String>,
    /// Further names and addresses in the API server's certificate.
    pub apiserver_names: Vec<String>,
    /// Further names and addresses in the node agents' certificates.
    pub kubelet_names: Vec<String>,
    /// Nodes that get their own identities in `nodes/<name>`, instead of one that acts for all nodes.
    pub nodes: Vec<String>,
    /// URL of the cloud for its controllers; `None` for a cluster without a cloud.
    pub cloud: Option<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum CertificatesError {
    #[error(transparent)]
    Pki(#[from] PkiError),
    #[error("{}: {source}", path.display())]
    Certificate { path: PathBuf, source: PkiError },
    #[error(transparent)]
    Kubeconfig(#[from] KubeconfigError),
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

/// Issues the missing files of all components and the administrator. Returns the administrator's connection.
pub fn prepare(identities: &Identities, now: Timestamp) -> Result<Connection, CertificatesError> {
    let of = |name: &str| identities.pki.join(name);
    let authority = Authority::load_or_create(&of("ca"), now)?;
    let issuer = Issuer { identities, authority: &authority, now };

    let apiserver = folder(&of("apiserver"))?;
    issuer.serving(&apiserver, "kube-apiserver", &server_names(identities))?;
    keep(&apiserver.join("ca.crt"), || Ok(authority.cert_pem.clone()))?;
    keep(&apiserver.join("sa.key"), || Ok(pki::signing_key()?))?;
    let (stem, common_name) = KUBELET_CLIENT;
    issuer.pair(&apiserver, stem, &Subject { common_name, organizations: &[], names: &[] })?;

    let proxies = Authority::load_or_create(&of(FRONT_PROXY_AUTHORITY), now)?;
    keep(&apiserver.join(format!("{FRONT_PROXY_AUTHORITY}.crt")), || Ok(proxies.cert_pem.clone()))?;
    let subject = Subject { common_name: FRONT_PROXY_CLIENT, organizations: &[], names: &[] };
    Issuer { authority: &proxies, ..issuer }.pair(&apiserver, FRONT_PROXY_CLIENT, &subject)?;

    for (name, user) in CLIENTS {
        issuer.component(&of(name), name, &[], user, &[])?;
    }
    let agents = identities.kubelet_names.as_slice();
    // Who serves metrics.k8s.io is asked by the API server, as the proxy of its users.
    let trust_proxies =
        |name: &str| keep(&of(name).join(format!("{FRONT_PROXY_AUTHORITY}.crt")), || Ok(proxies.cert_pem.clone()));
    if identities.nodes.is_empty() {
        let (name, user) = FLEET;
        issuer.component(&of(name), name, agents, user, &[])?;
        trust_proxies(name)?;
    } else {
        let (name, user) = METRICS_SERVER;
        issuer.component(&of(name), name, &[], user, &[])?;
        trust_proxies(name)?;
    }
    for name in &identities.nodes {
        let user = format!("system:node:{name}");
        issuer.component(&of("nodes").join(name), name, agents, &user, &[NODES_GROUP])?;
    }
    if let Some(url) = &identities.cloud {
        let (name, user) = CLOUD_CONTROLLERS;
        issuer.component(&of(name), name, &[], user, &[])?;
        let cloud = Connection { server: url.clone(), ..kubeconfig::read(&of(name).join("kubeconfig"))? };
        kubeconfig::write(&of(name).join(CLOUD_CONFIG), &cloud, CLOUD, user)?;
        let own = folder(&of(CLOUD))?;
        issuer.serving(&own, CLOUD, &[CLOUD.to_owned()])?;
        keep(&own.join("ca.crt"), || Ok(authority.cert_pem.clone()))?;
    }
    // The signer of the cluster needs the authority's key.
    keep(&of(SIGNER).join("ca.key"), || read(&of("ca").join("ca.key")))?;
    // The controller of token Secrets needs the tokens' key.
    keep(&of(SIGNER).join("sa.key"), || read(&of("apiserver").join("sa.key")))?;
    issuer.client(&folder(&of("admin"))?, ADMIN, &[ADMIN_GROUP])
}

/// Returns the API server's names besides those of its host: the `kubernetes` Service's names and address, which is the
/// first of the range, and those of the command line.
fn server_names(identities: &Identities) -> Vec<String> {
    let service_address = apiserver::Config::default().service_cluster_ip_range[0].hosts().next();
    let names = SERVER_NAMES.iter().map(|name| (*name).to_owned());
    names.chain(service_address.map(|ip| ip.to_string())).chain(identities.apiserver_names.clone()).collect()
}

#[derive(Clone, Copy)]
struct Issuer<'a> {
    identities: &'a Identities,
    authority: &'a Authority,
    now: Timestamp,
}

impl Issuer<'_> {
    /// Issues the serving certificate, trusted authority and client certificate of a component.
    fn component(
        &self,
        path: &Path,
        name: &str,
        further_names: &[String],
        user: &str,
        groups: &[&str],
    ) -> Result<(), CertificatesError> {
        let own = folder(path)?;
        self.serving(&own, name, &[&[name.to_owned()], further_names].concat())?;
        keep(&own.join("ca.crt"), || Ok(self.authority.cert_pem.clone()))?;
        self.client(&own, user, groups).map(drop)
    }

    /// Issues `tls.crt` and `tls.key` for the local names and `names`.
    fn serving(&self, folder: &Path, common_name: &str, names: &[String]) -> Result<(), CertificatesError> {
        let mut all: Vec<String> = LOCAL_NAMES.map(str::to_owned).into();
        all.extend(self.identities.names.iter().chain(names).cloned());
        let mut seen = BTreeSet::new();
        all.retain(|name| seen.insert(name.clone()));
        self.pair(folder, "tls", &Subject { common_name, organizations: &[], names: &all })?;
        Ok(())
    }

    /// Issues `client.crt` and `client.key`, and a `kubeconfig` with both.
    fn client(&self, folder: &Path, user: &str, groups: &[&str]) -> Result<Connection, CertificatesError> {
        let pair = self.pair(folder, "client", &Subject { common_name: user, organizations: groups, names: &[] })?;
        let connection = Connection {
            server: self.identities.server.clone(),
            ca_pem: Some(self.authority.cert_pem.clone()),
            client_cert_pem: Some(pair.cert_pem),
            client_key_pem: Some(pair.key_pem),
            ..Connection::default()
        };
        kubeconfig::write(&folder.join("kubeconfig"), &connection, CLUSTER, user)?;
        Ok(connection)
    }

    fn pair(&self, folder: &Path, stem: &str, subject: &Subject<'_>) -> Result<CertKey, CertificatesError> {
        let (cert, key) = (folder.join(format!("{stem}.crt")), folder.join(format!("{stem}.key")));
        let is_current = cert.exists() && key.exists() && self.is_current(&cert, subject)?;
        if !is_current {
            let pair = self.authority.issue(subject, self.now)?;
            write(&key, &pair.key_pem)?;
            write(&cert, &pair.cert_pem)?;
        }
        Ok(CertKey { cert_pem: read(&cert)?, key_pem: read(&key)? })
    }

    fn is_current(&self, cert: &Path, subject: &Subject<'_>) -> Result<bool, CertificatesError> {
        let current = pki::is_current(&read(cert)?, subject.names, self.now);
        current.map_err(|source| CertificatesError::Certificate { path: cert.to_owned(), source })
    }
}

fn folder(path: &Path) -> Result<PathBuf, CertificatesError> {
    private_file::create_folder(path).map_err(|source| CertificatesError::Io { path: path.to_owned(), source })?;
    Ok(path.to_owned())
}

fn keep(path: &Path, make: impl FnOnce() -> Result<String, CertificatesError>) -> Result<(), CertificatesError> {
    if path.exists() { Ok(()) } else { write(path, &make()?) }
}

fn read(path: &Path) -> Result<String, CertificatesError> {
    fs::read_to_string(path).map_err(|source| CertificatesError::Io { path: path.to_owned(), source })
}

fn write(path: &Path, text: &str) -> Result<(), CertificatesError> {
    private_file::write(path, text.as_bytes()).map_err(|source| CertificatesError::Io { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use component_base::tls;

    fn identities(pki: &Path) -> Identities {
        Identities {
            pki: pki.to_owned(),
            server: "https://127.0.0.1:6443".to_owned(),
            names: Vec::new(),
            apiserver_names: Vec::new(),
            kubelet_names: Vec::new(),
            nodes: Vec::new(),
            cloud: None,
        }
    }

    #[test]
    fn identities_are_kept_from_start_to_start() {
        let folder = tempfile::tempdir().unwrap();
        let now = "2026-05-01T00:00:00Z".parse().unwrap();
        let first = prepare(&identities(folder.path()), now).unwrap();
        let moved = Identities { server: "https://127.0.0.1:7443".to_owned(), ..identities(folder.path()) };
        let moved = prepare(&moved, now).unwrap();
        assert_eq!(first.client_cert_pem, moved.client_cert_pem);
        assert_eq!(moved.server, "https://127.0.0.1:7443");
        assert!(folder.path().join("apiserver/sa.key").exists());
        assert!(!folder.path().join("scheduler/sa.key").exists());
        let key = |component: &str| fs::read_to_string(folder.path().join(component).join("ca.key")).ok();
        assert_eq!((key("controller-manager"), key("scheduler"), key("apiserver")), (key("ca"), None, None));
    }

    #[test]
    fn the_administrator_alone_is_allowed_everything() {
        let folder = tempfile::tempdir().unwrap();
        prepare(&identities(folder.path()), "2026-05-01T00:00:00Z".parse().unwrap()).unwrap();
        let mut callers = Vec::new();
        for own in fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()) {
            let certificates = fs::read_dir(&own).unwrap().map(|entry| entry.unwrap().path());
            for path in certificates.filter(|path| path.extension().is_some_and(|extension| extension == "crt")) {
                let chain = tls::certificates("certificate", &fs::read_to_string(&path).unwrap()).unwrap();
                let (name, groups) = pki::subject(&chain[0]).unwrap();
                let folder = own.file_name().unwrap().to_string_lossy().into_owned();
                match path.file_name().unwrap().to_str().unwrap() {
                    "client.crt" => {
                        let shown = kubeconfig::read(&own.join("kubeconfig")).unwrap().client_cert_pem;
                        assert_eq!(shown.unwrap(), fs::read_to_string(&path).unwrap());
                        callers.push(format!("{folder}: {name} {groups:?}"));
                    }
                    // Certificates of servers, of authorities, and of the API server as a client.
                    _ => assert_eq!(groups, [""; 0], "{}", path.display()),
                }
            }
        }
        callers.sort();
        let expected = [
            r#"admin: kubernetes-admin ["system:masters"]"#,
            "controller-manager: system:kube-controller-manager []",
            "kubelet-sim: system:orrery:node-fleet []",
            "proxy-sim: system:kube-proxy []",
            "scheduler: system:kube-scheduler []",
        ];
        assert_eq!(callers, expected);
    }

    /// The controllers of a cloud show the same certificate to the cluster and to the cloud.
    #[test]
    fn the_controllers_of_a_cloud_have_an_identity_for_both_servers() {
        let folder = tempfile::tempdir().unwrap();
        let now = "2026-05-01T00:00:00Z".parse().unwrap();
        let cloud = Some("https://127.0.0.1:10300".to_owned());
        prepare(&Identities { cloud, ..identities(folder.path()) }, now).unwrap();
        let shown = |file: &str| kubeconfig::read(&folder.path().join("cloud-controller-manager").join(file)).unwrap();
        let (cluster, cloud) = (shown("kubeconfig"), shown(CLOUD_CONFIG));
        assert_eq!(
            (cluster.server.as_str(), cloud.server.as_str()),
            ("https://127.0.0.1:6443", "https://127.0.0.1:10300")
        );
        assert_eq!(cluster.client_cert_pem, cloud.client_cert_pem);
        let chain = tls::certificates("certificate", &cloud.client_cert_pem.unwrap()).unwrap();
        assert_eq!(pki::subject(&chain[0]).unwrap(), ("system:cloud-controller-manager".to_owned(), Vec::new()));
        let served = fs::read_to_string(folder.path().join("cloud-sim/tls.crt")).unwrap();
        assert!(pki::is_current(&served, &["cloud-sim".to_owned()], now).unwrap());
        assert!(!folder.path().join("cloud-sim/client.key").exists(), "the cloud calls nobody");
    }

    /// Each node has its own identity, and no identity acts for several nodes.
    #[test]
    fn each_node_has_an_identity_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let nodes = vec!["node-0".to_owned(), "node-1".to_owned()];
        let now = "2026-05-01T00:00:00Z".parse().unwrap();
        prepare(&Identities { nodes, ..identities(folder.path()) }, now).unwrap();
        for name in ["node-0", "node-1"] {
            let own = folder.path().join("nodes").join(name);
            let shown = kubeconfig::read(&own.join("kubeconfig")).unwrap().client_cert_pem.unwrap();
            let chain = tls::certificates("certificate", &shown).unwrap();
            let (user, groups) = pki::subject(&chain[0]).unwrap();
            assert_eq!((user, groups), (format!("system:node:{name}"), vec!["system:nodes".to_owned()]));
            let served = fs::read_to_string(own.join("tls.crt")).unwrap();
            assert!(pki::is_current(&served, &[name.to_owned()], now).unwrap());
            let mut files: Vec<_> = fs::read_dir(&own).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            files.sort();
            assert_eq!(files, ["ca.crt", "client.crt", "client.key", "kubeconfig", "tls.crt", "tls.key"]);
        }
        assert!(!folder.path().join("kubelet-sim").exists());
    }

    #[test]
    fn certificates_are_issued_again_when_they_would_not_do_and_damaged_ones_are_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let cert = folder.path().join("apiserver/tls.crt");
        let same = identities(folder.path());
        let prepare_at = |identities: &Identities, now: &str| prepare(identities, now.parse().unwrap());
        let mut issued = Vec::new();
        for (identities, now) in [
            (&same, "2026-05-01T00:00:00Z"),
            (&Identities { names: vec!["192.0.2.7".into()], ..same.clone() }, "2026-05-02T00:00:00Z"),
            (&Identities { apiserver_names: vec!["lab.example".into()], ..same.clone() }, "2026-05-03T00:00:00Z"),
            (&same, "2027-05-01T00:00:00Z"),
        ] {
            prepare_at(identities, now).unwrap();
            let pem = fs::read_to_string(&cert).unwrap();
            assert!(!issued.contains(&pem), "at {now}");
            issued.push(pem);
        }
        prepare_at(&same, "2027-05-02T00:00:00Z").unwrap();
        assert_eq!(fs::read_to_string(&cert).ok(), issued.pop());

        fs::write(&cert, "torn").unwrap();
        let error = prepare_at(&same, "2027-05-02T00:00:00Z").unwrap_err().to_string();
        assert!(error.ends_with("tls.crt: damaged: certificate: no certificate in it"), "{error}");
        assert_eq!(fs::read_to_string(&cert).unwrap(), "torn");
    }
}
