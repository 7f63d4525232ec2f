//! ImagePolicyWebhook: an external server decides by ImageReview whether the images of a pod may run.
//!
//! Corresponds to plugin/pkg/admission/imagepolicy. Off by default, as there; needs a configuration.

use crate::plugins::pod_parts::items;
use crate::{AdmissionPlugin, Attributes};
use async_trait::async_trait;
use component_base::env::Env;
use proto::Status;
use remote::expiring_cache::ExpiringCache;
use remote::reviewer::Reviewer;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

const NOTE: &str = "imagepolicywebhook.image-policy.k8s.io/";
/// Suffix in the keys of pod annotations that are part of the review.
const TOLD_SUFFIX: &str = ".image-policy.k8s.io/";
/// The most cached answers.
const MAX_KEPT: usize = 1024;
/// Timeout of all attempts together.
const LIMIT: Duration = Duration::from_secs(30);

/// The plugin's configuration. Durations are numbers.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct ImagePolicy {
    kube_config_file: PathBuf,
    #[serde(rename = "allowTTL")]
    allow_ttl: i64,
    #[serde(rename = "denyTTL")]
    deny_ttl: i64,
    retry_backoff: i64,
    default_allow: bool,
}

/// Reads a duration: 0 means the default, and -1 means none.
fn duration(
    name: &str,
    unit: Duration,
    value: i64,
    range: [Duration; 2],
    default: Duration,
) -> Result<Duration, String> {
    let [least, most] = range;
    match value {
        -1 => Ok(Duration::ZERO),
        0 => Ok(default),
        value => {
            let wanted = u32::try_from(value).ok().and_then(|count| unit.checked_mul(count));
            let wanted = wanted.filter(|wanted| (least..=most).contains(wanted));
            wanted.ok_or_else(|| format!("{name}: valid value is between {least:?} and {most:?}, got {value}"))
        }
    }
}

const TTL_RANGE: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(30 * 60)];
const BACKOFF_RANGE: [Duration; 2] = [Duration::from_millis(1), Duration::from_secs(5 * 60)];

impl ImagePolicy {
    /// Validates the configuration. The kubeconfig is relative to `folder`.
    pub fn checked(mut self, folder: &Path) -> Result<Self, String> {
        if self.kube_config_file.as_os_str().is_empty() {
            return Err("kubeConfigFile: Required value".to_owned());
        }
        self.kube_config_file = folder.join(&self.kube_config_file);
        self.ttls()?;
        self.backoff()?;
        Ok(self)
    }

    /// Returns the cache times of allowed and of denied images.
    fn ttls(&self) -> Result<[Duration; 2], String> {
        let ttl = |name, value, default_s| {
            duration(name, Duration::from_secs(1), value, TTL_RANGE, Duration::from_secs(default_s))
        };
        Ok([ttl("allowTTL", self.allow_ttl, 300)?, ttl("denyTTL", self.deny_ttl, 30)?])
    }

    fn backoff(&self) -> Result<Duration, String> {
        let default = Duration::from_millis(500);
        duration("retryBackoff", Duration::from_millis(1), self.retry_backoff, BACKOFF_RANGE, default)
    }
}

/// The server's answer.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Verdict {
    allowed: bool,
    reason: String,
    audit_annotations: BTreeMap<String, String>,
}

pub struct ImagePolicyWebhook {
    env: Env,
    reviewer: Reviewer,
    allow_ttl: Duration,
    deny_ttl: Duration,
    default_allow: bool,
    /// Answers by review spec.
    kept: ExpiringCache<String, Verdict>,
}

impl ImagePolicyWebhook {
    pub fn new(env: &Env, policy: &ImagePolicy) -> Result<Self, String> {
        let reviewer = Reviewer::of_file(env, &policy.kube_config_file)?.with_first_pause(policy.backoff()?);
        let [allow_ttl, deny_ttl] = policy.ttls()?;
        let default_allow = policy.default_allow;
        let kept = ExpiringCache::new(MAX_KEPT);
        Ok(Self { env: env.clone(), reviewer, allow_ttl, deny_ttl, default_allow, kept })
    }

    fn keep(&self, question: String, verdict: &Verdict) {
        let ttl = if verdict.allowed { self.allow_ttl } else { self.deny_ttl };
        self.kept.keep(question, verdict.clone(), self.env.now(), ttl);
    }

    async fn review(&self, spec: Value) -> Result<Verdict, String> {
        let question = spec.to_string();
        if let Some(known) = self.kept.get(&question, self.env.now()) {
            return Ok(known);
        }
        let review = json!({"apiVersion": "imagepolicy.k8s.io/v1alpha1", "kind": "ImageReview", "spec": spec});
        let answer = self.reviewer.send(&review, LIMIT).await?;
        let verdict: Verdict = match &answer["status"] {
            Value::Null => Verdict::default(),
            status => serde_json::from_value(status.clone()).map_err(|error| error.to_string())?,
        };
        self.keep(question, &verdict);
        Ok(verdict)
    }
}

/// Returns the spec of the ImageReview; `None` if the write changes no images.
fn spec(attributes: &Attributes<'_>) -> Option<Value> {
    let fields: &[&str] = match attributes.subresource {
        "" => &["/spec/containers", "/spec/initContainers"],
        "ephemeralcontainers" => &["/spec/ephemeralContainers"],
        _ => return None,
    };
    if !attributes.served.group.is_empty() || attributes.served.resource != "pods" {
        return None;
    }
    let pod = attributes.new_object();
    let images = fields.iter().flat_map(|field| items(pod, field));
    let containers: Vec<Value> = images.map(|container| json!({"image": container["image"]})).collect();
    let annotations = pod["metadata"]["annotations"].as_object().into_iter().flatten();
    let told = annotations.filter(|(key, _)| key.contains(TOLD_SUFFIX));
    let told: Map<String, Value> = told.map(|(key, value)| (key.clone(), value.clone())).collect();
    let mut spec = json!({"containers": containers, "namespace": attributes.namespace});
    if !told.is_empty() {
        spec["annotations"] = Value::Object(told);
    }
    Some(spec)
}

#[async_trait]
impl AdmissionPlugin for ImagePolicyWebhook {
    async fn validate(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        let Some(spec) = spec(attributes) else { return Ok(()) };
        let verdict = match self.review(spec).await {
            Ok(verdict) => verdict,
            Err(why) if self.default_allow => {
                tracing::warn!(why, "image policy webhook fails, failing open");
                attributes.annotate(format!("{NOTE}failed-open"), "true");
                return Ok(());
            }
            Err(why) => return Err(attributes.forbidden(why)),
        };
        for (key, value) in &verdict.audit_annotations {
            attributes.annotate(format!("{NOTE}{key}"), value);
        }
        match (verdict.allowed, verdict.reason.as_str()) {
            (true, _) => Ok(()),
            (false, "") => Err(attributes.forbidden("one or more images rejected by webhook backend")),
            (false, why) => {
                Err(attributes.forbidden(format_args!("image policy webhook backend denied one or more images: {why}")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Write;
    use axum::body::{Body, to_bytes};
    use component_base::kubeconfig::{self, Connection};
    use component_base::network::{HttpService, Network};
    use http::{Request, Response};
    use parking_lot::Mutex;
    use std::convert::Infallible;
    use std::sync::Arc;

    /// Returns a plugin whose server denies images named `bad`, and the recorded reviews.
    fn plugin(env: &Env, policy: &Value) -> (ImagePolicyWebhook, Arc<Mutex<Vec<Value>>>) {
        let folder = tempfile::tempdir().unwrap();
        let connection = Connection { server: "https://images/check".to_owned(), ..Connection::default() };
        kubeconfig::write(&folder.path().join("config"), &connection, "images", "apiserver").unwrap();
        let policy: ImagePolicy = serde_json::from_value(policy.clone()).unwrap();
        let plugin = ImagePolicyWebhook::new(env, &policy.checked(folder.path()).unwrap()).unwrap();
        let asked: Arc<Mutex<Vec<Value>>> = Arc::default();
        let seen = asked.clone();
        let Network::InProcess(network) = env.network().clone() else { panic!("it is simulated") };
        let service = HttpService::new(tower::service_fn(move |request: Request<Body>| {
            let seen = seen.clone();
            async move {
                let bytes = to_bytes(request.into_body(), 1 << 20).await.unwrap();
                let review: Value = serde_json::from_slice(&bytes).unwrap();
                let bad = review["spec"]["containers"].as_array().unwrap().iter().any(|c| c["image"] == "bad");
                seen.lock().push(review["spec"].clone());
                let status = json!({"allowed": !bad, "reason": if bad { "it is bad" } else { "" }});
                Ok::<_, Infallible>(Response::new(Body::from(json!({"status": status}).to_string())))
            }
        }));
        network.register("images:443", service.clone());
        network.register("images", service);
        (plugin, asked)
    }

    fn pod(image: &str) -> Write {
        let annotations = json!({"a.image-policy.k8s.io/ticket": "1", "other": "x"});
        let spec =
            json!({"containers": [{"name": "c", "image": image}], "initContainers": [{"name": "i", "image": "init"}]});
        Write::create(
            "",
            "pods",
            json!({"metadata": {"name": "p", "namespace": "n", "annotations": annotations}, "spec": spec}),
        )
    }

    #[tokio::test(start_paused = true)]
    async fn images_are_asked_for_once_in_a_while() {
        let env = Env::simulated(1);
        let (plugin, asked) = plugin(&env, &json!({"kubeConfigFile": "config", "allowTTL": 60, "denyTTL": -1}));
        for _ in 0..2 {
            assert_eq!(pod("good").run(&plugin).await.error, None);
        }
        let question = json!({"containers": [{"image": "good"}, {"image": "init"}], "namespace": "n",
            "annotations": {"a.image-policy.k8s.io/ticket": "1"}});
        assert_eq!(*asked.lock(), [question]);
        env.sleep(Duration::from_secs(61)).await;
        assert_eq!(pod("good").run(&plugin).await.error, None);
        assert_eq!(asked.lock().len(), 2);
        for _ in 0..2 {
            let message = "pods \"p\" is forbidden: image policy webhook backend denied one or more images: it is bad";
            assert_eq!(pod("bad").run(&plugin).await.message(), message);
        }
        assert_eq!(asked.lock().len(), 4, "refusals are not kept");
        assert_eq!(pod("bad").subresource("status").run(&plugin).await.error, None);
    }

    #[tokio::test(start_paused = true)]
    async fn where_nobody_answers_the_default_counts() {
        let env = Env::simulated(1);
        for default_allow in [false, true] {
            let (plugin, _) = plugin(&env, &json!({"kubeConfigFile": "config", "defaultAllow": default_allow}));
            let Network::InProcess(network) = env.network().clone() else { panic!("it is simulated") };
            network.remove("images:443");
            network.remove("images");
            let seen = pod("good").run(&plugin).await;
            assert_eq!(seen.error.is_none(), default_allow, "{}", seen.message());
            let note = seen.annotations.get("imagepolicywebhook.image-policy.k8s.io/failed-open");
            assert_eq!(note.is_some(), default_allow);
        }
    }

    #[test]
    fn times_have_a_range() {
        let policy = |field: &str, value: i64| {
            let policy = json!({"kubeConfigFile": "x", field: value});
            serde_json::from_value::<ImagePolicy>(policy).unwrap().checked(Path::new("/")).map(|_| ())
        };
        assert_eq!(policy("allowTTL", 1800), Ok(()));
        assert_eq!(policy("allowTTL", 1801), Err("allowTTL: valid value is between 1s and 1800s, got 1801".to_owned()));
        assert_eq!(
            policy("retryBackoff", -2),
            Err("retryBackoff: valid value is between 1ms and 300s, got -2".to_owned())
        );
    }
}
