//! The webhook authorizer: sends a SubjectAccessReview to another server and caches the answer.
//!
//! Corresponds to k8s.io/apiserver/plugin/pkg/authorizer/webhook.

use super::attributes::{Attributes, Decision, Verdict};
use super::configuration::{Connection, ReviewVersion, Webhook as Settings};
use super::review_spec;
use component_base::env::Env;
use component_base::metrics::{Counters, Histograms};
use proto::wire::json;
use remote::expiring_cache::ExpiringCache;
use remote::reviewer::Reviewer;
use serde_json::{Value, json};

/// The most cached answers, and the longest question that is cached: clients choose its length. As in Kubernetes.
const MAX_REMEMBERED: usize = 8192;
const MAX_QUESTION_BYTES: usize = 10_000;
const SECONDS: &[f64] = &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

#[derive(Debug)]
pub struct Webhook {
    env: Env,
    name: String,
    settings: Settings,
    reviewer: Reviewer,
    remembered: ExpiringCache<Vec<u8>, Decision>,
    metrics: Meters,
}

#[derive(Debug)]
struct Meters {
    evaluations: Counters,
    durations: Histograms,
    fail_open: Counters,
    exclusions: Counters,
    condition_errors: Counters,
}

impl Meters {
    fn register(env: &Env) -> Self {
        let metrics = env.metrics();
        let counters = |name, help| metrics.counters(name, help);
        Self {
            evaluations: counters(
                "apiserver_authorization_webhook_evaluations_total",
                "Round-trips to authorization webhooks by name and result",
            ),
            durations: metrics.histograms(
                "apiserver_authorization_webhook_duration_seconds",
                "Time of requests to authorization webhooks by name and result",
                SECONDS,
            ),
            fail_open: counters(
                "apiserver_authorization_webhook_evaluations_fail_open_total",
                "Failed requests to authorization webhooks that counted as no opinion, by name and result",
            ),
            exclusions: counters(
                "apiserver_authorization_match_condition_exclusions_total",
                "Requests about which an authorizer was not asked, by its match conditions",
            ),
            condition_errors: counters(
                "apiserver_authorization_match_condition_evaluation_errors_total",
                "Match conditions of authorizers that failed",
            ),
        }
    }
}

impl Webhook {
    pub fn new(env: &Env, name: &str, settings: Settings) -> Result<Self, String> {
        let reviewer = match &settings.connection {
            Connection::File(path) => Reviewer::of_file(env, path)?,
            Connection::InCluster => Reviewer::in_cluster(env)?,
        };
        Ok(Self {
            env: env.clone(),
            name: name.to_owned(),
            settings,
            reviewer,
            remembered: ExpiringCache::new(MAX_REMEMBERED),
            metrics: Meters::register(env),
        })
    }

    pub async fn authorize(&self, attributes: &Attributes<'_>) -> Verdict {
        let spec = review_spec::of(attributes);
        let labels = || vec![("name", self.name.clone()), ("type", "Webhook".to_owned())];
        if !self.settings.conditions.is_empty() {
            match self.settings.conditions.hold(&spec) {
                Ok(true) => {}
                Ok(false) => {
                    self.metrics.exclusions.get_or_create(&labels()).inc();
                    return Verdict::of(Decision::NoOpinion(String::new()));
                }
                Err(why) => {
                    self.metrics.condition_errors.get_or_create(&labels()).inc();
                    return self.failed(why);
                }
            }
        }
        let spec = review_spec::trimmed(&spec);
        let key = json::to_canonical(&spec);
        if let Some(decision) = self.remembered.get(&key, self.env.now()) {
            return Verdict::of(decision);
        }
        let answer = self.review(&spec).await;
        match answer.and_then(|answer| read(&answer)) {
            Ok(decision) => {
                self.remember(attributes, key, &decision);
                Verdict::of(decision)
            }
            Err(why) => self.failed(why),
        }
    }

    /// Returns the cached answer; without one, the webhook counts as failed.
    pub fn remembered(&self, attributes: &Attributes<'_>) -> Verdict {
        let key = json::to_canonical(&review_spec::trimmed(&review_spec::of(attributes)));
        match self.remembered.get(&key, self.env.now()) {
            Some(decision) => Verdict::of(decision),
            None => self.failed("the webhook authorizer cannot be asked here".to_owned()),
        }
    }

    fn failed(&self, error: String) -> Verdict {
        tracing::error!(webhook = %self.name, %error, "failed to make webhook authorizer request");
        let decision = if self.settings.failure_denies {
            Decision::Deny(String::new())
        } else {
            Decision::NoOpinion(String::new())
        };
        Verdict { decision, error }
    }

    async fn review(&self, spec: &Value) -> Result<Value, String> {
        let version = self.settings.version;
        let mut spec = spec.clone();
        if version == ReviewVersion::V1beta1
            && let Some(groups) = spec.as_object_mut().and_then(|spec| spec.remove("groups"))
        {
            spec["group"] = groups;
        }
        let review = json!({
            "apiVersion": format!("authorization.k8s.io/{}", version.name()),
            "kind": "SubjectAccessReview",
            "metadata": {},
            "spec": spec,
        });
        let began = self.env.now();
        let answer = self.reviewer.send(&review, self.settings.timeout).await;
        let result = match &answer {
            Ok(_) => "success",
            Err(why) if why.ends_with("deadline exceeded") => "timeout",
            Err(_) => "error",
        };
        let labels = vec![("name", self.name.clone()), ("result", result.to_owned())];
        self.metrics.evaluations.get_or_create(&labels).inc();
        self.metrics.durations.get_or_create(&labels).observe(began.elapsed().as_secs_f64());
        if answer.is_err() && !self.settings.failure_denies {
            self.metrics.fail_open.get_or_create(&labels).inc();
        }
        answer
    }

    fn remember(&self, attributes: &Attributes<'_>, key: Vec<u8>, decision: &Decision) {
        let Settings { caches_authorized, authorized_ttl, caches_unauthorized, unauthorized_ttl, .. } = self.settings;
        let (caches, ttl) = match decision {
            Decision::Allow(_) => (caches_authorized, authorized_ttl),
            Decision::NoOpinion(_) | Decision::Deny(_) => (caches_unauthorized, unauthorized_ttl),
        };
        if caches && length(attributes) < MAX_QUESTION_BYTES {
            self.remembered.keep(key, decision.clone(), self.env.now(), ttl);
        }
    }
}

/// Returns the length of the parts that the client chooses freely.
fn length(attributes: &Attributes<'_>) -> usize {
    let Attributes {
        verb, namespace, group, version, resource, subresource, name, field_selector, label_selector, ..
    } = attributes;
    let texts = [verb, namespace, group, version, resource, subresource, name, field_selector, label_selector];
    texts.iter().map(|text| text.len()).sum::<usize>() + attributes.path.map_or(0, str::len)
}

fn read(answer: &Value) -> Result<Decision, String> {
    let status = &answer["status"];
    if answer["kind"] != "SubjectAccessReview" || !status.is_object() {
        return Err("the webhook's answer is no SubjectAccessReview".to_owned());
    }
    let says = |key: &str| status[key] == true;
    let reason = status["reason"].as_str().unwrap_or_default().to_owned();
    match (says("allowed"), says("denied")) {
        (true, true) => Err("webhook subject access review returned both allow and deny response".to_owned()),
        (true, false) => Ok(Decision::Allow(reason)),
        (false, true) => Ok(Decision::Deny(reason)),
        (false, false) => Ok(Decision::NoOpinion(reason)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::{Body, to_bytes};
    use component_base::kubeconfig::{self, Connection as To};
    use component_base::network::{HttpService, Network};
    use http::{Request, Response};
    use parking_lot::Mutex;
    use request::UserInfo;
    use std::convert::Infallible;
    use std::sync::Arc;
    use std::time::Duration;

    /// Serves `https://hook:1` with `answer`, and returns the recorded reviews.
    fn serve(env: &Env, answer: impl Fn(&Value) -> Option<Value> + Send + Sync + 'static) -> Arc<Mutex<Vec<Value>>> {
        let asked: Arc<Mutex<Vec<Value>>> = Arc::default();
        let (noted, answer) = (asked.clone(), Arc::new(answer));
        let service = HttpService::new(tower::service_fn(move |request: Request<Body>| {
            let (noted, answer) = (noted.clone(), answer.clone());
            async move {
                assert_eq!(request.uri().path(), "/authorize");
                let bytes = to_bytes(request.into_body(), 1 << 20).await.unwrap();
                let review: Value = serde_json::from_slice(&bytes).unwrap();
                let status = answer(&review);
                noted.lock().push(review.clone());
                let Some(status) = status else { std::future::pending().await };
                let body = json!({"apiVersion": review["apiVersion"], "kind": "SubjectAccessReview", "status": status});
                Ok::<_, Infallible>(Response::new(Body::from(body.to_string())))
            }
        }));
        let Network::InProcess(network) = env.network() else { panic!("simulated") };
        network.register("hook:1", service);
        asked
    }

    fn webhook(env: &Env, denies: bool, version: ReviewVersion) -> Webhook {
        let file = tempfile::NamedTempFile::new().unwrap();
        let to = To { server: "https://hook:1/authorize".to_owned(), ..To::default() };
        kubeconfig::write(file.path(), &to, "hook", "apiserver").unwrap();
        let settings = Settings {
            authorized_ttl: Duration::from_secs(300),
            unauthorized_ttl: Duration::from_secs(30),
            caches_authorized: true,
            caches_unauthorized: true,
            timeout: Duration::from_secs(3),
            version,
            failure_denies: denies,
            connection: Connection::File(file.path().to_owned()),
            conditions: Default::default(),
        };
        Webhook::new(env, "hook", settings).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn answers_are_remembered_for_as_long_as_they_are_good() {
        let env = Env::simulated(1);
        let asked = serve(&env, |review| Some(json!({"allowed": review["spec"]["user"] == "ann", "reason": "so"})));
        let webhook = webhook(&env, false, ReviewVersion::V1);
        let (ann, bob) = (UserInfo::new("ann", &[]), UserInfo::new("bob", &[]));
        for (user, wait_s, decision, questions) in [
            (&ann, 0, Decision::Allow("so".into()), 1),
            (&ann, 299, Decision::Allow("so".into()), 1),
            (&ann, 2, Decision::Allow("so".into()), 2),
            (&bob, 0, Decision::NoOpinion("so".into()), 3),
            (&bob, 29, Decision::NoOpinion("so".into()), 3),
            (&bob, 2, Decision::NoOpinion("so".into()), 4),
        ] {
            env.sleep(Duration::from_secs(wait_s)).await;
            let pods = Attributes::of_resource(user, "list", "", "pods");
            assert_eq!(webhook.authorize(&pods).await, Verdict::of(decision), "{}", user.name);
            assert_eq!(asked.lock().len(), questions);
        }
        // A question that is too long for the cache is sent every time.
        let name = "x".repeat(MAX_QUESTION_BYTES);
        let long = Attributes { name: &name, ..Attributes::of_resource(&ann, "get", "", "pods") };
        webhook.authorize(&long).await;
        webhook.authorize(&long).await;
        assert_eq!(asked.lock().len(), 6);
    }

    #[tokio::test(start_paused = true)]
    async fn a_webhook_that_hangs_lies_or_is_away_fails_as_it_was_told() {
        let ann = UserInfo::new("ann", &["devs"]);
        let pods = Attributes::of_resource(&ann, "list", "", "pods");
        type Answer = fn(&Value) -> Option<Value>;
        let both: Answer = |_| Some(json!({"allowed": true, "denied": true}));
        let nothing: Answer = |_| Some(Value::Null);
        let hangs: Answer = |_| None;
        for (answer, error) in [
            (Some(both), "webhook subject access review returned both allow and deny response"),
            (Some(nothing), "the webhook's answer is no SubjectAccessReview"),
            (Some(hangs), "Post \"https://hook:1/authorize\": context deadline exceeded"),
            (None, "Post \"https://hook:1/authorize\": dial tcp hook:1: connect: connection refused"),
        ] {
            for (denies, decision) in
                [(false, Decision::NoOpinion(String::new())), (true, Decision::Deny(String::new()))]
            {
                let env = Env::simulated(1);
                if let Some(answer) = answer {
                    serve(&env, answer);
                }
                let began = env.now();
                let verdict = webhook(&env, denies, ReviewVersion::V1).authorize(&pods).await;
                assert_eq!(verdict, Verdict { decision, error: error.to_owned() });
                assert!(began.elapsed() <= Duration::from_secs(3));
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_older_version_has_another_word_for_groups() {
        let env = Env::simulated(1);
        let asked = serve(&env, |_| Some(json!({"allowed": false, "denied": true})));
        let ann = UserInfo::new("ann", &["devs"]);
        let path = Attributes::of_path(&ann, "get", "/metrics");
        let verdict = webhook(&env, false, ReviewVersion::V1beta1).authorize(&path).await;
        assert_eq!(verdict, Verdict::of(Decision::Deny(String::new())));
        let spec =
            json!({"user": "ann", "group": ["devs"], "nonResourceAttributes": {"path": "/metrics", "verb": "get"}});
        assert_eq!(asked.lock()[0]["spec"], spec);
        assert_eq!(asked.lock()[0]["apiVersion"], "authorization.k8s.io/v1beta1");
    }
}
