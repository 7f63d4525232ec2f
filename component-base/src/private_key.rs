//! Private keys in every form that Kubernetes reads: PKCS #8, PKCS #1 (`RSA PRIVATE KEY`) and SEC 1 (`EC PRIVATE KEY`).
//!
//! The libraries that sign need PKCS #8; the TLS library reads all three forms. Corresponds to client-go/util/keyutil.

use pkcs8::der::asn1::AnyRef;
use pkcs8::der::{self, Decode, Encode};
use pkcs8::{AlgorithmIdentifierRef, PrivateKeyInfo};
use rcgen::KeyPair;
use rustls_pki_types::pem::{self, PemObject};
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use sec1::EcPrivateKey;

const RSA: pkcs8::ObjectIdentifier = pkcs8::ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");

#[derive(Debug, thiserror::Error)]
pub enum PrivateKeyError {
    #[error("no private key: {0}")]
    Pem(pem::Error),
    #[error("damaged private key: {0}")]
    Damaged(#[from] der::Error),
    #[error("a private key that does not name its curve")]
    Curve,
    #[error(transparent)]
    Unusable(#[from] rcgen::Error),
}

/// A private key in PKCS #8.
pub struct PrivateKey(PrivatePkcs8KeyDer<'static>);

impl PrivateKey {
    /// Reads the first private key of a text, and skips what stands before it, such as the parameters of a curve.
    pub fn from_pem(pem: &str) -> Result<Self, PrivateKeyError> {
        let der = match PrivateKeyDer::from_pem_slice(pem.as_bytes()).map_err(PrivateKeyError::Pem)? {
            PrivateKeyDer::Pkcs8(key) => return Ok(Self(key)),
            PrivateKeyDer::Pkcs1(key) => {
                let algorithm = AlgorithmIdentifierRef { oid: RSA, parameters: Some(AnyRef::NULL) };
                PrivateKeyInfo::new(algorithm, key.secret_pkcs1_der()).to_der()?
            }
            PrivateKeyDer::Sec1(key) => {
                let parameters = EcPrivateKey::from_der(key.secret_sec1_der())?.parameters;
                let curve = parameters.and_then(|parameters| parameters.named_curve()).ok_or(PrivateKeyError::Curve)?;
                let algorithm = AlgorithmIdentifierRef { oid: sec1::ALGORITHM_OID, parameters: Some((&curve).into()) };
                PrivateKeyInfo::new(algorithm, key.secret_sec1_der()).to_der()?
            }
            _ => return Err(PrivateKeyError::Pem(pem::Error::NoItemsFound)),
        };
        Ok(Self(der.into()))
    }

    pub fn pkcs8_der(&self) -> &[u8] {
        self.0.secret_pkcs8_der()
    }

    /// Returns the key in PKCS #1; `None` if it is no RSA key.
    pub fn pkcs1_der(&self) -> Option<&[u8]> {
        let key = PrivateKeyInfo::try_from(self.pkcs8_der()).ok()?;
        (key.algorithm.oid == RSA).then_some(key.private_key)
    }

    /// Returns the key pair for signing certificates.
    pub fn key_pair(&self) -> Result<KeyPair, PrivateKeyError> {
        Ok(KeyPair::try_from(&self.0)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{EC_KEYS, RSA_KEYS};
    use rcgen::PublicKeyData;

    #[test]
    fn every_form_of_a_key_is_the_same_key() {
        for forms in [RSA_KEYS, EC_KEYS] {
            let [plain, older] = forms.map(|pem| PrivateKey::from_pem(pem).unwrap().key_pair().unwrap());
            assert!(plain.is_compatible(older.algorithm()));
            assert_eq!(plain.subject_public_key_info(), older.subject_public_key_info());
        }
        let [plain, older] = RSA_KEYS.map(|pem| PrivateKey::from_pem(pem).unwrap());
        assert_eq!(plain.pkcs8_der(), older.pkcs8_der());
        assert!(older.pkcs1_der().is_some_and(|inner| plain.pkcs8_der().ends_with(inner)));
        assert_eq!(PrivateKey::from_pem(EC_KEYS[1]).unwrap().pkcs1_der(), None);
    }

    #[test]
    fn what_is_no_key_is_refused() {
        let [_, sec1] = EC_KEYS;
        let parameters_alone = sec1.split("-----BEGIN EC PRIVATE KEY-----").next().unwrap();
        let nonsense = "-----BEGIN EC PRIVATE KEY-----\nAAAA\n-----END EC PRIVATE KEY-----\n";
        for (pem, expected) in
            [("none", "no private key: "), (parameters_alone, "no private key: "), (nonsense, "damaged private key: ")]
        {
            let error = PrivateKey::from_pem(pem).map(|_| ()).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
