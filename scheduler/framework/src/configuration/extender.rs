//! `Extender`, an HTTP service that takes part in scheduling.
//!
//! Corresponds to Extender of k8s.io/kube-scheduler/config/v1 and its validation.

use proto::meta::names;
use proto::meta::status::FieldError;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeSet;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Extender {
    pub url_prefix: String,
    pub filter_verb: String,
    pub preempt_verb: String,
    pub prioritize_verb: String,
    pub weight: i64,
    pub bind_verb: String,
    #[serde(rename = "enableHTTPS")]
    pub enable_https: bool,
    pub tls_config: Option<ExtenderTls>,
    /// Time that one request may take, such as `5s`.
    pub http_timeout: String,
    pub node_cache_capable: bool,
    pub managed_resources: Vec<ManagedResource>,
    /// True if pods are scheduled also while the service does not answer.
    pub ignorable: bool,
}

impl Default for Extender {
    fn default() -> Self {
        let none = String::new;
        Self {
            url_prefix: none(),
            filter_verb: none(),
            preempt_verb: none(),
            prioritize_verb: none(),
            weight: 0,
            bind_verb: none(),
            enable_https: false,
            tls_config: None,
            http_timeout: "0s".to_owned(),
            node_cache_capable: false,
            managed_resources: Vec::new(),
            ignorable: false,
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ExtenderTls {
    pub insecure: bool,
    pub server_name: String,
    pub cert_file: String,
    pub key_file: String,
    pub ca_file: String,
    pub cert_data: String,
    pub key_data: String,
    pub ca_data: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ManagedResource {
    pub name: String,
    pub ignored_by_scheduler: bool,
}

/// Returns the resources that extenders manage and that NodeResourcesFit leaves to them.
pub fn ignored_resources(extenders: &[Extender]) -> Vec<&str> {
    let managed = extenders.iter().flat_map(|extender| &extender.managed_resources);
    managed.filter(|resource| resource.ignored_by_scheduler).map(|resource| resource.name.as_str()).collect()
}

/// Adds what is wrong with all extenders together to `errors`.
pub fn validate(extenders: &[Extender], errors: &mut Vec<FieldError>) {
    let mut managed = BTreeSet::new();
    for (at, extender) in extenders.iter().enumerate() {
        let path = format!("extenders[{at}]");
        if !extender.prioritize_verb.is_empty() && extender.weight <= 0 {
            let why = "must have a positive weight applied to it";
            errors.push(FieldError::invalid(format!("{path}.weight"), &json!(extender.weight), why));
        }
        if let Err(why) = component_base::duration::parse_duration(&extender.http_timeout) {
            errors.push(FieldError::invalid(format!("{path}.httpTimeout"), &json!(extender.http_timeout), why));
        }
        for (at, resource) in extender.managed_resources.iter().enumerate() {
            let path = format!("{path}.managedResources[{at}].name");
            errors.extend(resource_name(&path, &resource.name));
            if !managed.insert(&resource.name) {
                let why = "duplicate extender managed resource name";
                errors.push(FieldError::invalid(path, &json!(resource.name), why));
            }
        }
    }
    let binders = extenders.iter().filter(|extender| !extender.bind_verb.is_empty()).count();
    if binders > 1 {
        let found = json!(format!("found {binders} extenders implementing bind"));
        errors.push(FieldError::invalid("extenders", &found, "only one extender can implement bind"));
    }
}

/// Returns what is wrong with the name of an extended resource.
fn resource_name(path: &str, name: &str) -> Vec<FieldError> {
    let invalid = |why: &str| FieldError::invalid(path, &json!(name), why);
    let unqualified: Vec<FieldError> = names::qualified_name(name).iter().map(|why| invalid(why)).collect();
    let is_native = !name.contains('/') || name.contains("kubernetes.io/") || name.starts_with("requests.");
    match unqualified.is_empty() && is_native {
        true => vec![invalid("is an invalid extended resource name")],
        false => unqualified,
    }
}
