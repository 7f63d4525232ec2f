//! `Trial`: one run of a workload on a cluster, through the whole control plane and in virtual time.
//!
//! The API server, the controllers, a scheduler with any configuration and simulated nodes run as in `Simulation`, but
//! without the checks of every revision. A user creates pods at their times. What happens to pods and nodes is read from
//! the store, so a moment is that of the write. The same setup gives the same happenings, byte for byte.

mod setup;
mod observed;
mod stage;

pub use observed::Happening;
pub use setup::{Setup, Submission};

use crate::in_virtual_time;
use crate::part::Part;
use component_base::env::Env;
use futures::StreamExt;
use observed::{Observer, PODS};
use proto::Kind;
use proto::kinds::api::core::v1::Pod;
use serde_json::{Value, json};
use setup::PRIORITY_CLASS;
use stage::Stage;
use std::collections::BTreeSet;
use std::time::Duration;
use storage::{Event, Watch, WatchItem};
use tokio::time::Instant;

/// Virtual time without any change after which the pods that still wait are given up: twice the time after which the
/// scheduler tries a pod again that nothing has woken.
const STALLED: Duration = Duration::from_secs(600);
/// Longest run, so that a workload that never ends does end: a year.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 3600);
/// Virtual time between two reports of progress.
const REPORT_PERIOD: Duration = Duration::from_secs(600);

/// How far a run is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Virtual time since the beginning.
    pub at: Duration,
    pub created: usize,
    pub finished: usize,
    pub pods: usize,
}

/// Receives what happens, and reports of progress.
pub trait Audience {
    fn happened(&mut self, at: Duration, happening: Happening);
    fn progress(&mut self, progress: Progress);
}

/// Runs a trial until its last pod has finished, until nothing goes on any more, or until the time of the setup. Returns
/// the virtual time that it took, or why it could not run.
pub fn run(setup: Setup, submissions: Vec<Submission>, audience: &mut impl Audience) -> Result<Duration, String> {
    in_virtual_time(async {
        let env = Env::simulated(setup.seed);
        let until = setup.until.unwrap_or(LONGEST).min(LONGEST);
        let names = setup.templates.iter().map(|template| template.node_name.clone()).collect();
        let priorities: BTreeSet<i64> = submissions.iter().filter_map(|one| priority(&one.pod)).collect();
        let stage = Stage::raise(&env, setup).await?;
        stage.prepare(&priorities).await?;
        let trial = Trial {
            began: env.now(),
            env,
            stage,
            observer: Observer::new(names),
            last_change: Duration::ZERO,
            submissions,
            created: 0,
        };
        trial.play(until, audience).await
    })
}

/// Returns everything for which a scheduler with these settings could not start.
pub fn scheduler_problems(settings: &scheduler::Settings) -> Vec<String> {
    in_virtual_time(async {
        let client = stage::connect(&Env::simulated(1), Part::Scheduler.user(), Part::Scheduler.name());
        scheduler::problems(&settings.configuration, &client)
    })
}

fn priority(pod: &Value) -> Option<i64> {
    pod["spec"]["priority"].as_i64()
}

struct Trial {
    env: Env,
    began: Instant,
    stage: Stage,
    observer: Observer,
    /// When something other than a failed attempt happened last.
    last_change: Duration,
    submissions: Vec<Submission>,
    created: usize,
}

impl Trial {
    async fn play(mut self, until: Duration, audience: &mut impl Audience) -> Result<Duration, String> {
        let (mut pods, mut nodes) = (self.stage.watch(PODS).await?, self.stage.watch(observed::NODES).await?);
        for happening in self.observer.begin() {
            audience.happened(Duration::ZERO, happening);
        }
        let mut next_report = self.began + REPORT_PERIOD;
        loop {
            // Without more arrivals, the pods that run on decide how long to wait.
            let arrival = self.submissions.get(self.created).map(|next| self.began + next.at);
            let wake = arrival.unwrap_or_else(|| self.env.now() + STALLED).min(self.began + until).min(next_report);
            tokio::select! {
                biased;
                item = pods.next() => self.observe(item, audience).await?,
                item = nodes.next() => self.observe(item, audience).await?,
                () = self.env.sleep_until(wake) => {}
            }
            self.stage.failure()?;
            let now = self.env.now();
            while self.submissions.get(self.created).is_some_and(|next| self.began + next.at <= now) {
                let pod = self.submissions[self.created].pod.take();
                self.stage.create_pod(&pod).await?;
                self.observer.remember(&pod);
                self.created += 1;
            }
            if now >= next_report {
                audience.progress(self.progress());
                next_report = now + REPORT_PERIOD;
            }
            if now >= self.began + until || self.has_ended() {
                break;
            }
        }
        let took = self.elapsed();
        audience.happened(took, Happening::Ended);
        audience.progress(self.progress());
        self.stage.strike().await;
        Ok(took)
    }

    async fn observe(
        &mut self,
        item: Option<Result<WatchItem, storage::Error>>,
        audience: &mut impl Audience,
    ) -> Result<(), String> {
        let events = match item {
            Some(Ok(WatchItem::Events(events))) => events,
            Some(Ok(WatchItem::Progress(_))) => return Ok(()),
            Some(Err(error)) => return Err(error.to_string()),
            None => return Err("the watch on the store has ended".to_owned()),
        };
        for event in events {
            self.observe_one(&event, audience).await?;
        }
        Ok(())
    }

    async fn observe_one(&mut self, event: &Event, audience: &mut impl Audience) -> Result<(), String> {
        let value = |entry: &Option<storage::Entry>| -> Result<Option<Value>, String> {
            let read = entry.as_ref().map(|entry| serde_json::from_slice(&entry.value)).transpose();
            read.map_err(|error| format!("{}: {error}", event.key))
        };
        let at = self.elapsed();
        let (happenings, again) = self.observer.see(&event.key, value(&event.current)?.as_ref());
        for happening in happenings {
            if !matches!(happening, Happening::AttemptFailed { .. }) {
                self.last_change = at;
            }
            audience.happened(at, happening);
        }
        // A user whose pod is lost creates it again.
        match again {
            Some(pod) => self.stage.create_pod(&pod).await,
            None => Ok(()),
        }
    }

    fn has_ended(&self) -> bool {
        if self.created < self.submissions.len() {
            return false;
        }
        let stalled = self.elapsed() >= self.last_change + STALLED && !self.observer.lacks_nodes();
        self.observer.unfinished() == 0 || (self.observer.to_finish() == 0 && stalled)
    }

    fn elapsed(&self) -> Duration {
        self.env.now().duration_since(self.began)
    }

    fn progress(&self) -> Progress {
        let pods = self.submissions.len();
        Progress { at: self.elapsed(), created: self.created, finished: self.observer.finished(), pods }
    }
}

/// Returns a pod as it can be created: users name a class, and the server writes the priority.
fn with_class(pod: &Value) -> Value {
    let mut pod = pod.clone();
    if let (Some(priority), Some(spec)) = (priority(&pod), pod["spec"].as_object_mut()) {
        spec.remove("priority");
        spec.insert("priorityClassName".to_owned(), json!(format!("{PRIORITY_CLASS}{priority}")));
    }
    pod
}

/// Reads a pod; the error names it.
fn read(pod: &Value) -> Result<Pod, String> {
    Pod::decode_value(pod.clone()).map_err(|error| format!("pod {}: {error}", pod["metadata"]["name"]))
}

/// A watch on what the store holds below a prefix.
type Changes = Watch;

#[cfg(test)]
mod tests;
