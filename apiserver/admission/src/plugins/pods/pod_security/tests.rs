//! Table tests of pods and the violations at each level.

use super::*;
use crate::testing::{Outcome, Write};
use serde_json::json;

fn namespace_with(labels: &[(&str, &str)]) -> Value {
    let labels: serde_json::Map<String, Value> =
        labels.iter().map(|(key, value)| (format!("pod-security.kubernetes.io/{key}"), json!(value))).collect();
    json!({"metadata": {"name": "a", "labels": labels}})
}

fn pod_of(spec: Value) -> Value {
    json!({"metadata": {"name": "p", "namespace": "a"}, "spec": spec})
}

async fn create(labels: &[(&str, &str)], spec: Value) -> Outcome {
    Write::create("", "pods", pod_of(spec))
        .beside("", "namespaces", namespace_with(labels))
        .run(&PodSecurity::default())
        .await
}

const UNCONFINED: &str = "allowPrivilegeEscalation != false (container \"c\" must set securityContext.allowPrivilegeEscalation=false), \
    unrestricted capabilities (container \"c\" must set securityContext.capabilities.drop=[\"ALL\"])";
const NON_ROOT: &str = "runAsNonRoot != true (pod or container \"c\" must set securityContext.runAsNonRoot=true)";
const SECCOMP: &str = "seccompProfile (pod or container \"c\" must set securityContext.seccompProfile.type to \
    \"RuntimeDefault\" or \"Localhost\")";

/// Returns the spec of one container with this security context.
fn one(context: Value) -> Value {
    json!({"containers": [{"name": "c", "securityContext": context}]})
}

/// Adds fields to a spec.
fn with(mut spec: Value, more: Value) -> Value {
    for (key, value) in more.as_object().expect("fields") {
        spec[key] = value.clone();
    }
    spec
}

#[tokio::test]
async fn baseline() {
    let plain = || one(json!({}));
    for (spec, why) in [
        (with(plain(), json!({"hostNetwork": true})), "host namespaces (hostNetwork=true)"),
        (with(plain(), json!({"hostIPC": true, "hostPID": true})), "host namespaces (hostPID=true, hostIPC=true)"),
        (
            one(json!({"privileged": true})),
            r#"privileged (container "c" must not set securityContext.privileged=true)"#,
        ),
        (
            one(json!({"capabilities": {"add": ["SYS_ADMIN", "CHOWN"]}})),
            r#"non-default capabilities (container "c" must not include "SYS_ADMIN" in securityContext.capabilities.add)"#,
        ),
        (
            json!({"containers": [
                {"name": "c", "ports": [{"hostPort": 80}, {"containerPort": 1}]}, {"name": "d", "ports": [{"hostPort": 443}]},
            ]}),
            r#"hostPort (containers "c", "d" use hostPorts 443, 80)"#,
        ),
        (
            with(
                plain(),
                json!({"volumes": [{"name": "h", "hostPath": {"path": "/"}}, {"name": "e", "emptyDir": {}}]}),
            ),
            r#"hostPath volumes (volume "h")"#,
        ),
        (
            with(
                plain(),
                json!({"securityContext": {
                    "seccompProfile": {"type": "Unconfined"}, "sysctls": [{"name": "kernel.msgmax"}],
                }}),
            ),
            r#"seccompProfile (pod must not set securityContext.seccompProfile.type to "Unconfined"), forbidden sysctls (kernel.msgmax)"#,
        ),
        (
            with(
                one(json!({"seLinuxOptions": {"type": "odd_t", "user": "u"}})),
                json!({"securityContext": {"seLinuxOptions": {"role": "r"}}}),
            ),
            r#"seLinuxOptions (pod and container "c" set forbidden securityContext.seLinuxOptions: type "odd_t"; user may not be set; role may not be set)"#,
        ),
        (
            one(json!({"procMount": "Unmasked"})),
            r#"procMount (container "c" must not set securityContext.procMount to "Unmasked")"#,
        ),
        (
            with(plain(), json!({"securityContext": {"appArmorProfile": {"type": "Unconfined"}}})),
            r#"forbidden AppArmor profile (pod must not set AppArmor profile type to "Unconfined")"#,
        ),
        (
            json!({"containers": [{"name": "c", "livenessProbe": {"httpGet": {"host": "h", "port": 1}}}]}),
            r#"probe or lifecycle host (container "c" uses probe or lifecycle host "h")"#,
        ),
        (
            one(json!({"windowsOptions": {"hostProcess": true}})),
            r#"hostProcess (container "c" must not set securityContext.windowsOptions.hostProcess=true)"#,
        ),
    ] {
        let expected = format!(r#"pods "p" is forbidden: violates PodSecurity "baseline:latest": {why}"#);
        assert_eq!(create(&[("enforce", "baseline")], spec.clone()).await.message(), expected);
        create(&[("enforce", "privileged")], spec).await.passed();
    }
    create(&[("enforce", "baseline")], one(json!({"runAsUser": 0, "runAsNonRoot": true}))).await.passed();
}

#[tokio::test]
async fn restricted() {
    for (spec, why) in [
        (one(json!({})), format!("{UNCONFINED}, {NON_ROOT}, {SECCOMP}")),
        (
            one(json!({"privileged": true})),
            format!(
                r#"privileged (container "c" must not set securityContext.privileged=true), {UNCONFINED}, {NON_ROOT}, {SECCOMP}"#
            ),
        ),
        (
            one(json!({"capabilities": {"add": ["SYS_ADMIN", "CHOWN"]}, "allowPrivilegeEscalation": false})),
            format!(
                r#"unrestricted capabilities (container "c" must set securityContext.capabilities.drop=["ALL"]; container "c" must not include "CHOWN", "SYS_ADMIN" in securityContext.capabilities.add), {NON_ROOT}, {SECCOMP}"#
            ),
        ),
        (
            with(one(json!({})), json!({"volumes": [{"name": "h", "hostPath": {"path": "/"}}]})),
            format!(
                r#"{UNCONFINED}, restricted volume types (volume "h" uses restricted volume type "hostPath"), {NON_ROOT}, {SECCOMP}"#
            ),
        ),
        (
            one(json!({"runAsUser": 0, "runAsNonRoot": true})),
            format!(r#"{UNCONFINED}, runAsUser=0 (container "c" must not set runAsUser=0), {SECCOMP}"#),
        ),
        (
            with(
                one(json!({"runAsNonRoot": false})),
                json!({"securityContext": {"seccompProfile": {"type": "Unconfined"}}}),
            ),
            format!(
                r#"{UNCONFINED}, runAsNonRoot != true (container "c" must not set securityContext.runAsNonRoot=false), seccompProfile (pod must not set securityContext.seccompProfile.type to "Unconfined")"#
            ),
        ),
    ] {
        let expected = format!(r#"pods "p" is forbidden: violates PodSecurity "restricted:latest": {why}"#);
        assert_eq!(create(&[("enforce", "restricted")], spec).await.message(), expected);
    }
    let good = json!({
        "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]},
        "runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"},
    });
    create(&[("enforce", "restricted")], one(good)).await.passed();
}

#[tokio::test]
async fn older_versions_ask_for_less() {
    let spec = json!({"containers": [{"name": "c", "livenessProbe": {"tcpSocket": {"host": "h", "port": 1}}}]});
    create(&[("enforce", "baseline"), ("enforce-version", "v1.33")], spec).await.passed();
    let seen = create(
        &[("enforce", "restricted"), ("enforce-version", "v1.7")],
        one(json!({"capabilities": {"add": ["SYS_TIME"]}})),
    )
    .await;
    assert_eq!(
        seen.message(),
        format!(
            r#"pods "p" is forbidden: violates PodSecurity "restricted:v1.7": non-default capabilities (container "c" must not include "SYS_TIME" in securityContext.capabilities.add), {NON_ROOT}"#
        )
    );
}

#[tokio::test]
async fn warnings_do_not_refuse() {
    let seen = create(&[("warn", "restricted")], one(json!({}))).await;
    let expected = format!(r#"would violate PodSecurity "restricted:latest": {UNCONFINED}, {NON_ROOT}, {SECCOMP}"#);
    assert_eq!((seen.message(), seen.warnings.clone()), ("", vec![expected]));

    let template = json!({"metadata": {"labels": {}}, "spec": {"hostNetwork": true, "containers": [{"name": "c"}]}});
    let deployment = json!({"metadata": {"name": "d", "namespace": "a"}, "spec": {"template": template}});
    let seen = Write::create("apps", "deployments", deployment)
        .beside("", "namespaces", namespace_with(&[("enforce", "baseline")]))
        .run(&PodSecurity::default())
        .await;
    assert_eq!(
        (seen.message(), seen.warnings.clone()),
        ("", vec![r#"would violate PodSecurity "baseline:latest": host namespaces (hostNetwork=true)"#.to_owned()])
    );
}

#[tokio::test]
async fn namespaces_learn_of_pods_that_break_the_new_level() {
    let host = |name: &str| json!({"metadata": {"name": name, "namespace": "a"}, "spec": {"hostNetwork": true}});
    let relabel = |labels: &[(&str, &str)]| {
        Write::update("", "namespaces", namespace_with(&[]), namespace_with(labels)).beside("", "pods", host("bad"))
    };
    let seen = relabel(&[("enforce", "baseline")]).run(&PodSecurity::default()).await;
    assert_eq!(
        (seen.message(), seen.warnings.clone()),
        (
            "",
            vec![
                r#"existing pods in namespace "a" violate the new PodSecurity enforce level "baseline:latest""#
                    .to_owned(),
                "bad: host namespaces".to_owned(),
            ]
        )
    );
    let seen = relabel(&[("enforce", "baseline")]).beside("", "pods", host("worse")).run(&PodSecurity::default()).await;
    assert_eq!(seen.warnings[1], "bad (and 1 other pod): host namespaces");
    assert!(relabel(&[("enforce", "privileged")]).run(&PodSecurity::default()).await.warnings.is_empty());
    let seen = relabel(&[("enforce", "odd")]).run(&PodSecurity::default()).await;
    assert_eq!(
        seen.message(),
        r#"Namespace "a" is invalid: metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: "odd": must be one of privileged, baseline, restricted"#
    );
    // Unchanged invalid labels are accepted.
    let wrong = namespace_with(&[("enforce", "odd")]);
    Write::update("", "namespaces", wrong.clone(), wrong).run(&PodSecurity::default()).await.passed();
}

#[tokio::test]
async fn updates_of_nothing_that_matters_pass() {
    let old = pod_of(json!({"hostNetwork": true, "containers": [{"name": "c", "image": "a"}]}));
    for (pointer, value, is_refused) in [
        ("/metadata/labels", json!({"a": "b"}), false),
        ("/spec/containers/0/image", json!("b"), true),
        ("/spec/ephemeralContainers", json!([{"name": "e", "image": "x"}]), true),
    ] {
        let mut new = old.clone();
        match pointer.rsplit_once('/') {
            Some((parent, key)) => new.pointer_mut(parent).expect("a parent")[key] = value,
            None => unreachable!("every pointer has a parent"),
        }
        let seen = Write::update("", "pods", old.clone(), new)
            .beside("", "namespaces", namespace_with(&[("enforce", "baseline")]))
            .run(&PodSecurity::default())
            .await;
        assert_eq!(seen.error.is_some(), is_refused, "{pointer}");
    }
}

#[tokio::test]
async fn a_configuration_gives_defaults_and_exempts() {
    let configuration = json!({
        "defaults": {"enforce": "baseline"},
        "exemptions": {"usernames": ["root"], "namespaces": ["free"], "runtimeClasses": ["sandbox"]},
    });
    let plugin = PodSecurity::new(&serde_json::from_value(configuration).unwrap());
    let refused = async |namespace: &str, user: &str, labels: Value, class: Value| {
        let spec = json!({"hostNetwork": true, "runtimeClassName": class, "containers": [{"name": "c", "image": "i"}]});
        let pod = json!({"metadata": {"name": "p", "namespace": namespace}, "spec": spec});
        let namespace = json!({"metadata": {"name": namespace, "labels": labels}});
        Write::create("", "pods", pod)
            .by(user, &[])
            .beside("", "namespaces", namespace)
            .run(&plugin)
            .await
            .error
            .is_some()
    };
    let privileged = json!({"pod-security.kubernetes.io/enforce": "privileged"});
    assert!(refused("a", "ann", json!({}), json!(null)).await);
    assert!(!refused("a", "ann", privileged, json!(null)).await);
    assert!(!refused("a", "root", json!({}), json!(null)).await);
    assert!(!refused("free", "ann", json!({}), json!(null)).await);
    assert!(!refused("a", "ann", json!({}), json!("sandbox")).await);
}

/// Audit annotations of a pod, by the labels of its namespace.
#[tokio::test]
async fn what_the_audit_log_is_told() {
    let host = || with(one(json!({})), json!({"hostNetwork": true}));
    let violation = r#"would violate PodSecurity "baseline:latest": host namespaces (hostNetwork=true)"#;
    for (labels, expected) in [
        (&[][..], &[("enforce-policy", "privileged:latest")][..]),
        (&[("audit", "baseline")], &[("audit-violations", violation), ("enforce-policy", "privileged:latest")]),
        // A rejection is annotated as well.
        (
            &[("audit", "baseline"), ("enforce", "baseline"), ("enforce-version", "v1.30")],
            &[("audit-violations", violation), ("enforce-policy", "baseline:v1.30")],
        ),
        (
            &[("audit-version", "new")],
            &[
                ("enforce-policy", "privileged:latest"),
                (
                    "error",
                    r#"Failed to parse policy: metadata.labels[pod-security.kubernetes.io/audit-version]: Invalid value: "new": must be "latest" or "v1.x""#,
                ),
            ],
        ),
    ] {
        let seen = create(labels, host()).await;
        let told: Vec<(&str, &str)> = seen
            .annotations
            .iter()
            .map(|(key, value)| (key.strip_prefix("pod-security.kubernetes.io/").unwrap(), value.as_str()))
            .collect();
        assert_eq!(told, expected, "{labels:?}");
    }
}

#[tokio::test]
async fn the_audit_log_is_told_why_nothing_was_asked() {
    let exempt = json!({"exemptions": {"namespaces": ["a"]}});
    let plugin = PodSecurity::new(&serde_json::from_value(exempt).unwrap());
    let pod = Write::create("", "pods", pod_of(one(json!({"privileged": true}))));
    let seen = pod.beside("", "namespaces", namespace_with(&[("enforce", "baseline")])).run(&plugin).await;
    assert_eq!(seen.error, None);
    assert_eq!(seen.annotations["pod-security.kubernetes.io/exempt"], "namespace");
}

/// A template whose pods would violate the level is allowed and annotated.
#[tokio::test]
async fn templates_are_written_down() {
    let spec = json!({"template": {"metadata": {}, "spec": with(one(json!({})), json!({"hostPID": true}))}});
    let deployment = json!({"metadata": {"name": "d", "namespace": "a"}, "spec": spec});
    let write = Write::create("apps", "deployments", deployment);
    let seen = write
        .beside("", "namespaces", namespace_with(&[("audit", "restricted"), ("enforce", "restricted")]))
        .run(&PodSecurity::default())
        .await;
    assert_eq!(seen.error, None);
    let keys: Vec<&str> = seen.annotations.keys().map(String::as_str).collect();
    assert_eq!(keys, ["pod-security.kubernetes.io/audit-violations"]);
}
