//! Discovers the resources that the API server serves, with their kinds and verbs.
//!
//! Corresponds to ServerPreferredResources in k8s.io/client-go/discovery, over aggregated discovery.

use bytes::Bytes;
use client::request::Call;
use client::{Client, Error};
use component_base::http::{Body, read_all};
use http::header::ETAG;
use http::{HeaderValue, Method, Response, StatusCode};
use proto::{Gvk, Gvr};
use serde::Deserialize;
use std::collections::BTreeMap;

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";

/// One resource in one version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiResource {
    pub gvr: Gvr,
    pub gvk: Gvk,
    pub is_namespaced: bool,
    pub verbs: Vec<String>,
    /// Short names, such as `cm` and `po`.
    pub short_names: Vec<String>,
    /// Names of its subresources: `status`, `scale`, ….
    pub subresources: Vec<String>,
    /// True for the first version of the group that serves the resource.
    pub is_preferred: bool,
}

impl ApiResource {
    pub fn has_verbs(&self, verbs: &[&str]) -> bool {
        verbs.iter().all(|verb| self.verbs.iter().any(|own| own == verb))
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Discovered {
    /// Sorted by group and resource, the preferred version of each first.
    pub resources: Vec<ApiResource>,
    /// Versions of each group, the preferred one first. A group may serve no resource at present.
    pub versions: BTreeMap<String, Vec<String>>,
    /// `group/version` of the groups whose aggregated API server does not answer.
    pub stale: Vec<String>,
}

impl Discovered {
    pub fn preferred(&self) -> impl Iterator<Item = &ApiResource> {
        self.resources.iter().filter(|resource| resource.is_preferred)
    }
}

#[derive(Deserialize)]
struct GroupList {
    items: Vec<Group>,
}

#[derive(Deserialize)]
struct Group {
    #[serde(default)]
    metadata: GroupMeta,
    #[serde(default)]
    versions: Vec<Version>,
}

#[derive(Default, Deserialize)]
struct GroupMeta {
    #[serde(default)]
    name: String,
}

#[derive(Deserialize)]
struct Version {
    version: String,
    #[serde(default)]
    freshness: String,
    #[serde(default)]
    resources: Vec<Resource>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Resource {
    resource: String,
    response_kind: Option<ResponseKind>,
    #[serde(default)]
    scope: String,
    #[serde(default)]
    verbs: Vec<String>,
    #[serde(default)]
    short_names: Vec<String>,
    #[serde(default)]
    subresources: Vec<Subresource>,
}

#[derive(Deserialize)]
struct Subresource {
    subresource: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ResponseKind {
    group: String,
    version: String,
    kind: String,
}

/// Paths of the aggregated discovery documents.
const PATHS: [&str; 2] = ["/api", "/apis"];
/// Most bytes of one of them; a resource has some hundreds.
const MAX_DOCUMENT_BYTES: usize = 64 << 20;

/// Asks the server for its aggregated discovery documents.
pub async fn discover(client: &Client) -> Result<Discovered, Error> {
    read(&fetch(client, &[]).await?)
}

/// Discovery that is repeated. A document that is the same as the last time is not sent, as with the cache of client-go's
/// discovery, and they are read only if one has changed.
#[derive(Default)]
pub struct Rediscovery {
    known: Vec<Document>,
}

/// A document and its ETag.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Document {
    tag: Option<HeaderValue>,
    bytes: Bytes,
}

impl Rediscovery {
    /// Asks the server again. Returns `None` if nothing has changed since the last answer.
    pub async fn changed(&mut self, client: &Client) -> Result<Option<Discovered>, Error> {
        let documents = fetch(client, &self.known).await?;
        if documents == self.known {
            return Ok(None);
        }
        let discovered = read(&documents)?;
        self.known = documents;
        Ok(Some(discovered))
    }
}

async fn fetch(client: &Client, known: &[Document]) -> Result<Vec<Document>, Error> {
    let mut documents = Vec::new();
    for (index, path) in PATHS.into_iter().enumerate() {
        let before = known.get(index);
        let tag = before.and_then(|document| document.tag.clone());
        let answer = client.call_streaming(&Call::new(Method::GET, path).accept(AGGREGATED).unless(tag)).await?;
        documents.push(match before {
            Some(document) if answer.status() == StatusCode::NOT_MODIFIED => document.clone(),
            _ => Document { tag: answer.headers().get(ETAG).cloned(), bytes: whole(answer, path).await? },
        });
    }
    Ok(documents)
}

async fn whole(answer: Response<Body>, path: &str) -> Result<Bytes, Error> {
    let read = read_all(answer.into_body(), MAX_DOCUMENT_BYTES).await;
    read.map_err(|error| Error::Lost(format!("GET {path}: {error}")))
}

fn read(documents: &[Document]) -> Result<Discovered, Error> {
    let mut discovered = Discovered::default();
    for (path, Document { bytes, .. }) in PATHS.into_iter().zip(documents) {
        let undecodable = |error| Error::Decode(format!("GET {path}: no aggregated discovery: {error}"));
        discovered.add(serde_json::from_slice(bytes).map_err(undecodable)?);
    }
    let key =
        |resource: &ApiResource| (resource.gvr.group.clone(), resource.gvr.resource.clone(), !resource.is_preferred);
    discovered.resources.sort_by_cached_key(key);
    Ok(discovered)
}

impl Discovered {
    fn add(&mut self, groups: GroupList) {
        for Group { metadata, versions } in groups.items {
            let group = metadata.name;
            for version in versions {
                self.versions.entry(group.clone()).or_default().push(version.version.clone());
                if version.freshness == "Stale" {
                    self.stale.push(proto::gvk::api_version(&group, &version.version));
                }
                for resource in version.resources {
                    self.add_resource(&group, &version.version, resource);
                }
            }
        }
    }

    fn add_resource(&mut self, group: &str, version: &str, resource: Resource) {
        let kind = resource.response_kind.unwrap_or_default();
        // An empty group or version of the kind means the resource's own.
        let or = |own: String, other: &str| if own.is_empty() { other.to_owned() } else { own };
        let is_known =
            self.resources.iter().any(|known| known.gvr.group == group && known.gvr.resource == resource.resource);
        self.resources.push(ApiResource {
            gvr: Gvr::new(group, version, resource.resource),
            gvk: Gvk::new(or(kind.group, group), or(kind.version, version), kind.kind),
            is_namespaced: resource.scope == "Namespaced",
            verbs: resource.verbs,
            short_names: resource.short_names,
            subresources: resource.subresources.into_iter().map(|part| part.subresource).collect(),
            is_preferred: !is_known,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use component_base::env::Env;
    use component_base::http::HttpService;
    use http::Request;
    use http::header::IF_NONE_MATCH;
    use parking_lot::Mutex;
    use serde_json::json;
    use std::convert::Infallible;
    use std::sync::Arc;

    #[test]
    fn the_first_version_that_serves_a_resource_is_preferred() {
        let resource = |name: &str, kind: &str| json!({"resource": name, "scope": "Namespaced", "verbs": ["get", "list"], "responseKind": {"group": "", "version": "", "kind": kind}});
        let groups = json!({"items": [{"metadata": {"name": "autoscaling"}, "versions": [
            {"version": "v2", "freshness": "Current", "resources": [resource("horizontalpodautoscalers", "HorizontalPodAutoscaler")]},
            {"version": "v1", "freshness": "Stale", "resources": [resource("horizontalpodautoscalers", "HorizontalPodAutoscaler"), resource("others", "Other")]},
        ]}]});
        let mut discovered = Discovered::default();
        discovered.add(serde_json::from_value(groups).unwrap());
        let preferred: Vec<String> = discovered.preferred().map(|resource| resource.gvr.to_string()).collect();
        assert_eq!(preferred, ["autoscaling/v2, Resource=horizontalpodautoscalers", "autoscaling/v1, Resource=others"]);
        assert_eq!(discovered.resources[1].gvk, Gvk::new("autoscaling", "v1", "HorizontalPodAutoscaler"));
        assert_eq!(discovered.stale, ["autoscaling/v1"]);
        assert_eq!(discovered.versions["autoscaling"], ["v2", "v1"]);
        assert!(
            discovered.resources[0].has_verbs(&["list"]) && !discovered.resources[0].has_verbs(&["list", "delete"])
        );
    }

    #[tokio::test(start_paused = true)]
    async fn documents_are_read_when_they_have_changed() {
        let env = Env::simulated(1);
        let (group, sent) = (Arc::new(Mutex::new("apps")), Arc::new(Mutex::new(0)));
        let (served, counted) = (group.clone(), sent.clone());
        let answer = move |request: Request<Body>| {
            let name = if request.uri().path() == "/api" { "" } else { *served.lock() };
            let groups = json!({"items": [{"metadata": {"name": name}, "versions": [{"version": "v1"}]}]});
            let tag = format!("\"{name}\"");
            let is_known = request.headers().get(IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes());
            *counted.lock() += usize::from(!is_known);
            let body = if is_known { Body::empty() } else { Body::from(groups.to_string()) };
            let answer = Response::builder().status(if is_known { 304 } else { 200 }).header(ETAG, tag).body(body);
            async move { Ok::<_, Infallible>(answer.unwrap()) }
        };
        let client = Client::from_service(&env, HttpService::new(tower::service_fn(answer)), "test");
        let mut discovery = Rediscovery::default();
        let groups = |found: Option<Discovered>| found.map(|found| found.versions.into_keys().collect::<Vec<_>>());
        let first = groups(discovery.changed(&client).await.unwrap());
        assert_eq!(first, Some(vec![String::new(), "apps".to_owned()]));
        assert_eq!(groups(discovery.changed(&client).await.unwrap()), None);
        assert_eq!(*sent.lock(), 2, "what is known is not sent again");
        *group.lock() = "batch";
        let changed = groups(discovery.changed(&client).await.unwrap());
        assert_eq!(changed, Some(vec![String::new(), "batch".to_owned()]));
        assert_eq!(*sent.lock(), 3);
    }
}
