//! `Hook`: one webhook of a configuration, compiled.
//!
//! Corresponds to WebhookAccessor of k8s.io/apiserver/pkg/admission/plugin/webhook.

use super::review;
use crate::dynamic::expressions::MatchConditions;
use crate::dynamic::matching::MatchResources;
use cel::admission::MATCH_CONDITION;
use remote::webhook::Webhook;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

#[derive(Debug)]
pub struct Hook {
    /// The name of its configuration.
    pub configuration: String,
    pub name: String,
    /// Identifies the webhook, also among webhooks of the same name.
    pub uid: String,
    pub matching: MatchResources,
    pub conditions: MatchConditions,
    /// `None` if the configuration has neither service nor URL, which validation excludes.
    pub webhook: Option<Webhook>,
    /// The AdmissionReview version that it accepts.
    pub review_version: Option<&'static str>,
    pub ignores_failures: bool,
    pub reinvoked_if_needed: bool,
    pub supports_dry_run: bool,
    pub limit: Duration,
}

/// Timeout for a configuration that was stored before `timeoutSeconds` had a default.
const LIMIT_S: u64 = 10;

/// Compiles the webhooks of all configurations, in the order of their names.
pub fn read_all(configurations: &[Arc<Value>]) -> Vec<Hook> {
    configurations.iter().flat_map(|configuration| read(configuration)).collect()
}

fn read(configuration: &Value) -> Vec<Hook> {
    let name = configuration.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    let webhooks = configuration["webhooks"].as_array().into_iter().flatten();
    let hooks = webhooks.map(|webhook| {
        let count = seen.entry(webhook["name"].as_str().unwrap_or_default()).or_default();
        let hook = Hook::read(name, webhook, *count);
        *count += 1;
        hook
    });
    hooks.collect()
}

impl Hook {
    fn read(configuration: &str, webhook: &Value, count: usize) -> Self {
        let name = webhook["name"].as_str().unwrap_or_default().to_owned();
        Self {
            configuration: configuration.to_owned(),
            uid: format!("{configuration}/{name}/{count}"),
            name,
            matching: MatchResources::of_webhook(webhook),
            conditions: MatchConditions::compile(&webhook["matchConditions"], &MATCH_CONDITION),
            webhook: Webhook::read(&webhook["clientConfig"]),
            review_version: review::version_of(&webhook["admissionReviewVersions"]),
            ignores_failures: webhook["failurePolicy"] == "Ignore",
            reinvoked_if_needed: webhook["reinvocationPolicy"] == "IfNeeded",
            supports_dry_run: webhook["sideEffects"] == "None" || webhook["sideEffects"] == "NoneOnDryRun",
            limit: Duration::from_secs(webhook["timeoutSeconds"].as_u64().unwrap_or(LIMIT_S)),
        }
    }
}
