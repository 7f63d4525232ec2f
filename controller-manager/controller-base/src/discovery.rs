//! Discovers the resources that the API server serves, with their kinds and verbs.
//!
//! Corresponds to ServerPreferredResources in k8s.io/client-go/discovery, over aggregated discovery.

use client::request::Call;
use client::{Client, Error};
use http::Method;
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

/// Asks the server for its aggregated discovery documents.
pub async fn discover(client: &Client) -> Result<Discovered, Error> {
    let mut discovered = Discovered::default();
    for path in ["/api", "/apis"] {
        let call = Call::new(Method::GET, path).accept(AGGREGATED);
        let bytes = client.call(&call).await?;
        let undecodable = |error| Error::Decode(format!("GET {path}: no aggregated discovery: {error}"));
        discovered.add(serde_json::from_slice(&bytes).map_err(undecodable)?);
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
    use serde_json::json;

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
}
