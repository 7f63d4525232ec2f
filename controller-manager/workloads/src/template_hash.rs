//! The hash of a pod template. It distinguishes the replica sets and revisions of one owner.
//!
//! Corresponds to controller.ComputeHash in pkg/controller/controller_utils.go.
//! Deviation: Kubernetes hashes a Go dump of the template; here it is the template's canonical JSON, so the
//! suffix of a replica set's name differs for the same template.

use proto::kinds::api::core::v1::PodTemplateSpec;
use proto::serializer::json;

/// Label and selector key that distinguishes the pods of a deployment's replica sets.
pub const POD_TEMPLATE_HASH: &str = "pod-template-hash";

/// Consonants and digits that spell no words and do not look alike.
const SAFE_ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// Returns the hash of a template. `collision_count` changes it when the resulting name is already in use.
pub fn template_hash(template: &PodTemplateSpec, collision_count: Option<i32>) -> String {
    let tree = serde_json::to_value(template).expect("API types are plain data");
    let mut hash = Fnv32a::default();
    hash.write(&json::to_canonical(&tree));
    if let Some(count) = collision_count {
        hash.write(&u64::try_from(count).unwrap_or(0).to_le_bytes());
    }
    safe_encode(&hash.0.to_string())
}

/// Maps every byte to a letter of the safe alphabet.
pub fn safe_encode(text: &str) -> String {
    text.bytes().map(|byte| char::from(SAFE_ALPHABET[usize::from(byte) % SAFE_ALPHABET.len()])).collect()
}

/// The 32 bit FNV-1a hash.
pub struct Fnv32a(pub u32);

impl Default for Fnv32a {
    fn default() -> Self {
        Self(0x811c_9dc5)
    }
}

impl Fnv32a {
    pub fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use controller_base::fixture;

    #[test]
    fn fnv_gives_the_published_values() {
        for (text, expected) in [("", 0x811c_9dc5), ("a", 0xe40c_292c), ("foobar", 0xbf9c_f968)] {
            let mut hash = Fnv32a::default();
            hash.write(text.as_bytes());
            assert_eq!(hash.0, expected, "{text:?}");
        }
    }

    #[test]
    fn digits_encode_as_in_kubernetes() {
        assert_eq!(safe_encode("0123456789"), "456789bcdf");
    }

    #[test]
    fn templates_and_collisions_change_the_hash() {
        let one = template_hash(&fixture::template("nginx:1"), None);
        assert_eq!(one, template_hash(&fixture::template("nginx:1"), None));
        assert_ne!(one, template_hash(&fixture::template("nginx:2"), None));
        assert_ne!(one, template_hash(&fixture::template("nginx:1"), Some(1)));
    }
}
