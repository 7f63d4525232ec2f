//! Tables of the errors of the kinds of the apps group, in the order in which Kubernetes reports them.

use super::tutorials::web;
use crate::testing::{create, update, update_of};
use serde_json::{Value, json};

fn changed(object: &Value, changes: &[(&str, Value)]) -> Value {
    let mut object = object.clone();
    for (pointer, value) in changes {
        *crate::testing::at(&mut object, pointer) = value.clone();
    }
    object
}

const MISMATCH: &str = "`selector` does not match template `labels`";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start \
                     and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
                     '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";

#[test]
fn errors_of_stateful_sets_have_this_order() {
    let set = changed(
        &web(),
        &[
            ("/spec/podManagementPolicy", json!("Odd")),
            ("/spec/updateStrategy", json!({"type": "RollingUpdate", "rollingUpdate": {"partition": -1}})),
            ("/spec/persistentVolumeClaimRetentionPolicy", json!({"whenDeleted": "Odd", "whenScaled": "Delete"})),
            ("/spec/volumeClaimTemplates/0/spec/accessModes", json!([])),
            ("/spec/replicas", json!(-1)),
            ("/spec/minReadySeconds", json!(-1)),
            ("/spec/ordinals", json!({"start": -1})),
            ("/spec/serviceName", json!("Bad_Svc")),
            ("/spec/selector", json!({"matchLabels": {"app": "other"}})),
            ("/spec/template/spec/containers/0/image", json!("")),
            ("/spec/template/spec/restartPolicy", json!("Never")),
            ("/spec/template/spec/activeDeadlineSeconds", json!(5)),
            // The controller overwrites these two, so they are not validated.
            ("/spec/template/spec/subdomain", json!("Bad_Sub")),
            ("/spec/template/spec/hostname", json!("Bad_Host")),
        ],
    );
    assert_eq!(
        create(set),
        [
            "spec.podManagementPolicy: Invalid value: \"Odd\": must be 'OrderedReady' or 'Parallel'",
            "spec.updateStrategy.rollingUpdate.partition: Invalid value: -1: must be greater than or equal to 0",
            "spec.persistentVolumeClaimRetentionPolicy.whenDeleted: Unsupported value: \"Odd\": supported values: \"Retain\", \"Delete\"",
            "spec.volumeClaimTemplates[0].spec.accessModes: Required value: at least 1 access mode is required",
            "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
            "spec.minReadySeconds: Invalid value: -1: must be greater than or equal to 0",
            "spec.ordinals.start: Invalid value: -1: must be greater than or equal to 0",
            &format!("spec.serviceName: Invalid value: \"Bad_Svc\": {LABEL}"),
            &format!("spec.template.metadata.labels: Invalid value: {{\"app\":\"web\"}}: {MISMATCH}"),
            "spec.template.spec.containers[0].image: Required value",
            "spec.template.spec.restartPolicy: Unsupported value: \"Never\": supported values: \"Always\"",
            "spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in StatefulSet is not Supported",
        ]
    );
}

#[test]
fn an_update_does_not_validate_a_template_that_was_invalid_before() {
    let fixed = "spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', \
                 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' \
                 are forbidden";
    let wrong = |set: &Value| changed(set, &[("/spec/template/spec/containers/0/image", json!(""))]);
    let no_image = "spec.template.spec.containers[0].image: Required value";
    assert_eq!(update(web(), wrong(&web())), [no_image]);
    let scaled = changed(&wrong(&web()), &[("/spec/replicas", json!(1))]);
    assert_eq!(update(wrong(&web()), scaled), [""; 0]);
    let named = changed(&web(), &[("/spec/serviceName", json!("Bad_Svc")), ("/spec/replicas", json!(-1))]);
    assert_eq!(
        update(web(), named.clone()),
        ["spec.replicas: Invalid value: -1: must be greater than or equal to 0", fixed]
    );
    let claims = changed(&web(), &[("/spec/volumeClaimTemplates/0/spec/accessModes", json!([]))]);
    assert_eq!(update(claims.clone(), claims), [""; 0]);
}

#[test]
fn metadata_of_a_stateful_sets_template_is_validated_twice() {
    let set = changed(&web(), &[("/spec/template/metadata/annotations", json!({"bad key!": "v"}))]);
    let errors = create(set);
    assert_eq!(errors.len(), 2, "{errors:?}");
    assert_eq!(errors[0], errors[1]);
    assert!(errors[0].starts_with("spec.template.annotations: Invalid value: \"bad key!\""), "{errors:?}");
}

fn workload(kind: &str, selector: Value) -> Value {
    let api_version = if kind == "ReplicationController" { "v1" } else { "apps/v1" };
    let template = json!({"metadata": {"labels": {"app": "w"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    json!({"apiVersion": api_version, "kind": kind, "spec": {"selector": selector, "template": template}})
}

fn of_labels(kind: &str) -> Value {
    workload(kind, json!({"matchLabels": {"app": "w"}}))
}

const NEGATIVE: &str = "must be greater than or equal to 0";

#[test]
fn errors_of_deployments_have_this_order() {
    let percent = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used \
                   for validation is '[0-9]+%')";
    let rolling = json!({"maxUnavailable": "101%", "maxSurge": "x"});
    let deployment = changed(
        &workload("Deployment", json!({})),
        &[
            ("/metadata", json!({"annotations": {"deprecated.deployment.rollback.to": "-2"}})),
            ("/spec/replicas", json!(-1)),
            ("/spec/template/spec/restartPolicy", json!("Never")),
            ("/spec/template/spec/activeDeadlineSeconds", json!(5)),
            ("/spec/strategy", json!({"rollingUpdate": rolling})),
            ("/spec/minReadySeconds", json!(-1)),
            ("/spec/revisionHistoryLimit", json!(-1)),
            ("/spec/progressDeadlineSeconds", json!(-1)),
        ],
    );
    assert_eq!(
        create(deployment),
        [
            format!("spec.replicas: Invalid value: -1: {NEGATIVE}"),
            "spec.selector: Invalid value: {}: empty selector is invalid for deployment".to_owned(),
            "spec.template.spec.restartPolicy: Unsupported value: \"Never\": supported values: \"Always\"".to_owned(),
            "spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in ReplicaSet is not Supported"
                .to_owned(),
            format!("spec.strategy.rollingUpdate.maxSurge: Invalid value: \"x\": {percent}"),
            "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: \"101%\": must not be greater than 100%"
                .to_owned(),
            format!("spec.minReadySeconds: Invalid value: -1: {NEGATIVE}"),
            format!("spec.revisionHistoryLimit: Invalid value: -1: {NEGATIVE}"),
            format!("spec.rollback.version: Invalid value: -2: {NEGATIVE}"),
            format!("spec.progressDeadlineSeconds: Invalid value: -1: {NEGATIVE}"),
            "spec.progressDeadlineSeconds: Invalid value: -1: must be greater than minReadySeconds".to_owned(),
        ]
    );
    let strategy = |strategy: Value| create(changed(&of_labels("Deployment"), &[("/spec/strategy", strategy)]));
    assert_eq!(
        strategy(json!({"type": "Recreate", "rollingUpdate": {}})),
        ["spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'"]
    );
    assert_eq!(
        strategy(json!({"rollingUpdate": {"maxUnavailable": "0%", "maxSurge": 0}})),
        ["spec.strategy.rollingUpdate.maxUnavailable: Invalid value: \"0%\": may not be 0 when `maxSurge` is 0"]
    );
}

#[test]
fn a_selector_is_immutable() {
    for kind in ["Deployment", "ReplicaSet", "DaemonSet"] {
        let mut other = of_labels(kind);
        other["spec"]["selector"] = json!({"matchExpressions": [{"key": "app", "operator": "Exists"}]});
        let shown = "{\"matchExpressions\":[{\"key\":\"app\",\"operator\":\"Exists\"}]}";
        let fixed = format!("spec.selector: Invalid value: {shown}: field is immutable");
        assert_eq!(update(of_labels(kind), other), [fixed], "{kind}");
    }
    let controller = |label: &str| workload("ReplicationController", json!({label: "w"}));
    assert_eq!(
        update(controller("app"), controller("other")),
        [format!("spec.template.metadata.labels: Invalid value: {{\"app\":\"w\"}}: {MISMATCH}")]
    );
}

#[test]
fn counts_of_a_status_add_up() {
    let more = "cannot be greater than status.replicas";
    let status = json!({"observedGeneration": -1, "replicas": 1, "updatedReplicas": 2, "readyReplicas": 2,
        "availableReplicas": 3, "unavailableReplicas": -1, "terminatingReplicas": -1, "collisionCount": -1});
    let errors = |kind: &str, status: &Value| {
        let mut new = of_labels(kind);
        new["status"] = status.clone();
        let mut old = of_labels(kind);
        old["status"] = json!({"collisionCount": 0});
        update_of("status", old, new)
    };
    assert_eq!(
        errors("Deployment", &status),
        [
            format!("status.observedGeneration: Invalid value: -1: {NEGATIVE}"),
            format!("status.unavailableReplicas: Invalid value: -1: {NEGATIVE}"),
            format!("status.terminatingReplicas: Invalid value: -1: {NEGATIVE}"),
            format!("status.collisionCount: Invalid value: -1: {NEGATIVE}"),
            format!("status.updatedReplicas: Invalid value: 2: {more}"),
            format!("status.readyReplicas: Invalid value: 2: {more}"),
            format!("status.availableReplicas: Invalid value: 3: {more}"),
            "status.availableReplicas: Invalid value: 3: cannot be greater than readyReplicas".to_owned(),
            "status.collisionCount: Invalid value: -1: cannot be decremented".to_owned(),
        ]
    );
    // An absent count is less than 0.
    let decremented = "status.collisionCount: Invalid value: 0: cannot be decremented";
    assert_eq!(errors("Deployment", &json!({"replicas": 1})), [decremented]);
    assert_eq!(errors("Deployment", &json!({"replicas": 1, "collisionCount": 0})), [""; 0]);
    let counts = json!({"currentNumberScheduled": -1, "numberMisscheduled": 9, "desiredNumberScheduled": 0,
        "numberReady": -1, "collisionCount": 1});
    assert_eq!(
        errors("DaemonSet", &counts),
        [
            format!("status.currentNumberScheduled: Invalid value: -1: {NEGATIVE}"),
            format!("status.numberReady: Invalid value: -1: {NEGATIVE}"),
        ]
    );
}
