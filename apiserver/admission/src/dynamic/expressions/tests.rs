//! Table tests of the values that expressions see, of `authorizer` checks, and of cost limits.

use super::*;
use crate::testing::Write;
use access::authz;
use access::authz::{Decision, Verdict as Answer};
use cel::admission::{MATCH_CONDITION, Scope};
use cel::{Type, Value};
use serde_json::{Value as Json, json};
use std::sync::Arc;

/// `ann` may get configmaps and jobs named after her; the account `a:robot` may get `/healthz`. Group `lost` gives an error.
struct Rights;

impl Authorizer for Rights {
    fn decide(&self, a: &authz::Attributes<'_>) -> Answer {
        let is_allowed = match a.path {
            Some(path) => (a.user.name.as_str(), a.verb, path) == ("system:serviceaccount:a:robot", "get", "/healthz"),
            None if a.resource == "jobs" => (a.field_selector, a.label_selector) == ("a=b", "owner=ann"),
            None => (a.user.name.as_str(), a.verb, a.resource) == ("ann", "get", "configmaps") && a.name != "secret",
        };
        let decision =
            if is_allowed { Decision::Allow("because".into()) } else { Decision::NoOpinion("no rule".into()) };
        Answer { decision, error: if a.group == "lost" { "nobody knows".into() } else { String::new() } }
    }
}

fn rights() -> Arc<dyn Authorizer> {
    Arc::new(Rights)
}

async fn activation() -> Activation {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cm", "namespace": "a"},
        "data": {"n": "5"}, "number": 3, "half": 0.5});
    let old = json!({"metadata": {"name": "cm", "namespace": "a"}});
    let mut found = None;
    let write = Write::update("", "configmaps", old, object);
    write
        .see(async |attributes| {
            found = Some(Activation::of(attributes, Subject::of(attributes), &rights()));
            Ok(())
        })
        .await;
    found.expect("the write was seen")
}

/// Evaluates an expression to `true`, `false` or its error.
async fn says(text: &str) -> String {
    let scope = Scope { params: Some(Type::Dyn), has_authorizer: true, ..Scope::default() };
    let activation = activation().await.with_params(&json!({"max": 3})).with_namespace(&json!({
        "metadata": {"name": "a", "labels": {"tier": "x"}, "managedFields": []}, "spec": {}, "status": {"phase": "Active"},
    }));
    let expression = match scope.compile(text, &[]) {
        Ok(expression) => expression,
        Err(why) => return why,
    };
    match Variables::none().evaluate(&expression, &activation, &mut Budget::of_policy()) {
        Ok(Ok(Value::Bool(truth))) => truth.to_string(),
        Ok(Ok(other)) => format!("{other:?}"),
        Ok(Err(why)) => why,
        Err(spent) => spent.to_string(),
    }
}

#[tokio::test(start_paused = true)]
async fn expressions_see_the_request() {
    for text in [
        "object.data.n == '5' && oldObject.metadata.name == 'cm' && !has(oldObject.data)",
        "object.number + 1 == 4 && object.half < 1.0",
        "request.operation == 'UPDATE' && request.name == 'cm' && request.namespace == 'a'",
        "request.kind.kind == 'ConfigMap' && request.resource.resource == 'configmaps'",
        "request.requestKind.version == 'v1' && request.requestResource.group == ''",
        "!has(request.subResource) && !request.dryRun",
        "request.userInfo.username == 'ann' && 'system:authenticated' in request.userInfo.groups",
        "params.max == 3",
        "namespaceObject.metadata.labels.tier == 'x' && namespaceObject.status.phase == 'Active'",
        "authorizer.requestResource.check('get').allowed()",
        "!authorizer.requestResource.check('delete').allowed()",
        "authorizer.group('').resource('configmaps').namespace('a').name('cm').check('get').reason() == 'because'",
        "!authorizer.group('').resource('configmaps').namespace('a').name('secret').check('get').allowed()",
        "!authorizer.group('').resource('configmaps').subresource('x').check('x').errored()",
        "authorizer.group('lost').resource('configmaps').check('x').errored()",
        "authorizer.group('lost').resource('configmaps').check('x').error() == 'nobody knows'",
        "authorizer.group('').resource('jobs').fieldSelector('a=b').labelSelector('owner=ann').check('list').allowed()",
        "!authorizer.group('').resource('jobs').fieldSelector('a=b').check('list').allowed()",
        "authorizer.serviceAccount('a', 'robot').path('/healthz').check('get').error() == ''",
        "[1].all(authorizer, authorizer == 1)",
    ] {
        assert_eq!(says(text).await, "true", "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_wrong_is_told() {
    for (text, wanted) in [
        (
            "request.nothing == ''",
            "compilation failed: ERROR: <input>:1:8: undefined field 'nothing'\n | request.nothing == ''\n | .......^",
        ),
        (
            "variables.a",
            "compilation failed: ERROR: <input>:1:1: undeclared reference to 'variables' (in container '')\n | \
             variables.a\n | ^",
        ),
        (
            "authorizer.path('') == null",
            "expression 'authorizer.path('') == null' resulted in error: path must not be empty",
        ),
        (
            "authorizer.serviceAccount('a', 'B').path('/').check('get').allowed()",
            "expression 'authorizer.serviceAccount('a', 'B').path('/').check('get').allowed()' resulted in error: \
             Invalid service account name",
        ),
        (
            "authorizer.group('').resource('  ').check('get').allowed()",
            "expression 'authorizer.group('').resource('  ').check('get').allowed()' resulted in error: resource must \
             not be empty",
        ),
        ("object.data.m == ''", "expression 'object.data.m == ''' resulted in error: no such key: m"),
        // Each check costs 350,000.
        (
            "['a', 'b', 'c'].exists(v, authorizer.requestResource.check(v).allowed())",
            "expression '['a', 'b', 'c'].exists(v, authorizer.requestResource.check(v).allowed())' resulted in error: \
             operation cancelled: actual cost limit exceeded",
        ),
    ] {
        assert_eq!(says(text).await, wanted, "{text}");
    }
}

#[test]
fn results_have_a_type() {
    let wrong = |text: &str, wanted: &[Type]| Scope::default().compile(text, wanted).map(|_| ()).unwrap_err();
    assert_eq!(wrong("1", &[Type::Bool]), "must evaluate to bool but got int");
    assert_eq!(wrong("1", &[Type::String, Type::Null]), "must evaluate to one of [string null_type] but got int");
    assert_eq!(wrong("object", &[Type::Bool]), "must evaluate to bool but got dyn");
}

#[tokio::test(start_paused = true)]
async fn variables_are_evaluated_where_they_are_needed() {
    let mut scope = Scope { has_authorizer: true, ..Scope::default() };
    let mut declared = cel::admission::Declared::default();
    for (name, text) in [
        ("name", "object.metadata.name"),
        ("broken", "object.nothing"),
        ("twice", "variables.name + variables.name"),
        ("wrong", "1 +"),
        ("count", "size(variables.twice)"),
    ] {
        let told = declared.add(name, text, &mut scope);
        assert_eq!(told.is_err(), name == "wrong", "{name}");
    }
    let activation = activation().await;
    let says = |text: &str| {
        let expression = scope.compile(text, &[]).unwrap();
        let found =
            Variables::of_policy(&declared).evaluate(&expression, &activation, &mut Budget::of_policy()).unwrap();
        found.map(|value| matches!(value, Value::Bool(true)))
    };
    assert_eq!(says("variables.count == 4 && variables.twice == 'cmcm'"), Ok(true));
    assert_eq!(says("true || variables.broken"), Ok(true));
    assert_eq!(
        says("variables.broken"),
        Err("expression 'variables.broken' resulted in error: composited variable \"broken\" fails to evaluate: no such \
             key: nothing"
            .to_owned())
    );
    assert!(says("variables.wrong").unwrap_err().contains("fails to compile: compilation failed: ERROR: <input>:1:4"));
    // Variables have types: the checker finds mistakes.
    assert_eq!(
        scope.compile("variables.count == 'a'", &[]).unwrap_err(),
        "compilation failed: ERROR: <input>:1:17: found no matching overload for '_==_' applied to '(int, string)'\n | \
         variables.count == 'a'\n | ................^"
    );
    assert!(scope.compile("variables.later", &[]).unwrap_err().contains("undefined field 'later'"));
}

#[tokio::test(start_paused = true)]
async fn match_conditions_agree_or_one_decides() {
    let activation = activation().await;
    let verdict = |conditions: Json| MatchConditions::compile(&conditions, &MATCH_CONDITION).evaluate(&activation);
    let condition = |name: &str, expression: &str| json!({"name": name, "expression": expression});
    assert_eq!(verdict(json!(null)), Verdict::Matches);
    assert_eq!(verdict(json!([condition("a", "true"), condition("b", "object.number == 3")])), Verdict::Matches);
    assert_eq!(
        verdict(json!([condition("a", "object.nothing"), condition("b", "false"), condition("c", "false")])),
        Verdict::DoesNotMatch("b".into())
    );
    let broken = "expression 'object.nothing' resulted in error: no such key: nothing";
    assert_eq!(
        verdict(json!([condition("a", "true"), condition("b", "object.nothing == 1")])),
        Verdict::Error(broken.replace("object.nothing", "object.nothing == 1").into())
    );
    assert_eq!(
        verdict(json!([condition("a", "object.nothing == 1"), condition("b", "params.x")])),
        Verdict::Error(
            "[expression 'object.nothing == 1' resulted in error: no such key: nothing, compilation error: compilation \
             failed: ERROR: <input>:1:1: undeclared reference to 'params' (in container '')\n | params.x\n | ^]"
                .to_owned()
                .into()
        )
    );
    // No namespace is set here.
    assert_eq!(verdict(json!([condition("a", "namespaceObject == null")])), Verdict::Matches);
}

#[tokio::test(start_paused = true)]
async fn nothing_runs_for_long() {
    let list = format!("[{}]", vec!["1"; 100].join(", "));
    let nested = format!("{list}.all(a, {list}.all(b, {list}.all(c, {list}.all(d, a + b + c + d > 0))))");
    assert!(says(&nested).await.ends_with("operation cancelled: actual cost limit exceeded"));
    let conditions: Vec<Json> =
        (0..4).map(|index| json!({"name": format!("n{index}"), "expression": nested})).collect();
    assert_eq!(
        MatchConditions::compile(&json!(conditions), &MATCH_CONDITION).evaluate(&activation().await),
        Verdict::Error(OutOfBudget.into())
    );
}
