//! What a watch tells of pods: their names, and the nodes to which they are bound.

use super::Error;
use client::watch::{Watch, WatchEvent};
use client::{Client, ListOptions};
use component_base::env::Env;
use proto::gvk::Gvr;
use serde_json::Value;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(900);

pub struct PodEvent {
    pub name: String,
    pub namespace: String,
    /// Empty for a pod that is not bound.
    pub node: String,
    pub deleted: bool,
}

/// Watches the pods of a namespace, or of all without a name.
pub async fn watch_pods(client: &Client, namespace: &str) -> Result<Watch, Error> {
    Ok(client.dynamic(&Gvr::new("", "v1", "pods"), namespace).watch(&ListOptions::default()).await?)
}

/// Reads events until one satisfies `last`.
pub async fn until(env: &Env, watch: &mut Watch, mut last: impl FnMut(&PodEvent) -> bool) -> Result<(), Error> {
    let reading = async {
        loop {
            let event = watch.next().await.ok_or_else(|| Error::Failed("the watch of pods ended".to_owned()))??;
            let (bytes, deleted) = match event {
                WatchEvent::Added(bytes) | WatchEvent::Modified(bytes) => (bytes, false),
                WatchEvent::Deleted(bytes) => (bytes, true),
                WatchEvent::Bookmark { .. } => continue,
            };
            let pod: Value = serde_json::from_slice(&bytes).map_err(|error| Error::Failed(error.to_string()))?;
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let metadata = &pod["metadata"];
            let (name, namespace) = (text(&metadata["name"]), text(&metadata["namespace"]));
            if last(&PodEvent { name, namespace, node: text(&pod["spec"]["nodeName"]), deleted }) {
                return Ok(());
            }
        }
    };
    env.timeout(PATIENCE, reading).await.map_err(|_| Error::Failed(format!("not done after {PATIENCE:?}")))?
}
