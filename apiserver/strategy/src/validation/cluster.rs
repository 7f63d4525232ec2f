//! Validates Nodes, Namespaces, PriorityClasses, RuntimeClasses and Leases.
//!
//! Corresponds to ValidateNode and ValidateNamespace of pkg/apis/core/validation, and to
//! pkg/apis/{scheduling,node,coordination}/validation.

use super::node_status;
use super::object_meta::check_qualified_or_standard;
use super::pod::{PREEMPTION_POLICIES, tolerations};
use super::resource_names;
use crate::write_context::WriteContext;
use field_checks::at::{At, Errors, cidr, lenient_cidr};
use proto::meta::names;
use proto::meta::status::FieldError;
use proto::wire::json_syntax;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

type Context<'a> = WriteContext<'a>;

const EFFECTS: &[&str] = &["NoSchedule", "PreferNoSchedule", "NoExecute"];

const AVOID_PODS: &str = "scheduler.alpha.kubernetes.io/preferAvoidPods";

pub fn node(_context: &Context<'_>, node: &At<'_>, errors: &mut Errors) {
    let spec = node.field("spec");
    avoided_pods(node, errors);
    taints(&spec.field("taints"), errors);
    node_amounts(node, errors);
    node_status::swap(node, errors);
    node_status::declared_features(&node.down("status.declaredFeatures"), errors);
    pod_cidrs(&spec.field("podCIDRs"), errors);
}

/// Checks that the annotation `preferAvoidPods` is JSON.
fn avoided_pods(node: &At<'_>, errors: &mut Errors) {
    let avoided = node.down("metadata.annotations").key(AVOID_PODS);
    if let Some(why) = json_syntax::syntax_error(avoided.text().as_bytes()).filter(|_| avoided.is_set()) {
        errors.push(FieldError::invalid("metadata.annotations.AvoidPods", &json!(AVOID_PODS), why));
    }
}

fn node_amounts(node: &At<'_>, errors: &mut Errors) {
    for part in ["capacity", "allocatable"] {
        let amounts = node.down(&format!("status.{part}"));
        for (name, amount) in amounts.map().into_iter().flatten() {
            resource_names::check_amount(&At::new(amounts.path_of(name), amount), name, errors);
        }
    }
}

fn pod_cidrs(cidrs: &At<'_>, errors: &mut Errors) {
    cidrs.items().for_each(|range| range.check(cidr, errors));
    if cidrs.len() < 2 {
        return;
    }
    let families: BTreeSet<bool> =
        cidrs.items().filter_map(|range| Some(lenient_cidr(range.text())?.addr().is_ipv4())).collect();
    if cidrs.len() > 2 || families.len() < 2 {
        errors.push(cidrs.invalid("may specify no more than one CIDR for each IP family"));
    }
    let mut seen = BTreeSet::new();
    for range in cidrs.items() {
        if !seen.insert(range.text()) {
            errors.push(range.duplicate());
        }
    }
}

/// Checks the taints of a node. Kubernetes reports them under `metadata`.
fn taints(taints: &At<'_>, errors: &mut Errors) {
    let taints = At::new("metadata.taints", taints.value);
    let mut seen: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for taint in taints.items() {
        let (key, value, effect) = (taint.field("key"), taint.field("value"), taint.field("effect"));
        key.check(names::qualified_name, errors);
        let complaints = names::label_value(value.text());
        if !complaints.is_empty() {
            errors.push(value.invalid(complaints.join(";")));
        }
        effect.check_enum(EFFECTS, errors);
        if !seen.entry(effect.text()).or_default().insert(key.text()) {
            let (key, value, effect) = (key.text(), value.text(), effect.text());
            let added = taint.field("timeAdded").value;
            errors.push(FieldError {
                field: taint.path.clone(),
                reason: "FieldValueDuplicate",
                message: format!(
                    "Duplicate value: {{\"Key\":{key:?},\"Value\":{value:?},\"Effect\":{effect:?},\"TimeAdded\":{added}}}: taints must be unique by key and effect pair"
                ),
            });
        }
    }
}

/// Checks an update. The pod ranges and the provider's ID may be set once and do not change. Some checks of `node` are
/// repeated, as in Kubernetes, because an update of the status runs this function only.
pub fn node_update(_context: &Context<'_>, node: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    let (spec, before) = (node.field("spec"), old.field("spec"));
    let status = node.field("status");
    avoided_pods(node, errors);
    node_amounts(node, errors);
    node_status::declared_features(&status.field("declaredFeatures"), errors);
    let mut addresses: Vec<&Value> = Vec::new();
    for address in status.field("addresses").items() {
        if addresses.contains(&address.value) {
            let [kind, text] = ["type", "address"].map(|field| address.field(field).value);
            errors.push(FieldError {
                field: address.path.clone(),
                reason: "FieldValueDuplicate",
                message: format!("Duplicate value: {{\"Type\":{kind},\"Address\":{text}}}"),
            });
        }
        addresses.push(address.value);
    }
    let (ranges, old_ranges) = (spec.field("podCIDRs"), before.field("podCIDRs"));
    let changed = match ranges.len() == old_ranges.len() {
        true => ranges.items().zip(old_ranges.items()).filter(|(now, then)| now.value != then.value).count(),
        false => usize::from(!old_ranges.is_empty()),
    };
    for _ in 0..changed {
        errors.push(ranges.forbidden("node updates may not change podCIDR except from \"\" to valid"));
    }
    let (provider, old_provider) = (spec.field("providerID"), before.field("providerID"));
    if !old_provider.is_empty() && provider.value != old_provider.value {
        errors.push(provider.forbidden("node updates may not change providerID except from \"\" to valid"));
    }
    node_status::config(&status.field("config"), errors);
    taints(&spec.field("taints"), errors);
    if spec.field("externalID").text() != before.field("externalID").text() {
        errors.push(spec.field("externalID").forbidden("may not be updated"));
    }
}

pub fn namespace_update(context: &Context<'_>, namespace: &At<'_>, _old: &At<'_>, errors: &mut Errors) {
    if context.subresource == "finalize" {
        namespace.down("spec.finalizers").items().for_each(|name| namespace_finalizer(&name, errors));
    }
}

fn namespace_finalizer(finalizer: &At<'_>, errors: &mut Errors) {
    finalizer.check(names::qualified_name, errors);
    check_qualified_or_standard(finalizer, errors);
}

/// Checks a new namespace. Kubernetes leaves the index out of the paths of its finalizers.
pub fn namespace(_context: &Context<'_>, namespace: &At<'_>, errors: &mut Errors) {
    let finalizers = namespace.down("spec.finalizers");
    for finalizer in finalizers.items() {
        namespace_finalizer(&At::new(finalizers.path.clone(), finalizer.value), errors);
    }
}

pub fn namespace_status(_context: &Context<'_>, namespace: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    // Kubernetes writes this path with a capital.
    let phase = At::new("status.Phase", namespace.down("status.phase").value);
    let deleting = old.down("metadata.deletionTimestamp").is_set();
    let expected = if deleting { "Terminating" } else { "Active" };
    if phase.text() != expected {
        let why = match deleting {
            true => "may only be 'Terminating' if `deletionTimestamp` is not empty",
            false => "may only be 'Active' if `deletionTimestamp` is empty",
        };
        errors.push(phase.invalid_text(why));
    }
}

const HIGHEST_USER_PRIORITY: i64 = 1_000_000_000;

pub fn priority_class(_context: &Context<'_>, class: &At<'_>, errors: &mut Errors) {
    let name = class.down("metadata.name");
    let value = class.field("value").integer().unwrap_or(0);
    let known = [("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)];
    if name.text().starts_with("system-") {
        if !known.contains(&(name.text(), value)) {
            errors.push(name.forbidden(
                "priority class names with 'system-' prefix are reserved for system use only. error: \
                 only system-node-critical and system-cluster-critical may be used",
            ));
        }
    } else if value > HIGHEST_USER_PRIORITY {
        let why = format!("maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}");
        errors.push(class.field("value").forbidden(why));
    }
    let preemption = class.field("preemptionPolicy");
    if preemption.is_set() {
        preemption.check_enum(PREEMPTION_POLICIES, errors);
    }
}

pub fn priority_class_update(_context: &Context<'_>, class: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    if class.field("value").value != old.field("value").value {
        errors.push(class.field("value").forbidden("may not be changed in an update."));
    }
    class.field("preemptionPolicy").check_unchanged(&old.field("preemptionPolicy"), errors);
}

pub fn runtime_class(_context: &Context<'_>, class: &At<'_>, errors: &mut Errors) {
    class.field("handler").check_required(names::dns1123_label, errors);
    for (name, amount) in class.down("overhead.podFixed").entries() {
        let amount = At::new(format!("overhead.limits[{name}]"), amount.value);
        resource_names::check_container_name(&amount, name, errors);
        resource_names::check_amount(&amount, name, errors);
    }
    let scheduling = class.field("scheduling");
    scheduling.field("nodeSelector").check_labels(errors);
    let list = scheduling.field("tolerations");
    tolerations(&list, errors);
    let mut seen: Vec<&Value> = Vec::new();
    for toleration in list.items() {
        if seen.contains(&toleration.value) {
            let text = |field: &str| toleration.field(field).text().to_owned();
            let seconds = toleration.field("tolerationSeconds").value;
            errors.push(FieldError {
                field: toleration.path.clone(),
                reason: "FieldValueDuplicate",
                message: format!(
                    "Duplicate value: {{\"Key\":{:?},\"Operator\":{:?},\"Value\":{:?},\"Effect\":{:?},\"TolerationSeconds\":{seconds}}}",
                    text("key"),
                    text("operator"),
                    text("value"),
                    text("effect")
                ),
            });
        }
        seen.push(toleration.value);
    }
}

pub fn runtime_class_update(_context: &Context<'_>, class: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    class.field("handler").check_unchanged(&old.field("handler"), errors);
}

pub fn lease(_context: &Context<'_>, lease: &At<'_>, errors: &mut Errors) {
    let spec = lease.field("spec");
    spec.field("leaseDurationSeconds").check_positive(errors);
    spec.field("leaseTransitions").check_non_negative(errors);
    let (strategy, preferred) = (spec.field("strategy"), spec.field("preferredHolder"));
    if strategy.is_set() {
        // Kubernetes repeats the field's name in this path.
        let at = At::new(strategy.path_of("strategy"), strategy.value);
        if strategy.text().contains('/') {
            at.check(names::qualified_name, errors);
        } else {
            at.check_optional_enum(&["OldestEmulationVersion"], errors);
        }
    }
    if !preferred.is_empty() && strategy.is_empty() {
        errors.push(preferred.forbidden("may only be specified if `strategy` is defined"));
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{create, update_of};
    use serde_json::{Value, json};

    fn node(spec: Value, status: Value) -> Value {
        json!({"apiVersion": "v1", "kind": "Node", "spec": spec, "status": status})
    }

    #[test]
    fn a_lease_has_a_positive_duration_and_a_known_strategy() {
        let lease = |spec: Value| json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": spec});
        assert_eq!(create(lease(json!({"holderIdentity": "", "leaseTransitions": 0}))), [""; 0]);
        assert_eq!(
            create(lease(json!({"leaseDurationSeconds": 0, "leaseTransitions": -1}))),
            [
                "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0",
                "spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0",
            ]
        );
        let coordinated = |strategy: &str| lease(json!({"strategy": strategy, "preferredHolder": "b"}));
        assert_eq!(create(coordinated("odd")), [""; 0], "coordination is switched off: the fields are dropped");
        let update = |old: Value, new: Value| update_of("", old, new);
        assert_eq!(update(lease(json!({})), coordinated("odd")), [""; 0]);
        let in_use = |new: Value| update(coordinated("a/b"), new);
        assert_eq!(in_use(coordinated("a.example/c")), [""; 0]);
        assert_eq!(
            in_use(coordinated("odd")),
            ["spec.strategy.strategy: Unsupported value: \"odd\": supported values: \"OldestEmulationVersion\""]
        );
        assert_eq!(
            in_use(lease(json!({"preferredHolder": "b"}))),
            ["spec.preferredHolder: Forbidden: may only be specified if `strategy` is defined"]
        );
    }

    #[test]
    fn a_node_has_one_pod_range_per_family() {
        let ranges = |ranges: Value| create(node(json!({"podCIDR": ranges[0], "podCIDRs": ranges}), json!({})));
        assert_eq!(
            ranges(json!(["10.0.0.1/8"])),
            ["spec.podCIDRs[0]: Invalid value: \"10.0.0.1/8\": must not have bits set beyond the prefix length"]
        );
        assert_eq!(
            ranges(json!(["10.0.0.0/8", "10.0.0.0/8"])),
            [
                "spec.podCIDRs: Invalid value: [\"10.0.0.0/8\",\"10.0.0.0/8\"]: may specify no more than one CIDR for each \
                 IP family",
                "spec.podCIDRs[1]: Duplicate value: \"10.0.0.0/8\"",
            ]
        );
        let taint = json!([{"key": "k", "value": "-".repeat(64), "effect": "NoSchedule"}]);
        let errors = create(node(json!({"taints": taint}), json!({})));
        assert_eq!(errors.len(), 1, "one error has both complaints about a value: {errors:?}");
        assert!(errors[0].contains(": must be no more than 63 characters;a valid label must be"), "{errors:?}");
    }

    #[test]
    fn the_status_of_a_node_is_checked() {
        let address = json!({"type": "InternalIP", "address": "10.0.0.1"});
        let status = json!({"addresses": [address, address], "capacity": {"cpu": "-1"}, "allocatable": {"cpu": "1"}});
        assert_eq!(
            update_of("status", node(json!({}), json!({})), node(json!({}), status)),
            [
                "status.capacity.cpu: Invalid value: \"-1\": must be greater than or equal to 0",
                "status.addresses[1]: Duplicate value: {\"Type\":\"InternalIP\",\"Address\":\"10.0.0.1\"}",
            ]
        );
    }

    #[test]
    fn the_finalizers_and_the_phase_of_a_namespace_are_checked() {
        let namespace = |spec: Value| json!({"apiVersion": "v1", "kind": "Namespace", "spec": spec});
        let odd = "name is neither a standard finalizer name nor is it fully qualified";
        assert_eq!(
            create(namespace(json!({"finalizers": ["odd"]}))),
            [format!("spec.finalizers: Invalid value: \"odd\": {odd}")]
        );
        assert_eq!(
            update_of("finalize", namespace(json!({})), namespace(json!({"finalizers": ["odd"]}))),
            [format!("spec.finalizers[0]: Invalid value: \"odd\": {odd}")]
        );
        let mut ended = namespace(json!({}));
        ended["status"] = json!({"phase": "Terminating"});
        assert_eq!(
            update_of("status", namespace(json!({})), ended),
            ["status.Phase: Invalid value: \"Terminating\": may only be 'Active' if `deletionTimestamp` is empty"]
        );
    }

    #[test]
    fn the_overhead_of_a_runtime_names_resources_of_containers() {
        let class = json!({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "handler": "h",
            "overhead": {"podFixed": {"gadgets": "1"}}});
        let at = "overhead.limits[gadgets]: Invalid value: \"gadgets\": must be a standard resource";
        assert_eq!(create(class), [format!("{at} type or fully qualified"), format!("{at} for containers")]);
    }
}
