//! `TlsPolicy`: the TLS versions and cipher suites that a server accepts, under Go's names.
//!
//! Corresponds to k8s.io/component-base/cli/flag/ciphersuites_flag.go.

use rustls::crypto::{CryptoProvider, ring};
use rustls::version::{TLS12, TLS13};
use rustls::{SupportedCipherSuite, SupportedProtocolVersion};

/// Supported versions, newest first.
static VERSIONS: [&SupportedProtocolVersion; 2] = [&TLS13, &TLS12];

/// Accepted versions and cipher suites; by default all that are supported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsPolicy {
    only_tls13: bool,
    /// Suites of TLS 1.2, by Go's names; empty for all. Those of TLS 1.3 cannot be chosen, as in Go.
    cipher_suites: Vec<String>,
}

impl TlsPolicy {
    /// From `--tls-min-version`. Deviation: versions before 1.2 are not spoken, whoever asks for them.
    pub fn with_min_version(self, name: &str) -> Result<Self, String> {
        match name {
            "" | "VersionTLS10" | "VersionTLS11" | "VersionTLS12" => Ok(self),
            "VersionTLS13" => Ok(Self { only_tls13: true, ..self }),
            other => Err(format!("unknown tls version {other:?}")),
        }
    }

    /// Restricts the cipher suites, for `--tls-cipher-suites`.
    pub fn with_cipher_suites(self, names: &[String]) -> Result<Self, String> {
        let provider = ring::default_provider();
        let known: Vec<String> = provider.cipher_suites.iter().map(name).collect();
        let cipher_suites: Vec<String> = names.iter().map(|name| name.trim().to_owned()).collect();
        match cipher_suites.iter().find(|name| !known.contains(&full_name(name))) {
            Some(unknown) => Err(format!("Cipher suite {unknown} not supported or doesn't exist")),
            None => Ok(Self { cipher_suites, ..self }),
        }
    }

    pub fn provider(&self) -> CryptoProvider {
        let mut provider = ring::default_provider();
        let chosen: Vec<String> = self.cipher_suites.iter().map(|name| full_name(name)).collect();
        provider.cipher_suites.retain(|suite| {
            matches!(suite, SupportedCipherSuite::Tls13(_)) || chosen.is_empty() || chosen.contains(&name(suite))
        });
        provider
    }

    pub fn versions(&self) -> &'static [&'static SupportedProtocolVersion] {
        if self.only_tls13 { &VERSIONS[..1] } else { &VERSIONS }
    }
}

/// Returns Go's name of a suite.
fn name(suite: &SupportedCipherSuite) -> String {
    format!("{:?}", suite.suite()).replace("TLS13_", "TLS_")
}

/// Returns the full name of a suite; Go has a short one too for some.
fn full_name(name: &str) -> String {
    match name.strip_suffix("_POLY1305") {
        Some(_) => format!("{name}_SHA256"),
        None => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_and_suites_have_gos_names() {
        let suites = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            let policy = TlsPolicy::default().with_cipher_suites(&names)?;
            let tls12 = |suite: &&SupportedCipherSuite| matches!(suite, SupportedCipherSuite::Tls12(_));
            Ok::<_, String>(policy.provider().cipher_suites.iter().filter(tls12).map(name).collect::<Vec<_>>())
        };
        assert_eq!(suites(&[]).unwrap().len(), 6);
        let aes = "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256";
        assert_eq!(suites(&[aes, "TLS_AES_128_GCM_SHA256"]).unwrap(), [aes]);
        let chacha = "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305";
        assert_eq!(suites(&[chacha]).unwrap(), [format!("{chacha}_SHA256")]);
        let old = "TLS_RSA_WITH_RC4_128_SHA";
        assert_eq!(suites(&[old]).unwrap_err(), format!("Cipher suite {old} not supported or doesn't exist"));
        let versions = |name: &str| TlsPolicy::default().with_min_version(name).map(|policy| policy.versions().len());
        assert_eq!((versions("VersionTLS12"), versions("VersionTLS13")), (Ok(2), Ok(1)));
        assert_eq!(versions("VersionTLS14"), Err("unknown tls version \"VersionTLS14\"".to_owned()));
    }
}
