//! Checks a pod's story: every annotation beneath `orrery.dev` has to be known, parse, and be about something.
//!
//! A faulty annotation is ignored, and reported by an event of the reason `InvalidStory`.

use crate::outcomes::Outcomes;
use crate::story::curve::Curve;
use crate::story::parse_exit_codes;
use component_base::duration::parse_duration;
use proto::kinds::api::core::v1::{Container, PodSpec, Probe};
use proto::meta::quantity::Quantity;
use std::collections::BTreeMap;

const DOMAIN: &str = "orrery.dev";

/// Returns what is wrong, in the order of the annotations.
pub fn find(spec: &PodSpec, annotations: &BTreeMap<String, String>) -> Vec<String> {
    let mut errors = Vec::new();
    for (key, text) in annotations {
        let found = match key.split_once('/') {
            Some((DOMAIN, word)) => check(word, text).and_then(|()| has_probe(word, &spec.containers)),
            Some((prefix, name)) => match prefix.strip_suffix(DOMAIN).and_then(|prefix| prefix.strip_suffix('.')) {
                Some(word) => check_own(word, text, name, spec),
                None => Ok(()),
            },
            None => Ok(()),
        };
        errors.extend(found.err().map(|error| format!("{key}: {error}")));
    }
    errors
}

/// Checks an annotation for one container.
fn check_own(word: &str, text: &str, name: &str, spec: &PodSpec) -> Result<(), String> {
    check(word, text)?;
    if word.starts_with("pull-") {
        return Err("images are pulled for the pod: there is no form for one container".to_owned());
    }
    // An ephemeral container has no probes, and may be added later.
    let mut with_probes = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    match with_probes.find(|container| container.name == name) {
        Some(container) => has_probe(word, std::slice::from_ref(container)),
        None => Ok(()),
    }
}

/// Checks a word and its value.
pub fn check(word: &str, text: &str) -> Result<(), String> {
    match word {
        "run-for" | "crash-after" | "oom-after" | "pull-time" | "log-every" | "stop-time" => {
            parse_duration(text).map(|_| ())
        }
        "ready-after" if text == "never" => Ok(()),
        "ready-after" => parse_duration(text).map(|_| ()),
        "exit-code" => match parse_exit_codes(text) {
            Some(_) => Ok(()),
            None => Err(format!("{text:?} is no list of exit codes such as \"1,1,0\"")),
        },
        "startup" | "liveness" | "readiness" => Outcomes::parse(text).map(|_| ()),
        "cpu" | "memory" | "disk" | "processes" => Curve::parse(text).map(|_| ()),
        "cpu-per-request" => match Quantity::parse(text) {
            Ok(quantity) if quantity.signum() >= 0 => Ok(()),
            _ => Err(format!("{text:?} is no amount of CPU time such as \"5m\"")),
        },
        "answer" | "pull-error" | "log" | "termination-message" => Ok(()),
        _ => Err("no word of a story".to_owned()),
    }
}

/// Checks that some container has the probe that the word is about.
fn has_probe(word: &str, containers: &[Container]) -> Result<(), String> {
    let probe: fn(&Container) -> &Option<Probe> = match word {
        "startup" => |container| &container.startup_probe,
        "liveness" => |container| &container.liveness_probe,
        "readiness" => |container| &container.readiness_probe,
        _ => return Ok(()),
    };
    match containers.iter().any(|container| probe(container).is_some()) {
        true => Ok(()),
        false => Err(format!("no container that it is about has a {word}Probe")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto::Kind;
    use proto::kinds::api::core::v1::Pod;
    use serde_json::json;

    #[test]
    fn each_faulty_annotation_is_named() {
        let pod = json!({"spec": {
            "containers": [{"name": "web", "livenessProbe": {}}, {"name": "log"}],
            "initContainers": [{"name": "proxy", "restartPolicy": "Always", "startupProbe": {}}],
        }});
        let spec = Pod::decode_value(pod).unwrap().spec.unwrap();
        for (key, value, error) in [
            ("orrery.dev/run-for", "30s", None),
            ("orrery.dev/liveness", "fail@30s", None),
            ("startup.orrery.dev/proxy", "fail, ok@5s", None),
            ("log.orrery.dev/debugger", "hello", None),
            ("example.com/anything", "soon", None),
            ("orrery", "soon", None),
            ("orrery.dev/cpu-per-request", "5m", None),
            ("orrery.dev/cpu-per-request", "much", Some("\"much\" is no amount of CPU time such as \"5m\"")),
            ("orrery.dev/livenes", "fail", Some("no word of a story")),
            ("orrery.dev/exit-code", "one", Some("\"one\" is no list of exit codes such as \"1,1,0\"")),
            ("stop-time.orrery.dev/web", "5", Some("invalid duration \"5\": want for example 300ms, 5s or 1m30s")),
            ("orrery.dev/readiness", "fail", Some("no container that it is about has a readinessProbe")),
            ("liveness.orrery.dev/log", "fail", Some("no container that it is about has a livenessProbe")),
            (
                "pull-time.orrery.dev/web",
                "5s",
                Some("images are pulled for the pod: there is no form for one container"),
            ),
        ] {
            let found = find(&spec, &BTreeMap::from([(key.to_owned(), value.to_owned())]));
            let expected: Vec<String> = error.into_iter().map(|error| format!("{key}: {error}")).collect();
            assert_eq!(found, expected, "{key}: {value}");
        }
    }
}
