//! Returns the warnings about pods that are valid but probably a mistake.
//!
//! Corresponds to pkg/api/pod/warnings.go.

use super::app_armor;
use crate::write_context::WriteContext;
use field_checks::at::At;
use proto::meta::names::dns1123_label;
use proto::meta::quantity::Quantity;
use std::collections::BTreeMap;

pub fn pod(_context: &WriteContext<'_>, pod: &At<'_>, old: Option<&At<'_>>) -> Vec<String> {
    let unchanged = old.is_some_and(|old| old.field("spec").value == pod.field("spec").value);
    let name = name(pod, old, "the Pod's hostname");
    name.into_iter().chain(if unchanged { Vec::new() } else { template(pod) }).collect()
}

/// Returns a warning about a name that is no DNS label, because it becomes the host name of pods.
pub fn name(object: &At<'_>, old: Option<&At<'_>>, where_it_is_used: &str) -> Option<String> {
    let name = object.down("metadata.name");
    let wrong = if name.is_empty() { Vec::new() } else { dns1123_label(name.text()) };
    let why = format!("which can result in surprising behavior; a DNS label is recommended: [{}]", wrong.join(" "));
    (old.is_none() && !wrong.is_empty()).then(|| format!("metadata.name: this is used in {where_it_is_used}, {why}"))
}

/// Returns the warnings about a template that is new or has changed.
pub fn template(template: &At<'_>) -> Vec<String> {
    let mut found = Vec::new();
    container_annotations(template, &mut found);
    found.extend(spec(&template.field("spec")));
    for (key, at) in template.down("metadata.annotations").entries() {
        let why = DEPRECATED_ANNOTATIONS.iter().find(|(deprecated, _)| *deprecated == key);
        found.extend(why.map(|(_, why)| format!("{}: {why}", at.path)));
    }
    found
}

const DEPRECATED_ANNOTATIONS: &[(&str, &str)] = &[
    (
        "scheduler.alpha.kubernetes.io/critical-pod",
        r#"non-functional in v1.16+; use the "priorityClassName" field instead"#,
    ),
    ("seccomp.security.alpha.kubernetes.io/pod", r#"non-functional in v1.27+; use the "seccompProfile" field instead"#),
    ("security.alpha.kubernetes.io/sysctls", r#"non-functional in v1.11+; use the "sysctls" field instead"#),
    ("security.alpha.kubernetes.io/unsafe-sysctls", r#"non-functional in v1.11+; use the "sysctls" field instead"#),
];

/// Deprecated annotations whose keys end in a container's name, with the field of the container that replaces each.
const DEPRECATED_CONTAINER_ANNOTATIONS: &[(&str, &str, &str)] = &[
    (app_armor::ANNOTATION, "appArmorProfile", r#"deprecated since v1.30; use the "appArmorProfile" field instead"#),
    (
        "container.seccomp.security.alpha.kubernetes.io/",
        "seccompProfile",
        r#"non-functional in v1.27+; use the "seccompProfile" field instead"#,
    ),
];

/// Warns about a deprecated annotation of a container, unless the field that replaces it is set.
fn container_annotations(pod: &At<'_>, found: &mut Vec<String>) {
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        for container in pod.field("spec").field(list).items() {
            for (prefix, field, why) in DEPRECATED_CONTAINER_ANNOTATIONS {
                let key = format!("{prefix}{}", container.field("name").text());
                let at = pod.down("metadata.annotations").key(&key);
                if at.is_set() && !container.field("securityContext").field(field).is_set() {
                    found.push(format!("{}: {why}", at.path));
                }
            }
        }
    }
}

/// Deprecated labels of nodes.
const DEPRECATED_LABELS: &[(&str, &str)] = &[
    ("beta.kubernetes.io/arch", r#"deprecated since v1.14; use "kubernetes.io/arch" instead"#),
    ("beta.kubernetes.io/os", r#"deprecated since v1.14; use "kubernetes.io/os" instead"#),
    ("beta.kubernetes.io/instance-type", r#"deprecated since v1.17; use "node.kubernetes.io/instance-type" instead"#),
    (
        "failure-domain.beta.kubernetes.io/region",
        r#"deprecated since v1.17; use "topology.kubernetes.io/region" instead"#,
    ),
    ("failure-domain.beta.kubernetes.io/zone", r#"deprecated since v1.17; use "topology.kubernetes.io/zone" instead"#),
];

/// Deprecated types of volumes.
const DEPRECATED_VOLUMES: &[(&str, &str)] = &[
    ("gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("flocker", "deprecated in v1.22, non-functional in v1.25+"),
    ("storageos", "deprecated in v1.22, non-functional in v1.25+"),
    ("quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("rbd", "deprecated in v1.28, non-functional in v1.31+"),
];

fn spec(spec: &At<'_>) -> Vec<String> {
    let mut found = Vec::new();
    for (key, _) in spec.field("nodeSelector").entries() {
        if let Some(why) = deprecated_label_warning(key) {
            found.push(format!("{}: {why}", spec.field("nodeSelector").key(key).path));
        }
    }
    let node = spec.down("affinity.nodeAffinity");
    let preferred = node.field("preferredDuringSchedulingIgnoredDuringExecution");
    let required = node.down("requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms");
    for term in required.items().chain(preferred.items().map(|term| term.field("preference"))) {
        for expression in term.field("matchExpressions").items() {
            deprecated_label(&expression.field("key"), &mut found);
        }
    }
    for constraint in spec.field("topologySpreadConstraints").items() {
        deprecated_label(&constraint.field("topologyKey"), &mut found);
        if !constraint.field("labelSelector").is_set() {
            let path = constraint.path_of("labelSelector");
            found.push(format!("{path}: a null labelSelector results in matching no pod"));
        }
    }
    for (index, alias) in spec.field("hostAliases").items().enumerate() {
        let ip = alias.field("ip");
        if spec.field("hostAliases").items().take(index).any(|other| other.field("ip").value == ip.value) {
            found.push(format!("{}: duplicate ip {:?}", ip.path, ip.text()));
        }
    }
    for secret in spec.field("imagePullSecrets").items().filter(|secret| secret.field("name").is_empty()) {
        found.push(format!("{}: invalid empty name \"\"", secret.path_of("name")));
    }
    for volume in spec.field("volumes").items() {
        for (kind, why) in DEPRECATED_VOLUMES.iter().filter(|(kind, _)| volume.field(kind).is_set()) {
            found.push(format!("{}: {why}", volume.path_of(kind)));
        }
        let (projected, sources) = (volume.field("projected"), volume.down("projected.sources"));
        if projected.is_set() && (sources.is_empty() || sources.items().any(|source| source.is_empty())) {
            found.push(format!("volume {:?} (Projected) has no sources provided", volume.field("name").text()));
        }
    }
    let grace = spec.field("terminationGracePeriodSeconds");
    if grace.integer().is_some_and(|s| s < 0) {
        found.push(format!("{}: must be >= 0; negative values are invalid and will be treated as 1", grace.path));
    }
    fractions(&spec.field("resources"), &mut found);
    affinity(&spec.field("affinity"), &mut found);
    containers(spec, &mut found);
    found
}

/// Returns what a warning says about a label; `None` if the label is not deprecated.
pub fn deprecated_label_warning(key: &str) -> Option<&'static str> {
    DEPRECATED_LABELS.iter().find(|(label, _)| *label == key).map(|(_, why)| *why)
}

/// Warns about a deprecated label.
pub fn deprecated_label(key: &At<'_>, found: &mut Vec<String>) {
    if let Some(why) = deprecated_label_warning(key.text()) {
        found.push(format!("{}: {} is {why}", key.path, key.text()));
    }
}

fn affinity(affinity: &At<'_>, found: &mut Vec<String>) {
    for kind in ["podAffinity", "podAntiAffinity"] {
        let pods = affinity.field(kind);
        let required = pods.field("requiredDuringSchedulingIgnoredDuringExecution");
        let preferred = pods.field("preferredDuringSchedulingIgnoredDuringExecution");
        let terms = required.items().chain(preferred.items().map(|term| term.field("podAffinityTerm")));
        for term in terms.filter(|term| !term.field("labelSelector").is_set()) {
            let path = term.path_of("labelSelector");
            found.push(format!("{path}: a null labelSelector results in matching no pod"));
        }
    }
}

/// The definitions of ports so far, by number and protocol: path, host port and host IP of each.
type PortDefinitions = BTreeMap<(i64, String), Vec<(String, i64, String)>>;

fn containers(spec: &At<'_>, found: &mut Vec<String>) {
    let mut ports = PortDefinitions::new();
    for list in ["initContainers", "containers"] {
        for container in spec.field(list).items() {
            fractions(&container.field("resources"), found);
            environment(&container.field("env"), found);
            duplicate_ports(&container.field("ports"), &mut ports, found);
        }
    }
}

/// Warns about amounts of memory and storage that are not whole bytes.
fn fractions(resources: &At<'_>, found: &mut Vec<String>) {
    for name in ["memory", "ephemeral-storage"] {
        for field in ["limits", "requests"] {
            let at = resources.field(field).key(name);
            found.extend(fraction(&at));
        }
    }
}

/// Returns a warning if an amount is not a whole number of bytes.
pub fn fraction(at: &At<'_>) -> Option<String> {
    let amount = Quantity::try_from(at.value).ok()?;
    // As in Kubernetes, thousandths of a byte are counted in 64 bits. An amount that is too large for them is reported
    // as a fraction, unless its whole bytes are too large for 64 bits as well.
    let fits = amount <= Quantity::new(i64::MAX, amount.format());
    (fits && amount.milli_value() % 1000 != 0).then(|| {
        let amount = amount.to_string();
        format!("{}: fractional byte value {amount:?} is invalid, must be an integer", at.path)
    })
}

/// Warns about a variable that hides an earlier one of the same name.
fn environment(variables: &At<'_>, found: &mut Vec<String>) {
    let all: Vec<At<'_>> = variables.items().collect();
    for (index, variable) in all.iter().enumerate() {
        let name = variable.field("name").text();
        if !all[..index].iter().any(|other| other.field("name").text() == name) {
            continue;
        }
        // `PATH=$(PATH):/more` extends the earlier value on purpose.
        let value = variable.field("value").text();
        let uses = format!("$({name})");
        let escaped = format!("$$({name})");
        let extends_it = value.replace(&escaped, "").contains(&uses);
        if !extends_it {
            found.push(format!(
                "{}: hides previous definition of {name:?}, which may be dropped when using apply",
                variable.path
            ));
        }
    }
}

fn duplicate_ports(ports: &At<'_>, definitions: &mut PortDefinitions, found: &mut Vec<String>) {
    for port in ports.items() {
        let text = |field: &str| port.field(field).text().to_owned();
        let key = (port.field("containerPort").integer().unwrap_or(0), text("protocol"));
        let (host_port, host_ip) = (port.field("hostPort").integer().unwrap_or(0), text("hostIP"));
        let before = definitions.entry(key).or_default();
        for (path, other_port, other_ip) in before.iter() {
            if *other_port == host_port && *other_ip == host_ip {
                found.push(format!("{}: duplicate port definition with {path}", port.path));
                break;
            }
            if host_port == 0 || *other_port == 0 {
                found.push(format!("{}: overlapping port definition with {path}", port.path));
                break;
            }
        }
        before.push((port.path.clone(), host_port, host_ip));
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::warnings;
    use serde_json::{Value, json};

    fn of_container(more: Value) -> Vec<String> {
        let mut container = json!({"name": "c", "image": "i"});
        container.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        warnings(json!({"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [container]}}))
    }

    #[test]
    fn annotations_that_fields_have_replaced_are_deprecated() {
        let pod = |context: Value| {
            warnings(json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {"annotations": {
                    "container.apparmor.security.beta.kubernetes.io/c": "unconfined",
                    "container.apparmor.security.beta.kubernetes.io/other": "unconfined",
                    "scheduler.alpha.kubernetes.io/critical-pod": "",
                }},
                "spec": {"containers": [{"name": "c", "image": "i", "securityContext": context}]},
            }))
        };
        let critical = r#"metadata.annotations[scheduler.alpha.kubernetes.io/critical-pod]: non-functional in v1.16+; use the "priorityClassName" field instead"#;
        let confined = r#"metadata.annotations[container.apparmor.security.beta.kubernetes.io/c]: deprecated since v1.30; use the "appArmorProfile" field instead"#;
        assert_eq!(pod(json!({})), [confined, critical]);
        assert_eq!(pod(json!({"appArmorProfile": {"type": "Unconfined"}})), [critical]);
    }

    #[test]
    fn amounts_of_memory_are_whole_bytes() {
        let memory = |limit: &str, request: &str| {
            of_container(json!({"resources": {"limits": {"memory": limit}, "requests": {"memory": request}}}))
        };
        let fraction = |of: &str| {
            format!(
                "spec.containers[0].resources.{of}[memory]: fractional byte value \"100m\" is invalid, must be an integer"
            )
        };
        assert_eq!(memory("100m", "100m"), [fraction("limits"), fraction("requests")]);
        assert_eq!(memory("9223372036854775808", "2").len(), 0);
        assert_eq!(memory("1Ei", "1500m").len(), 2);
    }

    #[test]
    fn a_variable_hides_an_earlier_one_unless_it_extends_it() {
        let env = |second: &str| json!({"env": [{"name": "P", "value": "a"}, {"name": "P", "value": second}]});
        let hidden =
            "spec.containers[0].env[1]: hides previous definition of \"P\", which may be dropped when using apply";
        assert_eq!(of_container(env("b")), [hidden]);
        assert_eq!(of_container(env("$$(P):b")), [hidden]);
        assert_eq!(of_container(env("$(P):b")), [""; 0]);
    }
}
