//! `WebhookConverter`: converts the custom resources of one definition by its webhook.
//!
//! Corresponds to k8s.io/apiextensions-apiserver/pkg/apiserver/conversion.

use super::definition::Definition;
use super::review::{Review, gvk_text_of, version_of};
use async_trait::async_trait;
use component_base::env::Env;
use component_base::rng::Random;
use proto::Status;
use registry::Registry;
use registry::converter::Converter;
use remote::clients::Clients;
use remote::users::Users;
use remote::webhook::{Webhook, WebhookContext};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

/// Timeout of one request to a webhook.
const TIMEOUT: Duration = Duration::from_secs(30);

pub struct WebhookConverter {
    env: Env,
    random: Random,
    clients: Arc<Clients>,
    webhook: Option<Webhook>,
    /// The version of ConversionReview to send; `None` when this server supports none of the webhook's.
    review_version: Option<String>,
}

impl WebhookConverter {
    /// Returns the converter of a definition; `None` when it does not convert by webhook.
    pub fn of(definition: &Definition<'_>, env: &Env, clients: &Arc<Clients>) -> Option<Arc<dyn Converter>> {
        if definition.conversion() != "Webhook" {
            return None;
        }
        let webhook = &definition.0["spec"]["conversion"]["webhook"];
        let versions = webhook["conversionReviewVersions"].as_array().into_iter().flatten();
        let versions: Vec<&str> = versions.filter_map(Value::as_str).collect();
        Some(Arc::new(Self {
            env: env.clone(),
            random: env.random(&format!("apiserver/conversion/{}", definition.name())),
            clients: clients.clone(),
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
        let is_converted = |object: &Value| object["apiVersion"] == to;
        let (unchanged, remaining): (Vec<_>, Vec<_>) =
            objects.into_iter().enumerate().partition(|(_, o)| is_converted(o));
        if remaining.is_empty() {
            return Ok(unchanged.into_iter().map(|(_, object)| object).collect());
        }
        let (positions, remaining): (Vec<usize>, Vec<Value>) = remaining.into_iter().unzip();
        let (Some(webhook), Some(version)) = (&self.webhook, &self.review_version) else {
            return Err(failure("no supported conversion review versions".to_owned()));
        };
        let (uid, gvk) = (self.random.uid(), gvk_text_of(&remaining[0], is_list));
        let review = Review { version, uid: &uid, to, gvk: &gvk, is_list };
        // The definition names no credentials for its webhook.
        let users = Users::default();
        let context = WebhookContext { env: &self.env, clients: &self.clients, objects: registry, users: &users };
        let response = webhook.call(context, &review.request(&remaining), TIMEOUT).await;
        let response = response.map_err(|why| failure(review.failed(why)))?;
        let converted = review.converted(&response, &remaining).map_err(failure)?;
        let mut all: Vec<(usize, Value)> = unchanged.into_iter().chain(positions.into_iter().zip(converted)).collect();
        all.sort_by_key(|(position, _)| *position);
        Ok(all.into_iter().map(|(_, object)| object).collect())
    }
}
