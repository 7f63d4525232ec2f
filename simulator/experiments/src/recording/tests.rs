//! Recordings of both forms, and what is read out of them.

use super::*;
use crate::files::Texts;
use crate::workload;
use serde_json::json;

fn lines(found: &Recording) -> Vec<String> {
    let line = |pod: &Pod| {
        let created = pod.metadata.creation_timestamp.as_ref().unwrap().0;
        let run_for = pod.metadata.annotations.as_ref().and_then(|all| all.get("orrery.dev/run-for"));
        format!("{} at {created} for {}", pod.key(), run_for.map_or("ever", String::as_str))
    };
    found.pods.iter().map(line).collect()
}

fn text(values: &[Value]) -> String {
    values.iter().map(|value| format!("{value:#}\n")).collect()
}

/// A pod as kubectl prints it at a time of its life; times are seconds after noon.
fn pod(name: &str, uid: &str, created: u32, more: Value) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "team", "uid": uid, "creationTimestamp": at(created)},
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]},
    });
    for (field, value) in more.as_object().unwrap() {
        if field == "metadata" {
            value.as_object().unwrap().iter().for_each(|(name, value)| pod["metadata"][name] = value.clone());
        } else {
            pod[field] = value.clone();
        }
    }
    pod
}

fn at(s: u32) -> String {
    format!("2026-03-01T12:{:02}:{:02}Z", s / 60, s % 60)
}

fn ended(phase: &str, started: u32, finished: u32) -> Value {
    let state = json!({"terminated": {"exitCode": 0, "finishedAt": at(finished)}});
    json!({"status": {"phase": phase, "startTime": at(started), "containerStatuses": [
        {"name": "c", "image": "i", "imageID": "", "ready": false, "restartCount": 0, "state": state},
    ]}})
}

#[test]
fn a_watch_shows_lives() {
    let running = |s: u32| json!({"status": {"phase": "Running", "startTime": at(s)}});
    let deleted = json!({
        "metadata": {"deletionTimestamp": at(160), "deletionGracePeriodSeconds": 30},
        "status": {"phase": "Running", "startTime": at(100)},
    });
    let daemon = json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d", "controller": true}]);
    let watch = text(&[
        pod("job", "1", 10, json!({})),
        pod("job", "1", 10, running(20)),
        json!({"type": "ADDED", "object": pod("web", "2", 90, json!({}))}),
        pod("job", "1", 10, ended("Succeeded", 20, 80)),
        json!({"type": "MODIFIED", "object": pod("web", "2", 90, deleted)}),
        json!({"type": "BOOKMARK", "object": {"kind": "Pod", "metadata": {"resourceVersion": "7"}}}),
        // The same name once more: another pod.
        pod("web", "3", 200, running(210)),
        pod("agent", "4", 5, json!({"metadata": {"ownerReferences": daemon}})),
    ]);
    let found = read("watch.json", &watch).unwrap();
    assert_eq!(
        lines(&found),
        [
            "team/job at 2026-03-01T12:00:10Z for 60000ms",
            "team/web at 2026-03-01T12:01:30Z for 30000ms",
            "team/web-2 at 2026-03-01T12:03:20Z for ever",
        ]
    );
    assert_eq!(
        found.remarks,
        [
            "pods of DaemonSets and of nodes were left out (1)",
            "pods run until the end, because the recording does not show theirs (1)",
        ]
    );
    assert_eq!(found.span_s(), 190.0);
}

/// An event of the log, at a time in seconds after noon.
fn event(verb: &str, path: &str, at_s: u32, more: Value) -> Value {
    let (name, subresource) = path.split_once('/').unwrap_or((path, ""));
    let mut reference = json!({"resource": "pods", "namespace": "team", "name": name, "apiVersion": "v1"});
    if !subresource.is_empty() {
        reference["subresource"] = json!(subresource);
    }
    let mut event = json!({
        "kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "Request", "stage": "ResponseComplete", "verb": verb,
        "requestURI": "/api/v1/namespaces/team/pods", "objectRef": reference, "responseStatus": {"code": 201},
        "requestReceivedTimestamp": at(at_s).replace('Z', ".250000Z"),
    });
    more.as_object().unwrap().iter().for_each(|(field, value)| event[field] = value.clone());
    event
}

#[test]
fn an_audit_log_shows_lives() {
    let body = |name: &str| {
        json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": name, "namespace": "team"},
               "spec": {"containers": [{"name": "c", "image": "i"}]}})
    };
    let refused = json!({"requestObject": body("refused"), "responseStatus": {"code": 403}});
    let dry = json!({"requestObject": body("dry"), "requestURI": "/api/v1/namespaces/team/pods?dryRun=All"});
    let log = text(&[
        event("create", "a", 0, json!({"requestObject": body("a")})),
        event("create", "a/binding", 5, json!({})),
        event("create", "refused", 6, refused),
        event("create", "dry", 7, dry),
        event("create", "b", 10, json!({"requestObject": body("b")})),
        event("patch", "b/status", 30, json!({"requestObject": ended("Failed", 15, 25)})),
        event("delete", "a", 65, json!({})),
        // The kubelet's, once the containers have stopped.
        event("delete", "a", 95, json!({})),
        event("create", "c", 70, json!({"requestObject": body("c")})),
        event("delete", "c", 71, json!({})),
        event("create", "", 72, json!({"level": "Metadata"})),
        event("deletecollection", "", 80, json!({})),
        event("delete", "older", 81, json!({})),
        event("get", "a", 82, json!({})),
    ]);
    let found = read("audit.log", &log).unwrap();
    assert_eq!(found.list()["items"][0]["metadata"]["creationTimestamp"], "2026-03-01T12:00:00.25Z");
    assert_eq!(
        lines(&found),
        ["team/a at 2026-03-01T12:00:00.25Z for 60000ms", "team/b at 2026-03-01T12:00:10.25Z for 10000ms"]
    );
    assert_eq!(
        found.remarks,
        [
            "collections were deleted without the server's answer in the log; their pods count as not deleted (1)",
            "pods were created without their bodies in the log, whose level must be Request or RequestResponse (1)",
            "pods were deleted before they ran, and were left out (1)",
            "sightings of pods whose creation is not in the recording were left out (1)",
        ]
    );
}

#[test]
fn a_study_reads_what_was_imported() {
    let spec = json!({
        "schedulerName": "mine", "nodeName": "n1", "restartPolicy": "Always", "nodeSelector": {"disk": "ssd"},
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
        "containers": [{"name": "c", "image": "i", "envFrom": [{"secretRef": {"name": "s"}}],
                        "volumeMounts": [{"name": "data", "mountPath": "/data"}]}],
    });
    let more = json!({"spec": spec, "status": ended("Failed", 5, 35)["status"]});
    let found = read("watch.json", &text(&[pod("a", "1", 0, more)])).unwrap();
    assert_eq!(found.remarks, ["pods had claims; each has an empty volume instead (1)"]);
    let written: &'static str = found.list().to_string().leak();
    let workload = serde_json::from_value(json!({"name": "w", "kubectlPods": {"file": "pods.yaml"}})).unwrap();
    let files = Texts(Box::leak(Box::new([("pods.yaml", written)])));
    let read = workload::arrivals(&workload, &files, &mut crate::draw::seeded(1), "w").unwrap();
    assert_eq!(read[0].duration.unwrap().as_secs(), 30);
    let spec = read[0].pod.encode()["spec"].clone();
    assert_eq!(
        spec,
        json!({
            "restartPolicy": "Never", "nodeSelector": {"disk": "ssd"}, "volumes": [{"name": "data", "emptyDir": {}}],
            "containers": [{"name": "c", "image": "i", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}],
        })
    );
}

#[test]
fn what_cannot_be_read_has_a_place() {
    let refusal =
        |text: &str| read("x", text).unwrap_err().iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    assert_eq!(
        refusal("{\"kind\":\"Node\"}"),
        "x:1: is a Node: want Pods, watch events of Pods, or events of audit.k8s.io/v1"
    );
    assert_eq!(
        refusal("\n\n{\"a\": 1}"),
        "x:3: has no kind: want Pods, watch events of Pods, or events of audit.k8s.io/v1"
    );
    assert_eq!(
        refusal("{}\nnot json"),
        "x:1: has no kind: want Pods, watch events of Pods, or events of audit.k8s.io/v1"
    );
    assert_eq!(refusal(""), "x: has no pods to import");
    let one = pod("a", "1", 0, json!({})).to_string();
    assert!(refusal(&format!("{one}\n{{x")).starts_with("x:2: "));
    let cut = read("x", &format!("{one}\n{}", &one[..40])).unwrap();
    assert!(cut.remarks.contains(&"the last value is not whole, and was left out (1)".to_owned()), "{:?}", cut.remarks);
}
