//! `Course`: what a node does with a pod, and when. Pure.
//!
//! The times are those of `kubelet-sim` for a pod without a story of its own, but for the words `run-for` and `exit-code`.

use component_base::duration::parse_duration;
use pod_life::latency::Latency;
use proto::Kind;
use proto::kinds::api::core::v1::{Container, Pod};
use proto::kinds::jiff::Timestamp;
use std::time::Duration;

const RUN_FOR: &str = "orrery.dev/run-for";
const EXIT_CODE: &str = "orrery.dev/exit-code";

/// What a node does with one pod, from the moment at which the kubelet has read what the pod refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Course {
    pub began: Timestamp,
    /// Until the first container may start.
    pub sandbox: Duration,
    /// In the order in which they start, one after the other.
    pub containers: Vec<Start>,
    /// Time that the containers run; `None` without an end.
    pub runs_for: Option<Duration>,
    pub succeeds: bool,
}

/// The start of one container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    pub name: String,
    pub image: String,
    /// When the image is pulled.
    pub policy: String,
    /// From the start until the next container may start: the whole life of an init container.
    pub holds_for: Duration,
}

impl Course {
    pub fn of(pod: &Pod, latency: &Latency, now: Timestamp) -> Self {
        let spec = pod.spec.as_ref();
        let apps = spec.map(|spec| spec.containers.as_slice()).unwrap_or_default();
        let init = spec.and_then(|spec| spec.init_containers.as_deref()).unwrap_or_default();
        let start = |container: &Container, holds_for: Duration| Start {
            name: container.name.clone(),
            image: container.image.clone().unwrap_or_default(),
            policy: container.image_pull_policy.clone().unwrap_or_else(|| "IfNotPresent".to_owned()),
            holds_for,
        };
        let init = init.iter().map(|container| start(container, latency.init_run));
        let apps = apps.iter().map(|container| start(container, Duration::ZERO));
        Self {
            began: now,
            sandbox: latency.sandbox,
            containers: init.chain(apps).collect(),
            runs_for: runs_for(pod, latency),
            succeeds: annotation(pod, EXIT_CODE).is_none_or(|code| code == "0"),
        }
    }
}

fn annotation<'a>(pod: &'a Pod, key: &str) -> Option<&'a str> {
    pod.metadata().annotations.as_ref()?.get(key).map(String::as_str)
}

fn runs_for(pod: &Pod, latency: &Latency) -> Option<Duration> {
    let told = annotation(pod, RUN_FOR).and_then(|text| parse_duration(text).ok());
    let restarts = pod.spec.as_ref().and_then(|spec| spec.restart_policy.as_deref()).is_none_or(|it| it == "Always");
    match told {
        // A container that always restarts never ends its pod.
        _ if restarts => None,
        told => told.or(Some(latency.job_run)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_course_follows_from_the_pod() {
        let latency = Latency::default();
        let ms = Duration::from_millis;
        let now = Timestamp::UNIX_EPOCH;
        for (policy, annotations, runs_for, succeeds) in [
            ("Never", json!({}), Some(ms(5000)), true),
            ("Never", json!({RUN_FOR: "1500ms", EXIT_CODE: "3"}), Some(ms(1500)), false),
            ("Always", json!({RUN_FOR: "1500ms"}), None, true),
        ] {
            let containers =
                json!([{"name": "a", "image": "web"}, {"name": "b", "image": "web:1", "imagePullPolicy": "Never"}]);
            let init = json!([{"name": "first", "image": "tool"}]);
            let pod = json!({"metadata": {"name": "p", "annotations": annotations},
                "spec": {"restartPolicy": policy, "initContainers": init, "containers": containers}});
            let course = Course::of(&Pod::decode_value(pod).unwrap(), &latency, now);
            let start = |it: &Start| (it.image.clone(), it.policy.clone(), it.holds_for);
            let expected = [("tool", "IfNotPresent", 500), ("web", "IfNotPresent", 0), ("web:1", "Never", 0)];
            let expected = expected.map(|(image, policy, held_ms)| (image.to_owned(), policy.to_owned(), ms(held_ms)));
            assert_eq!(course.containers.iter().map(start).collect::<Vec<_>>(), expected);
            assert_eq!((course.runs_for, course.succeeds), (runs_for, succeeds));
        }
    }
}
