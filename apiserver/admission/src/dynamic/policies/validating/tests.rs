//! Tests of rejections, warnings, audit annotations and cost limits.

use super::*;
use crate::dynamic::expressions::OutOfBudget;
use crate::testing::{Outcome, Write};
use access::authz;
use access::authz::{Decision as Authorized, Verdict as Answer};
use proto::schema::apply_defaults;
use serde_json::{Value, json};

/// Allows nothing.
struct Nobody;

impl Authorizer for Nobody {
    fn decide(&self, _: &authz::Attributes<'_>) -> Answer {
        Answer::of(Authorized::NoOpinion(String::new()))
    }
}

const GROUP: &str = "admissionregistration.k8s.io";

fn defaulted(kind: &str, mut object: Value) -> Value {
    apply_defaults(&proto::Gvk::new(GROUP, "v1", kind), &mut object);
    object
}

/// Returns a policy for every write of ConfigMaps.
fn policy(spec: Value) -> Value {
    let rule = json!({"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["configmaps"]});
    let mut policy = json!({"metadata": {"name": "p"}, "spec": {"matchConstraints": {"resourceRules": [rule]}}});
    policy["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    defaulted("ValidatingAdmissionPolicy", policy)
}

fn binding(spec: Value) -> Value {
    let mut binding = json!({"metadata": {"name": "b"}, "spec": {"policyName": "p", "validationActions": ["Deny"]}});
    binding["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    defaulted("ValidatingAdmissionPolicyBinding", binding)
}

fn config_map(name: &str, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "n"}, "data": data})
}

fn create(data: Value) -> Write {
    Write::create("", "configmaps", config_map("cm", data)).beside(
        "",
        "namespaces",
        json!({"metadata": {"name": "n", "labels": {"team": "a"}}}),
    )
}

fn under(write: Write, policy: Value, binding: Value) -> Write {
    let write = write.beside(GROUP, "validatingadmissionpolicies", policy);
    write.beside(GROUP, "validatingadmissionpolicybindings", binding)
}

fn plugin() -> ValidatingAdmissionPolicy {
    ValidatingAdmissionPolicy::new(&Env::simulated(1), Arc::new(Nobody))
}

async fn run(write: Write, policy: Value, binding: Value) -> Outcome {
    under(write, policy, binding).run(&plugin()).await
}

fn denied(why: &str) -> String {
    format!("configmaps \"cm\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: {why}")
}

#[tokio::test(start_paused = true)]
async fn the_first_validation_that_fails_refuses() {
    let validations = json!({"validations": [
        {"expression": "object.data.size() < 3", "messageExpression": "'too many: ' + string(object.data.size())",
            "reason": "Forbidden"},
        {"expression": "!('z' in object.data) || int(object.data.z) > 0", "message": " z must be positive "},
        {"expression": "!('y' in object.data)", "messageExpression": "object.nothing"},
    ]});
    for (data, code, why) in [
        (json!({"a": "1"}), 0, String::new()),
        (json!({"a": "1", "b": "1", "c": "1"}), 403, denied("too many: 3")),
        (json!({"z": "-1"}), 422, denied("z must be positive")),
        (json!({"y": ""}), 422, denied("failed expression: !('y' in object.data)")),
        (
            json!({"z": "x"}),
            422,
            denied(
                "expression '!('z' in object.data) || int(object.data.z) > 0' resulted in error: type conversion error \
                 from 'string' to 'int'",
            ),
        ),
    ] {
        let seen = run(create(data), policy(validations.clone()), binding(json!({}))).await;
        assert_eq!(seen.message(), why);
        let error = seen.error.unwrap_or_default();
        assert_eq!(error.code, code, "{why}");
        let causes = error.details.map(|details| details.causes).unwrap_or_default();
        assert_eq!(causes.len(), usize::from(code != 0));
    }
}

#[tokio::test(start_paused = true)]
async fn warnings_and_notes_refuse_nothing() {
    let policy = policy(json!({
        "validations": [{"expression": "true"}, {"expression": "false", "message": "never"}],
        "auditAnnotations": [
            {"key": "size", "valueExpression": "string(object.data.size())"},
            {"key": "none", "valueExpression": "null"},
        ],
    }));
    let seen = run(create(json!({"a": "1"})), policy, binding(json!({"validationActions": ["Warn", "Audit"]}))).await;
    assert_eq!(seen.error, None);
    assert_eq!(seen.warnings, ["Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': never"]);
    let failure =
        r#"[{"message":"never","policy":"p","binding":"b","expressionIndex":1,"validationActions":["Warn","Audit"]}]"#;
    let expected = [("p/size", "1"), (FAILURE_ANNOTATION, failure)];
    let notes: Vec<(&str, &str)> = seen.annotations.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    assert_eq!(notes, expected);
}

#[tokio::test(start_paused = true)]
async fn conditions_and_failures_follow_the_failure_policy() {
    let conditions = |expression: &str| json!([{"name": "c", "expression": expression}]);
    let with = |conditions: Value, failure: &str, expression: &str| {
        policy(json!({"matchConditions": conditions, "failurePolicy": failure,
            "validations": [{"expression": expression, "message": "no"}]}))
    };
    for (policy, why) in [
        (with(conditions("true"), "Fail", "false"), denied("no")),
        (with(conditions("false"), "Fail", "false"), String::new()),
        (
            with(conditions("object.x == 1"), "Fail", "false"),
            denied("expression 'object.x == 1' resulted in error: no such key: x"),
        ),
        (with(conditions("object.x == 1"), "Ignore", "false"), String::new()),
        (
            with(json!([]), "Fail", "object.x == 1"),
            denied("expression 'object.x == 1' resulted in error: no such key: x"),
        ),
        (with(json!([]), "Ignore", "object.x == 1"), String::new()),
        (with(json!([]), "Ignore", "false"), denied("no")),
    ] {
        assert_eq!(run(create(json!({})), policy.clone(), binding(json!({}))).await.message(), why, "{policy}");
    }
}

#[tokio::test(start_paused = true)]
async fn expressions_see_variables_the_namespace_and_the_caller() {
    let spec = json!({
        "variables": [{"name": "team", "expression": "namespaceObject.metadata.labels.team"},
            {"name": "isA", "expression": "variables.team == 'a'"}],
        "validations": [
            {"expression": "variables.isA"},
            {"expression": "!authorizer.requestResource.check('create').allowed()"},
            {"expression": "request.userInfo.username == 'ann'", "messageExpression": "variables.team"},
        ],
    });
    assert_eq!(run(create(json!({})), policy(spec.clone()), binding(json!({}))).await.message(), "");
    let by_eve = create(json!({})).by("eve", &[]);
    assert_eq!(run(by_eve, policy(spec), binding(json!({}))).await.message(), denied("a"));
}

#[tokio::test(start_paused = true)]
async fn only_bound_writes_are_looked_at() {
    let never = || policy(json!({"validations": [{"expression": "false", "message": "no"}]}));
    let team = |team: &str| binding(json!({"matchResources": {"namespaceSelector": {"matchLabels": {"team": team}}}}));
    assert_eq!(run(create(json!({})), never(), team("a")).await.message(), denied("no"));
    assert_eq!(run(create(json!({})), never(), team("b")).await.message(), "");
    assert_eq!(run(create(json!({})), never(), binding(json!({"policyName": "other"}))).await.message(), "");
    let secret = Write::create("", "secrets", json!({"metadata": {"name": "s", "namespace": "n"}}));
    assert_eq!(run(secret, never(), binding(json!({}))).await.message(), "");
    // Otherwise a policy that rejects everything could not be removed.
    let mut everything = never();
    everything["spec"]["matchConstraints"]["resourceRules"][0]["resources"] = json!(["*"]);
    let itself = Write::delete(GROUP, "validatingadmissionpolicies", everything.clone());
    assert_eq!(run(itself, everything, binding(json!({}))).await.message(), "");
}

#[tokio::test(start_paused = true)]
async fn deletions_show_what_is_deleted() {
    let spec =
        json!({"validations": [{"expression": "object == null && oldObject.data.keep == 'no'", "message": "keep"}]});
    let namespace = json!({"metadata": {"name": "n"}});
    let delete = |keep: &str| {
        Write::delete("", "configmaps", config_map("cm", json!({"keep": keep}))).beside(
            "",
            "namespaces",
            namespace.clone(),
        )
    };
    assert_eq!(run(delete("yes"), policy(spec.clone()), binding(json!({}))).await.message(), denied("keep"));
    assert_eq!(run(delete("no"), policy(spec), binding(json!({}))).await.message(), "");
}

#[tokio::test(start_paused = true)]
async fn parameters_are_found_by_name_or_by_labels() {
    let of = |kind: &str| {
        policy(json!({"paramKind": {"apiVersion": "v1", "kind": kind}, "validations": [
            {"expression": "params == null || object.data.size() <= int(params.data.max)",
                "messageExpression": "'at most ' + params.data.max + ' by ' + params.metadata.name"}]}))
    };
    let limit = |namespace: &str, name: &str, max: &str| json!({"metadata": {"name": name, "namespace": namespace, "labels": {"limit": "yes"}}, "data": {"max": max}});
    let write = || {
        let write = create(json!({"a": "1", "b": "2"})).beside("", "configmaps", limit("n", "one", "1"));
        write.beside("", "configmaps", limit("n", "two", "2")).beside("", "configmaps", limit("m", "none", "0"))
    };
    let labelled = json!({"matchLabels": {"limit": "yes"}});
    for (kind, reference, why) in [
        ("ConfigMap", json!({"name": "one"}), denied("at most 1 by one")),
        ("ConfigMap", json!({"name": "two"}), String::new()),
        ("ConfigMap", json!({"name": "none", "namespace": "m"}), denied("at most 0 by none")),
        ("ConfigMap", json!({"selector": labelled}), denied("at most 1 by one")),
        (
            "ConfigMap",
            json!({"selector": {"matchLabels": {"limit": "no"}}, "parameterNotFoundAction": "Allow"}),
            String::new(),
        ),
        ("ConfigMap", json!({"name": "lost", "parameterNotFoundAction": "Allow"}), String::new()),
        (
            "ConfigMap",
            json!({"name": "lost"}),
            denied(
                "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction",
            ),
        ),
        (
            "Odd",
            json!({"name": "lost"}),
            denied("failed to configure binding: failed to find resource referenced by paramKind: 'v1, Kind=Odd'"),
        ),
        (
            "Node",
            json!({"name": "lost", "namespace": "n"}),
            denied(
                "failed to configure binding: paramRef.namespace must not be provided for a cluster-scoped `paramKind`",
            ),
        ),
        ("ConfigMap", json!(null), String::new()),
    ] {
        let mut reference = reference;
        if reference.is_object() && reference["parameterNotFoundAction"].is_null() {
            reference["parameterNotFoundAction"] = json!("Deny");
        }
        let seen = run(write(), of(kind), binding(json!({"paramRef": reference}))).await;
        assert_eq!(seen.message(), why, "{kind} {reference}");
    }
}

#[tokio::test(start_paused = true)]
async fn rules_for_another_version_see_the_object_in_it() {
    let mut policy = policy(json!({"validations": [
        {"expression": "object.apiVersion == 'autoscaling/v1' && request.requestKind.version == 'v2'",
            "messageExpression": "object.apiVersion + ' asked for as ' + request.requestKind.version"},
        {"expression": "object.spec.targetCPUUtilizationPercentage == 50"}]}));
    policy["spec"]["matchConstraints"]["resourceRules"] = json!([
        {"apiGroups": ["autoscaling"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["*"]}]);
    let metric = json!({"type": "Resource", "resource": {"name": "cpu",
        "target": {"type": "Utilization", "averageUtilization": 50}}});
    let scaler = json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "h", "namespace": "n"}, "spec": {"maxReplicas": 3, "metrics": [metric],
        "scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}}});
    let write = Write::create("autoscaling", "horizontalpodautoscalers", scaler).version("v2");
    let write = write.beside("", "namespaces", json!({"metadata": {"name": "n"}}));
    assert_eq!(run(write, policy, binding(json!({}))).await.message(), "");
}

/// Nested loops over lists: each expression has a cost limit, and all of them together.
#[tokio::test(start_paused = true)]
async fn no_policy_thinks_for_ever() {
    let loops = "object.data.all(a, object.data.all(b, object.data.all(c, object.data.all(d, a + b + c + d != ''))))";
    let data: serde_json::Map<String, Value> = (0..500).map(|i| (format!("k{i}"), json!("v"))).collect();
    let one = policy(json!({"validations": [{"expression": loops}]}));
    let seen = run(create(json!(data)), one, binding(json!({}))).await;
    assert_eq!(
        seen.message(),
        denied(&format!("expression '{loops}' resulted in error: operation cancelled: actual cost limit exceeded"))
    );
    let many = policy(json!({"validations": vec![json!({"expression": loops}); 20]}));
    let seen = run(create(json!(data)), many, binding(json!({}))).await;
    assert_eq!(seen.message(), denied(&OutOfBudget.to_string()));
}

#[tokio::test(start_paused = true)]
async fn policies_are_compiled_when_they_change() {
    let plugin = plugin();
    let never = || policy(json!({"validations": [{"expression": "false", "message": "no"}]}));
    let mut compiled = Vec::new();
    for (policy, why) in [
        (never(), denied("no")),
        (policy(json!({"validations": [{"expression": "true"}]})), String::new()),
        (never(), denied("no")),
    ] {
        let seen = under(create(json!({})), policy, binding(json!({}))).run(&plugin).await;
        assert_eq!(seen.message(), why);
    }
    let write = under(create(json!({})), never(), binding(json!({})));
    write
        .see(async |attributes| {
            compiled.push(plugin.source.hooks(attributes.lookup)?);
            compiled.push(plugin.source.hooks(attributes.lookup)?);
            Ok(())
        })
        .await;
    assert!(Arc::ptr_eq(&compiled[0], &compiled[1]));
}

#[tokio::test(start_paused = true)]
async fn checks_are_counted() {
    let env = Env::simulated(1);
    let plugin = ValidatingAdmissionPolicy::new(&env, Arc::new(Nobody));
    let policy = policy(
        json!({"validations": [{"expression": "true"}, {"expression": "false"}, {"expression": "object.x == 1"}]}),
    );
    under(create(json!({})), policy, binding(json!({}))).run(&plugin).await;
    let text = env.metrics().encode();
    for line in [
        r#"apiserver_validating_admission_policy_check_total{enforcement_action="deny",error_type="no_error",policy="p",policy_binding="b"} 1"#,
        r#"apiserver_validating_admission_policy_check_total{enforcement_action="deny",error_type="invalid_error",policy="p",policy_binding="b"} 1"#,
        r#"apiserver_validating_admission_policy_check_duration_seconds_count{enforcement_action="deny",error_type="no_error",policy="p",policy_binding="b"} 1"#,
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
}
