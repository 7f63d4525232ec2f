//! Validates ConfigMaps and Secrets: keys, sizes, keys that the type of a Secret requires, `immutable`.
//!
//! Corresponds to ValidateConfigMap and ValidateSecret of pkg/apis/core/validation.

use crate::write_context::WriteContext;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use field_checks::at::{At, Errors};
use proto::meta::names;
use proto::wire::json_syntax;
use serde_json::{Value, json};

/// Maximum size of all values of one object together.
const MAX_DATA_BYTES: usize = 1024 * 1024;

const IMMUTABLE: &str = "field is immutable when `immutable` is set";

fn check_key(map: &At<'_>, key: &str, errors: &mut Errors) {
    let at = map.key(key);
    errors.extend(names::config_map_key(key).into_iter().map(|complaint| at.invalid_as(&json!(key), complaint)));
}

/// Returns the decoded length of a value in base64.
fn decoded_bytes(value: &Value) -> usize {
    let text = value.as_str().unwrap_or_default();
    text.len() / 4 * 3 - text.bytes().rev().take_while(|b| *b == b'=').count().min(2)
}

pub fn config_map(_context: &WriteContext<'_>, object: &At<'_>, errors: &mut Errors) {
    let (data, binary) = (object.field("data"), object.field("binaryData"));
    let mut bytes = 0;
    for (key, value) in data.map().into_iter().flatten() {
        check_key(&data, key, errors);
        if binary.map().is_some_and(|binary| binary.contains_key(key)) {
            errors.push(data.key(key).invalid_as(&json!(key), "duplicate of key present in binaryData".to_owned()));
        }
        bytes += value.as_str().map_or(0, str::len);
    }
    for (key, value) in binary.map().into_iter().flatten() {
        check_key(&binary, key, errors);
        bytes += decoded_bytes(value);
    }
    if bytes > MAX_DATA_BYTES {
        errors.push(At::new("", object.value).too_long(MAX_DATA_BYTES));
    }
}

fn check_immutable(object: &At<'_>, old: &At<'_>, fields: &[&str], errors: &mut Errors) {
    if !old.field("immutable").is_true() {
        return;
    }
    if !object.field("immutable").is_true() {
        errors.push(object.field("immutable").forbidden(IMMUTABLE));
    }
    for field in fields {
        if object.field(field).value != old.field(field).value {
            errors.push(object.field(field).forbidden(IMMUTABLE));
        }
    }
}

pub fn config_map_update(_context: &WriteContext<'_>, object: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    check_immutable(object, old, &["data", "binaryData"], errors);
}

/// Types of Secrets and the keys that a Secret of the type must have.
const REQUIRED_KEYS: &[(&str, &[&str])] = &[
    ("kubernetes.io/dockercfg", &[".dockercfg"]),
    ("kubernetes.io/dockerconfigjson", &[".dockerconfigjson"]),
    ("kubernetes.io/ssh-auth", &["ssh-privatekey"]),
    ("kubernetes.io/tls", &["tls.crt", "tls.key"]),
];

pub fn secret(_context: &WriteContext<'_>, object: &At<'_>, errors: &mut Errors) {
    let data = object.field("data");
    let mut bytes = 0;
    for (key, value) in data.map().into_iter().flatten() {
        check_key(&data, key, errors);
        bytes += decoded_bytes(value);
    }
    if bytes > MAX_DATA_BYTES {
        errors.push(data.too_long(MAX_DATA_BYTES));
    }
    let has = |key: &str| data.map().is_some_and(|data| data.contains_key(key));
    let lacks = |key: &str| !has(key) || (key == "ssh-privatekey" && data.key(key).is_empty());
    match object.field("type").text() {
        "kubernetes.io/service-account-token" => {
            let annotations = object.down("metadata.annotations");
            if annotations.key("kubernetes.io/service-account.name").text().is_empty() {
                errors.push(annotations.key("kubernetes.io/service-account.name").required(""));
            }
        }
        "kubernetes.io/basic-auth" => {
            if !has("username") && !has("password") {
                errors.push(data.key("username").required(""));
                errors.push(data.key("password").required(""));
            }
        }
        kind => {
            let required = REQUIRED_KEYS.iter().find(|(name, _)| *name == kind).map_or(&[][..], |(_, keys)| keys);
            for key in required {
                if lacks(key) {
                    errors.push(data.key(key).required(""));
                }
            }
            if kind.starts_with("kubernetes.io/dockerc") {
                check_docker_config(&data.key(required[0]), errors);
            }
        }
    }
}

fn check_docker_config(at: &At<'_>, errors: &mut Errors) {
    let Value::String(text) = at.value else { return };
    let bytes = STANDARD.decode(text).unwrap_or_default();
    let why = match (json_syntax::syntax_error(&bytes), serde_json::from_slice::<Value>(&bytes)) {
        (Some(why), _) => why,
        (None, Ok(Value::Object(_) | Value::Null)) => return,
        (None, Ok(other)) => {
            let kind = match other {
                Value::Array(_) => "array",
                Value::String(_) => "string",
                Value::Bool(_) => "bool",
                _ => "number",
            };
            format!("json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}")
        }
        (None, Err(why)) => why.to_string(),
    };
    errors.push(at.invalid_as(&json!("<secret contents redacted>"), why));
}

/// Returns a warning for the annotation that restricts which Secrets the pods of a service account may mount.
pub fn service_account_warnings(_context: &WriteContext<'_>, account: &At<'_>, _old: Option<&At<'_>>) -> Vec<String> {
    let at = account.down("metadata.annotations").key("kubernetes.io/enforce-mountable-secrets");
    let why = "deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets";
    if at.is_set() { vec![format!("{}: {why}", at.path)] } else { Vec::new() }
}

/// Returns the first error that a TLS server would report for the certificate and the key of a Secret.
pub fn secret_warnings(_context: &WriteContext<'_>, secret: &At<'_>, _old: Option<&At<'_>>) -> Vec<String> {
    if secret.field("type").text() != "kubernetes.io/tls" {
        return Vec::new();
    }
    let data = secret.field("data");
    let text =
        |key: &str| String::from_utf8_lossy(&STANDARD.decode(data.key(key).text()).unwrap_or_default()).into_owned();
    pem_error(&text("tls.crt"), &text("tls.key")).into_iter().collect()
}

/// Returns the types of the PEM blocks in a text.
fn block_types(text: &str) -> Vec<&str> {
    text.lines().filter_map(|line| line.trim().strip_prefix("-----BEGIN ")?.strip_suffix("-----")).collect()
}

fn pem_error(certificate: &str, key: &str) -> Option<String> {
    let (certificate, key) = (block_types(certificate), block_types(key));
    if !certificate.contains(&"CERTIFICATE") {
        return Some(match certificate.as_slice() {
            [] => "tls: failed to find any PEM data in certificate input".to_owned(),
            [kind] if kind.ends_with("PRIVATE KEY") => {
                "tls: failed to find certificate PEM data in certificate input, but did find a private key; PEM inputs may have been switched".to_owned()
            }
            kinds => format!(
                "tls: failed to find \"CERTIFICATE\" PEM block in certificate input after skipping PEM blocks of the following types: [{}]",
                kinds.join(" ")
            ),
        });
    }
    if key.iter().any(|kind| *kind == "PRIVATE KEY" || kind.ends_with(" PRIVATE KEY")) {
        return None;
    }
    Some(match key.as_slice() {
        [] => "tls: failed to find any PEM data in key input".to_owned(),
        ["CERTIFICATE"] => "tls: found a certificate rather than a key in the PEM for the private key".to_owned(),
        kinds => format!(
            "tls: failed to find PEM block with type ending in \"PRIVATE KEY\" in key input after skipping PEM blocks of the following types: [{}]",
            kinds.join(" ")
        ),
    })
}

pub fn secret_update(_context: &WriteContext<'_>, object: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    object.field("type").check_unchanged(&old.field("type"), errors);
    check_immutable(object, old, &["data"], errors);
}

#[cfg(test)]
mod tests {
    use crate::testing::{create, update};
    use serde_json::{Value, json};

    fn config_map(rest: Value) -> Value {
        let mut object = json!({"apiVersion": "v1", "kind": "ConfigMap"});
        object.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        object
    }

    #[test]
    fn keys_are_file_names_and_are_in_one_map_only() {
        let both = config_map(json!({"data": {"a": "1", "..": "x"}, "binaryData": {"a": "MQ=="}}));
        assert_eq!(
            create(both),
            [
                "data[..]: Invalid value: \"..\": must not be '..'",
                "data[a]: Invalid value: \"a\": duplicate of key present in binaryData",
            ]
        );
        let big = config_map(json!({"data": {"a": "x".repeat(1024 * 1024 + 1)}}));
        assert_eq!(create(big), [": Too long: may not be more than 1048576 bytes"]);
    }

    #[test]
    fn an_immutable_config_map_does_not_change() {
        let old = config_map(json!({"immutable": true, "data": {"a": "1"}}));
        let free = config_map(json!({"data": {"a": "2"}}));
        assert_eq!(
            update(old, free),
            [
                "immutable: Forbidden: field is immutable when `immutable` is set",
                "data: Forbidden: field is immutable when `immutable` is set",
            ]
        );
    }

    #[test]
    fn secrets_have_the_keys_of_their_type() {
        let secret =
            |kind: &str, data: Value| create(json!({"apiVersion": "v1", "kind": "Secret", "type": kind, "data": data}));
        assert_eq!(secret("kubernetes.io/tls", json!({"tls.crt": "eA=="})), ["data[tls.key]: Required value"]);
        assert_eq!(
            secret("kubernetes.io/basic-auth", json!({})),
            ["data[username]: Required value", "data[password]: Required value"]
        );
        assert_eq!(
            secret("kubernetes.io/ssh-auth", json!({"ssh-privatekey": ""})),
            ["data[ssh-privatekey]: Required value"]
        );
        assert_eq!(secret("Opaque", json!({})), [""; 0]);
    }

    #[test]
    fn a_certificate_and_its_key_are_pem_of_their_type() {
        let (certificate, key) = ("-----BEGIN CERTIFICATE-----\n", "-----BEGIN EC PRIVATE KEY-----\n");
        let cases = [
            ("x", "x", Some("tls: failed to find any PEM data in certificate input")),
            (
                key,
                certificate,
                Some(
                    "tls: failed to find certificate PEM data in certificate input, but did find a private key; PEM inputs may have been switched",
                ),
            ),
            (certificate, "", Some("tls: failed to find any PEM data in key input")),
            (
                certificate,
                certificate,
                Some("tls: found a certificate rather than a key in the PEM for the private key"),
            ),
            (certificate, key, None),
        ];
        for (certificate, key, expected) in cases {
            assert_eq!(super::pem_error(certificate, key).as_deref(), expected);
        }
    }

    #[test]
    fn a_docker_config_is_a_json_object() {
        let config = |text: &str| {
            let data = json!({".dockerconfigjson": text});
            create(
                json!({"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/dockerconfigjson", "stringData": data}),
            )
        };
        let wrong =
            |why: &str| [format!("data[.dockerconfigjson]: Invalid value: \"<secret contents redacted>\": {why}")];
        assert_eq!(config("{nope"), wrong("invalid character 'n' looking for beginning of object key string"));
        assert_eq!(config("[]"), wrong("json: cannot unmarshal array into Go value of type map[string]interface {}"));
        assert_eq!(config("{}"), [""; 0]);
    }
}
