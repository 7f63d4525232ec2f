//! The eviction of a pod at a certain time: its events, its condition DisruptionTarget, and its deletion.
//!
//! Corresponds to the deletion functions of pkg/controller/tainteviction and pkg/controller/devicetainteviction.

use crate::{actions, clock, pod};
use client::{Action, DeleteOptions, Patch, Plan};
use jiff::Timestamp;
use proto::Kind;
use proto::kinds::api::core::v1::Pod;
use serde_json::json;

/// The time of a pod's eviction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eviction {
    Never,
    At(Timestamp),
}

/// The words of one controller that evicts pods.
#[derive(Clone, Debug)]
pub struct Words<'a> {
    /// Reason of the events.
    pub event: &'a str,
    pub marking: String,
    pub cancelling: String,
    /// Reason and message of the pod's condition.
    pub reason: &'a str,
    pub message: &'a str,
}

/// Plans what an eviction needs now. `was_scheduled` is true if an earlier round scheduled one.
pub fn plan(pod: &Pod, eviction: Eviction, was_scheduled: bool, now: Timestamp, words: &Words<'_>) -> Plan {
    match eviction {
        _ if pod.is_deleting() || pod::is_terminal(pod) => Plan::default(),
        Eviction::Never if was_scheduled => Plan::of([actions::normal(pod, words.event, &*words.cancelling)]),
        Eviction::Never => Plan::default(),
        Eviction::At(time) if time > now => {
            Plan { actions: Vec::new(), requeue_after: Some(clock::until(time, now).max(clock::TICK)) }
        }
        Eviction::At(_) => Plan::of(evict(pod, now, words)),
    }
}

fn evict(pod: &Pod, now: Timestamp, words: &Words<'_>) -> Vec<Action> {
    let condition = json!({
        "type": "DisruptionTarget", "status": "True", "reason": words.reason, "message": words.message,
        "lastTransitionTime": clock::stamp(now)
    });
    let patch = json!({"metadata": {"uid": pod.uid()}, "status": {"conditions": [condition]}});
    vec![
        actions::normal(pod, words.event, &*words.marking),
        Action::patch_status::<Pod>(pod.namespace(), pod.name(), Patch::Strategic(patch)),
        actions::delete(pod, DeleteOptions::with_uid(pod.uid())),
    ]
}
