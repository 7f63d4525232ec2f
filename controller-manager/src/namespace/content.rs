//! Deletes a namespace's objects of one resource, and reports the remaining ones.
//!
//! Corresponds to deleteAllContentForGroupVersionResource in
//! pkg/controller/namespace/deletion/namespaced_resources_deleter.go.

use client::{Client, DeleteOptions, Error, ListOptions, Propagation};
use controller_base::discovery::ApiResource;
use proto::Gvr;
use serde_json::Value;
use std::collections::BTreeMap;

/// The objects of one resource that remain in a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemainingContent {
    pub gvr: Gvr,
    pub count: usize,
    /// Number of objects with each finalizer.
    pub finalizers: BTreeMap<String, usize>,
    /// Estimated time until the last of them is deleted, such as the grace period of pods; 0 if unknown.
    pub estimate_s: i64,
    /// The reason for which not all objects were deleted or counted.
    pub error: Option<String>,
}

/// Estimated time for objects with finalizers, which another controller has to remove.
const FINALIZER_ESTIMATE_S: i64 = 15;

/// Asks for the deletion of all objects of a resource, and counts the remaining ones. The namespace has been
/// terminating for `elapsed_s`.
pub async fn delete_all(client: &Client, resource: &ApiResource, namespace: &str, elapsed_s: i64) -> RemainingContent {
    let mut remaining = RemainingContent { gvr: resource.gvr.clone(), ..RemainingContent::default() };
    match try_delete_all(client, resource, namespace).await {
        Ok(left) => remaining.count_all(namespace, &left, elapsed_s),
        // A resource that discovery still lists and the server no longer serves has no content.
        Err(error) if error.is_not_found() || error.code() == 405 => {}
        Err(error) => remaining.error = Some(error.to_string()),
    }
    remaining
}

async fn try_delete_all(client: &Client, resource: &ApiResource, namespace: &str) -> Result<Vec<Value>, Error> {
    let api = client.dynamic(&resource.gvr, namespace);
    let options = DeleteOptions { propagation: Some(Propagation::Background), ..DeleteOptions::default() };
    let before =
        if resource.has_verbs(&["list"]) { api.list(&ListOptions::default()).await?.items } else { Vec::new() };
    if before.is_empty() && resource.has_verbs(&["list"]) {
        return Ok(Vec::new());
    }
    if resource.has_verbs(&["deletecollection"]) {
        api.delete_collection(&options, &ListOptions::default()).await?;
    } else {
        for object in &before {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            match api.delete(name, &options).await {
                Err(error) if !error.is_not_found() => return Err(error),
                _ => {}
            }
        }
    }
    if resource.has_verbs(&["list"]) { Ok(api.list(&ListOptions::default()).await?.items) } else { Ok(Vec::new()) }
}

impl RemainingContent {
    fn count_all(&mut self, namespace: &str, left: &[Value], elapsed_s: i64) {
        self.count = left.len();
        for object in left {
            let finalizers = object["metadata"]["finalizers"].as_array();
            for finalizer in finalizers.into_iter().flatten().filter_map(Value::as_str) {
                *self.finalizers.entry(finalizer.to_owned()).or_default() += 1;
            }
        }
        let is_pod = self.gvr.group.is_empty() && self.gvr.resource == "pods";
        let has_ended = |pod: &&Value| matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
        let grace = |pod: &Value| pod["spec"]["terminationGracePeriodSeconds"].as_i64().unwrap_or(0);
        let longest = left.iter().filter(|pod| is_pod && !has_ended(pod)).map(grace).max().unwrap_or(0);
        if longest > elapsed_s {
            self.estimate_s = longest;
        } else if !self.finalizers.is_empty() {
            self.estimate_s = FINALIZER_ESTIMATE_S;
        } else if !left.is_empty() {
            // The objects were deleted and no finalizer holds them: a client keeps creating new ones.
            let Gvr { group, version, resource } = &self.gvr;
            let gvr = format!("{group}/{version}, Resource={resource}");
            self.error = Some(format!("unexpected items still remain in namespace: {namespace} for gvr: {gvr}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn remaining_objects_are_counted_with_their_finalizers() {
        let pod = |grace_s: i64| json!({"metadata": {}, "spec": {"terminationGracePeriodSeconds": grace_s}});
        let ended =
            json!({"metadata": {}, "spec": {"terminationGracePeriodSeconds": 90}, "status": {"phase": "Failed"}});
        let held = |finalizers: &[&str]| json!({"metadata": {"finalizers": finalizers}});
        let stuck = "unexpected items still remain in namespace: shop for gvr: /v1, Resource=configmaps";
        let cases = [
            // resource, left => count, finalizers, estimate, error
            ("configmaps", vec![], 0, "", 0, None),
            ("configmaps", vec![json!({"metadata": {}})], 1, "", 0, Some(stuck)),
            ("configmaps", vec![held(&["a", "b"]), held(&["a"])], 2, "a:2 b:1", 15, None),
            ("pods", vec![pod(30), pod(20), ended], 3, "", 30, None),
            ("pods", vec![pod(30), held(&["a"])], 2, "a:1", 30, None),
            ("pods", vec![pod(10), held(&["a"])], 2, "a:1", 15, None),
        ];
        for (resource, left, count, finalizers, estimate_s, error) in cases {
            let mut remains = RemainingContent { gvr: Gvr::new("", "v1", resource), ..RemainingContent::default() };
            remains.count_all("shop", &left, 12);
            let shown: Vec<String> = remains.finalizers.iter().map(|(name, count)| format!("{name}:{count}")).collect();
            let got = (remains.count, shown.join(" "), remains.estimate_s, remains.error.as_deref());
            assert_eq!(got, (count, finalizers.to_owned(), estimate_s, error), "{resource} {left:?}");
        }
    }
}
