//! EventRateLimit: limits the rate of Events for the server, a namespace, a user, or one source and object.
//!
//! Corresponds to plugin/pkg/admission/eventratelimit. Off by default, as there; needs a configuration.

use crate::{AdmissionPlugin, Attributes};
use async_trait::async_trait;
use component_base::env::Env;
use parking_lot::Mutex;
use proto::Status;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use tokio::time::Instant;

/// Default `cacheSize`: the most buckets of one limit. The least recently used one is dropped first.
const CACHE_SIZE: usize = 4096;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum LimitType {
    #[default]
    Server,
    Namespace,
    User,
    SourceAndObject,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Limit {
    #[serde(rename = "type")]
    kind: LimitType,
    qps: i32,
    burst: i32,
    cache_size: i32,
}

/// Validates limits; returns the first error.
pub fn check(limits: &[Limit]) -> Result<(), String> {
    if limits.is_empty() {
        return Err("limits: Invalid value: []: must not be empty".to_owned());
    }
    for (index, limit) in limits.iter().enumerate() {
        for (field, value) in [("burst", limit.burst), ("qps", limit.qps)] {
            if value <= 0 {
                return Err(format!("limits[{index}].{field}: Invalid value: {value}: must be positive"));
            }
        }
        if limit.kind != LimitType::Server && limit.cache_size < 0 {
            let size = limit.cache_size;
            return Err(format!("limits[{index}].cacheSize: Invalid value: {size}: must not be negative"));
        }
    }
    Ok(())
}

/// State of one token bucket.
struct Bucket {
    tokens: f64,
    at: Instant,
    /// Position of the bucket in the order of use.
    used: u64,
}

/// The buckets of one limit, by key and by last use.
#[derive(Default)]
struct Buckets {
    by_key: BTreeMap<String, Bucket>,
    by_use: BTreeMap<u64, String>,
    next: u64,
}

impl Buckets {
    /// Takes a token if there is one.
    fn take(&mut self, limit: &Limit, key: &str, now: Instant) -> bool {
        let (burst, qps) = (f64::from(limit.burst), f64::from(limit.qps));
        let used = self.next;
        self.next += 1;
        let fresh = || Bucket { tokens: burst, at: now, used };
        let bucket = self.by_key.entry(key.to_owned()).or_insert_with(fresh);
        bucket.tokens = burst.min(bucket.tokens + qps * now.duration_since(bucket.at).as_secs_f64());
        bucket.at = now;
        let has_one = bucket.tokens >= 1.0;
        if has_one {
            bucket.tokens -= 1.0;
        }
        self.by_use.remove(&bucket.used);
        bucket.used = used;
        self.by_use.insert(used, key.to_owned());
        let size = usize::try_from(limit.cache_size).ok().filter(|size| *size > 0).unwrap_or(CACHE_SIZE);
        while self.by_key.len() > size {
            let Some((_, oldest)) = self.by_use.pop_first() else { break };
            self.by_key.remove(&oldest);
        }
        has_one
    }
}

pub struct EventRateLimit {
    env: Env,
    limits: Vec<(Limit, Mutex<Buckets>)>,
}

impl EventRateLimit {
    pub fn new(env: &Env, limits: &[Limit]) -> Self {
        Self { env: env.clone(), limits: limits.iter().map(|limit| (*limit, Mutex::default())).collect() }
    }
}

fn key(kind: LimitType, attributes: &Attributes<'_>) -> String {
    let event = attributes.new_object();
    match kind {
        LimitType::Server => String::new(),
        LimitType::Namespace => attributes.namespace.to_owned(),
        LimitType::User => attributes.user.name.clone(),
        LimitType::SourceAndObject => {
            let text = |pointer| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
            ["/source/component", "/source/host"]
                .into_iter()
                .chain(["kind", "namespace", "name", "uid", "apiVersion"].map(|field| match field {
                    "kind" => "/involvedObject/kind",
                    "namespace" => "/involvedObject/namespace",
                    "name" => "/involvedObject/name",
                    "uid" => "/involvedObject/uid",
                    _ => "/involvedObject/apiVersion",
                }))
                .map(text)
                .collect()
        }
    }
}

#[async_trait]
impl AdmissionPlugin for EventRateLimit {
    async fn validate(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        if attributes.dry_run || !attributes.is("", "events") {
            return Ok(());
        }
        let now = self.env.now();
        // Each limit takes its token, whatever the others decide.
        let mut reached = Vec::new();
        for (limit, buckets) in &self.limits {
            let key = key(limit.kind, attributes);
            if !buckets.lock().take(limit, &key, now) {
                reached.push(format!("limit reached on type {:?} for key {key}", limit.kind));
            }
        }
        let why = match reached.as_slice() {
            [] => return Ok(()),
            [one] => one.clone(),
            several => format!("[{}]", several.join(", ")),
        };
        Err(Status::failure(429, "TooManyRequests", format!("Too many requests: {why}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Write;
    use serde_json::json;
    use std::time::Duration;

    fn limit(kind: LimitType, qps: i32, burst: i32, cache_size: i32) -> Limit {
        Limit { kind, qps, burst, cache_size }
    }

    async fn is_let(plugin: &EventRateLimit, namespace: &str, user: &str, about: &str) -> bool {
        let event = json!({"metadata": {"name": "e", "namespace": namespace}, "involvedObject": {"name": about}});
        let seen = Write::create("", "events", event).by(user, &[]).run(plugin).await;
        seen.error.as_ref().is_none_or(|refused| {
            assert_eq!((refused.code, refused.reason.as_str()), (429, "TooManyRequests"));
            false
        })
    }

    #[tokio::test(start_paused = true)]
    async fn a_bucket_is_emptied_by_a_burst_and_filled_by_time() {
        let env = Env::simulated(1);
        let plugin = EventRateLimit::new(&env, &[limit(LimitType::Server, 2, 3, 0)]);
        let mut burst = Vec::new();
        for _ in 0..4 {
            burst.push(is_let(&plugin, "a", "ann", "x").await);
        }
        assert_eq!(burst, [true, true, true, false]);
        env.sleep(Duration::from_millis(500)).await;
        assert!(is_let(&plugin, "a", "ann", "x").await);
        assert!(!is_let(&plugin, "a", "ann", "x").await);
    }

    #[tokio::test(start_paused = true)]
    async fn each_type_has_a_bucket_for_each_key() {
        let env = Env::simulated(1);
        for (kind, other) in [
            (LimitType::Server, None),
            (LimitType::Namespace, Some(("b", "ann", "x"))),
            (LimitType::User, Some(("a", "bob", "x"))),
            (LimitType::SourceAndObject, Some(("a", "ann", "y"))),
        ] {
            let plugin = EventRateLimit::new(&env, &[limit(kind, 1, 1, 0)]);
            assert!(is_let(&plugin, "a", "ann", "x").await);
            for (namespace, user, about) in [("b", "ann", "x"), ("a", "bob", "x"), ("a", "ann", "y")] {
                let expected = other == Some((namespace, user, about));
                assert_eq!(
                    is_let(&plugin, namespace, user, about).await,
                    expected,
                    "{kind:?} {namespace} {user} {about}"
                );
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_bucket_that_was_not_used_for_longest_is_forgotten() {
        let plugin = EventRateLimit::new(&Env::simulated(1), &[limit(LimitType::Namespace, 1, 1, 2)]);
        for namespace in ["a", "b", "c"] {
            assert!(is_let(&plugin, namespace, "ann", "x").await);
        }
        assert!(!is_let(&plugin, "c", "ann", "x").await);
        assert!(is_let(&plugin, "a", "ann", "x").await, "it begins anew");
    }
}
