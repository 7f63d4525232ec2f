//! Tests the errors of FlowSchemas and PriorityLevelConfigurations, in Kubernetes' order.

use crate::testing::{create, update, update_of};
use serde_json::{Value, json};

fn schema(rule: Value) -> Vec<String> {
    let spec = json!({"matchingPrecedence": 500, "priorityLevelConfiguration": {"name": "p"}, "rules": [rule]});
    create(json!({"apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "FlowSchema", "spec": spec}))
}

fn subject(subject: Value) -> Vec<String> {
    let rule = json!({"verbs": ["*"], "nonResourceURLs": ["*"]});
    schema(json!({"subjects": [subject], "nonResourceRules": [rule]}))
}

#[test]
fn a_subject_has_the_field_of_its_kind_only() {
    let at = "spec.rules[0].subjects[0]";
    assert_eq!(
        subject(json!({"kind": "User", "user": {"name": ""}, "group": {"name": "g"}})),
        [
            format!("{at}.user.name: Required value"),
            format!("{at}.group: Forbidden: group is forbidden when subject kind is not 'Group'"),
        ]
    );
    assert_eq!(
        subject(
            json!({"kind": "ServiceAccount", "serviceAccount": {"name": "*", "namespace": ""}, "user": {"name": "u"}})
        ),
        [
            format!("{at}.serviceAccount.namespace: Required value: must specify namespace for service account"),
            format!("{at}.user: Forbidden: user is forbidden when subject kind is not 'User'"),
        ]
    );
    let kinds = "supported values: \"Group\", \"ServiceAccount\", \"User\"";
    assert_eq!(subject(json!({"kind": "Odd"})), [format!("{at}.kind: Unsupported value: \"Odd\": {kinds}")]);
}

#[test]
fn verbs_namespaces_and_paths_of_rules_are_checked() {
    let subjects = json!([{"kind": "User", "user": {"name": "*"}}]);
    let resource = |rule: Value| schema(json!({"subjects": subjects, "resourceRules": [rule]}));
    let at = "spec.rules[0].resourceRules[0]";
    let verbs = "supported values: \"create\", \"delete\", \"deletecollection\", \"get\", \"list\", \"patch\", \
                 \"proxy\", \"update\", \"watch\"";
    assert_eq!(
        resource(json!({"verbs": ["get", "look"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*", "a"]})),
        [
            format!("{at}.verbs: Unsupported value: [\"get\",\"look\"]: {verbs}"),
            format!(
                "{at}.namespaces: Invalid value: [\"*\",\"a\"]: if '*' is present, must not specify other namespaces"
            ),
        ]
    );
    let errors = resource(json!({"verbs": [], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["A"]}));
    assert_eq!(errors[0], format!("{at}.verbs: Required value: verbs must contain at least one value"));
    let label =
        format!("{at}.namespaces[0]: Invalid value: \"A\": each member of this list must be '*' or a DNS-1123 label; ");
    assert!(errors[1].starts_with(&label), "{errors:?}");
    let path = |path: &str| {
        let rule = json!({"verbs": ["get"], "nonResourceURLs": [path]});
        schema(json!({"subjects": subjects, "nonResourceRules": [rule]}))
    };
    for (text, why) in [
        ("", "must not be empty"),
        ("a", "must start with slash"),
        ("/a b", "must not contain white-space"),
        ("/a//b", "must not contain double slash"),
        ("/a*", "wildcard can only do suffix matching"),
    ] {
        let at = "spec.rules[0].nonResourceRules[0].nonResourceURLs[0]";
        assert_eq!(path(text), [format!("{at}: Invalid value: {text:?}: {why}")]);
    }
    assert_eq!((path("/"), path("/a/*")), (vec![], vec![]));
}

fn level(spec: Value) -> Vec<String> {
    create(json!({"apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "PriorityLevelConfiguration", "spec": spec}))
}

#[test]
fn a_level_is_limited_unless_it_is_the_exempt_one() {
    assert_eq!(
        level(json!({"type": "Exempt", "exempt": {"nominalConcurrencyShares": -1, "lendablePercent": 101}})),
        [
            "spec.type: Invalid value: \"Exempt\": type must be 'Exempt' if and only if name is 'exempt'",
            "spec.exempt.nominalConcurrencyShares: Invalid value: -1: must be a non-negative integer",
            "spec.exempt.lendablePercent: Invalid value: 101: must be between 0 and 100, inclusive",
        ]
    );
    let queuing = json!({"queues": 64, "handSize": 65, "queueLengthLimit": -1});
    assert_eq!(
        level(json!({"type": "Limited", "limited": {
            "nominalConcurrencyShares": -1, "lendablePercent": -1, "borrowingLimitPercent": -1,
            "limitResponse": {"type": "Queue", "queuing": queuing},
        }})),
        [
            "spec.limited.nominalConcurrencyShares: Invalid value: -1: must be a non-negative integer",
            "spec.limited.limitResponse.queuing.queueLengthLimit: Invalid value: -1: must be positive",
            "spec.limited.limitResponse.queuing.handSize: Invalid value: 65: should not be greater than queues (64)",
            "spec.limited.lendablePercent: Invalid value: -1: must be between 0 and 100, inclusive",
            "spec.limited.borrowingLimitPercent: Invalid value: -1: if specified, must be a non-negative integer",
        ]
    );
    let queuing = json!({"queues": 128, "handSize": 9, "queueLengthLimit": 1});
    assert_eq!(
        level(json!({"type": "Limited", "limited": {"limitResponse": {"type": "Queue", "queuing": queuing}}})),
        ["spec.limited.limitResponse.queuing.handSize: Invalid value: 9: required entropy bits of deckSize 128 and \
             handSize 9 should not be greater than 60"]
    );
}

#[test]
fn of_the_exempt_level_only_the_shares_may_change() {
    let exempt = |spec: Value| {
        create(json!({"apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "PriorityLevelConfiguration",
            "metadata": {"name": "exempt"}, "spec": spec}))
    };
    let shares = json!({"nominalConcurrencyShares": 10, "lendablePercent": 60});
    assert_eq!(exempt(json!({"type": "Exempt", "exempt": shares})), [""; 0]);
    let limited = json!({"nominalConcurrencyShares": 42, "limitResponse": {"type": "Reject"}});
    let is_fixed_error = |error: &String| {
        error.starts_with("spec: Invalid value: ")
            && error.ends_with(": spec of 'exempt' except the 'spec.exempt' field must equal the fixed value")
    };
    let errors = exempt(json!({"type": "Exempt", "limited": limited}));
    assert_eq!(errors[0], "spec.limited: Forbidden: must be nil if the type is not Limited");
    assert!(errors.len() == 2 && is_fixed_error(&errors[1]), "{errors:?}");
    let errors = exempt(json!({"type": "Limited", "exempt": shares, "limited": limited}));
    assert_eq!(
        errors[..2],
        [
            "spec.type: Invalid value: \"Limited\": type must be 'Exempt' if and only if name is 'exempt'",
            "spec.exempt: Forbidden: must be nil if the type is Limited",
        ]
    );
    assert!(errors.len() == 3 && is_fixed_error(&errors[2]), "{errors:?}");
}

#[test]
fn an_absent_type_of_a_response_is_not_supported() {
    assert_eq!(
        level(json!({"type": "Limited", "limited": {"limitResponse": {}}})),
        ["spec.limited.limitResponse.type: Unsupported value: \"\": supported values: \"Queue\", \"Reject\""]
    );
}

#[test]
fn a_level_has_no_annotation_of_older_versions() {
    let annotation = "flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares";
    let spec = json!({"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}}});
    assert_eq!(
        create(json!({"apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "PriorityLevelConfiguration",
            "metadata": {"annotations": {annotation: ""}}, "spec": spec})),
        [format!("metadata.annotations: Forbidden: annotation '{annotation}' is forbidden")]
    );
}

#[test]
fn conditions_have_unique_types() {
    let spec = json!({"matchingPrecedence": 500, "priorityLevelConfiguration": {"name": "p"}});
    let schema = json!({"apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "FlowSchema", "spec": spec});
    let spec = json!({"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}}});
    let level =
        json!({"apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "PriorityLevelConfiguration", "spec": spec});
    for object in [schema, level] {
        let mut odd = object.clone();
        odd["status"] = json!({"conditions": [{"type": "1"}, {"type": "1"}, {"type": ""}]});
        let errors = [
            "status.conditions[1].type: Duplicate value: \"1\"",
            "status.conditions[2].type: Required value: must not be empty",
        ];
        assert_eq!(update_of("status", object.clone(), odd.clone()), errors);
        assert_eq!(update(odd, object), errors);
    }
}
