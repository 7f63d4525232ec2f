//! `Course`: what a node does with a pod, and when. Pure.
//!
//! The times are those of `kubelet-sim` for a pod without a story of its own, but for the words `run-for` and `exit-code`.

use component_base::duration::parse_duration;
use pod_life::images;
use pod_life::latency::Latency;
use proto::Kind;
use proto::kinds::api::core::v1::{Container, Pod};
use std::time::Duration;

const RUN_FOR: &str = "orrery.dev/run-for";
const EXIT_CODE: &str = "orrery.dev/exit-code";

/// What a node does with one pod, from the moment at which the kubelet sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Course {
    /// Full names of the images, in the order in which they are needed.
    pub images: Vec<String>,
    /// Until all containers run, without pulls.
    pub starts_after: Duration,
    /// Time that the containers run; `None` without an end.
    pub runs_for: Option<Duration>,
    pub succeeds: bool,
}

impl Course {
    pub fn of(pod: &Pod, latency: &Latency) -> Self {
        let spec = pod.spec.as_ref();
        let containers = spec.map(|spec| spec.containers.as_slice()).unwrap_or_default();
        let init = spec.and_then(|spec| spec.init_containers.as_deref()).unwrap_or_default();
        let image = |container: &Container| images::canonical(container.image.as_deref().unwrap_or_default());
        let mut images: Vec<String> = Vec::new();
        for image in init.iter().chain(containers).map(image) {
            if !images.contains(&image) {
                images.push(image);
            }
        }
        let inits = u32::try_from(init.len()).unwrap_or(u32::MAX);
        Self {
            images,
            starts_after: latency.sandbox
                + (latency.container_start + latency.init_run).saturating_mul(inits)
                + latency.container_start,
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
        for (policy, annotations, runs_for, succeeds) in [
            ("Never", json!({}), Some(ms(5000)), true),
            ("Never", json!({RUN_FOR: "1500ms", EXIT_CODE: "3"}), Some(ms(1500)), false),
            ("Always", json!({RUN_FOR: "1500ms"}), None, true),
        ] {
            let containers = json!([{"name": "a", "image": "web"}, {"name": "b", "image": "web:latest"}]);
            let pod = json!({"metadata": {"name": "p", "annotations": annotations},
                "spec": {"restartPolicy": policy, "containers": containers}});
            let course = Course::of(&Pod::decode_value(pod).unwrap(), &latency);
            assert_eq!(course.images, ["docker.io/library/web:latest"]);
            assert_eq!((course.starts_after, course.runs_for, course.succeeds), (ms(100), runs_for, succeeds));
        }
    }
}
