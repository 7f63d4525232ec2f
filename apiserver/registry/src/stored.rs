//! Decodes the values of the store into objects, and refuses a value that is no object of its row.
//!
//! Only API servers write below a row's prefix, but the store may be shared with others, and a value may be damaged.
//! Such a value is reported as unreadable instead of being served. Corresponds to the decoding half of
//! k8s.io/apiserver/pkg/storage/etcd3/decoder.go.

use cacher::Decode;
use cacher::encryption::Transformer;
use proto::Object;
use proto::resources::Resource;
use proto::wire::json;
use serde_json::Value;
use std::sync::Arc;
use storage::Entry;

/// Prefix of values in Kubernetes' protobuf encoding.
const PROTOBUF: &[u8] = b"k8s\0";

/// Returns the decoder of the row whose keys begin with `prefix`. Its errors say what is wrong with a value.
pub fn decoder(resource: &Arc<Resource>, prefix: &str, transformer: &Transformer) -> Decode {
    let transformer = transformer.clone();
    let (resource, prefix) = (resource.clone(), prefix.to_owned());
    let versions: Vec<String> = resource.served.iter().map(|served| served.api_version()).collect();
    Arc::new(move |entry: &Entry| {
        let stored = transformer.open(&entry.key, &entry.value)?;
        if stored.starts_with(PROTOBUF) {
            return Err("it is in Kubernetes' protobuf encoding, and this server keeps JSON".to_owned().into());
        }
        let value = json::parse(&stored).map_err(|error| format!("unable to decode: {error}"))?.value;
        let version = version_of(&resource, &versions, &value)?;
        check_key(&value, entry.key.strip_prefix(&*prefix).unwrap_or(&entry.key))?;
        let value = resource.as_read(version, value);
        let fields = resource.fields_of(&value);
        Ok(Arc::new(Object::from_stored(&stored, value, entry.mod_revision, fields)))
    })
}

/// Returns whether a value is stored in another version than the present storage version.
pub fn has_old_version(resource: &Resource, transformer: &Transformer, entry: &Entry) -> bool {
    let Ok(stored) = transformer.open(&entry.key, &entry.value) else { return false };
    let version = resource.storage_version().api_version();
    // Stored fields are sorted, so that the version comes first in all but a few custom resources.
    if stored.starts_with(format!("{{\"apiVersion\":\"{version}\"").as_bytes()) {
        return false;
    }
    json::parse(&stored).is_ok_and(|parsed| parsed.value["apiVersion"] != version)
}

/// Finds the version that a value is stored in. It may be older than the current storage version.
fn version_of(resource: &Resource, versions: &[String], value: &Value) -> Result<usize, String> {
    let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default();
    let (version, kind) = (text("apiVersion"), text("kind"));
    let is_version = |index: usize| versions[index] == version && resource.served[index].kind == kind;
    if is_version(resource.storage) {
        return Ok(resource.storage);
    }
    (0..versions.len()).find(|index| is_version(*index)).ok_or_else(|| {
        let expected = &resource.storage_version().kind;
        match (version, kind) {
            ("", _) | (_, "") => format!("it has no apiVersion and kind; a {expected} is expected"),
            _ => format!("it is a {kind} of {version}; a {expected} is expected"),
        }
    })
}

/// Checks that an object lies under the key of its own name. Otherwise it could be read but never be written.
fn check_key(value: &Value, key_suffix: &str) -> Result<(), String> {
    let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (namespace, name) = (text("/metadata/namespace"), text("/metadata/name"));
    let rest = match namespace {
        "" => Some(key_suffix),
        namespace => key_suffix.strip_prefix(namespace).and_then(|rest| rest.strip_prefix('/')),
    };
    if name.is_empty() || rest != Some(name) {
        return Err(format!("it is named {name:?} in namespace {namespace:?}, which is not what its key says"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use cacher::DecodeError;
    use cacher::encryption::Encryption;
    use cacher::encryption::configuration::Configuration;
    use component_base::env::Env;
    use proto::resources::builtin;

    const PREFIX: &str = "/registry/horizontalpodautoscalers/";

    fn decode(key: &str, value: &[u8]) -> Result<Arc<Object>, DecodeError> {
        let resource = builtin().iter().find(|row| row.storage_version().resource == "horizontalpodautoscalers");
        let entry = Entry {
            key: format!("{PREFIX}{key}").into(),
            value: Bytes::copy_from_slice(value),
            create_revision: 2,
            mod_revision: 3,
        };
        let nothing = Encryption::new(&Env::system(), Configuration::default());
        decoder(resource.unwrap(), PREFIX, &nothing.of("autoscaling", "horizontalpodautoscalers"))(&entry)
    }

    #[test]
    fn an_object_of_any_served_version_is_read() {
        let v2 = br#"{"apiVersion":"autoscaling/v2","kind":"HorizontalPodAutoscaler","metadata":{"name":"a","namespace":"x"}}"#;
        let read = decode("x/a", v2).unwrap();
        assert_eq!((read.index.name.as_str(), read.revision), ("a", 3));
        let v1 = br#"{"apiVersion":"autoscaling/v1","kind":"HorizontalPodAutoscaler","metadata":{"name":"a","namespace":"x"},
            "spec":{"maxReplicas":3,"targetCPUUtilizationPercentage":50}}"#;
        let read = decode("x/a", v1).unwrap().to_value();
        assert_eq!(read["apiVersion"], "autoscaling/v2");
        assert_eq!(read["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"], 50);
    }

    #[test]
    fn errors_say_what_is_wrong_with_a_value() {
        let hpa = br#"{"apiVersion":"autoscaling/v2","kind":"HorizontalPodAutoscaler","metadata":{"name":"a","namespace":"x"}}"#;
        let cases: [(&str, &[u8], &str); 8] = [
            ("x/a", b"", "unable to decode: EOF while parsing a value at line 1 column 0"),
            ("x/a", b"{\"a\":", "unable to decode: EOF while parsing a value at line 1 column 5"),
            ("x/a", b"k8s\0\x0a\x02", "it is in Kubernetes' protobuf encoding, and this server keeps JSON"),
            ("x/a", b"[]", "it has no apiVersion and kind; a HorizontalPodAutoscaler is expected"),
            (
                "x/a",
                br#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}"#,
                "it is a Pod of v1; a HorizontalPodAutoscaler is expected",
            ),
            ("x/b", hpa, "it is named \"a\" in namespace \"x\", which is not what its key says"),
            ("y/a", hpa, "it is named \"a\" in namespace \"x\", which is not what its key says"),
            ("a", hpa, "it is named \"a\" in namespace \"x\", which is not what its key says"),
        ];
        for (key, value, wrong) in cases {
            assert_eq!(decode(key, value).unwrap_err().to_string(), wrong, "{}", String::from_utf8_lossy(value));
        }
    }
}
