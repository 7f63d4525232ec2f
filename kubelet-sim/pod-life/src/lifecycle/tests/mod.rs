//! Whole lives of pods, shown as timelines.

mod changes;
mod config;
mod ending;
mod invariants;
mod outages;
mod probes;
mod reference;
mod resizing;
mod starting;
mod statuses;

use super::*;
use expect_test::{Expect, expect};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fmt::Write;

/// 2026-01-01T00:00:00Z
const START_S: i64 = 1_767_225_600;

fn at(ms: i64) -> Timestamp {
    Timestamp::from_millisecond(START_S * 1000 + ms).unwrap()
}

/// A pod, its node, and the timeline so far.
struct Life {
    pod: Pod,
    status: PodStatus,
    now: Timestamp,
    sandbox: Sandbox,
    images: BTreeSet<String>,
    recorded: BTreeSet<String>,
    log: String,
    /// Keep of each status only what the API server stores, like an agent that restarts before every step.
    forgetful: bool,
    objects: Objects,
    notes: Notes,
    live: BTreeMap<String, Live>,
    /// Refuses other resources, for this reason.
    refuses: Option<ResizeRefusal>,
}

impl Life {
    fn of(spec: Value, annotations: Value) -> Self {
        let pod = json!({
            "metadata": {"name": "web", "namespace": "shop", "uid": "u1", "generation": 1, "annotations": annotations},
            "spec": spec,
        });
        let pod = Pod::decode_value(pod).unwrap();
        let status = PodStatus::default();
        Self {
            pod,
            status,
            now: at(0),
            sandbox: Sandbox::Addresses(vec!["10.244.0.5".parse().unwrap()]),
            images: BTreeSet::new(),
            recorded: BTreeSet::new(),
            log: String::new(),
            forgetful: false,
            objects: Objects::default(),
            notes: Notes::default(),
            live: BTreeMap::new(),
            refuses: None,
        }
    }

    fn step(&mut self) -> Option<Timestamp> {
        let has_image = |image: &str| self.images.contains(image);
        let latency = Latency::default();
        let verdict = || self.refuses.clone().map_or(Ok(()), Err);
        let resize = resize::is_undecided(&self.pod, &self.status).then(verdict);
        let (node_ips, sandbox) = (&["172.18.0.2".parse().unwrap()], self.sandbox.clone());
        let (pod, status) = (&self.pod, &self.status);
        let (objects, notes) = (&self.objects, self.notes.clone());
        let view = PodView {
            pod,
            status,
            node_ips,
            sandbox,
            has_image: &has_image,
            plan_pull: &PlannedPull::at_once,
            objects,
            notes,
            live: &self.live,
            resize,
            latency: &latency,
        };
        let step = step(&view, self.now);
        let changed = self.line(&step.status) != self.line(&self.status) || step.ended;
        let new_events: Vec<PodEvent> =
            step.events.into_iter().filter(|event| self.recorded.insert(event.occurrence.clone())).collect();
        if changed || !new_events.is_empty() {
            let ms = self.now.as_millisecond() - START_S * 1000;
            let end = if step.ended { " -> delete" } else { "" };
            let time = format!("{:.1}s", ms as f64 / 1000.0);
            writeln!(self.log, "{time:<6}{}{end}", self.line(&step.status)).unwrap();
            for event in new_events {
                let kind = if event.warning { "!" } else { " " };
                writeln!(self.log, "        {kind} {}: {} {}", event.reason, event.message, event.field_path).unwrap();
            }
        }
        self.images.extend(step.pulled);
        self.notes = step.notes;
        self.status = step.status;
        if self.forgetful {
            self.notes = Notes::default();
            self.status = serde_json::from_value(serde_json::to_value(&self.status).unwrap()).unwrap();
        }
        step.wake_at
    }

    fn line(&self, status: &PodStatus) -> String {
        let ready = status.conditions.iter().flatten().any(|c| c.type_ == "Ready" && c.status == "True");
        let lists = [&status.init_container_statuses, &status.container_statuses, &status.ephemeral_container_statuses];
        let statuses = lists.into_iter().flatten().flatten();
        let containers = statuses.map(|s| {
            let state = s.state.clone().unwrap_or_default();
            let state = match (state.waiting, state.running, state.terminated) {
                (Some(waiting), _, _) => waiting.reason.unwrap_or_default(),
                (_, Some(_), _) => "running".to_owned(),
                (_, _, Some(exit)) => format!("{}({})", exit.reason.unwrap_or_default(), exit.exit_code),
                _ => "?".to_owned(),
            };
            let restarts = if s.restart_count > 0 { format!(" x{}", s.restart_count) } else { String::new() };
            format!("{}={state}{}{restarts}", s.name, if s.ready { "+" } else { "" })
        });
        let containers: Vec<String> = containers.collect();
        let phase = status.phase.as_deref().unwrap_or("-");
        format!("{phase}{} {}", if ready { " Ready" } else { "" }, containers.join(" "))
    }

    /// Takes steps until nothing is due or `ms` is reached.
    fn until(mut self, ms: i64) -> Self {
        loop {
            match self.step() {
                Some(wake_at) if wake_at <= at(ms) => {
                    assert!(wake_at > self.now, "a step that is due at once would never end");
                    self.now = wake_at;
                }
                _ => break,
            }
        }
        self.now = at(ms);
        self
    }

    fn delete(mut self, grace_s: i64) -> Self {
        self.pod.metadata.deletion_grace_period_seconds = Some(grace_s);
        self.pod.metadata.deletion_timestamp = Some(Time(self.now + Duration::from_secs(grace_s as u64)));
        self
    }

    /// Compares the timeline without the events of every start.
    fn check_changes(self, expected: &Expect) -> Self {
        let of_start = ["Pulling:", "Pulled:", "Created:", "Started:"];
        let is_other = |line: &&str| !of_start.iter().any(|reason| line.trim_start().starts_with(reason));
        let lines: String = self.log.lines().filter(is_other).map(|line| format!("{line}\n")).collect();
        expected.assert_eq(&lines);
        self
    }

    fn check(self, expected: &Expect) -> Self {
        expected.assert_eq(&self.log);
        self
    }
}

fn nginx() -> Value {
    json!({"containers": [{"name": "web", "image": "nginx:1.29"}]})
}
