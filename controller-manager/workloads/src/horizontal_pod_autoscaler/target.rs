//! `Scale`: the size of an autoscaler's target, through the `scale` subresource of whatever kind has one.
//!
//! Corresponds to scaleForResourceMappings in pkg/controller/podautoscaler/horizontal.go and to k8s.io/client-go/scale.

use client::{Action, Client};
use controller_base::discovery::Discovered;
use proto::Gvr;
use proto::gvk::split_api_version;
use proto::kinds::api::autoscaling::v2::CrossVersionObjectReference;
use serde_json::{Value, json};

/// A Scale of autoscaling/v1, and the collection that it was read from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scale {
    pub gvr: Gvr,
    pub namespace: String,
    pub name: String,
    pub object: Value,
}

impl Scale {
    /// Returns the number of pods that are wanted.
    pub fn wanted(&self) -> i32 {
        count(&self.object["spec"]["replicas"])
    }

    /// Returns the number of pods that the target's controller has counted.
    pub fn counted(&self) -> i32 {
        count(&self.object["status"]["replicas"])
    }

    /// Returns the text of the selector of the target's pods; empty if there is none.
    pub fn selector(&self) -> &str {
        self.object["status"]["selector"].as_str().unwrap_or_default()
    }

    /// Returns the update to another size. It fails if somebody else wrote to the target meanwhile.
    pub fn resize(&self, replicas: i32) -> Action {
        let mut body = self.object.clone();
        body["spec"]["replicas"] = json!(replicas);
        Action::UpdateSubresource {
            gvr: self.gvr.clone(),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            subresource: "scale".to_owned(),
            body,
        }
    }
}

fn count(replicas: &Value) -> i32 {
    replicas.as_i64().and_then(|replicas| i32::try_from(replicas).ok()).unwrap_or(0)
}

/// Returns the size that an action gives a target; `None` for any other action.
pub fn resized_to(action: &Action) -> Option<i32> {
    match action {
        Action::UpdateSubresource { subresource, body, .. } if subresource == "scale" => {
            Some(count(&body["spec"]["replicas"]))
        }
        _ => None,
    }
}

/// Reads the target's scale. Several resources may have the kind; the first whose scale can be read is the target.
pub async fn read(
    client: &Client,
    discovered: &Discovered,
    namespace: &str,
    reference: &CrossVersionObjectReference,
) -> Result<Scale, String> {
    let (kind, name) = (&reference.kind, &reference.name);
    let group = split_api_version(reference.api_version.as_deref().unwrap_or_default()).0;
    let is_named = |gvk: &proto::Gvk| gvk.group == group && gvk.kind == *kind;
    let mut resources: Vec<&str> = discovered
        .resources
        .iter()
        .filter(|resource| is_named(&resource.gvk))
        .map(|resource| resource.gvr.resource.as_str())
        .collect();
    resources.dedup();
    let mut first_error = None;
    for resource in resources {
        let mut preferred = discovered.preferred().map(|preferred| &preferred.gvr);
        let Some(gvr) = preferred.find(|gvr| gvr.group == group && gvr.resource == resource) else { continue };
        match client.dynamic(gvr, namespace).get_scale(name).await {
            Ok(object) => {
                return Ok(Scale { gvr: gvr.clone(), namespace: namespace.to_owned(), name: name.clone(), object });
            }
            Err(error) => first_error = first_error.or(Some(error.to_string())),
        }
    }
    Err(first_error.unwrap_or_else(|| format!("no matches for kind {kind:?} in group {group:?}")))
}

/// Returns the same change of size for the target as it is now; `None` if it cannot be read.
pub async fn refreshed(client: &Client, action: &Action) -> Option<Action> {
    let Action::UpdateSubresource { gvr, namespace, name, .. } = action else { return None };
    let object = client.dynamic(gvr, namespace).get_scale(name).await.ok()?;
    let scale = Scale { gvr: gvr.clone(), namespace: namespace.clone(), name: name.clone(), object };
    Some(scale.resize(resized_to(action)?))
}
