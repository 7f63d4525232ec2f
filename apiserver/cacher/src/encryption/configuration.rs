//! `Configuration`: which resources are encrypted by which providers, read from a file.
//!
//! Corresponds to apiserver.config.k8s.io/v1 EncryptionConfiguration and
//! k8s.io/apiserver/pkg/server/options/encryptionconfig.

use super::cipher::{Algorithm, Cipher};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::Deserialize;
use std::collections::BTreeSet;

const API_VERSION: &str = "apiserver.config.k8s.io/v1";

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct File {
    api_version: String,
    kind: String,
    resources: Vec<ResourcesOfFile>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ResourcesOfFile {
    resources: Vec<String>,
    providers: Vec<ProviderOfFile>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ProviderOfFile {
    aescbc: Option<Keys>,
    aesgcm: Option<Keys>,
    secretbox: Option<Keys>,
    identity: Option<serde_json::Value>,
    kms: Option<serde_json::Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Keys {
    keys: Vec<Key>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Key {
    name: String,
    secret: String,
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Key").field("name", &self.name).finish_non_exhaustive()
    }
}

/// An error of the file, in one line and without secrets.
#[derive(Debug, PartialEq, thiserror::Error)]
pub enum ConfigurationError {
    #[error("not an EncryptionConfiguration: {0}")]
    Syntax(String),
    #[error("an EncryptionConfiguration of {API_VERSION} is expected, not a {kind:?} of {api_version:?}")]
    Kind { api_version: String, kind: String },
    #[error("{place}: {why}")]
    Content { place: String, why: String },
}

/// A provider: the prefix of its values in the store, and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Provider {
    /// Stores values without encryption.
    Identity,
    Key {
        prefix: Vec<u8>,
        cipher: Cipher,
    },
}

/// The providers of some resources: the first one encrypts, all of them decrypt.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    resources: Vec<String>,
    providers: Vec<Provider>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Configuration(Vec<Entry>);

fn wrong(place: impl Into<String>, why: impl Into<String>) -> ConfigurationError {
    ConfigurationError::Content { place: place.into(), why: why.into() }
}

impl Configuration {
    pub fn parse(text: &str) -> Result<Self, ConfigurationError> {
        let file: File = serde_saphyr::from_str(text).map_err(|error| {
            // A longer message would quote the file, and with it secrets.
            ConfigurationError::Syntax(error.to_string().lines().next().unwrap_or_default().to_owned())
        })?;
        let File { api_version, kind, resources } = file;
        if (api_version.as_str(), kind.as_str()) != (API_VERSION, "EncryptionConfiguration") {
            return Err(ConfigurationError::Kind { api_version, kind });
        }
        if resources.is_empty() {
            return Err(wrong("resources", "at least one item is required"));
        }
        let mut entries = Vec::new();
        for (index, of_file) in resources.into_iter().enumerate() {
            let place = format!("resources[{index}]");
            check_resources(&of_file.resources).map_err(|why| wrong(format!("{place}.resources"), why))?;
            if of_file.providers.is_empty() {
                return Err(wrong(format!("{place}.providers"), "at least one provider is required"));
            }
            let mut providers = Vec::new();
            for (index, provider) in of_file.providers.into_iter().enumerate() {
                let place = format!("{place}.providers[{index}]");
                providers.extend(provider.read(&place)?);
            }
            entries.push(Entry { resources: of_file.resources, providers });
        }
        Ok(Self(entries))
    }

    /// Returns the providers of a resource: those of the first entry that covers it.
    pub fn providers(&self, group: &str, resource: &str) -> &[Provider] {
        let is = |rule: &String| covers(rule, group, resource);
        let found = self.0.iter().find(|entry| entry.resources.iter().any(is));
        found.map_or(&[], |entry| entry.providers.as_slice())
    }
}

/// Returns whether a rule covers a resource: `secrets`, `deployments.apps`, `*.apps`, `*.` for the core group, `*.*`.
fn covers(rule: &str, group: &str, resource: &str) -> bool {
    let (of_resource, of_group) = rule.split_once('.').unwrap_or((rule, ""));
    rule == "*.*" || (of_group == group && (of_resource == "*" || of_resource == resource))
}

fn check_resources(resources: &[String]) -> Result<(), String> {
    if resources.is_empty() {
        return Err("at least one resource is required".to_owned());
    }
    for (index, rule) in resources.iter().enumerate() {
        let (resource, group) = rule.split_once('.').unwrap_or((rule, ""));
        if resource.is_empty() {
            return Err(format!("{rule:?}: a resource has a name"));
        }
        if rule == "*" {
            return Err(
                "use '*.' to encrypt all the resources from core API group or *.* to encrypt all resources".to_owned()
            );
        }
        if rule != "*.*" && (group.contains('*') || resource != "*" && resource.contains('*')) {
            return Err(format!("{rule:?}: wildcards are '*.<group>' and '*.*'"));
        }
        // A resource that a wildcard beside it already covers would never be used.
        let masked = |other: &String| covers(other, group, resource);
        if resources.iter().enumerate().any(|(at, other)| at != index && masked(other)) {
            return Err(format!(
                "{rule:?}: using overlapping resources in the same resource list is not allowed as they will be masked"
            ));
        }
    }
    Ok(())
}

impl ProviderOfFile {
    fn read(self, place: &str) -> Result<Vec<Provider>, ConfigurationError> {
        let Self { aescbc, aesgcm, secretbox, identity, kms } = self;
        if kms.is_some() {
            let why = "kms providers are not supported: give keys by aescbc, aesgcm or secretbox";
            return Err(wrong(format!("{place}.kms"), why));
        }
        let given = [(Algorithm::AesCbc, aescbc), (Algorithm::AesGcm, aesgcm), (Algorithm::SecretBox, secretbox)];
        let mut given = given.into_iter().filter_map(|(algorithm, keys)| Some((algorithm, keys?)));
        match (given.next(), given.next(), identity) {
            (None, None, Some(_)) => Ok(vec![Provider::Identity]),
            (Some((algorithm, keys)), None, None) => keys.read(algorithm, &format!("{place}.{}", algorithm.as_str())),
            (None, ..) => Err(wrong(
                place,
                "provider does not contain any of the expected providers: aescbc, aesgcm, secretbox, identity",
            )),
            _ => Err(wrong(
                place,
                "more than one provider specified in a single element, should split into different list elements",
            )),
        }
    }
}

impl Keys {
    fn read(self, algorithm: Algorithm, place: &str) -> Result<Vec<Provider>, ConfigurationError> {
        if self.keys.is_empty() {
            return Err(wrong(format!("{place}.keys"), "at least one key is required"));
        }
        let mut names = BTreeSet::new();
        let mut providers = Vec::new();
        for (index, Key { name, secret }) in self.keys.into_iter().enumerate() {
            let place = format!("{place}.keys[{index}]");
            if name.is_empty() || name.contains(':') {
                return Err(wrong(format!("{place}.name"), format!("{name:?}: a name is required, without ':'")));
            }
            let key = BASE64
                .decode(&secret)
                .map_err(|_| wrong(format!("{place}.secret"), "secret must be base64 encoded"))?;
            let cipher = Cipher::new(algorithm, key).ok_or_else(|| {
                let lengths: Vec<String> = algorithm.key_bytes().iter().map(ToString::to_string).collect();
                let why = format!("secret is not of the expected length, want one of [{}]", lengths.join(" "));
                wrong(format!("{place}.secret"), why)
            })?;
            let prefix = format!("k8s:enc:{}:v1:{name}:", algorithm.as_str()).into_bytes();
            if !names.insert(name) {
                return Err(wrong(format!("{place}.name"), "names of keys are different"));
            }
            providers.push(Provider::Key { prefix, cipher });
        }
        Ok(providers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\n";

    fn parse(resources: &str) -> Result<Configuration, String> {
        Configuration::parse(&format!("{HEAD}resources: [{resources}]\n")).map_err(|error| error.to_string())
    }

    #[test]
    fn the_first_entry_that_has_a_resource_counts() {
        let key = "{name: k, secret: AAECAwQFBgcICQoLDA0ODw==}";
        let configuration = parse(&format!(
            "{{resources: [secrets, pandas.example.com], providers: [{{aescbc: {{keys: [{key}]}}}}, {{identity: {{}}}}]}},
             {{resources: ['*.apps', '*.'], providers: [{{identity: {{}}}}, {{aesgcm: {{keys: [{key}]}}}}]}},
             {{resources: ['*.*'], providers: [{{aesgcm: {{keys: [{key}]}}}}]}}"
        ))
        .unwrap();
        let of = |group: &str, resource: &str| {
            let providers = configuration.providers(group, resource).iter();
            let shown = providers.map(|provider| match provider {
                Provider::Identity => "identity".to_owned(),
                Provider::Key { prefix, .. } => String::from_utf8_lossy(prefix).into_owned(),
            });
            shown.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(of("", "secrets"), "k8s:enc:aescbc:v1:k: identity");
        assert_eq!(of("example.com", "pandas"), "k8s:enc:aescbc:v1:k: identity");
        assert_eq!(of("", "configmaps"), "identity k8s:enc:aesgcm:v1:k:");
        assert_eq!(of("apps", "deployments"), "identity k8s:enc:aesgcm:v1:k:");
        assert_eq!(of("batch", "jobs"), "k8s:enc:aesgcm:v1:k:");
        assert!(Configuration::default().providers("", "secrets").is_empty());
    }

    #[test]
    fn what_is_wrong_is_told_in_a_line() {
        let identity = "providers: [{identity: {}}]";
        let secrets = |provider: &str| format!("{{resources: [secrets], providers: [{provider}]}}");
        for (resources, expected) in [
            (String::new(), "resources: at least one item is required"),
            (format!("{{resources: [], {identity}}}"), "resources[0].resources: at least one resource is required"),
            (format!("{{resources: ['*'], {identity}}}"), "resources[0].resources: use '*.' to encrypt"),
            (format!("{{resources: ['a*.b'], {identity}}}"), "resources[0].resources: \"a*.b\": wildcards are"),
            (
                format!("{{resources: ['*.*', secrets], {identity}}}"),
                "resources[0].resources: \"secrets\": using overlapping",
            ),
            ("{resources: [secrets]}".to_owned(), "resources[0].providers: at least one provider is required"),
            (secrets("{}"), "resources[0].providers[0]: provider does not contain any"),
            (secrets("{kms: {name: k}}"), "resources[0].providers[0].kms: kms providers are not supported"),
            (secrets("{identity: {}, aescbc: {keys: []}}"), "resources[0].providers[0]: more than one provider"),
            (secrets("{aescbc: {keys: []}}"), "resources[0].providers[0].aescbc.keys: at least one key is required"),
            (secrets("{aescbc: {keys: [{name: 'a:b'}]}}"), "resources[0].providers[0].aescbc.keys[0].name: \"a:b\""),
            (
                secrets("{aesgcm: {keys: [{name: a, secret: '?'}]}}"),
                "resources[0].providers[0].aesgcm.keys[0].secret: secret must be base64",
            ),
            (
                secrets("{secretbox: {keys: [{name: a, secret: c2VjcmV0}]}}"),
                "resources[0].providers[0].secretbox.keys[0].secret: secret is not of the expected length, want one of [32]",
            ),
        ] {
            let error = parse(&resources).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
        let other = Configuration::parse("kind: Secret\napiVersion: v1\n").unwrap_err().to_string();
        assert_eq!(
            other,
            "an EncryptionConfiguration of apiserver.config.k8s.io/v1 is expected, not a \"Secret\" of \"v1\""
        );
    }
}
