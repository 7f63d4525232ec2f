//! `orrery certs`: issues all certificates and kubeconfigs, for components that are not started by `up`.
//!
//! Corresponds to `kubeadm init phase certs` and `phase kubeconfig`.

use crate::admin_kubeconfig::{self, AdminKubeconfigError};
use crate::certificates::{self, CLUSTER, CertificatesError, Identities};
use clap::Args;
use component_base::env::Env;
use component_base::kubeconfig::Connection;
use proto::meta::names::dns1123_subdomain;
use std::io;
use std::path::{Path, PathBuf};

/// Options of `orrery certs`.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Gets a folder per component, and those of the authority and the administrator; what is there is kept
    #[arg(long, default_value = "./pki", value_name = "DIR")]
    pub dir: PathBuf,
    /// URL at which the components reach the API server
    #[arg(long, default_value = "https://127.0.0.1:6443", value_name = "URL")]
    pub server: String,
    /// Further names and addresses by which clients reach the API server, for its certificate
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub apiserver_cert_extra_sans: Vec<String>,
    /// Further names and addresses by which the API server reaches the agents of nodes, for their certificate
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub kubelet_cert_extra_sans: Vec<String>,
    /// Nodes that get an identity each, in nodes/NAME, in place of the one of kubelet-sim, which acts for all nodes
    #[arg(long, value_delimiter = ',', value_name = "NAMES", value_parser = parse_node_name)]
    pub nodes: Vec<String>,
    /// URL at which the cloud controller manager reaches the cloud
    #[arg(long, default_value = "https://127.0.0.1:10300", value_name = "URL")]
    pub cloud_server: String,
    /// Also write the administrator's kubeconfig here, for the user who owns the folder
    #[arg(long, value_name = "PATH")]
    pub kubeconfig: Option<PathBuf>,
    /// URL of the API server in that kubeconfig, if another than the components'
    #[arg(long, value_name = "URL", requires = "kubeconfig")]
    pub kubeconfig_server: Option<String>,
}

/// The reason why issuing failed, in one line.
#[derive(Debug, thiserror::Error)]
pub enum CertsError {
    #[error(transparent)]
    Certificates(#[from] CertificatesError),
    #[error(transparent)]
    AdminKubeconfig(#[from] AdminKubeconfigError),
    #[error("--kubeconfig: {}: {source}", path.display())]
    Owner { path: PathBuf, source: io::Error },
}

/// Issues missing certificates and those that have to be replaced.
pub fn run(options: &Options, env: &Env) -> Result<(), CertsError> {
    let identities = Identities {
        pki: options.dir.clone(),
        server: options.server.clone(),
        names: Vec::new(),
        apiserver_names: options.apiserver_cert_extra_sans.clone(),
        kubelet_names: options.kubelet_cert_extra_sans.clone(),
        nodes: options.nodes.clone(),
        cloud: Some(options.cloud_server.clone()),
    };
    let admin = certificates::prepare(&identities, env.wall())?;
    let Some(path) = &options.kubeconfig else { return Ok(()) };
    let server = options.kubeconfig_server.clone().unwrap_or_else(|| admin.server.clone());
    admin_kubeconfig::write(path, &Connection { server, ..admin }, CLUSTER)?;
    give_to_owner_of_folder(path).map_err(|source| CertsError::Owner { path: path.clone(), source })
}

/// Checks a node's name, which is also a folder's name.
fn parse_node_name(text: &str) -> Result<String, String> {
    let wrong = dns1123_subdomain(text);
    if wrong.is_empty() { Ok(text.to_owned()) } else { Err(wrong.join(", ")) }
}

/// Gives the file to the folder's owner. As root in a container of a rootless engine, this process may not be the owner.
#[cfg(unix)]
fn give_to_owner_of_folder(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt, chown};
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let (owner, own) = (folder.metadata()?, path.metadata()?);
    match owner_to_be((owner.uid(), owner.gid()), own.uid()) {
        Some((user, group)) => chown(path, Some(user), Some(group)),
        None => Ok(()),
    }
}

/// Returns the owner and group to set; `None` if the file has the right owner. Then the group does not matter, since only
/// the owner may read the file, and a user who is not root may not be allowed to set it.
#[cfg(unix)]
fn owner_to_be(of_folder: (u32, u32), user_of_file: u32) -> Option<(u32, u32)> {
    (of_folder.0 != user_of_file).then_some(of_folder)
}

#[cfg(not(unix))]
fn give_to_owner_of_folder(_path: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use component_base::kubeconfig;

    #[cfg(unix)]
    #[test]
    fn the_group_of_a_folder_does_not_matter_to_its_owner() {
        assert_eq!(owner_to_be((1000, 50), 1000), None);
        assert_eq!(owner_to_be((1000, 50), 0), Some((1000, 50)));
    }

    #[test]
    fn the_host_reaches_the_server_under_another_name_than_the_components() {
        let folder = tempfile::tempdir().unwrap();
        let options = Options {
            dir: folder.path().join("pki"),
            server: "https://apiserver:6443".to_owned(),
            apiserver_cert_extra_sans: vec!["apiserver".to_owned()],
            kubelet_cert_extra_sans: Vec::new(),
            nodes: Vec::new(),
            cloud_server: "https://cloud-sim:10300".to_owned(),
            kubeconfig: Some(folder.path().join("kubeconfig")),
            kubeconfig_server: Some("https://localhost:7443".to_owned()),
        };
        run(&options, &Env::system()).unwrap();
        let server = |path: &str| kubeconfig::read(&folder.path().join(path)).unwrap().server;
        assert_eq!(server("pki/scheduler/kubeconfig"), "https://apiserver:6443");
        assert_eq!(server("kubeconfig"), "https://localhost:7443");
        assert_eq!(server("pki/cloud-controller-manager/cloud-config"), "https://cloud-sim:10300");
    }
}
