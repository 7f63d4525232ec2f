//! The address families of a Service: what it asks for, against what the cluster has.
//!
//! Corresponds to initIPFamilyFields in pkg/registry/core/service/storage/alloc.go.
//!
//! Deviation: the cluster has one family, IPv4.

use crate::registry::validation::at::At;
use crate::registry::validation::service;
use proto::meta::status::FieldError;
use serde_json::{Value, json};
use std::net::IpAddr;

const FAMILY: &str = "IPv4";
const FIELDS: [&str; 2] = ["ipFamilies", "ipFamilyPolicy"];

/// Fills in families and policy where they are open. What contradicts the cluster is an error; what contradicts itself
/// is for validation to find.
pub fn settle(service: &mut Value, old: Option<&Value>) -> Vec<FieldError> {
    let root = At::root(service);
    let spec = root.field("spec");
    if spec.field("type").text() == "ExternalName" || !service::addresses(&spec).is_empty() {
        return Vec::new();
    }
    if old.is_some_and(|old| prefers_what_it_had(&spec, &At::root(old).field("spec"))) {
        return Vec::new();
    }
    let mut errors = Vec::new();
    let policy = match spec.field("ipFamilyPolicy").text() {
        "" => None,
        policy => Some(policy.to_owned()),
    };
    if policy.as_deref().is_none_or(|policy| policy == "SingleStack") {
        for (field, what) in [("clusterIPs", "clusterIPs"), ("ipFamilies", "IP families")] {
            if spec.field(field).len() == 2 {
                let why = format!("must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified");
                errors.push(spec.field("ipFamilyPolicy").invalid_as(&json!("SingleStack"), why));
            }
        }
    }
    let mut families: Vec<String> = spec.field("ipFamilies").items().map(|family| family.text().to_owned()).collect();
    let headless = spec.field("clusterIPs").items().next().is_some_and(|ip| ip.text() == "None");
    for (index, ip) in spec.field("clusterIPs").items().enumerate().skip(families.len()) {
        match ip.text().parse::<IpAddr>() {
            Ok(IpAddr::V6(_)) => {
                let why = "IPv6 is not configured on this cluster";
                errors.push(FieldError::invalid(
                    format!("spec.clusterIPs[{index}]"),
                    spec.field("clusterIPs").value,
                    why,
                ));
            }
            Ok(IpAddr::V4(_)) => families.push(FAMILY.to_owned()),
            Err(_) => break,
        }
    }
    if !errors.is_empty() {
        return errors;
    }
    // Somebody else writes the endpoints of such a Service, and they may be of any family.
    let policy = if headless && spec.field("selector").is_empty() {
        let policy = policy.unwrap_or_else(|| "RequireDualStack".to_owned());
        if families.is_empty() {
            families.push(FAMILY.to_owned());
        }
        if policy != "SingleStack" && families.len() == 1 {
            families.push(if families[0] == FAMILY { "IPv6" } else { FAMILY }.to_owned());
        }
        policy
    } else {
        if policy.as_deref() == Some("RequireDualStack") {
            let why = "this cluster is not configured for dual-stack services";
            errors.push(spec.field("ipFamilyPolicy").invalid(why));
        }
        for (index, family) in families.iter().enumerate().filter(|(_, family)| *family != FAMILY) {
            let at = format!("spec.ipFamilies[{index}]");
            errors.push(FieldError::invalid(at, &json!(family), "not configured on this cluster"));
        }
        if families.is_empty() {
            families.push(FAMILY.to_owned());
        }
        policy.unwrap_or_else(|| "SingleStack".to_owned())
    };
    if errors.is_empty() {
        for (field, value) in FIELDS.into_iter().zip([json!(families), json!(policy)]) {
            service["spec"][field] = value;
        }
    }
    errors
}

/// A Service that merely prefers two families stays as the cluster was when it was made.
fn prefers_what_it_had(spec: &At<'_>, before: &At<'_>) -> bool {
    let prefers = |spec: &At<'_>| spec.field("ipFamilyPolicy").text() == "PreferDualStack";
    let fields = ["clusterIP", "clusterIPs", "ipFamilies"];
    prefers(spec) && prefers(before) && fields.iter().all(|field| spec.field(field).value == before.field(field).value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settled(spec: Value) -> (Value, Value, Vec<String>) {
        let mut service = json!({"spec": spec});
        let errors = settle(&mut service, None);
        let [families, policy] = FIELDS.map(|field| service["spec"][field].clone());
        (families, policy, errors.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn families_follow_from_addresses_policy_and_cluster() {
        let (one, two) = (json!(["IPv4"]), json!(["IPv4", "IPv6"]));
        let app = json!({"app": "w"});
        let cases = [
            (json!({}), &one, "SingleStack"),
            (json!({"ipFamilyPolicy": "PreferDualStack"}), &one, "PreferDualStack"),
            (json!({"clusterIP": "10.0.0.9", "clusterIPs": ["10.0.0.9"]}), &one, "SingleStack"),
            (json!({"clusterIP": "None", "clusterIPs": ["None"], "selector": app}), &one, "SingleStack"),
            (json!({"clusterIP": "None", "clusterIPs": ["None"]}), &two, "RequireDualStack"),
            (
                json!({"clusterIP": "None", "clusterIPs": ["None"], "ipFamilyPolicy": "SingleStack"}),
                &one,
                "SingleStack",
            ),
        ];
        for (spec, families, policy) in cases {
            assert_eq!(settled(spec.clone()), (families.clone(), json!(policy), Vec::new()), "{spec}");
        }
    }

    #[test]
    fn a_cluster_of_one_family_refuses_the_other() {
        let cases = [
            (
                json!({"ipFamilyPolicy": "RequireDualStack"}),
                r#"spec.ipFamilyPolicy: Invalid value: "RequireDualStack": this cluster is not configured for dual-stack services"#,
            ),
            (
                json!({"ipFamilies": ["IPv6"]}),
                r#"spec.ipFamilies[0]: Invalid value: "IPv6": not configured on this cluster"#,
            ),
            (
                json!({"ipFamilies": ["IPv4", "IPv6"]}),
                r#"spec.ipFamilyPolicy: Invalid value: "SingleStack": must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified"#,
            ),
            (
                json!({"clusterIP": "fd00::1", "clusterIPs": ["fd00::1"]}),
                r#"spec.clusterIPs[0]: Invalid value: ["fd00::1"]: IPv6 is not configured on this cluster"#,
            ),
        ];
        for (spec, error) in cases {
            assert_eq!(settled(spec.clone()).2, [error], "{spec}");
        }
    }
}
