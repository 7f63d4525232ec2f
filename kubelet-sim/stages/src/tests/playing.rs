//! The choice of a stage, its delay, and its actions.

use crate::choice::Stages;
use crate::document::parse;
use crate::stage::{Action, EventKind, PatchKind, Stage, Subject};
use crate::template::Facts;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::time::Duration;

fn stage(spec: &str) -> Stage {
    named("s", spec)
}

fn named(name: &str, spec: &str) -> Stage {
    let spec = spec.replace('\n', "\n  ");
    let text = format!(
        "apiVersion: kwok.x-k8s.io/v1alpha1\nkind: Stage\nmetadata: {{name: {name}}}\nspec:\n  resourceRef: {{kind: Pod}}\n  {spec}\n"
    );
    let stages = parse(&text).unwrap_or_else(|problems| panic!("{problems:?}\n{text}"));
    stages.into_iter().next().unwrap()
}

fn facts() -> Facts {
    Facts {
        now: time("2026-01-02T03:04:05Z"),
        started: Timestamp::UNIX_EPOCH,
        version: "v1".to_owned(),
        node_name: "node-0".to_owned(),
        node_ips: vec!["10.0.0.1".to_owned()],
        node_port: None,
        pod_ips: vec!["10.244.0.7".to_owned()],
    }
}

fn time(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn pod() -> Value {
    json!({
        "metadata": {
            "name": "web",
            "labels": {"app": "shop"},
            "annotations": {"delay": "3s", "until": "2026-01-02T03:04:15Z", "weight": "5", "bad": "x"},
            "finalizers": ["a", "b"],
        },
        "spec": {"nodeName": "node-0", "priority": 7, "containers": [{"name": "c", "image": "i"}]},
        "status": {"phase": "Pending", "conditions": [{"type": "Ready", "status": "False"}]},
    })
}

#[test]
fn selectors_match() {
    let cases = [
        ("{}", true),
        ("{matchLabels: {app: shop}}", true),
        ("{matchLabels: {app: shop, tier: x}}", false),
        ("{matchAnnotations: {delay: 3s}}", true),
        ("{matchExpressions: [{key: .status.phase, operator: In, values: [Running, Pending]}]}", true),
        ("{matchExpressions: [{key: .status.phase, operator: NotIn, values: [Pending]}]}", false),
        ("{matchExpressions: [{key: .status.absent, operator: NotIn, values: [x]}]}", true),
        ("{matchExpressions: [{key: .metadata.deletionTimestamp, operator: DoesNotExist}]}", true),
        ("{matchExpressions: [{key: .metadata.deletionTimestamp, operator: Exists}]}", false),
        ("{matchExpressions: [{key: '.status.initContainerStatuses.[].name', operator: DoesNotExist}]}", true),
        ("{matchExpressions: [{key: '.status.initContainerStatuses.[].name', operator: Exists}]}", false),
        ("{matchExpressions: [{key: .spec.priority, operator: In, values: ['7']}]}", true),
        ("{matchExpressions: [{key: '.spec.priority > 5', operator: In, values: ['true']}]}", true),
        (
            "{matchExpressions: [{key: '.status.conditions.[] | select( .type == \"Ready\" ) | .status', \
             operator: NotIn, values: ['True']}]}",
            true,
        ),
        ("{matchExpressions: [{jq: {key: .status.phase, operator: Exists}}]}", true),
        (
            "{matchExpressions: [{cel: {expression: 'self.status.phase == \"Pending\" && self.spec.priority > 5'}}]}",
            true,
        ),
        ("{matchExpressions: [{expression: 'self.spec.nodeName == \"node-0\"'}]}", true),
        ("{matchExpressions: [{cel: {expression: 'self.absent.field == 1'}}]}", false),
    ];
    for (selector, expected) in cases {
        let stage = stage(&format!("selector: {selector}\nnext: {{}}"));
        assert_eq!(stage.matches(Subject::Pod, &pod()), expected, "{selector}");
        assert!(!stage.matches(Subject::Node, &pod()));
    }
    assert!(!stage("next: {}").matches(Subject::Pod, &pod()), "without a selector, a stage is for nothing");
}

#[test]
fn a_stage_is_chosen_by_weight() {
    let choose = |specs: &[&str], draw: f64| {
        let named =
            |(index, spec): (usize, &&str)| named(&format!("s{index}"), &format!("selector: {{}}\nnext: {{}}\n{spec}"));
        let stages = Stages::new(specs.iter().enumerate().map(named));
        stages.choose(Subject::Pod, &pod(), draw).map(|stage| stage.name[1..].to_owned())
    };
    let from = |name: &str| format!("weightFrom: {{expressionFrom: '.metadata.annotations.{name}'}}");
    let (five, bad, absent) = (from("weight"), from("bad"), from("none"));
    let cases: &[(&[&str], &[&str])] = &[
        (&["", ""], &["0", "1"]),
        (&["weight: 1", "weight: 3"], &["0", "1", "1", "1"]),
        (&["weight: 0", "weight: 1"], &["1", "1"]),
        (&[&five, "weight: 5"], &["0", "0", "1", "1"]),
        (&[&bad, "weight: 0", "weight: 0"], &["1", "2"]),
        (&[&bad, &bad], &["0", "1"]),
        (&[&bad], &["0"]),
        (&[&format!("weight: 1\n{absent}"), "weight: 1"], &["0", "1"]),
    ];
    for (specs, expected) in cases {
        let draws = (0..expected.len()).map(|n| n as f64 / expected.len() as f64);
        let chosen: Vec<String> = draws.filter_map(|draw| choose(specs, draw)).collect();
        assert_eq!(&chosen, expected, "{specs:?}");
    }
    assert_eq!(choose(&[], 0.0), None);
}

#[test]
fn delays_are_drawn_between_two_durations() {
    let since = time("2026-01-02T03:04:05Z");
    let from = |name: &str| format!("{{expressionFrom: '.metadata.annotations.{name}'}}");
    let cases = [
        (String::new(), 0.5, 0),
        ("durationMilliseconds: 1000".to_owned(), 0.5, 1_000),
        ("durationMilliseconds: 1000, jitterDurationMilliseconds: 5000".to_owned(), 0.5, 3_000),
        ("durationMilliseconds: 5000, jitterDurationMilliseconds: 1000".to_owned(), 0.5, 1_000),
        (format!("durationMilliseconds: 1, durationFrom: {}", from("delay")), 0.0, 3_000),
        (format!("durationMilliseconds: 7, durationFrom: {}", from("bad")), 0.0, 7),
        (format!("durationMilliseconds: 7, durationFrom: {}", from("none")), 0.0, 7),
        (format!("durationFrom: {}", from("until")), 0.0, 10_000),
        (format!("durationMilliseconds: 20000, jitterDurationFrom: {}", from("until")), 0.0, 10_000),
        (format!("durationMilliseconds: 2000, jitterDurationFrom: {}", from("delay")), 0.5, 2_500),
        ("durationFrom: {jq: {expression: '\"2026-01-01T00:00:00Z\"'}}".to_owned(), 0.0, 0),
        ("durationFrom: {cel: {expression: 'self.metadata.annotations.delay'}}".to_owned(), 0.0, 3_000),
    ];
    for (delay, draw, expected_ms) in cases {
        let stage = stage(&format!("selector: {{}}\nnext: {{}}\ndelay: {{{delay}}}"));
        assert_eq!(stage.delay(&pod(), since, draw), Duration::from_millis(expected_ms), "{delay}");
    }
}

fn patch(kind: PatchKind, subresource: &str, body: Value) -> Action {
    Action::Patch { kind, subresource: subresource.to_owned(), body }
}

fn actions(steps: &str) -> Vec<Action> {
    let stage = stage(&format!("selector: {{}}\n{steps}"));
    stage.actions(&pod(), &facts()).unwrap()
}

#[test]
fn a_stage_says_what_to_send() {
    let next = "next:\n  event: {type: Warning, reason: BackOff, message: 'Back-off {{ .metadata.name }}'}\n  \
                finalizers: {add: [{value: c}, {value: a}], remove: [{value: b}]}\n  \
                statusTemplate: |\n    phase: Running\n    podIP: {{ PodIP | Quote }}";
    let test = json!({"op": "test", "path": "/metadata/finalizers", "value": ["a", "b"]});
    let expected = [
        Action::Event { kind: EventKind::Warning, reason: "BackOff".to_owned(), message: "Back-off web".to_owned() },
        patch(
            PatchKind::Json,
            "",
            json!([test, {"op": "replace", "path": "/metadata/finalizers", "value": ["a", "c"]}]),
        ),
        patch(PatchKind::Strategic, "status", json!({"status": {"phase": "Running", "podIP": "10.244.0.7"}})),
    ];
    assert_eq!(actions(next), expected);

    let steps = "steps:\n- patch: {type: json, root: metadata, template: '[{op: add, path: /labels/x, value: z}]'}\n\
                 - patch: {type: merge, template: 'spec: {priority: {{ add1 .spec.priority }}}'}\n\
                 - delete: true\n- patch: {template: 'spec: {}'}\n- event: {reason: Gone}";
    let expected = [
        patch(PatchKind::Json, "", json!([{"op": "add", "path": "/metadata/labels/x", "value": "z"}])),
        patch(PatchKind::Merge, "", json!({"spec": {"priority": 8}})),
        Action::Delete,
        Action::Event { kind: EventKind::Normal, reason: "Gone".to_owned(), message: String::new() },
    ];
    assert_eq!(actions(steps), expected);

    let emptied =
        [patch(PatchKind::Json, "", json!([test, {"op": "remove", "path": "/metadata/finalizers"}])), Action::Delete];
    assert_eq!(actions("next: {finalizers: {empty: true}, delete: true}"), emptied);
    assert_eq!(actions("next: {finalizers: {add: [{value: a}], remove: [{value: x}]}, statusSubresource: ''}"), []);
}

#[test]
fn a_template_that_fails_is_named() {
    let fails =
        |steps: &str| stage(&format!("selector: {{}}\n{steps}")).actions(&pod(), &facts()).unwrap_err().to_string();
    assert_eq!(
        fails("next: {statusTemplate: 'a: {{ div 1 0 }}'}"),
        "spec.next.statusTemplate: error calling div: integer divide by zero"
    );
    assert!(fails("steps: [{patch: {template: 'a: b: c'}}]").starts_with("spec.steps[0].patch.template: "));
    assert_eq!(fails("steps: [{patch: {template: '5'}}]"), "spec.steps[0].patch.template: must render an object");
    assert_eq!(
        fails("steps: [{patch: {type: json, template: 'a: b'}}]"),
        "spec.steps[0].patch.template: must render a list of operations"
    );
}
