//! The administrator's kubeconfig at the path in `--kubeconfig`: a new file, or one that this program wrote before.

use crate::certificates::ADMIN;
use component_base::kubeconfig::{self, Connection, KubeconfigError};
use std::path::{Path, PathBuf};

/// The reason why the file cannot be written, in one line.
#[derive(Debug, thiserror::Error)]
pub enum AdminKubeconfigError {
    #[error("--kubeconfig: {0}")]
    File(#[from] KubeconfigError),
    #[error("--kubeconfig: {}: holds other clusters and is left as it is: choose a path of its own", .0.display())]
    Foreign(PathBuf),
}

/// Refuses a file with other clusters, since it is the user's own.
pub fn check(path: &Path, cluster: &str) -> Result<(), AdminKubeconfigError> {
    if !path.exists() {
        return Ok(());
    }
    match kubeconfig::clusters(path)?.as_slice() {
        [] => Ok(()),
        [one] if one == cluster => Ok(()),
        _ => Err(AdminKubeconfigError::Foreign(path.to_owned())),
    }
}

pub fn write(path: &Path, connection: &Connection, cluster: &str) -> Result<(), AdminKubeconfigError> {
    check(path, cluster)?;
    Ok(kubeconfig::write(path, connection, cluster, ADMIN)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_file_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config");
        let connection = |server: &str| Connection { server: server.to_owned(), ..Connection::default() };
        write(&path, &connection("https://one"), "orrery").unwrap();
        write(&path, &connection("https://two"), "orrery").unwrap();
        assert_eq!(kubeconfig::read(&path).unwrap().server, "https://two");
        for others in ["clusters: [{name: work}]", "clusters: [{name: work}, {name: orrery}]", "not a kubeconfig"] {
            std::fs::write(&path, others).unwrap();
            write(&path, &connection("https://one"), "orrery").unwrap_err();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), others);
        }
    }
}
