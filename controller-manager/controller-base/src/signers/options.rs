//! The flags `--cluster-signing-*`: the key of each signer, and the longest life of a certificate.
//!
//! Corresponds to cmd/kube-controller-manager/app/options/csrsigningcontroller.go.

use super::names::SignerName;
use clap::Args;
use component_base::certificate_request::{Signer, SigningError};
use component_base::duration::parse_duration;
use component_base::options::{OptionsError, read_file};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

#[derive(Args, Clone, Debug)]
pub struct SigningOptions {
    /// Certificate (PEM) of the authority that signs for all built-in signers
    #[arg(long, value_name = "FILE")]
    pub cluster_signing_cert_file: Option<PathBuf>,
    /// Its key (PEM)
    #[arg(long, value_name = "FILE")]
    pub cluster_signing_key_file: Option<PathBuf>,
    /// Longest life of a signed certificate; a request may ask for less
    #[arg(long, default_value = "8760h", value_name = "DURATION", value_parser = parse_duration)]
    pub cluster_signing_duration: Duration,
    /// Certificate of the authority that signs for kubernetes.io/kube-apiserver-client alone
    #[arg(long, value_name = "FILE")]
    pub cluster_signing_kube_apiserver_client_cert_file: Option<PathBuf>,
    /// Its key
    #[arg(long, value_name = "FILE")]
    pub cluster_signing_kube_apiserver_client_key_file: Option<PathBuf>,
    /// Certificate of the authority that signs for kubernetes.io/kube-apiserver-client-kubelet alone
    #[arg(long, value_name = "FILE")]
    pub cluster_signing_kubelet_client_cert_file: Option<PathBuf>,
    /// Its key
    #[arg(long, value_name = "FILE")]
    pub cluster_signing_kubelet_client_key_file: Option<PathBuf>,
    /// Certificate of the authority that signs for kubernetes.io/kubelet-serving alone
    #[arg(long, value_name = "FILE")]
    pub cluster_signing_kubelet_serving_cert_file: Option<PathBuf>,
    /// Its key
    #[arg(long, value_name = "FILE")]
    pub cluster_signing_kubelet_serving_key_file: Option<PathBuf>,
    /// Certificate of the authority that signs for kubernetes.io/legacy-unknown alone
    #[arg(long, value_name = "FILE")]
    pub cluster_signing_legacy_unknown_cert_file: Option<PathBuf>,
    /// Its key
    #[arg(long, value_name = "FILE")]
    pub cluster_signing_legacy_unknown_key_file: Option<PathBuf>,
}

/// The authority of each signer. A signer without an authority signs nothing.
#[derive(Clone, Debug, Default)]
pub struct Signers(pub BTreeMap<SignerName, Arc<Signer>>);

/// An error in the flags or files, as one line.
#[derive(Debug, thiserror::Error)]
pub enum SignersError {
    #[error(transparent)]
    Options(#[from] OptionsError),
    #[error("cannot specify only one of --{cert_flag} and --{key_flag}")]
    Alone { cert_flag: &'static str, key_flag: &'static str },
    #[error(
        "cannot specify --cluster-signing-{{cert,key}}-file and other --cluster-signing-*-file flags at the same time"
    )]
    Both,
    #[error("--{cert_flag}, --{key_flag}: {source}")]
    Unusable { cert_flag: &'static str, key_flag: &'static str, source: SigningError },
}

/// The flag and file of a certificate, and the flag and file of its key.
type Files<'a> = (&'static str, &'a Option<PathBuf>, &'static str, &'a Option<PathBuf>);

impl SigningOptions {
    fn shared_files(&self) -> Files<'_> {
        let (cert, key) = (&self.cluster_signing_cert_file, &self.cluster_signing_key_file);
        ("cluster-signing-cert-file", cert, "cluster-signing-key-file", key)
    }

    fn files_of(&self, signer: SignerName) -> Files<'_> {
        match signer {
            SignerName::ApiServerClient => (
                "cluster-signing-kube-apiserver-client-cert-file",
                &self.cluster_signing_kube_apiserver_client_cert_file,
                "cluster-signing-kube-apiserver-client-key-file",
                &self.cluster_signing_kube_apiserver_client_key_file,
            ),
            SignerName::ApiServerClientKubelet => (
                "cluster-signing-kubelet-client-cert-file",
                &self.cluster_signing_kubelet_client_cert_file,
                "cluster-signing-kubelet-client-key-file",
                &self.cluster_signing_kubelet_client_key_file,
            ),
            SignerName::KubeletServing => (
                "cluster-signing-kubelet-serving-cert-file",
                &self.cluster_signing_kubelet_serving_cert_file,
                "cluster-signing-kubelet-serving-key-file",
                &self.cluster_signing_kubelet_serving_key_file,
            ),
            SignerName::LegacyUnknown => (
                "cluster-signing-legacy-unknown-cert-file",
                &self.cluster_signing_legacy_unknown_cert_file,
                "cluster-signing-legacy-unknown-key-file",
                &self.cluster_signing_legacy_unknown_key_file,
            ),
        }
    }

    /// Reads the files that the flags name.
    pub fn signers(&self) -> Result<Signers, SignersError> {
        let mut own = BTreeMap::new();
        for name in SignerName::ALL {
            own.extend(read(self.files_of(name))?.map(|signer| (name, signer)));
        }
        match read(self.shared_files())? {
            Some(_) if !own.is_empty() => Err(SignersError::Both),
            Some(signer) => Ok(Signers(SignerName::ALL.into_iter().map(|name| (name, signer.clone())).collect())),
            None => Ok(Signers(own)),
        }
    }
}

fn read((cert_flag, cert, key_flag, key): Files<'_>) -> Result<Option<Arc<Signer>>, SignersError> {
    let (cert, key) = match (cert, key) {
        (None, None) => return Ok(None),
        (Some(cert), Some(key)) => (read_file(cert_flag, cert)?, read_file(key_flag, key)?),
        _ => return Err(SignersError::Alone { cert_flag, key_flag }),
    };
    let signer = Signer::from_pem(&cert, &key);
    signer.map(|signer| Some(Arc::new(signer))).map_err(|source| SignersError::Unusable { cert_flag, key_flag, source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use component_base::options::defaults;
    use component_base::pki::Authority;

    #[test]
    fn one_authority_signs_for_all_or_each_has_its_own() {
        let folder = tempfile::tempdir().unwrap();
        Authority::load_or_create(folder.path(), "2026-03-01T00:00:00Z".parse().unwrap()).unwrap();
        let file = |name: &str| Some(folder.path().join(name));
        let none: SigningOptions = defaults();
        assert!(none.signers().unwrap().0.is_empty());
        let (cert, key) = (file("ca.crt"), file("ca.key"));
        let all = SigningOptions {
            cluster_signing_cert_file: cert.clone(),
            cluster_signing_key_file: key.clone(),
            ..none.clone()
        };
        assert_eq!(all.signers().unwrap().0.len(), 4);
        let one = SigningOptions {
            cluster_signing_kubelet_client_cert_file: cert.clone(),
            cluster_signing_kubelet_client_key_file: key.clone(),
            ..none.clone()
        };
        let signers = one.signers().unwrap().0;
        assert_eq!(signers.keys().copied().collect::<Vec<_>>(), [SignerName::ApiServerClientKubelet]);

        let both = SigningOptions { cluster_signing_kubelet_client_cert_file: cert, ..all.clone() };
        let both = SigningOptions { cluster_signing_kubelet_client_key_file: key.clone(), ..both };
        let alone = SigningOptions { cluster_signing_cert_file: None, ..all.clone() };
        let swapped = SigningOptions { cluster_signing_cert_file: key, ..all };
        for (options, expected) in [
            (both, "cannot specify --cluster-signing-{cert,key}-file and other"),
            (alone, "cannot specify only one of --cluster-signing-cert-file and --cluster-signing-key-file"),
            (swapped, "--cluster-signing-cert-file, --cluster-signing-key-file: signing certificate: "),
        ] {
            let error = options.signers().unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
