//! Random numbers that repeat with the seed, in named streams that do not influence each other.

use parking_lot::Mutex;
use rand::{Rng, RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::sync::Arc;
use std::time::Duration;

/// Kubernetes' alphabet for generated names. It has no vowels and no look-alikes, so that no words appear.
const NAME_ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

const HEX_DIGITS: &[u8; 16] = b"0123456789abcdef";

/// A stream of random numbers; clones share the stream.
#[derive(Clone, Debug)]
pub struct Random(Arc<Mutex<ChaCha8Rng>>);

impl Random {
    /// Returns a stream seeded with the operating system's entropy.
    pub fn from_entropy() -> Self {
        Self(Arc::new(Mutex::new(ChaCha8Rng::from_os_rng())))
    }

    /// Returns a stream that depends only on the seed and its name.
    pub fn from_seed(seed: u64, stream: &str) -> Self {
        // FNV-1a never changes; the standard library's hasher may.
        let hash =
            stream.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
        let mut key = [0_u8; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        key[8..16].copy_from_slice(&hash.to_le_bytes());
        Self(Arc::new(Mutex::new(ChaCha8Rng::from_seed(key))))
    }

    pub fn u64(&self) -> u64 {
        self.0.lock().next_u64()
    }

    /// Returns a number uniform in `0..bound`; `bound` must not be zero.
    pub fn below(&self, bound: usize) -> usize {
        self.0.lock().random_range(0..bound)
    }

    /// Returns a number uniform in `[0, 1)`.
    pub fn unit(&self) -> f64 {
        self.0.lock().random::<f64>()
    }

    /// Returns `base` lengthened by up to `factor` of itself, as wait.Jitter does.
    pub fn jitter(&self, base: Duration, factor: f64) -> Duration {
        base.mul_f64(1.0 + self.unit() * factor)
    }

    pub fn fill(&self, bytes: &mut [u8]) {
        self.0.lock().fill_bytes(bytes);
    }

    /// Returns a version 4 UUID.
    pub fn uid(&self) -> String {
        let mut b = [0_u8; 16];
        self.fill(&mut b);
        b[6] = (b[6] & 0x0f) | 0x40;
        b[8] = (b[8] & 0x3f) | 0x80;
        // Every request needs one, so the digits come from a table instead of the formatter.
        let mut text = String::with_capacity(36);
        for (place, byte) in b.into_iter().enumerate() {
            if matches!(place, 4 | 6 | 8 | 10) {
                text.push('-');
            }
            for digit in [byte >> 4, byte & 0x0f] {
                text.push(char::from(HEX_DIGITS[usize::from(digit)]));
            }
        }
        text
    }

    /// Returns the random suffix of a generated name: `length` characters (Kubernetes uses five).
    pub fn name_suffix(&self, length: usize) -> String {
        (0..length).map(|_| char::from(NAME_ALPHABET[self.below(NAME_ALPHABET.len())])).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_repeat_and_differ() {
        let (a, again) = (Random::from_seed(1, "uid"), Random::from_seed(1, "uid"));
        let first = a.uid();
        assert_eq!(first, again.uid());
        assert_eq!(first.len(), 36);
        let mut bytes = [0_u8; 16];
        Random::from_seed(1, "uid").fill(&mut bytes);
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let variant = ["8", "9", "a", "b"][usize::from(bytes[8] >> 4 & 3)];
        let parts =
            [&hex[..8], &hex[8..12], &format!("4{}", &hex[13..16]), &format!("{variant}{}", &hex[17..20]), &hex[20..]];
        assert_eq!(first, parts.join("-"), "a version 4 UUID of these bytes");
        assert_ne!(first, Random::from_seed(1, "names").uid());
        assert_ne!(first, Random::from_seed(2, "uid").uid());
    }
}
