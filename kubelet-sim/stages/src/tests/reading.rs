//! Files of stages, right and wrong.

use crate::document::parse;
use crate::stage::Subject;

fn problems(text: &str) -> Vec<String> {
    parse(text).map(|_| ()).unwrap_err().iter().map(ToString::to_string).collect()
}

#[test]
fn a_file_may_have_documents_and_lists() {
    let stage = |name: &str, kind: &str| {
        format!(
            "apiVersion: kwok.x-k8s.io/v1alpha1\nkind: Stage\nmetadata: {{name: {name}}}\n\
             spec: {{resourceRef: {{apiGroup: v1, kind: {kind}}}, selector: {{}}, next: {{delete: true}}}}\n"
        )
    };
    let list = "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: kwok.x-k8s.io/v1alpha1, kind: Stage, metadata: {name: c}, \
                spec: {resourceRef: {kind: Pod}, next: {}}}\n";
    let text = format!("# stages\n---\n{}---\n# nothing\n---\n{}--- \n{list}", stage("a", "Pod"), stage("b", "Node"));
    let stages = parse(&text).unwrap();
    let names: Vec<(&str, Subject)> = stages.iter().map(|stage| (stage.name.as_str(), stage.subject)).collect();
    assert_eq!(names, [("a", Subject::Pod), ("b", Subject::Node), ("c", Subject::Pod)]);
    assert!(parse("").unwrap().is_empty());
    let twice = format!("{}---\n{}", stage("a", "Pod"), stage("a", "Pod"));
    assert_eq!(problems(&twice), ["stage \"a\": metadata.name: another stage of the file has this name"]);
}

#[test]
fn every_mistake_is_reported_with_its_path() {
    let text = r#"
apiVersion: kwok.x-k8s.io/v1alpha2
kind: Stage
metadata: {name: bad}
spec:
  resourceRef: {apiGroup: apps/v1, kind: Deployment, name: x}
  selector:
    matchLabels: {a: 1}
    matchFields: []
    matchExpressions:
    - {key: '.a |', operator: Exists}
    - {key: .a, operator: In}
    - {key: .a, operator: Exists, values: [b]}
    - {key: .a, operator: Like, values: [b]}
    - {operator: Exists}
    - {key: .a, operator: Exists, jq: {key: .a, operator: Exists}}
    - {cel: {expression: 'self.x +'}}
    - {jq: {key: .a, operator: Exists, value: b}}
  weight: -1
  weightFrom: {expressionFrom: '.a[', jq: {expression: .a}}
  delay: {durationMilliseconds: soon, jitter: 5, jitterDurationMilliseconds: 999999999999999}
  next:
    foo: bar
    event: {type: Bad, reason: 5}
    finalizers: {add: [{value: a}, {}], remove: [{value: a}]}
    delete: "yes"
    statusTemplate: '{{ nothing }}'
    statusPatchAs: {username: admin}
    patches: [{type: apply, template: x, impersonation: {}}, {subresource: status}]
  immediateNextStage: 1
  when: never
"#;
    let found = problems(text);
    let found: Vec<&str> = found.iter().map(|line| line.strip_prefix("stage \"bad\": ").unwrap_or(line)).collect();
    let expected = [
        "apiVersion: must be kwok.x-k8s.io/v1alpha1",
        "spec.when: unknown field",
        "spec.resourceRef.name: unknown field",
        "spec.resourceRef.apiGroup: must be v1",
        "spec.resourceRef.kind: must be Pod or Node",
        "spec.selector.matchFields: unknown field",
        "spec.selector.matchLabels.a: must be a string",
        "spec.selector.matchExpressions[0].key: unexpected end",
        "spec.selector.matchExpressions[1].values: required with In and NotIn",
        "spec.selector.matchExpressions[2].values: must be empty with Exists and DoesNotExist",
        "spec.selector.matchExpressions[3].operator: must be In, NotIn, Exists or DoesNotExist",
        "spec.selector.matchExpressions[4].key: required",
        "spec.selector.matchExpressions[5]: must have exactly one of key, expression, jq and cel",
        "spec.selector.matchExpressions[6].cel.expression: ERROR",
        "spec.selector.matchExpressions[7].jq.value: unknown field",
        "spec.weight: must be a whole number that is not negative",
        "spec.weightFrom.expressionFrom: unexpected end",
        "spec.weightFrom: must have exactly one of expressionFrom, jq and cel",
        "spec.delay.jitter: unknown field",
        "spec.delay.durationMilliseconds: must be a whole number that is not negative",
        "spec.delay.jitterDurationMilliseconds: must be at most ten years",
        "spec.next.foo: unknown field",
        "spec.next.event.type: must be Normal or Warning",
        "spec.next.event.reason: must be a string",
        "spec.next.finalizers.add[1].value: required",
        "spec.next.finalizers.remove: \"a\" is also added",
        "spec.next.delete: must be a boolean",
        "spec.next.statusPatchAs: a simulated node acts as itself: impersonation is not supported",
        "spec.next.patches: must not stand beside statusTemplate",
        "spec.next.statusTemplate: function \"nothing\" not defined",
        "spec.next.patches[0].impersonation: a simulated node acts as itself: impersonation is not supported",
        "spec.next.patches[0].type: must be json, merge or strategic",
        "spec.next.patches[1].template: required",
        "spec.immediateNextStage: must be a boolean",
    ];
    for (line, wanted) in found.iter().zip(expected) {
        assert!(line.starts_with(wanted), "{line}\n{wanted}");
    }
    assert_eq!(found.len(), expected.len(), "{found:#?}");
}

#[test]
fn what_is_no_stage_is_refused() {
    let cases = [
        ("[1]", vec!["document 1: must be an object"]),
        ("a: b: c", vec!["document 1: "]),
        (
            "kind: Metric",
            vec!["document 1: apiVersion: required", "document 1: kind: must be Stage", "document 1: kind: unknown"],
        ),
        (
            "apiVersion: kwok.x-k8s.io/v1alpha1\nkind: Stage\nmetadata: {name: s}\nspec: {}",
            vec![
                "stage \"s\": spec.resourceRef: required",
                "stage \"s\": spec: must have exactly one of next and steps",
            ],
        ),
        (
            "kind: List\nitems: [5]\nextra: 1",
            vec!["document 1, items[0]: must be an object", "document 1: extra: unknown field"],
        ),
        ("a: 1\na: 2", vec!["document 1: yaml: unmarshal errors:\n  line 2: key \"a\" already set in map"]),
    ];
    for (text, expected) in cases {
        let found = problems(text);
        for (line, wanted) in found.iter().zip(&expected).take(1) {
            assert!(line.starts_with(wanted), "{line}\n{wanted}");
        }
        assert!(!found.is_empty());
    }
}
