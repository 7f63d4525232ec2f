//! The serving certificate that a component makes for itself if it is given none.
//!
//! Corresponds to MaybeDefaultWithSelfSignedCerts in k8s.io/apiserver/pkg/server/options/serving.go.

use super::OptionsError;
use crate::env::Env;
use crate::pki::{self, CertKey};
use crate::private_file;
use clap::Args;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const FLAG: &str = "cert-dir";

/// Names by which a component is reached from the same machine.
const OWN_NAMES: [&str; 2] = ["localhost", "127.0.0.1"];

/// Flag for the folder of the component's self-made certificate.
#[derive(Args, Clone, Debug, Default)]
pub struct CertDirOptions {
    /// Folder for the certificate that the component makes for itself where --tls-cert-file gives none; it is made anew at
    /// every start, in memory, where no folder is given either
    #[arg(long, value_name = "DIR")]
    pub cert_dir: Option<String>,
}

impl CertDirOptions {
    /// Returns the folder; `None` also for an empty value, which is the originals' default.
    pub fn folder(&self) -> Option<&Path> {
        self.cert_dir.as_deref().filter(|folder| !folder.is_empty()).map(Path::new)
    }
}

/// File name and content of the certificate.
#[derive(Clone, Debug)]
pub struct OwnCertificate<'a> {
    /// Folder in which the certificate is kept and found again; `None` keeps it in memory.
    pub folder: Option<&'a Path>,
    /// Base name of both files: the original's program.
    pub name: &'a str,
    /// DNS names and IP addresses besides [`OWN_NAMES`].
    pub names: Vec<String>,
}

/// A certificate and key in memory.
#[derive(Clone)]
pub struct InMemory(pub(super) Arc<CertKey>);

impl fmt::Debug for InMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InMemory").finish_non_exhaustive()
    }
}

impl OwnCertificate<'_> {
    pub fn in_memory(&self, env: &Env) -> Result<InMemory, OptionsError> {
        let pair = self.make(env)?;
        tracing::info!("made a serving certificate in memory, signed by nobody else");
        Ok(InMemory(Arc::new(pair)))
    }

    /// Returns the paths of the certificate and its key in this folder.
    pub fn files(&self, folder: &Path) -> (PathBuf, PathBuf) {
        (folder.join(format!("{}.crt", self.name)), folder.join(format!("{}.key", self.name)))
    }

    /// Makes both files unless they exist already, and returns their paths.
    pub fn keep(&self, folder: &Path, env: &Env) -> Result<(PathBuf, PathBuf), OptionsError> {
        let (cert, key) = self.files(folder);
        match (cert.exists(), key.exists()) {
            (true, true) => return Ok((cert, key)),
            (false, false) => {}
            _ => {
                let message = format!("{} and {} belong together, and one is missing", cert.display(), key.display());
                return Err(OptionsError::Invalid { flag: FLAG, message });
            }
        }
        let unwritable = |path: &Path| {
            let path = path.to_owned();
            move |source| OptionsError::Unreadable { flag: FLAG, path, source }
        };
        let pair = self.make(env)?;
        fs::create_dir_all(folder).map_err(unwritable(folder))?;
        // The certificate comes last: if it exists, the key exists too.
        private_file::write(&key, pair.key_pem.as_bytes()).map_err(unwritable(&key))?;
        private_file::write(&cert, pair.cert_pem.as_bytes()).map_err(unwritable(&cert))?;
        tracing::info!(cert = %cert.display(), "made a serving certificate, signed by nobody else");
        Ok((cert, key))
    }

    fn make(&self, env: &Env) -> Result<CertKey, OptionsError> {
        let mut names = self.names.clone();
        for own in OWN_NAMES {
            if !names.iter().any(|name| name == own) {
                names.push(own.to_owned());
            }
        }
        pki::self_signed(&names, env.wall())
            .map_err(|error| OptionsError::Invalid { flag: FLAG, message: error.to_string() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{ServingOptions, defaults};
    use crate::tls;

    fn own(folder: Option<&Path>) -> OwnCertificate<'_> {
        OwnCertificate { folder, name: "kube-thing", names: vec!["10.0.0.1".to_owned()] }
    }

    fn serving() -> ServingOptions {
        ServingOptions { secure_port: Some(10259), ..defaults() }
    }

    #[test]
    fn without_files_and_folder_it_lies_in_memory_and_stays_the_same() {
        let env = Env::system();
        let options = serving().with_own_certificate(&env, &own(None)).unwrap();
        let shown = options.tls().unwrap();
        tls::server_config(&shown).unwrap();
        for name in ["localhost", "127.0.0.1", "10.0.0.1"] {
            assert!(pki::is_current(&shown.cert, &[name.to_owned()], env.wall()).unwrap(), "{name}");
        }
        // Reloading because of other files does not change the certificate.
        assert_eq!(options.tls().unwrap().cert, shown.cert);
        assert!(!format!("{options:?}").contains("PRIVATE"));
    }

    #[test]
    fn in_a_folder_it_is_made_once_and_kept() {
        let (folder, env) = (tempfile::tempdir().unwrap(), Env::system());
        let folder = folder.path().join("pki");
        let shown = || serving().with_own_certificate(&env, &own(Some(&folder))).map(|options| options.tls().unwrap());
        let first = shown().unwrap();
        tls::server_config(&first).unwrap();
        assert_eq!(shown().unwrap().cert, first.cert);
        fs::remove_file(folder.join("kube-thing.key")).unwrap();
        let error = shown().unwrap_err().to_string();
        assert!(error.starts_with("--cert-dir: ") && error.ends_with("and one is missing"), "{error}");
        let nowhere = serving().with_own_certificate(&env, &own(Some(Path::new("/dev/null/pki")))).unwrap_err();
        assert_eq!(nowhere.to_string(), "--cert-dir: /dev/null/pki: Not a directory (os error 20)");
    }

    #[test]
    fn nothing_is_made_where_a_file_is_given_or_nothing_is_served() {
        let (folder, env) = (tempfile::tempdir().unwrap(), Env::system());
        let folder = folder.path().join("pki");
        let half = ServingOptions { tls_cert_file: Some("tls.crt".into()), ..serving() };
        let half = half.with_own_certificate(&env, &own(Some(&folder))).unwrap();
        assert!(matches!(half.tls(), Err(OptionsError::NoCertificate)));
        let closed = ServingOptions { secure_port: Some(0), ..serving() };
        closed.with_own_certificate(&env, &own(Some(&folder))).unwrap();
        assert!(!folder.exists());
    }
}
