//! Defines the FlowSchemas and PriorityLevelConfigurations that every cluster has.
//!
//! Corresponds to k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap.

use serde_json::{Value, json};
use std::sync::LazyLock;

/// Annotation of the objects whose spec the server keeps equal to the defaults of this file.
pub const AUTOUPDATE: &str = "apf.kubernetes.io/autoupdate-spec";
const API_VERSION: &str = "flowcontrol.apiserver.k8s.io/v1";

/// Name, precedence, priority level, distinguisher, subjects (`Group:x`, `User:x`, `ServiceAccount:namespace`), rules.
type SchemaRow = (&'static str, i64, &'static str, &'static str, &'static [&'static str], Matches);

/// Requests that a schema matches.
#[derive(Clone, Copy)]
enum Matches {
    Everything,
    HealthPaths,
    ElectionLeases,
    NodesAndLeases,
}

const EVERYBODY: &[&str] = &["Group:system:unauthenticated", "Group:system:authenticated"];

const SCHEMAS: &[SchemaRow] = &[
    ("exempt", 1, "exempt", "", &["Group:system:masters"], Matches::Everything),
    ("probes", 2, "exempt", "", EVERYBODY, Matches::HealthPaths),
    (
        "system-leader-election",
        100,
        "leader-election",
        "ByUser",
        &["User:system:kube-controller-manager", "User:system:kube-scheduler", "ServiceAccount:kube-system"],
        Matches::ElectionLeases,
    ),
    ("system-node-high", 400, "node-high", "ByUser", &["Group:system:nodes"], Matches::NodesAndLeases),
    ("system-nodes", 500, "system", "ByUser", &["Group:system:nodes"], Matches::Everything),
    (
        "kube-controller-manager",
        800,
        "workload-high",
        "ByNamespace",
        &["User:system:kube-controller-manager"],
        Matches::Everything,
    ),
    ("kube-scheduler", 800, "workload-high", "ByNamespace", &["User:system:kube-scheduler"], Matches::Everything),
    (
        "kube-system-service-accounts",
        900,
        "workload-high",
        "ByNamespace",
        &["ServiceAccount:kube-system"],
        Matches::Everything,
    ),
    ("service-accounts", 9000, "workload-low", "ByUser", &["Group:system:serviceaccounts"], Matches::Everything),
    ("global-default", 9900, "global-default", "ByUser", EVERYBODY, Matches::Everything),
    ("catch-all", 10000, "catch-all", "ByUser", EVERYBODY, Matches::Everything),
];

/// Name, shares, lendable percent, and hand size and number of queues. A level without queues rejects excess requests.
const LEVELS: &[(&str, i64, i64, Option<(i64, i64)>)] = &[
    ("system", 30, 33, Some((6, 64))),
    ("node-high", 40, 25, Some((6, 64))),
    ("leader-election", 10, 0, Some((4, 16))),
    ("workload-high", 40, 50, Some((6, 128))),
    ("workload-low", 100, 90, Some((6, 128))),
    ("global-default", 20, 50, Some((6, 128))),
    ("catch-all", 5, 0, None),
];

const QUEUE_LENGTH: i64 = 50;

/// Returns all objects, each with its resource. Levels come before the schemas that refer to them.
pub fn objects() -> &'static [(&'static str, Value)] {
    static OBJECTS: LazyLock<Vec<(&str, Value)>> = LazyLock::new(built);
    &OBJECTS
}

fn built() -> Vec<(&'static str, Value)> {
    let exempt =
        level("exempt", json!({"type": "Exempt", "exempt": {"nominalConcurrencyShares": 0, "lendablePercent": 0}}));
    let mut all = vec![("prioritylevelconfigurations", exempt)];
    for (name, shares, lendable, queues) in LEVELS {
        let response = match queues {
            None => json!({"type": "Reject"}),
            Some((hand, queues)) => json!({
                "type": "Queue",
                "queuing": {"handSize": hand, "queues": queues, "queueLengthLimit": QUEUE_LENGTH},
            }),
        };
        let limited =
            json!({"nominalConcurrencyShares": shares, "lendablePercent": lendable, "limitResponse": response});
        all.push(("prioritylevelconfigurations", level(name, json!({"type": "Limited", "limited": limited}))));
    }
    all.extend(SCHEMAS.iter().map(|row| ("flowschemas", schema(row))));
    all
}

/// Returns the object of that name if its spec is fixed. The spec of the exempt level is not: `spec.exempt` may change.
pub fn mandatory(resource: &str, name: &str) -> Option<&'static Value> {
    let fixed = name == "catch-all" || (name == "exempt" && resource == "flowschemas");
    mandatory_objects(resource).find(|object| fixed && object["metadata"]["name"] == name)
}

/// Returns the mandatory objects of a resource, `exempt` and `catch-all`. Without them some requests match no schema.
pub fn mandatory_objects(resource: &str) -> impl Iterator<Item = &'static Value> {
    let all = objects().iter().filter(move |(of, _)| *of == resource).map(|(_, object)| object);
    all.filter(|object| matches!(object["metadata"]["name"].as_str(), Some("exempt" | "catch-all")))
}

fn meta(name: &str) -> Value {
    json!({"name": name, "annotations": {AUTOUPDATE: "true"}})
}

fn level(name: &str, spec: Value) -> Value {
    json!({"apiVersion": API_VERSION, "kind": "PriorityLevelConfiguration", "metadata": meta(name), "spec": spec})
}

fn schema(row: &SchemaRow) -> Value {
    let (name, precedence, level, distinguisher, subjects, matches) = row;
    let subjects: Vec<Value> = subjects
        .iter()
        .map(|subject| match subject.split_once(':').expect("a subject of the table has a kind") {
            ("Group", name) => json!({"kind": "Group", "group": {"name": name}}),
            ("User", name) => json!({"kind": "User", "user": {"name": name}}),
            (_, namespace) => {
                json!({"kind": "ServiceAccount", "serviceAccount": {"name": "*", "namespace": namespace}})
            }
        })
        .collect();
    let mut rule = rule_of(*matches);
    rule["subjects"] = json!(subjects);
    let mut spec = json!({
        "matchingPrecedence": precedence,
        "priorityLevelConfiguration": {"name": level},
        "rules": [rule],
    });
    if !distinguisher.is_empty() {
        spec["distinguisherMethod"] = json!({"type": distinguisher});
    }
    json!({"apiVersion": API_VERSION, "kind": "FlowSchema", "metadata": meta(name), "spec": spec})
}

fn rule_of(matches: Matches) -> Value {
    let resources = |group: &str, resources: &[&str], verbs: &[&str], cluster: bool| {
        let mut rule = json!({"apiGroups": [group], "resources": resources, "verbs": verbs, "namespaces": ["*"]});
        if cluster {
            rule["clusterScope"] = json!(true);
        }
        rule
    };
    match matches {
        Matches::Everything => json!({
            "resourceRules": [resources("*", &["*"], &["*"], true)],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
        }),
        Matches::HealthPaths => json!({
            "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/healthz", "/readyz", "/livez"]}],
        }),
        Matches::ElectionLeases => json!({
            "resourceRules": [resources("coordination.k8s.io", &["leases"], &["get", "create", "update"], false)],
        }),
        Matches::NodesAndLeases => json!({
            "resourceRules": [
                resources("", &["nodes", "nodes/status"], &["*"], true),
                resources("coordination.k8s.io", &["leases"], &["*"], false),
            ],
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_schema_names_a_level_of_the_table() {
        let all = objects();
        let levels: Vec<&Value> = all
            .iter()
            .filter(|(resource, _)| *resource == "prioritylevelconfigurations")
            .map(|(_, level)| &level["metadata"]["name"])
            .collect();
        for (_, schema) in all.iter().filter(|(resource, _)| *resource == "flowschemas") {
            assert!(levels.contains(&&schema["spec"]["priorityLevelConfiguration"]["name"]), "{schema}");
        }
    }
}
