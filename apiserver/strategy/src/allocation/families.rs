//! IP families of a Service: fills in `ipFamilies` and `ipFamilyPolicy` from the request and the families of the cluster.
//!
//! Corresponds to initIPFamilyFields in pkg/registry/core/service/storage/alloc.go.
//!
//! ```text
//!   cluster IPv4        {}                                  ->  [IPv4]         SingleStack
//!   cluster IPv4,IPv6   {}                                  ->  [IPv4]         SingleStack
//!                       {policy: PreferDualStack}           ->  [IPv4, IPv6]   PreferDualStack
//!                       {policy: …, families: [IPv6]}       ->  [IPv6, IPv4]
//!                       update: policy becomes SingleStack  ->  drops the second family and address
//! ```

use crate::validation::service_addresses::addresses;
use field_checks::at::At;
use proto::meta::status::FieldError;
use proto::schema::builtin::builtin_type;
use serde_json::{Value, json};
use std::net::IpAddr;

pub type Family = &'static str;

const IPV4: Family = "IPv4";
const IPV6: Family = "IPv6";
const SINGLE: &str = "SingleStack";
const PREFER: &str = "PreferDualStack";
const REQUIRE: &str = "RequireDualStack";

pub fn of_address(address: IpAddr) -> Family {
    if address.is_ipv4() { IPV4 } else { IPV6 }
}

fn other(family: &str) -> Family {
    if family == IPV4 { IPV6 } else { IPV4 }
}

/// Fills in the families and the policy that the request omits. `cluster` lists the families of the cluster, the primary
/// one first. Returns the errors of a request that the cluster cannot satisfy. Changes nothing when the fields do not
/// fit together, which validation reports.
pub fn init(service: &mut Value, old: Option<&Value>, cluster: &[Family]) -> Vec<FieldError> {
    let service_type = builtin_type("io.k8s.api.core.v1.Service");
    let root = At::typed_root(&service_type, service);
    let spec = root.field("spec");
    if spec.field("type").text() == "ExternalName" {
        return Vec::new();
    }
    let before = old.map(|old| At::typed_root(&service_type, old));
    let before = before.as_ref().map(|old| old.field("spec"));
    if before.as_ref().is_some_and(|before| keeps_its_preference(&spec, before)) {
        return Vec::new();
    }
    let has_foreign_endpoints = spec.field("clusterIP").text() == "None" && spec.field("selector").is_empty();
    let policy = policy(&spec, before.as_ref(), has_foreign_endpoints);
    if !addresses(&spec).is_empty() {
        return Vec::new();
    }
    let mut fields = FamilyFields { policy, ips: texts(&spec, "clusterIPs"), families: texts(&spec, "ipFamilies") };
    let mut errors = before.map_or_else(Vec::new, |before| fields.release_secondary(&spec, &before));
    errors.extend(fields.policy_errors(&spec));
    errors.extend(fields.infer_families(&spec, cluster));
    if errors.is_empty() {
        match has_foreign_endpoints {
            // The user writes the endpoints of such a Service, and they may be of any family.
            true => fields.add_missing_families(&[cluster[0], other(cluster[0])]),
            false => {
                errors = fields.cluster_errors(&spec, cluster);
                fields.add_missing_families(cluster);
            }
        }
    }
    if errors.is_empty() {
        let FamilyFields { policy, ips, families } = fields;
        service["spec"]["ipFamilies"] = json!(families);
        service["spec"]["ipFamilyPolicy"] = json!(policy);
        if !ips.is_empty() {
            service["spec"]["clusterIPs"] = json!(ips);
        }
    }
    errors
}

fn texts(spec: &At<'_>, field: &str) -> Vec<String> {
    spec.field(field).items().map(|item| item.text().to_owned()).collect()
}

/// Returns the policy of the request, or of the old Service: a Service changes between one family and two only on request.
fn policy(spec: &At<'_>, before: Option<&At<'_>>, has_foreign_endpoints: bool) -> String {
    let had = before.map(|before| before.field("ipFamilyPolicy").text().to_owned());
    match (spec.field("ipFamilyPolicy").text(), had) {
        ("", Some(had)) if !had.is_empty() => had,
        ("", _) if has_foreign_endpoints => REQUIRE.to_owned(),
        ("", _) => SINGLE.to_owned(),
        (given, _) => given.to_owned(),
    }
}

/// Returns whether an update leaves a Service with PreferDualStack unchanged. Such a Service keeps its families, even if
/// the cluster has got a second one since.
fn keeps_its_preference(spec: &At<'_>, before: &At<'_>) -> bool {
    let prefers = |spec: &At<'_>| spec.field("ipFamilyPolicy").text() == PREFER;
    let same = |field: &str| texts(spec, field) == texts(before, field);
    let is_same_type = spec.field("type").text() == before.field("type").text();
    is_same_type && prefers(spec) && prefers(before) && same("clusterIPs") && same("ipFamilies")
}

/// The fields of a Service that depend on each other.
struct FamilyFields {
    policy: String,
    ips: Vec<String>,
    families: Vec<String>,
}

impl FamilyFields {
    /// Drops the second address and family when an update sets the policy to SingleStack. Returns an error when an update
    /// omits one of them without setting that policy.
    fn release_secondary(&mut self, spec: &At<'_>, before: &At<'_>) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let (ips, families) = (texts(before, "clusterIPs"), texts(before, "ipFamilies"));
        if self.policy == SINGLE {
            if self.ips == ips {
                self.ips.truncate(1);
            }
            if self.families == families {
                self.families.truncate(1);
            }
            return errors;
        }
        let reduced = |now: &[String], before: &[String]| !now.is_empty() && now.len() < before.len();
        for (is_reduced, what) in
            [(reduced(&self.ips, &ips), "cluster IP"), (reduced(&self.families, &families), "IP family")]
        {
            if is_reduced {
                let why = format!("must be 'SingleStack' to release the secondary {what}");
                errors.push(self.bad_policy(spec, &why));
            }
        }
        errors
    }

    fn bad_policy(&self, spec: &At<'_>, why: &str) -> FieldError {
        spec.field("ipFamilyPolicy").invalid_as(&json!(self.policy), why)
    }

    fn policy_errors(&self, spec: &At<'_>) -> Vec<FieldError> {
        let lists = [(&self.ips, "cluster IPs"), (&self.families, "IP families")];
        let too_many = lists.into_iter().filter(|(list, _)| self.policy == SINGLE && list.len() == 2);
        let why = |what| format!("must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified");
        too_many.map(|(_, what)| self.bad_policy(spec, &why(what))).collect()
    }

    /// Adds the families of the addresses that the request names.
    fn infer_families(&mut self, spec: &At<'_>, cluster: &[Family]) -> Vec<FieldError> {
        let mut errors = Vec::new();
        for (index, ip) in self.ips.iter().enumerate() {
            let Ok(address) = ip.parse() else { break };
            let family = of_address(address);
            if index < self.families.len() {
                continue;
            }
            if cluster.contains(&family) {
                self.families.push(family.to_owned());
            } else {
                let at = format!("spec.clusterIPs[{index}]");
                let why = format!("{family} is not configured on this cluster");
                errors.push(FieldError::invalid(at, spec.field("clusterIPs").value, why));
            }
        }
        errors
    }

    fn cluster_errors(&self, spec: &At<'_>, cluster: &[Family]) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if self.policy == REQUIRE && cluster.len() < 2 {
            errors.push(self.bad_policy(spec, "this cluster is not configured for dual-stack services"));
        }
        for (index, family) in self.families.iter().enumerate() {
            if !cluster.contains(&family.as_str()) {
                let at = format!("spec.ipFamilies[{index}]");
                errors.push(FieldError::invalid(at, &json!(family), "not configured on this cluster"));
            }
        }
        errors
    }

    /// Adds the families that the request omits, from the available ones.
    fn add_missing_families(&mut self, available: &[Family]) {
        if self.families.is_empty() {
            self.families.push(available[0].to_owned());
        }
        if self.policy != SINGLE && self.families.len() == 1 && available.len() == 2 {
            self.families.push(other(&self.families[0]).to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &[Family] = &[IPV4];
    const TWO: &[Family] = &[IPV4, IPV6];
    const TWO_REVERSED: &[Family] = &[IPV6, IPV4];

    /// Returns families, addresses and policy in one line, or the errors.
    fn result_of(spec: &Value, old: Option<&Value>, cluster: &[Family]) -> String {
        let mut service = json!({"spec": spec});
        let old = old.map(|spec| json!({"spec": spec}));
        let errors = init(&mut service, old.as_ref(), cluster);
        if !errors.is_empty() {
            return errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        }
        let list = |field: &str| {
            let items = service["spec"][field].as_array().into_iter().flatten().filter_map(Value::as_str);
            items.collect::<Vec<_>>().join(",")
        };
        let policy = service["spec"]["ipFamilyPolicy"].as_str().unwrap_or_default();
        format!("{} [{}] {policy}", list("ipFamilies"), list("clusterIPs"))
    }

    #[test]
    fn families_follow_from_addresses_policy_and_cluster() {
        let app = json!({"app": "w"});
        let headless = |rest: Value| {
            let mut spec = json!({"clusterIP": "None", "clusterIPs": ["None"]});
            spec.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
            spec
        };
        let v6 = json!({"clusterIP": "fd00::9", "clusterIPs": ["fd00::9"]});
        let prefers = json!({"ipFamilyPolicy": "PreferDualStack"});
        for (spec, cluster, expected) in [
            (json!({}), ONE, "IPv4 [] SingleStack"),
            (json!({}), TWO, "IPv4 [] SingleStack"),
            (json!({}), TWO_REVERSED, "IPv6 [] SingleStack"),
            (prefers.clone(), ONE, "IPv4 [] PreferDualStack"),
            (prefers.clone(), TWO, "IPv4,IPv6 [] PreferDualStack"),
            (prefers, TWO_REVERSED, "IPv6,IPv4 [] PreferDualStack"),
            (json!({"ipFamilyPolicy": "RequireDualStack"}), TWO, "IPv4,IPv6 [] RequireDualStack"),
            (
                json!({"ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv6"]}),
                TWO,
                "IPv6,IPv4 [] RequireDualStack",
            ),
            (json!({"ipFamilies": ["IPv6"]}), TWO, "IPv6 [] SingleStack"),
            (json!({"clusterIP": "10.0.0.9", "clusterIPs": ["10.0.0.9"]}), ONE, "IPv4 [10.0.0.9] SingleStack"),
            (v6.clone(), TWO, "IPv6 [fd00::9] SingleStack"),
            (
                json!({"clusterIP": "fd00::9", "clusterIPs": ["fd00::9", "10.0.0.9"], "ipFamilyPolicy": "PreferDualStack"}),
                TWO,
                "IPv6,IPv4 [fd00::9,10.0.0.9] PreferDualStack",
            ),
            (headless(json!({"selector": app})), ONE, "IPv4 [None] SingleStack"),
            (
                headless(json!({"selector": app, "ipFamilyPolicy": "PreferDualStack"})),
                TWO_REVERSED,
                "IPv6,IPv4 [None] PreferDualStack",
            ),
            (headless(json!({})), ONE, "IPv4,IPv6 [None] RequireDualStack"),
            (headless(json!({"ipFamilies": ["IPv6"]})), ONE, "IPv6,IPv4 [None] RequireDualStack"),
            (headless(json!({"ipFamilyPolicy": "SingleStack"})), TWO_REVERSED, "IPv6 [None] SingleStack"),
            (json!({"type": "ExternalName"}), TWO, " [] "),
        ] {
            assert_eq!(result_of(&spec, None, cluster), expected, "{spec} on {cluster:?}");
        }
    }

    #[test]
    fn fields_that_contradict_the_cluster_or_each_other_are_refused() {
        for (spec, cluster, expected) in [
            (
                json!({"ipFamilyPolicy": "RequireDualStack"}),
                ONE,
                r#"spec.ipFamilyPolicy: Invalid value: "RequireDualStack": this cluster is not configured for dual-stack services"#,
            ),
            (
                json!({"ipFamilies": ["IPv6"]}),
                ONE,
                r#"spec.ipFamilies[0]: Invalid value: "IPv6": not configured on this cluster"#,
            ),
            (
                json!({"ipFamilies": ["IPv4", "IPv6"]}),
                TWO,
                r#"spec.ipFamilyPolicy: Invalid value: "SingleStack": must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified"#,
            ),
            (
                json!({"clusterIP": "10.0.0.9", "clusterIPs": ["10.0.0.9", "fd00::9"]}),
                TWO,
                r#"spec.ipFamilyPolicy: Invalid value: "SingleStack": must be 'RequireDualStack' or 'PreferDualStack' when multiple cluster IPs are specified"#,
            ),
            (
                json!({"clusterIP": "fd00::1", "clusterIPs": ["fd00::1"]}),
                ONE,
                r#"spec.clusterIPs[0]: Invalid value: ["fd00::1"]: IPv6 is not configured on this cluster"#,
            ),
        ] {
            assert_eq!(result_of(&spec, None, cluster), expected, "{spec}");
        }
    }

    #[test]
    fn the_second_family_comes_and_goes_when_it_is_asked_for() {
        let one = json!({
            "clusterIP": "10.0.0.9", "clusterIPs": ["10.0.0.9"], "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack",
        });
        let two = json!({
            "clusterIP": "10.0.0.9", "clusterIPs": ["10.0.0.9", "fd00::9"], "ipFamilies": ["IPv4", "IPv6"],
            "ipFamilyPolicy": "PreferDualStack",
        });
        let with = |base: &Value, change: Value| {
            let mut spec = base.clone();
            for (field, value) in change.as_object().unwrap() {
                match value {
                    Value::Null => drop(spec.as_object_mut().unwrap().remove(field)),
                    value => spec[field] = value.clone(),
                }
            }
            spec
        };
        let prefers_one = with(&one, json!({"ipFamilyPolicy": "PreferDualStack"}));
        let both = "IPv4,IPv6 [10.0.0.9,fd00::9] PreferDualStack";
        for (old, change, expected) in [
            (&one, json!({"ipFamilyPolicy": "PreferDualStack"}), "IPv4,IPv6 [10.0.0.9] PreferDualStack"),
            (&one, json!({"ipFamilyPolicy": "RequireDualStack"}), "IPv4,IPv6 [10.0.0.9] RequireDualStack"),
            (&one, json!({"ipFamilyPolicy": null}), "IPv4 [10.0.0.9] SingleStack"),
            // The cluster got its second family later: the Service keeps its families until an update changes them.
            (&prefers_one, json!({}), "IPv4 [10.0.0.9] PreferDualStack"),
            (&prefers_one, json!({"ipFamilies": ["IPv4", "IPv6"]}), "IPv4,IPv6 [10.0.0.9] PreferDualStack"),
            (&two, json!({}), both),
            (&two, json!({"ipFamilyPolicy": null, "ipFamilies": null}), both),
            (&two, json!({"ipFamilyPolicy": "SingleStack"}), "IPv4 [10.0.0.9] SingleStack"),
            (
                &two,
                json!({"ipFamilyPolicy": "SingleStack", "clusterIPs": ["10.0.0.9"], "ipFamilies": ["IPv4"]}),
                "IPv4 [10.0.0.9] SingleStack",
            ),
            (
                &two,
                json!({"clusterIPs": ["10.0.0.9"]}),
                r#"spec.ipFamilyPolicy: Invalid value: "PreferDualStack": must be 'SingleStack' to release the secondary cluster IP"#,
            ),
            (
                &two,
                json!({"ipFamilies": ["IPv4"]}),
                r#"spec.ipFamilyPolicy: Invalid value: "PreferDualStack": must be 'SingleStack' to release the secondary IP family"#,
            ),
        ] {
            assert_eq!(result_of(&with(old, change.clone()), Some(old), TWO), expected, "{change} after {old}");
        }
    }
}
