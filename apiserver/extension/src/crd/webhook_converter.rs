//! `WebhookConverter`: objects of one definition, converted by the server that it names.
//!
//! Corresponds to k8s.io/apiextensions-apiserver/pkg/apiserver/conversion.

use super::definition::Definition;
use super::review::{Review, version_of, words_of};
use async_trait::async_trait;
use component_base::env::Env;
use component_base::rng::Random;
use proto::Status;
use registry::Registry;
use registry::converter::Converter;
use remote::callers::Callers;
use remote::users::Users;
use remote::webhook::{Webhook, WebhookContext};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

/// How long a webhook may take.
const LIMIT: Duration = Duration::from_secs(30);

pub struct WebhookConverter {
    env: Env,
    random: Random,
    callers: Arc<Callers>,
    webhook: Option<Webhook>,
    /// The form in which it wants to be asked.
    review_version: Option<String>,
}

impl WebhookConverter {
    /// `None` for a definition that asks for no webhook.
    pub fn of(definition: &Definition<'_>, env: &Env, callers: &Arc<Callers>) -> Option<Arc<dyn Converter>> {
        if definition.conversion() != "Webhook" {
            return None;
        }
        let webhook = &definition.0["spec"]["conversion"]["webhook"];
        let versions = webhook["conversionReviewVersions"].as_array().into_iter().flatten();
        let versions: Vec<&str> = versions.filter_map(Value::as_str).collect();
        Some(Arc::new(Self {
            env: env.clone(),
            random: env.random(&format!("apiserver/conversion/{}", definition.name())),
            callers: callers.clone(),
            webhook: Webhook::read(&webhook["clientConfig"]),
            review_version: version_of(&versions).map(str::to_owned),
        }))
    }
}

#[async_trait]
impl Converter for WebhookConverter {
    async fn convert(
        &self,
        registry: &Registry,
        objects: Vec<Value>,
        to: &str,
        is_list: bool,
    ) -> Result<Vec<Value>, Status> {
        let failure = |message: String| Status::failure(500, "", message);
        let is_there = |object: &Value| object["apiVersion"] == to;
        let (there, other): (Vec<_>, Vec<_>) = objects.into_iter().enumerate().partition(|(_, o)| is_there(o));
        if other.is_empty() {
            return Ok(there.into_iter().map(|(_, object)| object).collect());
        }
        let (places, other): (Vec<usize>, Vec<Value>) = other.into_iter().unzip();
        let (Some(webhook), Some(version)) = (&self.webhook, &self.review_version) else {
            return Err(failure("no supported conversion review versions".to_owned()));
        };
        let (uid, what) = (self.random.uid(), words_of(&other[0], is_list));
        let review = Review { version, uid: &uid, to, what: &what, is_list };
        // Nobody says as whom to ask; the certificate of the webhook alone is looked at.
        let users = Users::default();
        let context = WebhookContext { env: &self.env, callers: &self.callers, objects: registry, users: &users };
        let response = webhook.ask(context, &review.request(&other), LIMIT).await;
        let response = response.map_err(|why| failure(review.failed(why)))?;
        let converted = review.converted(&response, &other).map_err(failure)?;
        let mut all: Vec<(usize, Value)> = there.into_iter().chain(places.into_iter().zip(converted)).collect();
        all.sort_by_key(|(place, _)| *place);
        Ok(all.into_iter().map(|(_, object)| object).collect())
    }
}
