//! Tests of mutations and of policies whose evaluation fails.

use super::*;
use crate::testing::{Outcome, Write};
use access::authz;
use access::authz::{Decision, Verdict as Answer};
use proto::schema::apply_defaults;
use serde_json::json;

struct Nobody;

impl Authorizer for Nobody {
    fn decide(&self, _: &authz::Attributes<'_>) -> Answer {
        Answer::of(Decision::NoOpinion(String::new()))
    }
}

const GROUP: &str = "admissionregistration.k8s.io";

fn patch(expression: &str) -> Value {
    json!({"patchType": "JSONPatch", "jsonPatch": {"expression": expression}})
}

fn configuration(expression: &str) -> Value {
    json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}})
}

fn defaulted(kind: &str, mut object: Value) -> Value {
    apply_defaults(&proto::Gvk::new(GROUP, "v1", kind), &mut object);
    object
}

/// Adds a policy for every write of Pods and ConfigMaps, and a binding without restrictions.
fn under(write: Write, name: &str, mutations: Vec<Value>, further: Value) -> Write {
    let rule = json!({"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["CREATE", "UPDATE"],
        "resources": ["pods", "configmaps"]});
    let mut policy = json!({"metadata": {"name": name}, "spec": {"matchConstraints": {"resourceRules": [rule]},
        "mutations": mutations, "reinvocationPolicy": "Never"}});
    policy["spec"].as_object_mut().unwrap().extend(further.as_object().unwrap().clone());
    let binding = json!({"metadata": {"name": format!("{name}-b")}, "spec": {"policyName": name}});
    write.beside(GROUP, "mutatingadmissionpolicies", defaulted("MutatingAdmissionPolicy", policy)).beside(
        GROUP,
        "mutatingadmissionpolicybindings",
        defaulted("MutatingAdmissionPolicyBinding", binding),
    )
}

fn create() -> Write {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cm", "namespace": "n"},
        "data": {"a": "1"}});
    Write::create("", "configmaps", object).beside("", "namespaces", json!({"metadata": {"name": "n"}}))
}

/// Runs the plugin as the chain does, with a second round if one is needed.
async fn run(write: Write) -> Outcome {
    run_in(&Env::simulated(1), write).await
}

async fn run_in(env: &Env, write: Write) -> Outcome {
    let plugin = MutatingAdmissionPolicy::new(env, Arc::new(Nobody));
    write
        .see(async |attributes| {
            plugin.admit(attributes).await?;
            if attributes.reinvocation.begin_again() {
                plugin.admit(attributes).await?;
            }
            Ok(())
        })
        .await
}

async fn mutated(mutation: Value) -> Result<Value, String> {
    let seen = run(under(create(), "p", vec![mutation], json!({}))).await;
    match seen.error {
        None => Ok(seen.object),
        Some(error) => Err(error.message.replace("policy 'p' with binding 'p-b' denied request: ", "")),
    }
}

#[tokio::test(start_paused = true)]
async fn patches_are_carried_out() {
    let with = |data: Value, labels: Value| {
        let mut object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cm", "namespace": "n"}});
        for (place, value) in [("/metadata", ("labels", labels)), ("", ("data", data))] {
            if !value.1.is_null() {
                object.pointer_mut(place).unwrap()[value.0] = value.1;
            }
        }
        Ok(object)
    };
    for (expression, wanted) in [
        ("[JSONPatch{op: 'add', path: '/data/n', value: object.metadata.name}]", with(json!({"a": "1", "n": "cm"}), json!(null))),
        ("[JSONPatch{op: 'remove', path: '/data/a'}]", with(json!(null), json!(null))),
        (
            "[JSONPatch{op: 'add', path: '/metadata/labels', value: {}}, JSONPatch{op: 'add', path: '/metadata/labels/' + \
             jsonpatch.escapeKey('a/b'), value: 'x'}]",
            with(json!({"a": "1"}), json!({"a/b": "x"})),
        ),
        (
            "[JSONPatch{op: 'add', path: '/data/b', value: ''}, JSONPatch{op: 'test', path: '/data/a', value: '2'}]",
            with(json!({"a": "1"}), json!(null)),
        ),
        ("object.data.a == '2' ? [JSONPatch{op: 'remove', path: '/data'}] : []", with(json!({"a": "1"}), json!(null))),
        (
            "[JSONPatch{op: 'remove', path: '/data/a/b'}]",
            Err(r#"JSON Patch: remove operation does not apply: doc is missing path: "/data/a/b": missing value"#.to_owned()),
        ),
        (
            "[JSONPatch{op: 'add', path: '/odd', value: 1}]",
            Err("strict decoding error: unknown field \"odd\"".to_owned()),
        ),
        (
            "[JSONPatch{op: 'add', path: object.nothing, value: 1}]",
            Err("expression '[JSONPatch{op: 'add', path: object.nothing, value: 1}]' resulted in error: no such key: nothing"
                .to_owned()),
        ),
    ] {
        assert_eq!(mutated(patch(expression)).await, wanted, "{expression}");
    }
}

#[tokio::test(start_paused = true)]
async fn configurations_are_laid_over() {
    let labelled = mutated(configuration("Object{metadata: Object.metadata{labels: {'team': 'a'}}, data: {'b': '2'}}"));
    let object = labelled.await.unwrap();
    assert_eq!(object["metadata"]["labels"], json!({"team": "a"}));
    assert_eq!(object["data"], json!({"a": "1", "b": "2"}));
    assert_eq!(
        mutated(configuration("Object{metadata: Object.spec{labels: {'team': 'a'}}}")).await.unwrap_err(),
        "type mismatch: unexpected type name \"Object.spec\", expected \"Object.metadata\", which matches field name path \
         from root Object type"
    );
    assert!(mutated(configuration("Object{immutable: 'x'}")).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn lists_merge_by_their_keys_and_atomic_ones_are_left_alone() {
    let pod = || {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "n"},
            "spec": {"containers": [{"name": "main", "image": "i"}]}});
        Write::create("", "pods", pod).beside("", "namespaces", json!({"metadata": {"name": "n"}}))
    };
    let side = configuration(
        "Object{spec: Object.spec{containers: [Object.spec.containers{name: 'side', image: 's'}, \
         Object.spec.containers{name: 'main', command: ['x']}]}}",
    );
    let seen = run(under(pod(), "p", vec![side], json!({}))).await;
    assert_eq!(
        seen.message(),
        "policy 'p' with binding 'p-b' denied request: error applying patch: invalid ApplyConfiguration: may not mutate \
         atomic arrays, maps or structs: .spec.containers[1].command"
    );
    let side =
        configuration("Object{spec: Object.spec{containers: [Object.spec.containers{name: 'side', image: 's'}]}}");
    let seen = run(under(pod(), "p", vec![side], json!({}))).await.passed();
    let names: Vec<&Value> = seen["spec"]["containers"].as_array().unwrap().iter().map(|c| &c["name"]).collect();
    assert_eq!(names, ["main", "side"]);
}

#[tokio::test(start_paused = true)]
async fn each_mutation_sees_what_was_made_before_it() {
    let two = vec![
        patch("[JSONPatch{op: 'add', path: '/data/b', value: '2'}]"),
        patch("[JSONPatch{op: 'add', path: '/data/c', value: object.data.b}]"),
    ];
    let seen = run(under(create(), "p", two, json!({}))).await.passed();
    assert_eq!(seen["data"], json!({"a": "1", "b": "2", "c": "2"}));
}

#[tokio::test(start_paused = true)]
async fn policies_that_want_it_are_asked_again_when_others_have_changed_the_object() {
    let copies =
        || vec![patch("'b' in object.data ? [JSONPatch{op: 'add', path: '/data/c', value: object.data.b}] : []")];
    let adds = || vec![patch("[JSONPatch{op: 'add', path: '/data/b', value: '2'}]")];
    for (reinvocation, wanted) in
        [("Never", json!({"a": "1", "b": "2"})), ("IfNeeded", json!({"a": "1", "b": "2", "c": "2"}))]
    {
        let write = under(create(), "first", copies(), json!({"reinvocationPolicy": reinvocation}));
        let seen = run(under(write, "second", adds(), json!({}))).await.passed();
        assert_eq!(seen["data"], wanted, "{reinvocation}");
    }
}

#[tokio::test(start_paused = true)]
async fn failures_follow_the_failure_policy_and_conditions_choose() {
    let broken = || vec![patch("[JSONPatch{op: 'add', path: object.nothing}]")];
    let seen = run(under(create(), "p", broken(), json!({"failurePolicy": "Ignore"}))).await;
    assert_eq!(seen.passed()["data"], json!({"a": "1"}));
    let never = json!({"matchConditions": [{"name": "c", "expression": "object.metadata.name != 'cm'"}]});
    assert_eq!(run(under(create(), "p", broken(), never)).await.message(), "");
    let error = run(under(create(), "p", broken(), json!({}))).await.error.unwrap();
    assert_eq!((error.code, error.reason.as_str()), (403, "Invalid"));
}

#[tokio::test(start_paused = true)]
async fn mutations_are_counted() {
    let env = Env::simulated(1);
    let at = |path: &str| patch(&format!("[JSONPatch{{op: 'add', path: {path}, value: 'x'}}]"));
    let mutations = vec![at("'/data/b'"), at("object.nothing")];
    run_in(&env, under(create(), "p", mutations, json!({}))).await;
    let text = env.metrics().encode();
    for error in ["no_error", "invalid_error"] {
        let labels = format!(r#"{{error_type="{error}",policy="p",policy_binding="p-b"}} 1"#);
        for name in ["check_total", "check_duration_seconds_count"] {
            let line = format!("apiserver_mutating_admission_policy_{name}{labels}");
            assert!(text.contains(&line), "{line}\n{text}");
        }
    }
}
