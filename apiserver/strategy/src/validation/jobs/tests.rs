//! Tests the errors of invalid Jobs and CronJobs, in Kubernetes' order.

use crate::testing::{at, create, update, update_of};
use serde_json::{Value, json};

fn job(changes: &[(&str, Value)]) -> Value {
    let pod = json!({"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]});
    let mut job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a", "uid": "u"},
        "spec": {"template": {"spec": pod}},
    });
    for (pointer, value) in changes {
        *at(&mut job, pointer) = value.clone();
    }
    job
}

#[track_caller]
fn check(changes: &[(&str, Value)], expected: &[&str]) {
    assert_eq!(create(job(changes)), expected);
}

#[test]
fn numbers_come_first_and_the_template_last() {
    check(&[], &[]);
    check(
        &[
            ("/spec/parallelism", json!(-1)),
            ("/spec/maxFailedIndexes", json!(-1)),
            ("/spec/managedBy", json!("odd")),
            ("/spec/podReplacementPolicy", json!("Odd")),
            ("/spec/template/spec/restartPolicy", json!("Always")),
            ("/spec/template/spec/containers/0/image", json!("")),
        ],
        &[
            "spec.parallelism: Invalid value: -1: must be greater than or equal to 0",
            "spec.maxFailedIndexes: Invalid value: -1: must be greater than or equal to 0",
            "spec.backoffLimitPerIndex: Required value: when maxFailedIndexes is specified",
            "spec.managedBy: Invalid value: \"odd\": must be a domain-prefixed path (such as \"acme.io/foo\")",
            "spec.maxFailedIndexes: Invalid value: -1: requires indexed completion mode",
            "spec.podReplacementPolicy: Unsupported value: \"Odd\": supported values: \"Failed\", \"TerminatingOrFailed\"",
            "spec.template.spec.containers[0].image: Required value",
            "spec.template.spec.restartPolicy: Required value: valid values: \"OnFailure\", \"Never\"",
        ],
    );
}

#[test]
fn indexed_jobs_have_bounds() {
    let indexed = |changes: &[(&str, Value)], expected: &[&str]| {
        let mut all = vec![("/spec/completionMode", json!("Indexed"))];
        all.extend_from_slice(changes);
        check(&all, expected);
    };
    indexed(&[("/spec/parallelism", json!(1))], &["spec.completions: Required value: when completion mode is Indexed"]);
    indexed(
        &[
            ("/spec/completions", json!(3)),
            ("/spec/parallelism", json!(100_001)),
            ("/spec/backoffLimitPerIndex", json!(1)),
            ("/spec/maxFailedIndexes", json!(4)),
        ],
        &[
            "spec.parallelism: Invalid value: 100001: must be less than or equal to 100000 when completion mode is Indexed",
            "spec.maxFailedIndexes: Invalid value: 4: must be less than or equal to completions",
        ],
    );
    indexed(
        &[
            ("/spec/completions", json!(100_001)),
            ("/spec/parallelism", json!(10_001)),
            ("/spec/backoffLimitPerIndex", json!(1)),
        ],
        &[
            "spec.maxFailedIndexes: Required value: must be specified when completions is above 100000",
            "spec.parallelism: Invalid value: 10001: must be less than or equal to 10000 when completions are above 100000 and used with backoff limit per index",
        ],
    );
    let long = "x".repeat(62);
    indexed(
        &[("/metadata/name", json!(long)), ("/spec/completions", json!(11))],
        &[&format!(
            "metadata.name: Invalid value: \"{long}\": will not able to create pod with invalid DNS label: {long}-10"
        )],
    );
}

#[test]
fn policies_of_failure_and_success() {
    let rules = json!([
        {"action": "", "onExitCodes": {"operator": "", "values": []}},
        {"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [3, 0, 3], "containerName": "none"}},
        {"action": "Odd", "onPodConditions": [{"type": "a b", "status": "Maybe"}]},
        {"action": "Ignore"},
    ]);
    let at = "spec.podFailurePolicy.rules";
    check(
        &[
            ("/spec/podFailurePolicy", json!({"rules": rules})),
            ("/spec/template/spec/restartPolicy", json!("OnFailure")),
        ],
        &[
            &format!("{at}[0].action: Required value: valid values: [\"Count\" \"FailIndex\" \"FailJob\" \"Ignore\"]"),
            &format!("{at}[0].onExitCodes.operator: Required value: valid values: [\"In\" \"NotIn\"]"),
            &format!("{at}[0].onExitCodes.values: Invalid value: []: at least one value is required"),
            &format!("{at}[1].action: Invalid value: \"FailIndex\": requires the backoffLimitPerIndex to be set"),
            &format!(
                "{at}[1].onExitCodes.containerName: Invalid value: \"none\": must be one of the container or initContainer names in the pod template"
            ),
            &format!("{at}[1].onExitCodes.values[1]: Invalid value: 0: must not be 0 for the In operator"),
            &format!("{at}[1].onExitCodes.values[2]: Duplicate value: 3"),
            &format!("{at}[1].onExitCodes.values: Invalid value: [3,0,3]: must be ordered"),
            &format!(
                "{at}[2].action: Unsupported value: \"Odd\": supported values: \"Count\", \"FailIndex\", \"FailJob\", \"Ignore\""
            ),
            &format!(
                "{at}[2].onPodConditions[0].type: Invalid value: \"a b\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
            ),
            &format!(
                "{at}[2].onPodConditions[0].status: Unsupported value: \"Maybe\": supported values: \"False\", \"True\", \"Unknown\""
            ),
            &format!("{at}[3]: Invalid value: specifying one of OnExitCodes and OnPodConditions is required"),
            "spec.template.spec.restartPolicy: Invalid value: \"OnFailure\": only \"Never\" is supported when podFailurePolicy is specified",
        ],
    );
    check(
        &[("/spec/successPolicy", json!({"rules": [{"succeededCount": 1}]}))],
        &[
            "spec.successPolicy: Invalid value: {\"Rules\":[{\"SucceededIndexes\":null,\"SucceededCount\":1}]}: requires indexed completion mode",
        ],
    );
    let rules = json!([{}, {"succeededIndexes": "0-2", "succeededCount": 4}, {"succeededIndexes": "2,1"}, {"succeededIndexes": "0-9"}]);
    let at = "spec.successPolicy.rules";
    check(
        &[
            ("/spec/completionMode", json!("Indexed")),
            ("/spec/completions", json!(3)),
            ("/spec/successPolicy", json!({"rules": rules})),
        ],
        &[
            &format!("{at}[0]: Required value: at least one of succeededCount or succeededIndexes must be specified"),
            &format!(
                "{at}[1].succeededCount: Invalid value: 4: must be less than or equal to 3 (the number of specified completions)"
            ),
            &format!(
                "{at}[1].succeededCount: Invalid value: 4: must be less than or equal to 3 (the number of indexes in the specified succeededIndexes field)"
            ),
            &format!(
                "{at}[2].succeededIndexes: Invalid value: \"2,1\": error parsing succeededIndexes: non-increasing order, previous: 2, current: 1"
            ),
            &format!(
                "{at}[3].succeededIndexes: Invalid value: \"0-9\": error parsing succeededIndexes: too large index: \"9\""
            ),
        ],
    );
}

/// Returns a stored Job, with the selector and the labels that the server has generated.
fn stored(changes: &[(&str, Value)]) -> Value {
    let labels = json!({"controller-uid": "u", "job-name": "a", "batch.kubernetes.io/controller-uid": "u", "batch.kubernetes.io/job-name": "a"});
    let mut all = vec![
        ("/spec/template/metadata/labels", labels),
        ("/spec/selector/matchLabels", json!({"batch.kubernetes.io/controller-uid": "u"})),
    ];
    all.extend_from_slice(changes);
    job(&all)
}

#[test]
fn a_selector_is_the_generated_one() {
    let odd = stored(&[
        ("/spec/template/metadata/labels/job-name", json!("b")),
        ("/spec/selector/matchLabels", json!({"x": "y"})),
    ]);
    let errors = create(odd);
    let shown = "{\"batch.kubernetes.io/controller-uid\":\"u\",\"batch.kubernetes.io/job-name\":\"a\",\"controller-uid\":\"u\",\"job-name\":\"b\"}";
    assert_eq!(errors[0], format!("spec.template.metadata.labels[job-name]: Invalid value: {shown}: must be 'a'"));
    assert!(
        errors[1].starts_with("spec.selector: Invalid value: ")
            && errors[1].ends_with(": `selector` not auto-generated"),
        "{errors:?}"
    );
    assert!(errors[2].starts_with("spec.template.metadata.labels: Invalid value: "), "{errors:?}");
}

#[test]
fn a_suspended_job_without_pods_may_change_its_scheduling_directives_only() {
    let changed = |suspend: bool, changes: &[(&str, Value)]| {
        let old = stored(&[("/spec/suspend", json!(suspend))]);
        let mut new = old.clone();
        for (pointer, value) in changes {
            *at(&mut new, pointer) = value.clone();
        }
        update(old, new)
    };
    let moves = [
        ("/spec/template/spec/nodeSelector", json!({"a": "b"})),
        ("/spec/template/spec/containers/0/resources", json!({"limits": {"cpu": "1"}})),
        ("/spec/template/metadata/annotations", json!({"a": "b"})),
    ];
    assert_eq!(changed(true, &moves), [""; 0]);
    let refused = changed(false, &moves);
    assert!(refused.len() == 1 && refused[0].starts_with("spec.template: Invalid value: {"), "{refused:?}");
    let image = changed(true, &[("/spec/template/spec/containers/0/image", json!("j"))]);
    assert!(image.len() == 1 && image[0].starts_with("spec.template.spec: Invalid value: {"), "{image:?}");
    assert_eq!(
        changed(false, &[("/spec/completions", json!(3)), ("/spec/backoffLimit", json!(2))]),
        ["spec.completions: Invalid value: 3: field is immutable"]
    );
}

#[test]
fn a_status_does_not_contradict_itself() {
    let statused = |old: Value, new: Value| {
        let with = |status: Value| stored(&[("/status", status)]);
        update_of("status", with(old), with(new))
    };
    let met = |kinds: &[&str]| -> Value { kinds.iter().map(|kind| json!({"type": kind, "status": "True"})).collect() };
    let time = "2024-01-01T00:00:00Z";
    assert_eq!(
        statused(
            json!({"startTime": time}),
            json!({"startTime": time, "active": 1, "conditions": met(&["Complete", "Failed"])})
        ),
        [
            "status.conditions: Invalid value: cannot set Complete=True and Failed=true conditions",
            "status.completionTime: Required value: completionTime is required for Complete jobs",
            "status.conditions: Invalid value: cannot set Failed=True condition without the FailureTarget=true condition",
            "status.conditions: Invalid value: cannot set Complete=True condition without the SuccessCriteriaMet=true condition",
            "status.active: Invalid value: 1: active>0 is invalid for finished job",
        ]
    );
    assert_eq!(
        statused(
            json!({"startTime": time, "failed": 2, "conditions": met(&["FailureTarget"])}),
            json!({"failed": 1, "completedIndexes": "0"})
        ),
        [
            "status.completedIndexes: Invalid value: \"0\": cannot set non-empty completedIndexes when non-indexed completion mode",
            "status.conditions: Invalid value: cannot disable the terminal FailureTarget=True condition",
            "status.failed: Invalid value: 1: cannot decrease the failed counter",
            "status.startTime: Invalid value: null: field is immutable for unsuspended job once set",
        ]
    );
}

fn cron_job(changes: &[(&str, Value)]) -> Value {
    let template = json!({"spec": job(&[])["spec"].clone()});
    let mut cron_job = json!({"apiVersion": "batch/v1", "kind": "CronJob", "spec": {"schedule": "* * * * *", "jobTemplate": template}});
    for (pointer, value) in changes {
        *at(&mut cron_job, pointer) = value.clone();
    }
    cron_job
}

#[test]
fn cron_jobs_keep_old_zones_in_their_schedules() {
    assert_eq!(
        create(cron_job(&[
            ("/spec/schedule", json!("TZ=UTC 61 * * * *")),
            ("/spec/concurrencyPolicy", json!("Odd")),
            ("/spec/jobTemplate/spec/selector", json!({})),
        ])),
        [
            "spec.schedule: Invalid value: \"TZ=UTC 61 * * * *\": end of range (61) above maximum (59): 61",
            "spec.schedule: Invalid value: \"TZ=UTC 61 * * * *\": cannot use TZ or CRON_TZ in schedule, use timeZone field instead",
            "spec.concurrencyPolicy: Unsupported value: \"Odd\": supported values: \"Allow\", \"Forbid\", \"Replace\"",
            "spec.jobTemplate.spec.selector: Invalid value: {}: `selector` will be auto-generated",
        ]
    );
    let zoned = || cron_job(&[("/spec/schedule", json!("TZ=UTC 1 * * * *"))]);
    assert_eq!(update(zoned(), zoned()), [""; 0]);
    let both = cron_job(&[("/spec/schedule", json!("TZ=UTC 1 * * * *")), ("/spec/timeZone", json!("Etc/UTC"))]);
    assert_eq!(
        update(zoned(), both),
        [
            "spec.schedule: Invalid value: \"TZ=UTC 1 * * * *\": cannot use both timeZone field and TZ or CRON_TZ in schedule"
        ]
    );
    let lost = || cron_job(&[("/spec/timeZone", json!("Mars/Olympus"))]);
    assert_eq!(update(lost(), lost()), [""; 0]);
}
