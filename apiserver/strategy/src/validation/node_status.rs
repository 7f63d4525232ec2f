//! Validates parts of a node's status: declared features, swap, and the configuration from ConfigMaps (`status.config`).
//!
//! Corresponds to validateNodeDeclaredFeatures, validateNodeSwapStatus and validateNodeConfigStatus of
//! pkg/apis/core/validation.

use field_checks::at::{At, Errors};
use proto::meta::names;

const MAX_FEATURE_BYTES: usize = 253;

/// Checks that features have valid names, are unique and in alphabetical order.
pub fn declared_features(features: &At<'_>, errors: &mut Errors) {
    let mut before: Option<&str> = None;

    for feature in features.items() {
        let name = feature.text();
        // Kubernetes compares a feature with the one before it, and then checks its name.
        match before.map(|before| before.cmp(name)) {
            Some(std::cmp::Ordering::Equal) => errors.push(feature.duplicate()),
            Some(std::cmp::Ordering::Greater) => errors.push(feature.invalid("list must be sorted alphabetically")),
            _ => {}
        }
        if name.len() > MAX_FEATURE_BYTES {
            errors.push(feature.invalid(format!(
                "invalid feature name {name:?}: must be no more than {MAX_FEATURE_BYTES} characters"
            )));
        } else if !is_feature(name) {
            errors.push(feature.invalid(format!(
                "invalid feature name {name:?}: must start with an UpperCamelCase segment, with subsequent segments \
                 separated by '/' (e.g., MyFeature or MyFeature/mySubFeature), and contain only alphanumeric characters and \
                 slashes"
            )));
        }
        before = Some(name);
    }
}

fn is_feature(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_uppercase())
        && name.split('/').all(|segment| {
            segment.starts_with(|c: char| c.is_ascii_alphabetic()) && segment.bytes().all(|b| b.is_ascii_alphanumeric())
        })
}

/// Checks the swap capacity of a node. Kubernetes reports it under `metadata`.
pub fn swap(node: &At<'_>, errors: &mut Errors) {
    let capacity = node.down("status.nodeInfo.swap.capacity");
    if capacity.integer().is_some_and(|bytes| bytes <= 0) {
        errors.push(At::new("metadata.nodeSwapStatus.capacity", capacity.value).invalid("must be greater than zero"));
    }
}

/// Checks the assigned, active and last known good configuration of a node.
pub fn config(config: &At<'_>, errors: &mut Errors) {
    for source in ["assigned", "active", "lastKnownGood"].map(|field| config.field(field)) {
        if !source.is_set() {
            continue;
        }
        let map = source.field("configMap");
        if map.is_set() {
            config_map(&map, errors);
        } else {
            errors.push(source.invalid("exactly one reference subfield must be non-nil"));
        }
    }
}

fn config_map(map: &At<'_>, errors: &mut Errors) {
    for field in ["uid", "resourceVersion"] {
        if map.field(field).is_empty() {
            errors.push(map.field(field).required(""));
        }
    }
    map.field("namespace").check_required(names::dns1123_label, errors);
    map.field("name").check_required(names::dns1123_subdomain, errors);
    map.field("kubeletConfigKey").check_required(names::config_map_key, errors);
}

#[cfg(test)]
mod tests {
    use crate::testing::{create, update, update_of};
    use serde_json::{Value, json};

    fn node(status: Value) -> Value {
        json!({"apiVersion": "v1", "kind": "Node", "spec": {}, "status": status})
    }

    #[test]
    fn features_are_sorted_and_unique() {
        let name = |text: &str| {
            format!(
                "invalid feature name {text:?}: must start with an UpperCamelCase segment, with subsequent segments separated \
                 by '/' (e.g., MyFeature or MyFeature/mySubFeature), and contain only alphanumeric characters and slashes"
            )
        };
        let at = "status.declaredFeatures";
        let odd = json!({"declaredFeatures": ["B", "A/sub", "A/sub", "x", "y/"]});
        let errors = [
            format!("{at}[1]: Invalid value: \"A/sub\": list must be sorted alphabetically"),
            format!("{at}[2]: Duplicate value: \"A/sub\""),
            format!("{at}[3]: Invalid value: \"x\": {}", name("x")),
            format!("{at}[4]: Invalid value: \"y/\": {}", name("y/")),
        ];
        assert_eq!(create(node(odd.clone())), errors);
        assert_eq!(update_of("status", node(json!({})), node(odd)), errors);
        assert_eq!(create(node(json!({"declaredFeatures": ["A", "A/b", "B"]}))), [""; 0]);
    }

    #[test]
    fn swap_has_a_positive_capacity_or_none() {
        let swap = |bytes: i64| {
            let mut status = json!({"nodeInfo": {"swap": {"capacity": bytes}}});
            for field in [
                "machineID",
                "systemUUID",
                "bootID",
                "kernelVersion",
                "osImage",
                "containerRuntimeVersion",
                "kubeletVersion",
                "kubeProxyVersion",
                "operatingSystem",
                "architecture",
            ] {
                status["nodeInfo"][field] = json!("");
            }
            create(node(status))
        };
        assert_eq!(swap(1), [""; 0]);
        assert_eq!(swap(0), ["metadata.nodeSwapStatus.capacity: Invalid value: 0: must be greater than zero"]);
    }

    #[test]
    fn configuration_comes_from_a_config_map() {
        let at = "status.config";
        let label = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and \
                     end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
                     '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
        let config = json!({"config": {"assigned": {}, "active": {"configMap": {"namespace": "N", "name": "",
            "kubeletConfigKey": ""}}}});
        let errors = [
            format!("{at}.assigned: Invalid value: {{}}: exactly one reference subfield must be non-nil"),
            format!("{at}.active.configMap.uid: Required value"),
            format!("{at}.active.configMap.resourceVersion: Required value"),
            format!("{at}.active.configMap.namespace: Invalid value: \"N\": {label}"),
            format!("{at}.active.configMap.name: Required value"),
            format!("{at}.active.configMap.kubeletConfigKey: Required value"),
        ];
        assert_eq!(update_of("status", node(json!({})), node(config)), errors);
        assert_eq!(update(node(json!({})), node(json!({"phase": "Running"}))), [""; 0]);
    }
}
