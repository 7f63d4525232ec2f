//! `Fingerprint`: 128 bits that stand for texts, so that a cache of many events need not keep these.
//!
//! client-go keeps the texts. The fingerprint is the FNV-1a hash, the same in every process and on every machine.

const START: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
/// A byte that no text contains. It ends each text, so that `a`, `bc` and `ab`, `c` differ.
const END: u8 = 0xff;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Fingerprint(u128);

impl Fingerprint {
    pub(super) fn of(texts: &[&str]) -> Self {
        Self(START).and(texts)
    }

    /// Returns the fingerprint of the texts so far and of further ones.
    pub(super) fn and(self, texts: &[&str]) -> Self {
        let bytes = texts.iter().flat_map(|text| text.bytes().chain([END]));
        Self(bytes.fold(self.0, |hash, byte| (hash ^ u128::from(byte)).wrapping_mul(PRIME)))
    }

    /// Returns 64 of the bits.
    pub(super) fn short(self) -> u64 {
        self.0 as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_kept_apart() {
        assert_eq!(Fingerprint::of(&["a", "b"]), Fingerprint::of(&["a"]).and(&["b"]));
        let different = [&["a", "bc"][..], &["ab", "c"], &["abc"], &["abc", ""], &["", "abc"], &["bc", "a"]];
        let all: std::collections::BTreeSet<Fingerprint> = different.into_iter().map(Fingerprint::of).collect();
        assert_eq!(all.len(), different.len());
    }

    /// The test vector of the hash's authors for `foobar`, and the byte that ends the text.
    #[test]
    fn it_is_fnv_1a() {
        let foobar = 0x343e_1662_793c_64bf_6f0d_3597_ba44_6f18_u128;
        let expected = (foobar ^ u128::from(END)).wrapping_mul(PRIME);
        assert_eq!(Fingerprint::of(&["foobar"]), Fingerprint(expected));
    }
}
