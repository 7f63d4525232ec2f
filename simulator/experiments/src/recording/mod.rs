//! What a real cluster did, as a workload: its API server's audit log, or what `kubectl get pods --watch -o json` printed.
//!
//! Both are streams of JSON values. Each is turned into sightings of pods, sightings make the lives of pods, and each life
//! becomes a pod as a user would create it again, with the time that it ran in the annotation `orrery.dev/run-for`. The result
//! is a List as `kubectl get pods -o yaml` prints it, so that people can edit it, and `kubectlPods` of a study reads it.

mod sighting;
mod audit;
mod stream;
mod life;
#[cfg(test)]
mod tests;

use crate::problem::Problem;
use crate::workload::{Stripped, anew, keep_duration};
use life::{Life, Lives};
use proto::Kind;
use proto::kinds::api::core::v1::Pod;
use proto::kinds::metav1::Time;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use stream::sightings;

/// The pods of a recording in the order of their creation, and what one should know about them.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    pub pods: Vec<Pod>,
    pub remarks: Vec<String>,
}

impl Recording {
    /// Returns the pods as a List of v1.
    pub fn list(&self) -> Value {
        let items = self.pods.iter().map(|pod| {
            let mut item = pod.encode();
            item["apiVersion"] = json!("v1");
            item["kind"] = json!("Pod");
            // Whole seconds, as objects have them, would let pods of one second arrive together.
            item["metadata"]["creationTimestamp"] =
                json!(pod.metadata.creation_timestamp.as_ref().map(|time| time.0.to_string()));
            item
        });
        json!({"apiVersion": "v1", "kind": "List", "items": items.collect::<Vec<_>>()})
    }

    /// Returns the time between the first and the last creation, in seconds.
    pub fn span_s(&self) -> f64 {
        let times = || self.pods.iter().filter_map(|pod| pod.metadata.creation_timestamp.as_ref()).map(microseconds);
        match (times().min(), times().max()) {
            (Some(first), Some(last)) => (last - first) as f64 / 1e6,
            _ => 0.0,
        }
    }
}

fn microseconds(time: &Time) -> i64 {
    time.0.as_microsecond()
}

/// Reads a recording: audit events, watch events and objects may follow each other in any order. `file` is its name in what
/// is reported.
pub fn read(file: &str, text: &str) -> Result<Recording, Vec<Problem>> {
    let mut lives = Lives::default();
    let mut remarks = Remarks::default();
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    loop {
        let offset = values.byte_offset();
        match values.next() {
            None => break,
            Some(Ok(value)) => match sightings(value, &mut remarks) {
                Ok(sightings) => sightings.into_iter().for_each(|sighting| lives.add(sighting)),
                Err(why) => return Err(vec![Problem::new(format!("{file}:{}", line(text, offset)), why)]),
            },
            // A recorder that was stopped may have left half a value at the end.
            Some(Err(error)) if error.is_eof() && !lives.is_empty() => {
                remarks.add("the last value is not whole, and was left out");
                break;
            }
            Some(Err(error)) => return Err(vec![Problem::new(format!("{file}:{}", error.line()), error.to_string())]),
        }
    }
    let pods = pods(lives.finished(&mut remarks), &mut remarks);
    if pods.is_empty() {
        let why = remarks.lines().join("; ");
        return Err(vec![Problem::new(
            file,
            format!("has no pods to import{}{why}", if why.is_empty() { "" } else { ": " }),
        )]);
    }
    Ok(Recording { pods, remarks: remarks.lines() })
}

/// Returns the line of the first value at or after an offset.
fn line(text: &str, offset: usize) -> usize {
    let blank = text[offset..].find(|c: char| !c.is_whitespace()).unwrap_or_default();
    text[..offset + blank].matches('\n').count() + 1
}

fn pods(mut lives: Vec<Life>, remarks: &mut Remarks) -> Vec<Pod> {
    lives.sort_by(|one, other| (&one.created, one.pod.key()).cmp(&(&other.created, other.pod.key())));
    let (mut names, mut pods) = (BTreeSet::new(), Vec::new());
    for life in lives {
        if is_of_a_node(&life.pod) {
            remarks.add("pods of DaemonSets and of nodes were left out");
            continue;
        }
        let duration_us = match (&life.started, &life.ended) {
            (Some(started), Some(ended)) => Some((microseconds(ended) - microseconds(started)).max(0)),
            (None, Some(_)) => {
                remarks.add("pods were deleted before they ran, and were left out");
                continue;
            }
            (_, None) => None,
        };
        let (mut pod, stripped) = anew(life.pod);
        if stripped == Stripped::Claims {
            remarks.add("pods had claims; each has an empty volume instead");
        }
        pod.metadata.name = pod.metadata.name.map(|name| unused(name, pod.metadata.namespace.clone(), &mut names));
        pod.metadata.creation_timestamp = Some(life.created);
        match duration_us {
            Some(us) => keep_duration(&mut pod, us),
            None => remarks.add("pods run until the end, because the recording does not show theirs"),
        }
        pods.push(pod);
    }
    pods
}

/// Returns whether a node or its DaemonSet makes the pod, so that it belongs to that node alone.
fn is_of_a_node(pod: &Pod) -> bool {
    let owners = pod.metadata.owner_references.iter().flatten();
    owners
        .filter(|owner| owner.controller == Some(true))
        .any(|owner| matches!(owner.kind.as_str(), "DaemonSet" | "Node"))
}

/// Returns the name, or, if an earlier pod had it, the name with a number.
fn unused(name: String, namespace: Option<String>, names: &mut BTreeSet<(Option<String>, String)>) -> String {
    let numbered = (2..).map(|number| format!("{name}-{number}"));
    let mut candidates = std::iter::once(name.clone()).chain(numbered);
    candidates.find(|name| names.insert((namespace.clone(), name.clone()))).unwrap_or(name)
}

/// What was noticed, each with how often.
#[derive(Debug, Default)]
pub(crate) struct Remarks(BTreeMap<&'static str, usize>);

impl Remarks {
    fn add(&mut self, remark: &'static str) {
        *self.0.entry(remark).or_default() += 1;
    }

    fn lines(&self) -> Vec<String> {
        self.0.iter().map(|(remark, count)| format!("{remark} ({count})")).collect()
    }
}
