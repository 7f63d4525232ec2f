//! Defaults of the workloads that keep pods running.
//!
//! Corresponds to pkg/apis/apps/v1 and to `SetDefaults_ReplicationController`.

use super::DefaultValue::{Int, Text};
use super::Row::{self, Each, Fix, In, InNew, Set, SetIf};
use super::{Members, is_unset, map_in, pod, text, volume};
use serde_json::Value;

const ROLLING_UPDATE: fn(&Members) -> bool = |strategy| text(strategy, "type") == "RollingUpdate";

pub const DEPLOYMENT: &[Row] = &[In(
    "spec",
    &[
        In("template", pod::TEMPLATE),
        Set("replicas", Int(1)),
        InNew(
            "strategy",
            &[
                Set("type", Text("RollingUpdate")),
                SetIf(ROLLING_UPDATE, "rollingUpdate", super::DefaultValue::Empty),
                In("rollingUpdate", &[Set("maxUnavailable", Text("25%")), Set("maxSurge", Text("25%"))]),
            ],
        ),
        Set("revisionHistoryLimit", Int(10)),
        Set("progressDeadlineSeconds", Int(600)),
    ],
)];

pub const REPLICA_SET: &[Row] = &[In("spec", &[In("template", pod::TEMPLATE), Set("replicas", Int(1))])];

pub const DAEMON_SET: &[Row] = &[In("spec", DAEMON_SET_SPEC), Fix(template_generation)];

/// Adds the annotation that counts changes of the template, which old clients still read. The strategy updates it.
fn template_generation(set: &mut Members) {
    let Some(Value::Object(metadata)) = set.get_mut("metadata") else { return };
    if let Some(annotations) = map_in(metadata, "annotations") {
        annotations.entry("deprecated.daemonset.template.generation").or_insert_with(|| Value::from("0"));
    }
}

const DAEMON_SET_SPEC: &[Row] = &[
    In("template", pod::TEMPLATE),
    InNew(
        "updateStrategy",
        &[
            Set("type", Text("RollingUpdate")),
            SetIf(ROLLING_UPDATE, "rollingUpdate", super::DefaultValue::Empty),
            In("rollingUpdate", &[Set("maxUnavailable", Int(1)), Set("maxSurge", Int(0))]),
        ],
    ),
    Set("revisionHistoryLimit", Int(10)),
];

pub const STATEFUL_SET: &[Row] = &[In(
    "spec",
    &[
        In("template", pod::TEMPLATE),
        Set("podManagementPolicy", Text("OrderedReady")),
        InNew(
            "updateStrategy",
            &[
                SetIf(|strategy| is_unset(strategy, "type"), "rollingUpdate", super::DefaultValue::Empty),
                Set("type", Text("RollingUpdate")),
                In("rollingUpdate", &[Set("partition", Int(0))]),
            ],
        ),
        InNew(
            "persistentVolumeClaimRetentionPolicy",
            &[Set("whenDeleted", Text("Retain")), Set("whenScaled", Text("Retain"))],
        ),
        Each("volumeClaimTemplates", CLAIM_TEMPLATE),
        Set("replicas", Int(1)),
        Set("revisionHistoryLimit", Int(10)),
    ],
)];

/// Claims of a stateful set carry their `apiVersion` and `kind`.
const CLAIM_TEMPLATE: &[Row] = &[
    Set("apiVersion", Text("v1")),
    Set("kind", Text("PersistentVolumeClaim")),
    InNew("status", &[]),
    Fix(|claim| super::run(volume::PERSISTENT_VOLUME_CLAIM, claim)),
];

pub const REPLICATION_CONTROLLER: &[Row] =
    &[In("spec.template", pod::TEMPLATE), In("spec", &[Set("replicas", Int(1))]), Fix(labels_of_template)];

/// Copies the labels of the template to a replication controller without a selector or labels.
fn labels_of_template(controller: &mut Members) {
    let labels = controller.get("spec").and_then(|spec| spec.pointer("/template/metadata/labels")).cloned();
    let Some(labels @ Value::Object(_)) = labels else { return };
    if let Some(Value::Object(spec)) = controller.get_mut("spec") {
        spec.entry("selector").or_insert_with(|| labels.clone());
    }
    if let Some(Value::Object(metadata)) = controller.get_mut("metadata") {
        metadata.entry("labels").or_insert(labels);
    }
}
