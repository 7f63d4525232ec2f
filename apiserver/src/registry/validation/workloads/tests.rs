//! What is wrong with an object of the apps group, in the order in which Kubernetes says so.

use super::tutorials::web;
use crate::registry::validation::testing::{create, update};
use serde_json::{Value, json};

fn changed(object: &Value, changes: &[(&str, Value)]) -> Value {
    let mut object = object.clone();
    for (pointer, value) in changes {
        *crate::registry::validation::testing::at(&mut object, pointer) = value.clone();
    }
    object
}

const MISMATCH: &str = "`selector` does not match template `labels`";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start \
                     and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
                     '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";

#[test]
fn stateful_sets_are_judged_in_this_order() {
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
            // These two are the controller's, which overwrites them.
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
fn an_update_of_a_stateful_set_forgives_what_was_wrong_before() {
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
fn metadata_of_a_stateful_sets_template_is_judged_twice() {
    let set = changed(&web(), &[("/spec/template/metadata/annotations", json!({"bad key!": "v"}))]);
    let errors = create(set);
    assert_eq!(errors.len(), 2, "{errors:?}");
    assert_eq!(errors[0], errors[1]);
    assert!(errors[0].starts_with("spec.template.annotations: Invalid value: \"bad key!\""), "{errors:?}");
}
