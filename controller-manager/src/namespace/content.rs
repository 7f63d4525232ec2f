//! Deletes what a namespace holds of one resource, and reports what is left of it.
//!
//! Corresponds to deleteAllContentForGroupVersionResource in
//! pkg/controller/namespace/deletion/namespaced_resources_deleter.go.

use crate::discovery::ApiResource;
use client::{Client, DeleteOptions, Error, ListOptions, Propagation};
use proto::Gvr;
use serde_json::Value;
use std::collections::BTreeMap;

/// Left over of one resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remains {
    pub gvr: Gvr,
    pub count: usize,
    /// How many of them wait for each finalizer.
    pub finalizers: BTreeMap<String, usize>,
    /// How long until the last of them may be gone, if that is known: pods have a grace period.
    pub estimate_s: i64,
    /// Why they could not all be deleted or counted.
    pub error: Option<String>,
}

/// A finalizer says that somebody else has to act first; nobody knows how long that takes.
const FINALIZER_ESTIMATE_S: i64 = 15;

/// Asks for the deletion of all of it, and counts what is still there.
pub async fn delete_all(client: &Client, resource: &ApiResource, namespace: &str) -> Remains {
    let mut remains = Remains { gvr: resource.gvr.clone(), ..Remains::default() };
    match try_delete_all(client, resource, namespace).await {
        Ok(left) => remains.count_all(&left),
        // A resource that is listed but not served any more has no content.
        Err(error) if error.is_not_found() || error.code() == 405 => {}
        Err(error) => remains.error = Some(error.to_string()),
    }
    remains
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

impl Remains {
    fn count_all(&mut self, left: &[Value]) {
        self.count = left.len();
        for object in left {
            let finalizers = object["metadata"]["finalizers"].as_array();
            for finalizer in finalizers.into_iter().flatten().filter_map(Value::as_str) {
                *self.finalizers.entry(finalizer.to_owned()).or_default() += 1;
            }
        }
        let is_pod = self.gvr.group.is_empty() && self.gvr.resource == "pods";
        let grace = |object: &Value| object["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(0);
        let longest = if is_pod { left.iter().map(grace).max().unwrap_or(0) } else { 0 };
        self.estimate_s = match left.is_empty() {
            true => 0,
            false => longest.max(if self.finalizers.is_empty() { 1 } else { FINALIZER_ESTIMATE_S }),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_left_is_counted_with_its_finalizers() {
        let cases = [
            ("configmaps", vec![], 0, "", 0),
            ("configmaps", vec![json!({"metadata": {}})], 1, "", 1),
            (
                "configmaps",
                vec![json!({"metadata": {"finalizers": ["a", "b"]}}), json!({"metadata": {"finalizers": ["a"]}})],
                2,
                "a:2 b:1",
                15,
            ),
            ("pods", vec![json!({"metadata": {"deletionGracePeriodSeconds": 30}}), json!({"metadata": {}})], 2, "", 30),
        ];
        for (resource, left, count, finalizers, estimate_s) in cases {
            let mut remains = Remains { gvr: Gvr::new("", "v1", resource), ..Remains::default() };
            remains.count_all(&left);
            let shown: Vec<String> = remains.finalizers.iter().map(|(name, count)| format!("{name}:{count}")).collect();
            assert_eq!(
                (remains.count, shown.join(" ").as_str(), remains.estimate_s),
                (count, finalizers, estimate_s),
                "{left:?}"
            );
        }
    }
}
