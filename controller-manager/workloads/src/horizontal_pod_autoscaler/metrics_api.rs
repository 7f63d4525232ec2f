//! Reads metrics from the aggregated APIs `metrics.k8s.io`, `custom.metrics.k8s.io` and `external.metrics.k8s.io`.
//!
//! Corresponds to pkg/controller/podautoscaler/metrics/client.go and to the clients of k8s.io/metrics.

use super::samples::{self, Reading};
use crate::selector_text;
use client::request::{Call, Target};
use client::{Client, Error, ListOptions};
use controller_base::discovery::Discovered;
use http::Method;
use proto::Gvr;
use proto::gvk::split_api_version;
use proto::kinds::api::autoscaling::v2::{CrossVersionObjectReference, MetricIdentifier, MetricSpec};
use proto::meta::label_selector;
use serde_json::Value;

const CUSTOM: &str = "custom.metrics.k8s.io";
const EXTERNAL: &str = "external.metrics.k8s.io";
/// Versions of the custom metrics API that this client speaks.
const CUSTOM_VERSIONS: &[&str] = &["v1beta2", "v1beta1"];

/// The place of one autoscaler's metrics.
pub struct MetricsApi<'a> {
    pub client: &'a Client,
    pub discovered: &'a Discovered,
    pub namespace: &'a str,
    /// Selector of the target's pods.
    pub pods: &'a str,
}

impl MetricsApi<'_> {
    /// Reads one metric. Fails with the reason, in the original's words.
    pub async fn read(&self, spec: &MetricSpec) -> Result<Reading, String> {
        let now = self.client.env().wall();
        let reading = self.request(spec).await.and_then(|reading| reading.checked(now));
        reading.map_err(|error| format!("unable to get {}: {error}", self.name(spec)))
    }

    /// Returns the name of a metric in errors.
    fn name(&self, spec: &MetricSpec) -> String {
        let namespace = self.namespace;
        let container = spec.container_resource.as_ref().map(|source| &source.name);
        if let Some(resource) = spec.resource.as_ref().map(|source| &source.name).or(container) {
            format!("metrics for resource {resource}")
        } else if let Some(source) = &spec.object {
            let CrossVersionObjectReference { kind, name, .. } = &source.described_object;
            format!("metric {} on {kind} {namespace}/{name}", source.metric.name)
        } else if let Some(MetricIdentifier { name, selector }) = spec.external.as_ref().map(|source| &source.metric) {
            let selector = selector.as_ref().map_or("nil".to_owned(), selector_text::as_go_prints);
            format!("external metric {namespace}/{name}/{selector}")
        } else {
            format!("metric {}", spec.pods.as_ref().map_or("", |source| &source.metric.name))
        }
    }

    async fn request(&self, spec: &MetricSpec) -> Result<Reading, String> {
        if let Some(source) = &spec.resource {
            self.resource(&source.name, None).await
        } else if let Some(source) = &spec.container_resource {
            self.resource(&source.name, Some(&source.container)).await
        } else if let Some(source) = &spec.pods {
            let items = self.custom("pods", Some("*"), &source.metric).await?;
            not_empty(&items, "custom")?;
            samples::of_pods(&items).map(Reading::Pods).map_err(unable("custom"))
        } else if let Some(source) = &spec.object {
            self.object(&source.described_object, &source.metric).await
        } else if let Some(source) = &spec.external {
            self.external(&source.metric).await
        } else {
            Err("the metric names no source".to_owned())
        }
    }

    async fn resource(&self, name: &str, container: Option<&str>) -> Result<Reading, String> {
        let gvr = Gvr::new("metrics.k8s.io", "v1beta1", "pods");
        let list = self.client.dynamic(&gvr, self.namespace).list(&ListOptions::labels(self.pods)).await;
        let list = list.map_err(|error| described(&error, "pods.metrics.k8s.io")).map_err(unable("resource"))?;
        not_empty(&list.items, "resource")?;
        samples::of_resource(&list.items, name, container).map(Reading::Pods).map_err(unable("resource"))
    }

    async fn object(&self, object: &CrossVersionObjectReference, metric: &MetricIdentifier) -> Result<Reading, String> {
        let group = split_api_version(object.api_version.as_deref().unwrap_or_default()).0;
        let items = if group.is_empty() && object.kind == "Namespace" {
            self.custom("metrics", None, metric).await?
        } else {
            let is_named = |gvk: &proto::Gvk| gvk.group == group && gvk.kind == object.kind;
            let found = self.discovered.preferred().find(|resource| is_named(&resource.gvk));
            let unknown = || {
                let kind = if group.is_empty() { object.kind.clone() } else { format!("{}.{group}", object.kind) };
                format!(
                    "unable to map kind {kind} to resource: no matches for kind {:?} in group {group:?}",
                    object.kind
                )
            };
            let resource = found.ok_or_else(unknown).map_err(unable("custom"))?.gvr.qualified_resource();
            self.custom(&resource, Some(&object.name), metric).await?
        };
        if items.len() != 1 {
            let count = items.len();
            return Err(unable("custom")(format!(
                "the custom metrics API server returned {count} results when we asked for exactly one"
            )));
        }
        samples::values(&items).map(Reading::Values).map_err(unable("custom"))
    }

    /// Reads a metric of the objects of a resource: of one, or of those that the pods' selector selects. Without a name,
    /// the metric is the namespace's own.
    async fn custom(
        &self,
        resource: &str,
        name: Option<&str>,
        metric: &MetricIdentifier,
    ) -> Result<Vec<Value>, String> {
        let version = self.version(CUSTOM, CUSTOM_VERSIONS).map_err(unable("custom"))?;
        let mut target = self.collection(CUSTOM, version).segment(resource);
        if let Some(name) = name {
            target = target.segment(name);
        }
        target = target.segment(&metric.name);
        if name == Some("*") {
            target = target.query("labelSelector", self.pods);
        }
        let selector = selector_text(metric)?;
        let target = target.query("metricLabelSelector", &selector).into_string();
        self.items(target, &format!("{resource}.{CUSTOM}")).await.map_err(unable("custom"))
    }

    async fn external(&self, metric: &MetricIdentifier) -> Result<Reading, String> {
        let target = self.collection(EXTERNAL, "v1beta1").segment(&metric.name);
        let target = target.query("labelSelector", &selector_text(metric)?).into_string();
        let items = self.items(target, &format!("{}.{EXTERNAL}", metric.name)).await.map_err(unable("external"))?;
        not_empty(&items, "external")?;
        samples::values(&items).map(Reading::Values).map_err(unable("external"))
    }

    fn collection(&self, group: &str, version: &str) -> Target {
        Target::new(format!("/apis/{group}/{version}/namespaces/{}", self.namespace))
    }

    async fn items(&self, target: String, resource: &str) -> Result<Vec<Value>, String> {
        let bytes =
            self.client.call(&Call::new(Method::GET, target)).await.map_err(|error| described(&error, resource))?;
        let list: Value = serde_json::from_slice(&bytes).map_err(|error| error.to_string())?;
        Ok(list["items"].as_array().cloned().unwrap_or_default())
    }

    /// Returns the version of a group that the server prefers among those that this client speaks.
    fn version(&self, group: &str, known: &[&'static str]) -> Result<&'static str, String> {
        let served = self.discovered.versions.get(group);
        let served = served.ok_or_else(|| format!("no custom metrics API ({group}) registered"))?;
        let preferred = served.iter().find_map(|version| known.iter().find(|known| *known == version));
        preferred.copied().ok_or_else(|| "no known available metric versions found".to_owned())
    }
}

fn selector_text(metric: &MetricIdentifier) -> Result<String, String> {
    label_selector::from_typed(metric.selector.as_ref()).map(|selector| selector.to_string())
}

fn unable(api: &'static str) -> impl Fn(String) -> String {
    move |error| format!("unable to fetch metrics from {api} metrics API: {error}")
}

fn not_empty(items: &[Value], api: &str) -> Result<(), String> {
    if items.is_empty() { Err(format!("no metrics returned from {api} metrics API")) } else { Ok(()) }
}

/// Returns the text of an error. An answer that is no Status, as without an API server behind the group, is described as
/// client-go describes it.
fn described(error: &Error, resource: &str) -> String {
    match error.code() {
        404 if error.to_string().starts_with("404 ") => {
            format!("the server could not find the requested resource (get {resource})")
        }
        503 => format!("the server is currently unable to handle the request (get {resource})"),
        _ => error.to_string(),
    }
}
