//! ServiceAccount: sets a pod's service account, and mounts its token into the containers.
//!
//! Corresponds to plugin/pkg/admission/serviceaccount.

use crate::plugins::pod_parts::{is_mirror, items, metadata_entry, names_secret, text};
use crate::{AdmissionPlugin, Attributes, Operation};
use async_trait::async_trait;
use cacher::lookup::ObjectKey;
use component_base::env::Env;
use component_base::rng::Random;
use proto::Status;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

const DEFAULT_ACCOUNT: &str = "default";
const MOUNT_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const VOLUME_PREFIX: &str = "kube-api-access-";
const ROOT_CA_CONFIG_MAP: &str = "kube-root-ca.crt";
const ENFORCE_MOUNTABLE_SECRETS: &str = "kubernetes.io/enforce-mountable-secrets";
/// One hour and seven seconds, as in Kubernetes: it distinguishes these tokens from tokens requested for one hour.
const TOKEN_LIFETIME_S: i64 = 3607;
const FILE_MODE: i64 = 0o644;
/// Retries for a namespace's default account, which is created shortly after the namespace.
const DEFAULT_ACCOUNT_ATTEMPTS: usize = 10;
const DEFAULT_ACCOUNT_RETRY: Duration = Duration::from_millis(100);

pub struct ServiceAccount {
    env: Env,
}

impl ServiceAccount {
    pub fn new(env: &Env) -> Self {
        Self { env: env.clone() }
    }

    async fn account(&self, attributes: &Attributes<'_>, name: &str) -> Result<Arc<Value>, Status> {
        let (lookup, namespace) = (attributes.lookup, attributes.namespace);
        let key = ObjectKey::new("", "serviceaccounts", namespace, name);
        if let Some(account) = lookup.get(key)? {
            return Ok(account.value());
        }
        let attempts = if name == DEFAULT_ACCOUNT { DEFAULT_ACCOUNT_ATTEMPTS } else { 1 };
        let pause = attributes.random.jitter(DEFAULT_ACCOUNT_RETRY, 1.0);
        for attempt in 0..attempts {
            if attempt > 0 {
                self.env.sleep(pause).await;
            }
            if let Some(account) = lookup.get_live(key).await? {
                return Ok(account.value());
            }
        }
        Err(attributes.forbidden(format_args!(
            "error looking up service account {namespace}/{name}: serviceaccount \"{name}\" not found"
        )))
    }
}

#[async_trait]
impl AdmissionPlugin for ServiceAccount {
    async fn admit(&self, attributes: &mut Attributes<'_>) -> Result<(), Status> {
        if attributes.operation != Operation::Create || !attributes.is("", "pods") || is_mirror(attributes.new_object())
        {
            return Ok(());
        }
        let name = account_name(attributes.new_object()).to_owned();
        let name = if name.is_empty() { DEFAULT_ACCOUNT.to_owned() } else { name };
        let account = self.account(attributes, &name).await?;
        let random = attributes.random;
        let Some(pod) = attributes.object.as_deref_mut() else { return Ok(()) };
        let spec = &mut pod["spec"];
        spec["serviceAccountName"] = json!(name);
        // The deprecated alias of the field.
        spec["serviceAccount"] = json!(name);
        if automounts(&account, spec) {
            mount_token(spec, random);
        }
        if items(spec, "/imagePullSecrets").next().is_none() {
            let secrets: Vec<Value> = items(&account, "/imagePullSecrets").cloned().collect();
            if !secrets.is_empty() {
                spec["imagePullSecrets"] = Value::Array(secrets);
            }
        }
        Ok(())
    }

    async fn validate(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        let is_pod = attributes.served.resource == "pods" && attributes.served.group.is_empty();
        let pod = attributes.new_object();
        match (attributes.operation, attributes.subresource) {
            (Operation::Create, "") | (Operation::Update, "ephemeralcontainers") if is_pod => {}
            _ => return Ok(()),
        }
        let refuse = |why: String| Err(attributes.forbidden(why));
        if is_mirror(pod) {
            return match mirror_refusal(pod) {
                Some(why) if attributes.operation == Operation::Create => refuse(why.to_owned()),
                _ => Ok(()),
            };
        }
        let name = account_name(pod);
        if name.is_empty() {
            return refuse(format!(
                "no service account specified for pod {}/{}",
                attributes.namespace,
                text(pod, "/metadata/name")
            ));
        }
        let account = self.account(attributes, name).await?;
        let fields: &[(&str, &str)] = match attributes.operation {
            Operation::Create => &[("initContainers", "init container"), ("containers", "container")],
            _ => &[("ephemeralContainers", "ephemeral container")],
        };
        match is_true(metadata_entry(&account, "annotations", ENFORCE_MOUNTABLE_SECRETS)) {
            true => match unreferenced_secret(&account, pod, fields) {
                Some(why) => refuse(why),
                None => Ok(()),
            },
            false => Ok(()),
        }
    }
}

fn account_name(pod: &Value) -> &str {
    match text(pod, "/spec/serviceAccountName") {
        "" => text(pod, "/spec/serviceAccount"),
        name => name,
    }
}

/// Parses a boolean as Go does.
fn is_true(value: Option<&str>) -> bool {
    matches!(value, Some("1" | "t" | "T" | "TRUE" | "true" | "True"))
}

/// Tells whether to mount the token: the pod's `automountServiceAccountToken` first, then the account's; true by default.
fn automounts(account: &Value, spec: &Value) -> bool {
    let said = |value: &Value| value.get("automountServiceAccountToken").and_then(Value::as_bool);
    said(spec).or_else(|| said(account)).unwrap_or(true)
}

fn mount_token(spec: &mut Value, random: &Random) {
    let existing = items(spec, "/volumes").map(|v| text(v, "/name")).find(|name| name.starts_with(VOLUME_PREFIX));
    let (volume, is_there) = match existing {
        Some(name) => (name.to_owned(), true),
        None => (format!("{VOLUME_PREFIX}{}", random.name_suffix(5)), false),
    };
    let mut is_needed = false;
    for field in ["initContainers", "containers"] {
        for container in spec.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten() {
            if items(container, "/volumeMounts").any(|mount| mount["mountPath"] == MOUNT_PATH) {
                continue;
            }
            is_needed = true;
            push(container, "volumeMounts", json!({"name": volume, "readOnly": true, "mountPath": MOUNT_PATH}));
        }
    }
    if is_needed && !is_there {
        push(spec, "volumes", token_volume(&volume));
    }
}

fn push(object: &mut Value, list: &str, item: Value) {
    match object.get_mut(list).and_then(Value::as_array_mut) {
        Some(items) => items.push(item),
        None => object[list] = json!([item]),
    }
}

fn token_volume(name: &str) -> Value {
    json!({"name": name, "projected": {
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": TOKEN_LIFETIME_S, "path": "token"}},
            {"configMap": {"name": ROOT_CA_CONFIG_MAP, "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [
                {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}},
            ]}},
        ],
        "defaultMode": FILE_MODE,
    }})
}

/// Returns why a mirror pod is rejected: it must not refer to API objects.
fn mirror_refusal(pod: &Value) -> Option<&'static str> {
    if !account_name(pod).is_empty() {
        return Some("a mirror pod may not reference service accounts");
    }
    if names_secret(pod) {
        return Some("a mirror pod may not reference secrets");
    }
    let projects_token = items(pod, "/spec/volumes")
        .flat_map(|volume| items(volume, "/projected/sources"))
        .any(|source| source.get("serviceAccountToken").is_some());
    projects_token.then_some("a mirror pod may not use ServiceAccountToken volume projections")
}

/// Returns why an account with `enforce-mountable-secrets` rejects this pod.
fn unreferenced_secret(account: &Value, pod: &Value, fields: &[(&str, &str)]) -> Option<String> {
    let owner = text(account, "/metadata/name");
    let lists = |list: &str, name: &str| items(account, list).any(|secret| text(secret, "/name") == name);
    let missing = |name: &str| !lists("/secrets", name);
    let ends = |kind: &str| format!("is not allowed because service account {owner} does not reference that {kind}");
    let with_pod = fields.iter().any(|(field, _)| *field == "containers");
    if with_pod {
        for volume in items(pod, "/spec/volumes").filter(|volume| volume.get("secret").is_some()) {
            let name = text(volume, "/secret/secretName");
            if missing(name) {
                return Some(format!("volume with secret.secretName=\"{name}\" {}", ends("secret")));
            }
        }
    }
    for (field, what) in fields {
        for container in items(&pod["spec"], &format!("/{field}")) {
            let called = text(container, "/name");
            for variable in items(container, "/env") {
                let name = text(variable, "/valueFrom/secretKeyRef/name");
                if variable.pointer("/valueFrom/secretKeyRef").is_some() && missing(name) {
                    let variable = text(variable, "/name");
                    return Some(format!(
                        "{what} {called} with envVar {variable} referencing secret.secretName=\"{name}\" {}",
                        ends("secret")
                    ));
                }
            }
            for source in items(container, "/envFrom").filter(|source| source.get("secretRef").is_some()) {
                let name = text(source, "/secretRef/name");
                if missing(name) {
                    return Some(format!(
                        "{what} {called} with envFrom referencing secret.secretName=\"{name}\" {}",
                        ends("secret")
                    ));
                }
            }
        }
    }
    if with_pod {
        for (index, secret) in items(pod, "/spec/imagePullSecrets").enumerate() {
            let name = text(secret, "/name");
            if !lists("/imagePullSecrets", name) {
                return Some(format!("imagePullSecrets[{index}].name=\"{name}\" {}", ends("imagePullSecret")));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Outcome, Write};

    fn account(name: &str, more: Value) -> Value {
        let mut account = json!({"metadata": {"name": name, "namespace": "a"}});
        for (key, value) in more.as_object().expect("fields") {
            account[key] = value.clone();
        }
        account
    }

    async fn create(mut pod: Value) -> Outcome {
        pod["metadata"]["name"] = json!("p");
        pod["metadata"]["namespace"] = json!("a");
        let mut strict = account("strict", json!({"secrets": [{"name": "ok"}], "imagePullSecrets": [{"name": "own"}]}));
        strict["metadata"]["annotations"] = json!({ENFORCE_MOUNTABLE_SECRETS: "true"});
        let quiet = json!({"automountServiceAccountToken": false, "imagePullSecrets": [{"name": "pull"}]});
        Write::create("", "pods", pod)
            .beside("", "serviceaccounts", account("default", json!({})))
            .beside("", "serviceaccounts", account("quiet", quiet))
            .beside("", "serviceaccounts", strict)
            .run(&ServiceAccount::new(&Env::simulated(1)))
            .await
    }

    fn mounts(spec: &Value, field: &str) -> Vec<String> {
        items(spec, &format!("/{field}/0/volumeMounts")).map(|m| text(m, "/name").to_owned()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn pods_get_the_default_account_and_its_token() {
        let spec = json!({"containers": [{"name": "c"}], "initContainers": [{"name": "i"}]});
        let spec = create(json!({"spec": spec})).await.passed()["spec"].take();
        assert_eq!((&spec["serviceAccountName"], &spec["serviceAccount"]), (&json!("default"), &json!("default")));
        let volume = &spec["volumes"][0];
        let name = text(volume, "/name");
        assert!(name.strip_prefix("kube-api-access-").is_some_and(|rest| rest.len() == 5), "{name}");
        assert_eq!(volume, &token_volume(name));
        assert_eq!(
            volume["projected"]["sources"][0],
            json!({"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}})
        );
        for field in ["containers", "initContainers"] {
            assert_eq!(
                spec[field][0]["volumeMounts"],
                json!([{"name": name, "readOnly": true, "mountPath": MOUNT_PATH}])
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_container_that_mounts_there_already_keeps_its_mount() {
        let own = json!({"name": "t", "mountPath": MOUNT_PATH});
        let spec =
            json!({"volumes": [{"name": "t", "emptyDir": {}}], "containers": [{"name": "c", "volumeMounts": [own]}]});
        let after = create(json!({"spec": spec})).await.passed()["spec"].take();
        assert_eq!((&after["volumes"], &after["containers"]), (&spec["volumes"], &spec["containers"]));
        let spec = json!({"volumes": [{"name": "kube-api-access-x"}], "containers": [{"name": "c"}]});
        let after = create(json!({"spec": spec})).await.passed()["spec"].take();
        assert_eq!(
            (mounts(&after, "containers"), &after["volumes"]),
            (vec!["kube-api-access-x".into()], &spec["volumes"])
        );
    }

    #[tokio::test(start_paused = true)]
    async fn the_pods_word_counts_before_its_accounts() {
        for (spec, mounted) in [
            (json!({"serviceAccountName": "quiet"}), 0),
            (json!({"serviceAccount": "quiet"}), 0),
            (json!({"serviceAccountName": "quiet", "automountServiceAccountToken": true}), 1),
            (json!({"automountServiceAccountToken": false}), 0),
        ] {
            let mut pod = json!({"spec": spec});
            pod["spec"]["containers"] = json!([{"name": "c"}]);
            let after = create(pod).await.passed();
            assert_eq!(mounts(&after["spec"], "containers").len(), mounted, "{after}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn secrets_to_pull_images_come_from_the_account() {
        let own = json!([{"name": "own"}]);
        for (spec, secrets) in [
            (json!({"serviceAccountName": "quiet"}), json!([{"name": "pull"}])),
            (json!({"serviceAccountName": "quiet", "imagePullSecrets": own}), own),
            (json!({}), Value::Null),
        ] {
            assert_eq!(create(json!({"spec": spec})).await.passed()["spec"]["imagePullSecrets"], secrets);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn refusals() {
        let strict = |more: Value| {
            let mut spec = json!({"serviceAccountName": "strict"});
            for (key, value) in more.as_object().expect("fields") {
                spec[key] = value.clone();
            }
            json!({"spec": spec})
        };
        let mirror =
            |spec: Value| json!({"metadata": {"annotations": {"kubernetes.io/config.mirror": "x"}}, "spec": spec});
        let secret = |name: &str| json!([{"name": "v", "secret": {"secretName": name}}]);
        let env =
            json!([{"name": "c", "env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "no", "key": "k"}}}]}]);
        let env_from = json!([{"name": "c", "envFrom": [{"secretRef": {"name": "no"}}]}]);
        for (pod, why) in [
            (
                json!({"spec": {"serviceAccountName": "missing"}}),
                r#"error looking up service account a/missing: serviceaccount "missing" not found"#,
            ),
            (
                strict(json!({"volumes": secret("no")})),
                r#"volume with secret.secretName="no" is not allowed because service account strict does not reference that secret"#,
            ),
            (
                strict(json!({"initContainers": env})),
                r#"init container c with envVar A referencing secret.secretName="no" is not allowed because service account strict does not reference that secret"#,
            ),
            (
                strict(json!({"containers": env_from})),
                r#"container c with envFrom referencing secret.secretName="no" is not allowed because service account strict does not reference that secret"#,
            ),
            (
                strict(json!({"imagePullSecrets": [{"name": "no"}]})),
                r#"imagePullSecrets[0].name="no" is not allowed because service account strict does not reference that imagePullSecret"#,
            ),
            (mirror(json!({"serviceAccountName": "default"})), "a mirror pod may not reference service accounts"),
            (mirror(json!({"volumes": secret("s")})), "a mirror pod may not reference secrets"),
            (
                mirror(
                    json!({"volumes": [{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]}),
                ),
                "a mirror pod may not use ServiceAccountToken volume projections",
            ),
        ] {
            assert_eq!(create(pod).await.message(), format!(r#"pods "p" is forbidden: {why}"#));
        }
        create(strict(json!({"volumes": secret("ok"), "containers": [{"name": "c"}]}))).await.passed();
        let untouched = mirror(json!({"containers": [{"name": "c"}], "nodeName": "n"}));
        assert_eq!(create(untouched.clone()).await.passed()["spec"], untouched["spec"]);
    }

    #[tokio::test(start_paused = true)]
    async fn the_default_account_is_waited_for() {
        let env = Env::simulated(1);
        let before = env.now();
        let pod = json!({"metadata": {"name": "p", "namespace": "a"}, "spec": {}});
        let seen = Write::create("", "pods", pod).run(&ServiceAccount::new(&env)).await;
        assert_eq!(
            seen.message(),
            r#"pods "p" is forbidden: error looking up service account a/default: serviceaccount "default" not found"#
        );
        assert!(env.now() - before >= DEFAULT_ACCOUNT_RETRY * 9);
    }
}
