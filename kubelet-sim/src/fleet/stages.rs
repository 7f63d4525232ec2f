//! Plays stages: chooses the stage of a pod or node, waits, and sends what it says.
//!
//! Corresponds to sigs.k8s.io/kwok/pkg/kwok/controllers. What a stage writes to a status is written as the node; what
//! it writes to the object itself is written as the fleet, because a node may not.

use crate::fleet::Fleet;
use crate::fleet::kubelet::SimulatedKubelet;
use crate::node;
use client::{DeleteOptions, Error, EventType, Patch, PatchOptions, Regarding};
use component_base::env::Env;
use pod_life::conditions;
use pod_life::lifecycle::Sandbox;
use proto::Kind;
use proto::kinds::api::core::v1::{Node, Pod};
use serde_json::{Value, json};
use stages::runs::{Draw, MANAGER, Next};
use stages::stage::{Action, EventKind, PatchKind, Stage, Subject};
use stages::template::Facts;
use std::time::Duration;

/// Who decides about an object.
#[derive(Debug)]
pub enum Driver {
    Kubelet,
    /// Stages; the next one is due after this time, if one is.
    Stages(Option<Duration>),
}

/// How long a pod waits for its node's range of addresses.
const RANGE_POLL: Duration = Duration::from_secs(1);
const FAILED: &str = "StageFailed";

impl Fleet {
    /// Plays the stage of a pod that is due.
    pub(super) async fn play_pod(&self, kubelet: &SimulatedKubelet, node: &Node, pod: &Pod) -> Result<Driver, Error> {
        let (key, stages) = (pod.key(), self.stages.all());
        let (status, caught_up) = self.memory.status_of(pod);
        if !stages.has(Subject::Pod) || !caught_up {
            return Ok(Driver::Kubelet);
        }
        let object = serde_json::to_value(pod).unwrap_or_default();
        let stage = match self.stage_runs.next(&stages, Subject::Pod, &key, &object, self.env.wall()) {
            Next::Kubelet => return Ok(Driver::Kubelet),
            Next::Nothing => return Ok(Driver::Stages(None)),
            Next::Wait(left) => return Ok(Driver::Stages(Some(left))),
            Next::Play(stage) => stage,
        };
        let node_ips = ips_of(kubelet, node);
        let pod_ips = match kubelet.sandbox(pod, &status) {
            Sandbox::Addresses(addresses) => addresses.iter().map(ToString::to_string).collect(),
            Sandbox::OnHost => node_ips.clone(),
            Sandbox::NotNeeded => Vec::new(),
            Sandbox::Impossible { .. } => return Ok(Driver::Stages(Some(RANGE_POLL))),
        };
        let facts = self.facts(kubelet, node_ips, pod_ips);
        let written = self.play(kubelet, &Regarding::of(pod), &stage, &object, &facts, &key).await?;
        // What was remembered of the status is no longer true.
        self.memory.forget(&key);
        match Pod::decode_value(written) {
            Ok(written) if written.status.as_ref().is_some_and(conditions::is_terminal) => kubelet.release(pod.uid()),
            Ok(written) => kubelet.recover(&written, self.env.wall()), // it holds its resources as any other pod
            Err(_) => {}
        }
        Ok(Driver::Stages(None))
    }

    /// Plays the stage of a node that is due.
    pub(super) async fn play_node(&self, kubelet: &SimulatedKubelet) -> Result<Option<Duration>, Error> {
        let (name, stages) = (&kubelet.machine.name, self.stages.all());
        let Some(node) = self.nodes.get("", name).filter(|_| stages.has(Subject::Node)) else {
            self.stage_runs.forget(name);
            return Ok(None);
        };
        let object = serde_json::to_value(&*node).unwrap_or_default();
        let next = self.stage_runs.next(&stages, Subject::Node, name, &object, self.env.wall());
        match next {
            Next::Kubelet | Next::Nothing => Ok(None),
            Next::Wait(left) => Ok(Some(left)),
            Next::Play(stage) => {
                let facts = self.facts(kubelet, ips_of(kubelet, &node), Vec::new());
                let regarding = Regarding { uid: name.clone(), ..Regarding::of(&*node) };
                self.play(kubelet, &regarding, &stage, &object, &facts, name).await?;
                Ok(None)
            }
        }
    }

    fn facts(&self, kubelet: &SimulatedKubelet, node_ips: Vec<String>, pod_ips: Vec<String>) -> Facts {
        Facts {
            now: self.env.wall(),
            started: self.started,
            version: self.settings.version.clone(),
            node_name: kubelet.machine.name.clone(),
            node_ips,
            node_port: Some(self.settings.port).filter(|port| *port > 0),
            pod_ips,
        }
    }

    /// Sends the actions of a stage in order; returns the last answer, or null. An object that has changed meanwhile is left alone: its change leads here again.
    async fn play(
        &self,
        kubelet: &SimulatedKubelet,
        regarding: &Regarding,
        stage: &Stage,
        object: &Value,
        facts: &Facts,
        key: &str,
    ) -> Result<Value, Error> {
        let mut written = None;
        let failure = match stage.actions(object, facts) {
            Err(problem) => problem.to_string(),
            Ok(actions) => {
                match self.send_all(kubelet, regarding, stage.subject, object, actions, &mut written).await {
                    Ok(()) => {
                        self.stage_runs.played(key, object, written.as_ref(), self.env.wall());
                        return Ok(written.unwrap_or_default());
                    }
                    Err(error) if error.is_not_found() || error.is_conflict() => {
                        self.stage_runs.forget(key);
                        return Ok(Value::Null);
                    }
                    Err(error) if error.is_forbidden() || error.is_invalid() => error.to_string(),
                    Err(error) => return Err(error),
                }
            }
        };
        let message = format!("stage {}: {failure}", stage.name);
        if self.stage_runs.reports(key, &message) {
            tracing::warn!(object = key, "{message}");
            kubelet.recorder.event(regarding, EventType::Warning, FAILED, &message);
        }
        // It is tried again once the object changes, as far as nothing but the object can make it succeed.
        self.stage_runs.played(key, object, None, self.env.wall());
        Ok(written.unwrap_or_default())
    }

    async fn send_all(
        &self,
        kubelet: &SimulatedKubelet,
        regarding: &Regarding,
        subject: Subject,
        object: &Value,
        actions: Vec<Action>,
        written: &mut Option<Value>,
    ) -> Result<(), Error> {
        let (gvr, namespace) = match subject {
            Subject::Pod => (Pod::gvr(), regarding.namespace.as_str()),
            Subject::Node => (Node::gvr(), ""),
        };
        let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
        for action in actions {
            match action {
                Action::Event { kind, reason, message } => {
                    let kind = if kind == EventKind::Warning { EventType::Warning } else { EventType::Normal };
                    kubelet.recorder.event(regarding, kind, &reason, &message);
                }
                Action::Delete => {
                    let api = kubelet.client.dynamic(&gvr, namespace);
                    let options = DeleteOptions { grace_period_s: Some(0), ..DeleteOptions::with_uid(uid) };
                    api.delete(&regarding.name, &options).await?;
                }
                Action::Patch { kind, subresource, mut body } => {
                    let as_fleet = subresource.is_empty() && self.settings.own_node().is_none();
                    let client = if as_fleet { &self.client } else { &kubelet.client };
                    if kind != PatchKind::Json && !uid.is_empty() && body["metadata"]["uid"].is_null() {
                        body["metadata"]["uid"] = json!(uid); // not another object of the same name
                    }
                    let patch = match kind {
                        PatchKind::Json => Patch::Json(body),
                        PatchKind::Merge => Patch::Merge(body),
                        PatchKind::Strategic => Patch::Strategic(body),
                    };
                    let options = PatchOptions { field_manager: MANAGER.to_owned(), ..PatchOptions::default() };
                    let api = client.dynamic(&gvr, namespace);
                    *written = Some(api.patch_subresource(&regarding.name, &subresource, &patch, &options).await?);
                }
            }
        }
        Ok(())
    }
}

/// Returns the source of the random numbers of stages.
pub fn draws(env: &Env) -> Draw {
    let env = env.clone();
    Box::new(move |name| {
        let random = env.random(&format!("kubelet-sim/stages/{name}"));
        (random.unit(), random.unit())
    })
}

/// Returns the addresses of a node: those of its status, or the machine's.
fn ips_of(kubelet: &SimulatedKubelet, node: &Node) -> Vec<String> {
    let reported: Vec<String> = node::internal_ips(node).iter().map(ToString::to_string).collect();
    if reported.is_empty() { vec![kubelet.machine.address.to_string()] } else { reported }
}
