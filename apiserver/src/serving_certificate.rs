//! The server's certificate, and the authorities of the certificates that it accepts.
//!
//! Without `--tls-cert-file` the server makes a certificate for itself and keeps it below `--cert-dir`.
//!
//! Corresponds to MaybeDefaultWithSelfSignedCerts in k8s.io/apiserver/pkg/server/options/serving.go.

use crate::bootstrap::kubernetes_service;
use crate::config::Config;
use component_base::env::Env;
use component_base::kubeconfig::Connection;
use component_base::options::{OptionsError, OwnCertificate, ServingOptions, read_file};
use component_base::tls::{self, Protocols, ServerTls};
use remote::clients::ProxyClient;
use std::net::IpAddr;
use std::path::PathBuf;

/// DNS names in the certificate that the server makes, beside its addresses.
const NAMES: [&str; 4] = ["kubernetes.default.svc", "kubernetes.default", "kubernetes", "localhost"];

/// The authorities (PEM) that sign the certificates of clients and of proxies.
#[derive(Clone, Debug, Default)]
pub struct Authorities {
    pub client_ca: Option<String>,
    pub proxy_ca: Option<String>,
}

impl Authorities {
    /// Reads and checks both files. An error names the flag.
    pub fn read(config: &Config) -> Result<Self, OptionsError> {
        let read = |flag, path: &Option<PathBuf>| {
            let Some(path) = path else { return Ok(None) };
            let pem = read_file(flag, path)?;
            match tls::client_verifier(&pem) {
                Ok(_) => Ok(Some(pem)),
                Err(error) => Err(OptionsError::Invalid { flag, message: format!("{}: {error}", path.display()) }),
            }
        };
        let proxies = &config.request_headers.requestheader_client_ca_file;
        Ok(Self {
            client_ca: read("client-ca-file", &config.serving.client_ca_file)?,
            proxy_ca: read("requestheader-client-ca-file", proxies)?,
        })
    }
}

/// Reads the certificate and the authorities. Makes a certificate if none was given and none was made before.
pub fn tls(config: &Config, env: &Env) -> Result<ServerTls, OptionsError> {
    let authorities = Authorities::read(config)?;
    match given(config, &authorities)? {
        Some(given) => Ok(given),
        None => self_signed(config, env, &authorities),
    }
}

/// Returns the settings with the certificate that the server makes for itself, or has made before.
pub fn self_signed(config: &Config, env: &Env, authorities: &Authorities) -> Result<ServerTls, OptionsError> {
    let (cert, key) = own(config).keep(&config.cert_dir, env)?;
    let serving =
        ServingOptions { tls_cert_file: Some(cert), tls_private_key_file: Some(key), ..config.serving.clone() };
    read(&serving, authorities)
}

/// Returns the settings with the certificate that flags name; `None` if they name none. Makes nothing.
pub fn given(config: &Config, authorities: &Authorities) -> Result<Option<ServerTls>, OptionsError> {
    let files = (&config.serving.tls_cert_file, &config.serving.tls_private_key_file);
    if files == (&None, &None) { Ok(None) } else { read(&config.serving, authorities).map(Some) }
}

fn read(serving: &ServingOptions, authorities: &Authorities) -> Result<ServerTls, OptionsError> {
    let Authorities { client_ca, proxy_ca } = authorities.clone();
    Ok(ServerTls { proxy_ca, ..serving.tls_with(client_ca)? })
}

/// Lists the files that `tls` reads, so that changes of them can be followed.
pub fn files(config: &Config) -> Vec<PathBuf> {
    let mut files = config.serving.files();
    files.extend(config.request_headers.requestheader_client_ca_file.clone());
    if config.serving.tls_cert_file.is_none() {
        let (cert, key) = own(config).files(&config.cert_dir);
        files.extend([cert, key]);
    }
    files
}

/// Describes the certificate that the server makes for itself.
fn own(config: &Config) -> OwnCertificate<'_> {
    OwnCertificate { folder: Some(&config.cert_dir), name: "apiserver", names: names(config) }
}

/// Lists the addresses and DNS names of that certificate.
fn names(config: &Config) -> Vec<String> {
    let service = kubernetes_service::address(config);
    let addresses = [config.advertised_ip(), IpAddr::from([127, 0, 0, 1]), service].map(|address| address.to_string());
    let mut names: Vec<String> = addresses.into_iter().chain(NAMES.map(str::to_owned)).collect();
    let mut seen = std::collections::BTreeSet::new();
    names.retain(|name| seen.insert(name.clone()));
    names
}

/// Reads the client certificate for extension servers, and checks that the key belongs to it.
pub fn proxy_client(config: &Config) -> Result<ProxyClient, OptionsError> {
    let (cert, key) = match (&config.proxy_client_cert_file, &config.proxy_client_key_file) {
        (None, None) => return Ok(ProxyClient::default()),
        (Some(cert), Some(key)) => (cert, key),
        (None, Some(_)) => return Err(alone("proxy-client-key-file", "proxy-client-cert-file")),
        (Some(_), None) => return Err(alone("proxy-client-cert-file", "proxy-client-key-file")),
    };
    let connection = Connection {
        client_cert_pem: Some(read_file("proxy-client-cert-file", cert)?),
        client_key_pem: Some(read_file("proxy-client-key-file", key)?),
        ..Connection::default()
    };
    match tls::client_config(&connection, Protocols::Http2AndHttp1) {
        Ok(_) => Ok(ProxyClient { cert_pem: connection.client_cert_pem, key_pem: connection.client_key_pem }),
        Err(error) => {
            let message = format!("{}, {}: {error}", cert.display(), key.display());
            Err(OptionsError::Invalid { flag: "proxy-client-cert-file, --proxy-client-key-file", message })
        }
    }
}

fn alone(flag: &'static str, missing: &str) -> OptionsError {
    OptionsError::Invalid { flag, message: format!("needs --{missing} beside it") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use component_base::network::Network;
    use component_base::pki;
    use std::fs;
    use std::path::Path;

    fn config(folder: &Path) -> Config {
        Config { cert_dir: folder.join("certs"), ..Config::default() }
    }

    #[test]
    fn a_certificate_is_made_once_and_kept() {
        let (folder, env) = (tempfile::tempdir().unwrap(), Env::system());
        assert!(matches!(env.network(), Network::Sockets));
        let config = config(folder.path());
        let first = tls(&config, &env).unwrap();
        tls::server_config(&first).unwrap();
        assert_eq!(tls(&config, &env).unwrap().cert, first.cert);
        for name in ["127.0.0.1", "10.96.0.1", "kubernetes.default.svc", "localhost"] {
            assert!(pki::is_current(&first.cert, &[name.to_owned()], env.wall()).unwrap(), "{name}");
        }
        fs::remove_file(config.cert_dir.join("apiserver.key")).unwrap();
        let error = tls(&config, &env).unwrap_err().to_string();
        assert!(error.starts_with("--cert-dir: ") && error.ends_with("and one is missing"), "{error}");
    }

    #[test]
    fn what_was_given_is_shown_and_nothing_is_written() {
        let (folder, env) = (tempfile::tempdir().unwrap(), Env::system());
        let mut config = config(folder.path());
        config.serving.tls_cert_file = Some(folder.path().join("tls.crt"));
        assert!(matches!(tls(&config, &env), Err(OptionsError::NoCertificate)));
        assert!(!config.cert_dir.exists());
        let blocked = Config { cert_dir: "/dev/null/certs".into(), ..Config::default() };
        let error = tls(&blocked, &env).unwrap_err().to_string();
        assert_eq!(error, "--cert-dir: /dev/null/certs: Not a directory (os error 20)");
    }

    #[test]
    fn what_proxies_would_be_shown_has_to_fit_together() {
        let folder = tempfile::tempdir().unwrap();
        let now = "2026-03-01T12:00:00Z".parse().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::write(&path, text).unwrap();
            Some(path)
        };
        let (one, other) = (pki::self_signed(&[], now).unwrap(), pki::self_signed(&[], now).unwrap());
        let (cert, key) = (write("a.crt", &one.cert_pem), write("a.key", &one.key_pem));
        let foreign = write("b.key", &other.key_pem);
        let check = |proxy_client_cert_file, proxy_client_key_file| {
            let config = Config { proxy_client_cert_file, proxy_client_key_file, ..Config::default() };
            proxy_client(&config).map(|client| client.cert_pem.is_some()).map_err(|error| error.to_string())
        };
        assert_eq!(check(cert.clone(), key.clone()), Ok(true));
        assert_eq!(check(None, None), Ok(false));
        let error = check(cert.clone(), None).unwrap_err();
        assert_eq!(error, "--proxy-client-cert-file: needs --proxy-client-key-file beside it");
        for (cert, key) in [(cert, foreign), (key.clone(), key)] {
            let error = check(cert, key).unwrap_err();
            assert!(error.starts_with("--proxy-client-cert-file, --proxy-client-key-file: "), "{error}");
        }
    }
}
