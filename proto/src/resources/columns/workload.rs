//! Columns of workloads: how many pods they want, and how many they have.
//!
//! Corresponds to printDeployment, printJob and their like in pkg/printers/internalversion/printers.go.

use super::read::{int_at, items, str_at};
use super::{Column, age, boolean, integer, name, number, read, string, text};
use crate::gvk::split_api_version;
use crate::meta::{label_selector, owner, time};
use serde_json::{Value, json};

const CONTAINERS: &str = "The names of the template's containers.";
const IMAGES: &str = "The images of the template's containers.";
const SELECTOR: &str = "Which pods belong to it.";
const DESIRED: &str = "How many pods are wanted.";
const CURRENT: &str = "How many pods there are.";
const READY: &str = "How many pods are ready.";
const UPDATED: &str = "How many pods have the latest template.";
const AVAILABLE: &str = "How many pods have been ready for long enough.";
const READY_OF: &str = "How many of the wanted pods are ready.";

/// Returns the columns for containers and images of `/spec/template`, for `-o wide`.
fn template_columns() -> [Column; 2] {
    [
        string("Containers", CONTAINERS, |o, _| read::containers(o, "/spec/template/spec", "/name")).wide(),
        string("Images", IMAGES, |o, _| read::containers(o, "/spec/template/spec", "/image")).wide(),
    ]
}

fn selector_column() -> Column {
    string("Selector", SELECTOR, |o, _| read::selector(o, "/spec/selector")).wide()
}

fn with_template(mut columns: Vec<Column>, last: Option<Column>) -> Vec<Column> {
    columns.extend(template_columns());
    columns.extend(last);
    columns
}

fn ready_of_desired(workload: &Value) -> Value {
    json!(format!("{}/{}", int_at(workload, "/status/readyReplicas"), int_at(workload, "/spec/replicas")))
}

pub fn deployment() -> Vec<Column> {
    let columns = vec![
        name(),
        string("Ready", READY_OF, |o, _| ready_of_desired(o)),
        string("Up-to-date", UPDATED, |o, _| read::number(o, "/status/updatedReplicas")),
        string("Available", AVAILABLE, |o, _| read::number(o, "/status/availableReplicas")),
        age(),
    ];
    let selector = string("Selector", SELECTOR, |o, _| {
        json!(label_selector::from_value(o.pointer("/spec/selector")).map_or("<invalid>".to_owned(), |s| s.to_string()))
    });
    with_template(columns, Some(selector.wide()))
}

pub fn stateful_set() -> Vec<Column> {
    with_template(vec![name(), string("Ready", READY_OF, |o, _| ready_of_desired(o)), age()], None)
}

fn replica_counts() -> Vec<Column> {
    vec![
        name(),
        number("Desired", DESIRED, "/spec/replicas"),
        number("Current", CURRENT, "/status/replicas"),
        number("Ready", READY, "/status/readyReplicas"),
        age(),
    ]
}

pub fn replica_set() -> Vec<Column> {
    with_template(replica_counts(), Some(selector_column()))
}

pub fn replication_controller() -> Vec<Column> {
    let selector = string("Selector", SELECTOR, |o, _| read::labels(o, "/spec/selector"));
    with_template(replica_counts(), Some(selector.wide()))
}

pub fn daemon_set() -> Vec<Column> {
    let columns = vec![
        name(),
        number("Desired", "How many nodes should run it.", "/status/desiredNumberScheduled"),
        number("Current", "How many nodes run it that should.", "/status/currentNumberScheduled"),
        number("Ready", READY, "/status/numberReady"),
        number("Up-to-date", UPDATED, "/status/updatedNumberScheduled"),
        number("Available", AVAILABLE, "/status/numberAvailable"),
        string("Node Selector", "Which nodes should run it.", |o, _| {
            read::labels(o, "/spec/template/spec/nodeSelector")
        }),
        age(),
    ];
    with_template(columns, Some(selector_column()))
}

pub fn controller_revision() -> Vec<Column> {
    vec![
        name(),
        string("Controller", "The workload whose revision it is.", |o, _| json!(controller(o))),
        string("Revision", "Its place in the workload's history.", |o, _| read::number(o, "/revision")),
        age(),
    ]
}

/// Returns the controlling owner: `statefulset.apps/web`.
fn controller(revision: &Value) -> String {
    let Some(owner) = owner::controller_of_value(revision) else { return "<none>".to_owned() };
    let (group, _) = split_api_version(str_at(owner, "/apiVersion"));
    let kind = str_at(owner, "/kind");
    let kind = if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
    format!("{}/{}", kind.to_lowercase(), str_at(owner, "/name"))
}

pub fn pod_template() -> Vec<Column> {
    vec![
        name(),
        string("Containers", CONTAINERS, |o, _| read::containers(o, "/template/spec", "/name")),
        string("Images", IMAGES, |o, _| read::containers(o, "/template/spec", "/image")),
        string("Pod Labels", "The labels of the template.", |o, _| read::labels(o, "/template/metadata/labels")),
    ]
}

pub fn job() -> Vec<Column> {
    let columns = vec![
        name(),
        string("Status", "Whether it runs, waits or has ended.", |o, _| json!(job_status(o))),
        string("Completions", "How many pods have succeeded of those wanted.", |o, _| json!(completions(o))),
        string("Duration", "How long it took, or has taken so far.", |o, now| json!(duration(o, now))),
        age(),
    ];
    with_template(columns, Some(selector_column()))
}

fn job_status(job: &Value) -> &'static str {
    let holds = |kind: &str| {
        let found = items(job, "/status/conditions").iter().find(|c| c["type"] == kind);
        found.is_some_and(|condition| condition["status"] == "True")
    };
    match () {
        () if holds("Complete") => "Complete",
        () if holds("Failed") => "Failed",
        () if read::is_deleting(job) => "Terminating",
        () if holds("Suspended") => "Suspended",
        () if holds("FailureTarget") => "FailureTarget",
        () => "Running",
    }
}

fn completions(job: &Value) -> String {
    let succeeded = int_at(job, "/status/succeeded");
    match (job.pointer("/spec/completions").and_then(Value::as_i64), int_at(job, "/spec/parallelism")) {
        (Some(wanted), _) => format!("{succeeded}/{wanted}"),
        (None, parallelism @ 2..) => format!("{succeeded}/1 of {parallelism}"),
        (None, _) => format!("{succeeded}/1"),
    }
}

fn duration(job: &Value, now_s: i64) -> String {
    let time_at = |pointer| time::parse(str_at(job, pointer)).map(time::seconds);
    match (time_at("/status/startTime"), time_at("/status/completionTime")) {
        (None, _) => String::new(),
        (Some(start), end) => time::human_duration(end.unwrap_or(now_s) - start),
    }
}

pub fn cron_job() -> Vec<Column> {
    const POD_SPEC: &str = "/spec/jobTemplate/spec/template/spec";
    vec![
        name(),
        text("Schedule", "When jobs are started, in cron's notation.", "/spec/schedule"),
        text("Timezone", "The time zone of the schedule.", "/spec/timeZone").or("<none>"),
        boolean("Suspend", "Whether no more jobs are started.", |o, _| {
            json!(match o.pointer("/spec/suspend").and_then(Value::as_bool) {
                None => "<unset>",
                Some(true) => "True",
                Some(false) => "False",
            })
        }),
        integer("Active", "How many of its jobs run.", |o, _| json!(read::count(o, "/status/active"))),
        string("Last Schedule", "When a job was started last.", |o, now| match str_at(o, "/status/lastScheduleTime") {
            "" => json!("<none>"),
            last => json!(time::since(last, now)),
        }),
        age(),
        string("Containers", CONTAINERS, |o, _| read::containers(o, POD_SPEC, "/name")).wide(),
        string("Images", IMAGES, |o, _| read::containers(o, POD_SPEC, "/image")).wide(),
        string("Selector", SELECTOR, |o, _| read::selector(o, "/spec/jobTemplate/spec/selector")).wide(),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::cells;
    use super::*;

    fn workload(spec: Value, status: Value) -> Value {
        let metadata = json!({"name": "w", "creationTimestamp": "1970-01-01T00:00:00Z"});
        let mut object = json!({"metadata": metadata, "spec": spec, "status": status});
        object["spec"]["template"]["spec"]["containers"] =
            json!([{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:2"}]);
        object
    }

    #[test]
    fn counts_of_replicas() {
        let selector = json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["x"]}]});
        let set = workload(
            json!({"replicas": 3, "selector": selector}),
            json!({"replicas": 2, "readyReplicas": 1, "updatedReplicas": 2, "availableReplicas": 1}),
        );
        assert_eq!(cells(&deployment(), &set, 60), "w | 1/3 | 2 | 1 | 60s | a,b | a:1,b:2 | app in (x)");
        assert_eq!(cells(&replica_set(), &set, 60), "w | 3 | 2 | 1 | 60s | a,b | a:1,b:2 | app in (x)");
        assert_eq!(cells(&stateful_set(), &set, 60), "w | 1/3 | 60s | a,b | a:1,b:2");
        let controller = workload(json!({"selector": {"app": "x"}}), json!({}));
        assert_eq!(cells(&replication_controller(), &controller, 60), "w | 0 | 0 | 0 | 60s | a,b | a:1,b:2 | app=x");
        let mut daemons = workload(json!({"selector": {"matchLabels": {"app": "x"}}}), json!({"numberReady": 4}));
        daemons["spec"]["template"]["spec"]["nodeSelector"] = json!({"disk": "ssd"});
        assert_eq!(
            cells(&daemon_set(), &daemons, 60),
            "w | 0 | 0 | 4 | 0 | 0 | disk=ssd | 60s | a,b | a:1,b:2 | app=x"
        );
    }

    #[test]
    fn jobs_in_each_state() {
        let condition = |kind: &str| json!([{"type": kind, "status": "True"}]);
        let cases = [
            (json!({"completions": 1}), json!({}), "Running | 0/1 | "),
            (json!({"parallelism": 3}), json!({"succeeded": 1}), "Running | 1/1 of 3 | "),
            (json!({"completions": 6}), json!({"startTime": "1970-01-01T00:00:50Z"}), "Running | 0/6 | 5m10s"),
            (
                json!({"completions": 1}),
                json!({"succeeded": 1, "conditions": condition("Complete"),
                    "startTime": "1970-01-01T00:00:00Z", "completionTime": "1970-01-01T00:00:07Z"}),
                "Complete | 1/1 | 7s",
            ),
            (json!({}), json!({"conditions": condition("Failed")}), "Failed | 0/1 | "),
            (json!({}), json!({"conditions": condition("Suspended")}), "Suspended | 0/1 | "),
            (json!({}), json!({"conditions": condition("FailureTarget")}), "FailureTarget | 0/1 | "),
        ];
        for (spec, status, expected) in cases {
            assert_eq!(cells(&job()[1..4], &workload(spec, status), 360), expected);
        }
    }

    #[test]
    fn cron_jobs_and_revisions() {
        let cron = json!({"metadata": {"name": "c"}, "spec": {"schedule": "0 3 * * 1-5", "timeZone": "Europe/Berlin",
            "suspend": true}, "status": {"active": [{}], "lastScheduleTime": "1970-01-01T00:00:00Z"}});
        assert_eq!(
            cells(&cron_job(), &cron, 310),
            "c | 0 3 * * 1-5 | Europe/Berlin | True | 1 | 5m10s | <unknown> |  |  | <none>"
        );
        let owner = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "controller": true});
        let revision = json!({"metadata": {"name": "r", "ownerReferences": [owner]}, "revision": 4});
        assert_eq!(cells(&controller_revision(), &revision, 0), "r | statefulset.apps/web | 4 | <unknown>");
    }
}
