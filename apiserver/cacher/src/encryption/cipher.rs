//! `Cipher`: encrypts and decrypts values with one key of one provider.
//!
//! Corresponds to k8s.io/apiserver/pkg/storage/value/encrypt; the layouts are the same, byte for byte.

use aes::cipher::{BlockCipher, BlockDecryptMut, BlockEncryptMut, KeyIvInit, block_padding::Pkcs7};
use aes::{Aes128, Aes192, Aes256};
use aes_gcm::aead::consts::U12;
use aes_gcm::aead::{Aead, Nonce, Payload};
use aes_gcm::{AesGcm, KeyInit};
use component_base::rng::Random;
use crypto_secretbox::XSalsa20Poly1305;
use std::fmt;

const BLOCK_BYTES: usize = 16;
const GCM_NONCE_BYTES: usize = 12;
const SECRETBOX_NONCE_BYTES: usize = 24;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// Without authentication: a person who can write into the store can change the decrypted value.
    AesCbc,
    /// Also authenticates the key in the store, so that no value can be moved to another object.
    AesGcm,
    SecretBox,
}

impl Algorithm {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AesCbc => "aescbc",
            Self::AesGcm => "aesgcm",
            Self::SecretBox => "secretbox",
        }
    }

    /// Returns the permitted lengths of its keys.
    pub fn key_bytes(self) -> &'static [usize] {
        match self {
            Self::AesCbc | Self::AesGcm => &[16, 24, 32],
            Self::SecretBox => &[32],
        }
    }
}

#[derive(Clone, PartialEq, Eq)]
pub struct Cipher {
    algorithm: Algorithm,
    /// Has a length that the algorithm permits.
    key: Vec<u8>,
}

impl fmt::Debug for Cipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cipher").field("algorithm", &self.algorithm).finish_non_exhaustive()
    }
}

impl Cipher {
    /// Creates a cipher; `None` for a key of another length.
    pub fn new(algorithm: Algorithm, key: Vec<u8>) -> Option<Self> {
        algorithm.key_bytes().contains(&key.len()).then_some(Self { algorithm, key })
    }

    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Encrypts a value. The result is the random nonce, followed by the ciphertext.
    pub fn seal(&self, place: &str, plain: &[u8], random: &Random) -> Vec<u8> {
        match (self.algorithm, self.key.len()) {
            (Algorithm::AesCbc, 16) => seal_cbc::<Aes128>(&self.key, plain, random),
            (Algorithm::AesCbc, 24) => seal_cbc::<Aes192>(&self.key, plain, random),
            (Algorithm::AesCbc, _) => seal_cbc::<Aes256>(&self.key, plain, random),
            (Algorithm::AesGcm, 16) => self.seal_with::<AesGcm<Aes128, U12>>(GCM_NONCE_BYTES, place, plain, random),
            (Algorithm::AesGcm, 24) => self.seal_with::<AesGcm<Aes192, U12>>(GCM_NONCE_BYTES, place, plain, random),
            (Algorithm::AesGcm, _) => self.seal_with::<AesGcm<Aes256, U12>>(GCM_NONCE_BYTES, place, plain, random),
            (Algorithm::SecretBox, _) => self.seal_with::<XSalsa20Poly1305>(SECRETBOX_NONCE_BYTES, "", plain, random),
        }
    }

    /// Decrypts a value. The error has Kubernetes' words.
    pub fn open(&self, place: &str, sealed: &[u8]) -> Result<Vec<u8>, &'static str> {
        match (self.algorithm, self.key.len()) {
            (Algorithm::AesCbc, 16) => open_cbc::<Aes128>(&self.key, sealed),
            (Algorithm::AesCbc, 24) => open_cbc::<Aes192>(&self.key, sealed),
            (Algorithm::AesCbc, _) => open_cbc::<Aes256>(&self.key, sealed),
            (Algorithm::AesGcm, 16) => self.open_gcm::<AesGcm<Aes128, U12>>(place, sealed),
            (Algorithm::AesGcm, 24) => self.open_gcm::<AesGcm<Aes192, U12>>(place, sealed),
            (Algorithm::AesGcm, _) => self.open_gcm::<AesGcm<Aes256, U12>>(place, sealed),
            (Algorithm::SecretBox, _) => self
                .open_with::<XSalsa20Poly1305>(SECRETBOX_NONCE_BYTES, "", sealed)
                .ok_or("output array was not large enough for encryption"),
        }
    }

    fn open_gcm<A: KeyInit + Aead>(&self, place: &str, sealed: &[u8]) -> Result<Vec<u8>, &'static str> {
        if sealed.len() < GCM_NONCE_BYTES {
            return Err("the stored data was shorter than the required size");
        }
        self.open_with::<A>(GCM_NONCE_BYTES, place, sealed).ok_or("cipher: message authentication failed")
    }

    fn cipher<A: KeyInit>(&self) -> A {
        A::new_from_slice(&self.key).expect("its length was checked")
    }

    fn seal_with<A: KeyInit + Aead>(&self, nonce_bytes: usize, place: &str, plain: &[u8], random: &Random) -> Vec<u8> {
        let mut sealed = vec![0; nonce_bytes];
        random.fill(&mut sealed);
        let payload = Payload { msg: plain, aad: place.as_bytes() };
        let boxed = self.cipher::<A>().encrypt(<&Nonce<A>>::from(sealed.as_slice()), payload);
        sealed.extend(boxed.expect("a value is much shorter than what a nonce is good for"));
        sealed
    }

    fn open_with<A: KeyInit + Aead>(&self, nonce_bytes: usize, place: &str, sealed: &[u8]) -> Option<Vec<u8>> {
        let (nonce, boxed) = sealed.split_at_checked(nonce_bytes)?;
        let payload = Payload { msg: boxed, aad: place.as_bytes() };
        self.cipher::<A>().decrypt(<&Nonce<A>>::from(nonce), payload).ok()
    }
}

fn seal_cbc<C>(key: &[u8], plain: &[u8], random: &Random) -> Vec<u8>
where
    C: BlockCipher + BlockEncryptMut,
    cbc::Encryptor<C>: KeyIvInit + BlockEncryptMut,
{
    let mut sealed = vec![0; BLOCK_BYTES];
    random.fill(&mut sealed);
    let cipher = cbc::Encryptor::<C>::new_from_slices(key, &sealed).expect("the lengths are those of the algorithm");
    sealed.extend(cipher.encrypt_padded_vec_mut::<Pkcs7>(plain));
    sealed
}

fn open_cbc<C>(key: &[u8], sealed: &[u8]) -> Result<Vec<u8>, &'static str>
where
    C: BlockCipher + BlockDecryptMut,
    cbc::Decryptor<C>: KeyIvInit + BlockDecryptMut,
{
    let (vector, blocks) =
        sealed.split_at_checked(BLOCK_BYTES).ok_or("the stored data was shorter than the required size")?;
    if !blocks.len().is_multiple_of(BLOCK_BYTES) {
        return Err("the stored data is not a multiple of the block size");
    }
    let cipher = cbc::Decryptor::<C>::new_from_slices(key, vector).expect("the lengths are those of the algorithm");
    cipher.decrypt_padded_vec_mut::<Pkcs7>(blocks).map_err(|_| "invalid padding on input")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: &str = "/registry/secrets/default/s";

    fn cipher(algorithm: Algorithm, key_bytes: usize, first: u8) -> Cipher {
        Cipher::new(algorithm, (0..key_bytes as u8).map(|byte| byte + first).collect()).expect("a length of its own")
    }

    fn bytes(hex: &str) -> Vec<u8> {
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
    }

    #[test]
    fn every_key_opens_what_it_sealed_and_no_other_does() {
        let random = Random::from_seed(1, "test");
        for algorithm in [Algorithm::AesCbc, Algorithm::AesGcm, Algorithm::SecretBox] {
            for key_bytes in algorithm.key_bytes() {
                let (cipher, other) = (cipher(algorithm, *key_bytes, 0), cipher(algorithm, *key_bytes, 1));
                for plain in [&b""[..], b"{}", &[7; 16], &[7; 1000]] {
                    let sealed = cipher.seal(PLACE, plain, &random);
                    assert_eq!(cipher.open(PLACE, &sealed).as_deref(), Ok(plain));
                    assert_ne!(cipher.seal(PLACE, plain, &random), sealed, "never the same twice");
                    assert_ne!(other.open(PLACE, &sealed).as_deref(), Ok(plain));
                }
                assert!(cipher.open(PLACE, b"short").is_err());
            }
            assert_eq!(Cipher::new(algorithm, vec![0; 17]), None);
        }
    }

    #[test]
    fn a_value_cannot_be_changed_or_moved() {
        let random = Random::from_seed(1, "test");
        let gcm = cipher(Algorithm::AesGcm, 32, 0);
        let mut sealed = gcm.seal(PLACE, b"{}", &random);
        let failed = Err("cipher: message authentication failed");
        assert_eq!(gcm.open("/registry/secrets/default/t", &sealed), failed);
        *sealed.last_mut().unwrap() ^= 1;
        assert_eq!(gcm.open(PLACE, &sealed), failed);
    }

    /// Decrypts a value that `openssl enc -aes-256-cbc` has encrypted.
    #[test]
    fn cbc_is_that_of_others() {
        let sealed = "00112233445566778899aabbccddeeffeffd1ab666b887eb662dafe6a64288407256dc793ec28ad5a53c3d33d2493ba5";
        assert_eq!(cipher(Algorithm::AesCbc, 32, 0).open("", &bytes(sealed)).unwrap(), b"{\"kind\":\"Secret\"}");
    }
}
