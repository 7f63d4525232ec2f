//! Finds the pods of an autoscaler's target, which no other autoscaler may have.
//!
//! Corresponds to validateAndParseSelector in pkg/controller/podautoscaler/horizontal.go.

use super::memory::Memory;
use super::recommendation::Recommendation;
use super::target::Scale;
use client::Lister;
use proto::kinds::api::core::v1::Pod;
use proto::meta::selector::Selector;
use std::sync::Arc;

/// Returns the pods that a target's scale selects, or what follows from a selector that does not do.
pub fn pods(scale: &Scale, key: &str, memory: &Memory, pods: &Lister<Pod>) -> Result<Vec<Arc<Pod>>, Recommendation> {
    let text = scale.selector();
    if text.is_empty() {
        return Err(Recommendation::without_pods("SelectorRequired", "selector is required"));
    }
    let selector = Selector::parse(text).map_err(|error| {
        let error = format!("couldn't convert selector into a corresponding internal selector object: {error}");
        Recommendation::without_pods("InvalidSelector", &error)
    })?;
    let selected = pods.select(&scale.namespace, &selector);
    let autoscalers = memory.select(&scale.namespace, key, &selector, &selected);
    if autoscalers.len() > 1 {
        let listed = autoscalers.join(" ");
        let error = format!("pods by selector {text} are controlled by multiple HPAs: [{listed}]");
        return Err(Recommendation::without_pods("AmbiguousSelector", &error));
    }
    Ok(selected)
}
