//! A reference for one container: a loop that looks at it every 50 ms, as a kubelet does, for drawn stories, policies and
//! probes. Its timeline is compared with those of `lifecycle::step` and of a whole fleet.

use component_base::rng::Random;
use proto::kinds::api::core::v1::ContainerStatus;
use serde_json::{Value, json};

/// The time between two looks of the reference.
const TICK_MS: i64 = 50;
/// The end of a timeline.
pub const END_MS: i64 = 300_000;

/// What a probe finds, by the seconds since the start of the container: `true` for success. The first entry is at 0.
type Schedule = Vec<(i64, bool)>;

#[derive(Clone, Debug)]
struct DrawnProbe {
    delay_s: i64,
    period_s: i64,
    successes: u32,
    failures: u32,
    schedule: Schedule,
}

impl DrawnProbe {
    fn draw(random: &Random, is_readiness: bool) -> Option<Self> {
        if random.below(2) == 0 {
            return None;
        }
        let mut schedule = vec![(0, random.below(2) == 0)];
        for _ in 0..random.below(4) {
            let (last_s, succeeds) = schedule[schedule.len() - 1];
            schedule.push((last_s + 1 + random.below(40) as i64, !succeeds));
        }
        Some(Self {
            delay_s: random.below(6) as i64,
            period_s: 1 + random.below(8) as i64,
            successes: if is_readiness { 1 + random.below(3) as u32 } else { 1 },
            failures: 1 + random.below(4) as u32,
            schedule,
        })
    }

    fn spec(&self) -> Value {
        json!({
            "httpGet": {"port": 80}, "initialDelaySeconds": self.delay_s, "periodSeconds": self.period_s,
            "successThreshold": self.successes, "failureThreshold": self.failures,
        })
    }

    fn story(&self) -> String {
        let word = |succeeds: bool| if succeeds { "ok" } else { "fail" };
        let at = |(from_s, succeeds): &(i64, bool)| match from_s {
            0 => word(*succeeds).to_owned(),
            _ => format!("{}@{from_s}s", word(*succeeds)),
        };
        self.schedule.iter().map(at).collect::<Vec<_>>().join(", ")
    }

    fn succeeds_at(&self, since_start_ms: i64) -> bool {
        self.schedule
            .iter()
            .rev()
            .find(|(from_s, _)| from_s * 1000 <= since_start_ms)
            .expect("the first entry is at 0")
            .1
    }
}

/// The times have different fractions of seconds, so that no two things happen at once.
#[derive(Clone, Debug)]
pub struct DrawnContainer {
    policy: &'static str,
    run_for_ms: Option<i64>,
    exit_codes: Vec<i32>,
    crash_after_ms: Option<i64>,
    stop_time_ms: i64,
    pub grace_s: i64,
    /// How long its pre-stop hook takes; 0 without one.
    hook_s: i64,
    /// When the pod is deleted.
    pub deleted_ms: i64,
    startup: Option<DrawnProbe>,
    liveness: Option<DrawnProbe>,
    readiness: Option<DrawnProbe>,
}

impl DrawnContainer {
    pub fn draw(random: &Random) -> Self {
        let some_ms = |most: usize| (random.below(2) == 0).then(|| 1_600 + 1000 * random.below(most) as i64);
        Self {
            policy: ["Always", "OnFailure", "Never"][random.below(3)],
            run_for_ms: some_ms(60),
            exit_codes: (0..=random.below(3)).map(|_| random.below(2) as i32 * 3).collect(),
            crash_after_ms: some_ms(90),
            stop_time_ms: random.below(8) as i64 * 1000 + 300,
            grace_s: 2 + random.below(6) as i64,
            hook_s: (random.below(8) as i64 - 3).max(0),
            deleted_ms: 1_750 + 1000 * random.below(400) as i64,
            startup: DrawnProbe::draw(random, false),
            liveness: DrawnProbe::draw(random, false),
            readiness: DrawnProbe::draw(random, true),
        }
    }

    /// Returns the spec of its pod, and the annotations that tell the story. Its image is `a`.
    pub fn pod(&self) -> (Value, Value) {
        let mut container = json!({"name": "c", "image": "a", "ports": [{"containerPort": 80}]});
        let codes = self.exit_codes.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        let mut story =
            json!({"orrery.dev/exit-code": codes, "orrery.dev/stop-time": format!("{}ms", self.stop_time_ms)});
        // A batch container ends by itself; here only its story says so.
        story["orrery.dev/run-for"] = json!(format!("{}ms", self.run_for_ms.unwrap_or(1_000_000_000)));
        if let Some(after_ms) = self.crash_after_ms {
            story["orrery.dev/crash-after"] = json!(format!("{after_ms}ms"));
        }
        for (word, probe) in [("startup", &self.startup), ("liveness", &self.liveness), ("readiness", &self.readiness)]
        {
            if let Some(probe) = probe {
                container[format!("{word}Probe")] = probe.spec();
                story[format!("orrery.dev/{word}")] = json!(probe.story());
            }
        }
        if self.hook_s > 0 {
            let command = ["sh".to_owned(), "-c".to_owned(), format!("sleep {}", self.hook_s)];
            container["lifecycle"] = json!({"preStop": {"exec": {"command": command}}});
        }
        let spec = json!({
            "restartPolicy": self.policy, "terminationGracePeriodSeconds": self.grace_s, "containers": [container],
        });
        (spec, story)
    }

    /// Returns when a run ends that is asked to stop at `asked_ms`, and whether SIGTERM has ended it.
    fn stop(&self, asked_ms: i64) -> (i64, bool) {
        let grace_ms = self.grace_s * 1000;
        let signalled_ms = asked_ms + (self.hook_s * 1000).min(grace_ms);
        let killed_ms = (asked_ms + grace_ms).max(signalled_ms + 2_000);
        let obeys_ms = signalled_ms + self.stop_time_ms;
        (obeys_ms.min(killed_ms), obeys_ms <= killed_ms)
    }
}

/// The worker of one probe in one run of a container.
#[derive(Default)]
struct Worker {
    next_ms: i64,
    in_a_row: u32,
    last: Option<bool>,
    result: Option<bool>,
}

impl Worker {
    /// Probes if it is time to, and returns the result so far.
    fn look(&mut self, probe: &DrawnProbe, started_ms: i64, enabled_ms: i64, now_ms: i64) -> Option<bool> {
        let first_ms = enabled_ms.max(started_ms + probe.delay_s * 1000);
        self.next_ms = self.next_ms.max(first_ms);
        if now_ms == self.next_ms {
            self.next_ms += probe.period_s * 1000;
            let succeeds = probe.succeeds_at(now_ms - started_ms);
            self.in_a_row = if self.last == Some(succeeds) { self.in_a_row + 1 } else { 1 };
            self.last = Some(succeeds);
            if self.in_a_row >= if succeeds { probe.successes } else { probe.failures } {
                self.result = Some(succeeds);
            }
        }
        self.result
    }
}

/// One run of the container.
struct Run {
    started_ms: i64,
    workers: [Worker; 3],
    started_up_ms: Option<i64>,
    killed_ms: Option<i64>,
}

impl Run {
    fn new(started_ms: i64) -> Self {
        Self { started_ms, workers: Default::default(), started_up_ms: None, killed_ms: None }
    }
}

enum State {
    /// Starts at this time. Until then its status shows this.
    Waiting {
        due_ms: i64,
        shows: String,
        last_exit: Option<i32>,
    },
    Running(Run),
    Over(String),
}

/// The changes of a container's state, with whether it is ready and started, and its restarts; by milliseconds.
pub type Timeline = Vec<(i64, String)>;

/// Returns the line of a timeline that shows a status.
pub fn line(status: &ContainerStatus) -> String {
    let state = status.state.clone().unwrap_or_default();
    let shown = match (state.waiting, state.running, state.terminated) {
        (Some(waiting), _, _) => waiting.reason.unwrap_or_default(),
        (_, Some(_), _) => {
            let (ready, started) = (status.ready, status.started == Some(true));
            format!("running{}{}", if ready { " ready" } else { "" }, if started { " started" } else { "" })
        }
        (_, _, Some(exit)) => format!("exited {}", exit.exit_code),
        _ => "?".to_owned(),
    };
    format!("{shown} x{}", status.restart_count)
}

/// Adds a line to a timeline, unless it is the last one already.
pub fn push(timeline: &mut Timeline, now_ms: i64, line: String) {
    if timeline.last().is_none_or(|(_, last)| *last != line) {
        timeline.push((now_ms, line));
    }
}

/// Returns the timeline of a container that first starts at `first_start_ms`; each later start takes `start_latency_ms`.
pub fn reference(container: &DrawnContainer, first_start_ms: i64, start_latency_ms: i64) -> Timeline {
    let mut timeline = Timeline::new();
    let mut restarts = 0;
    let mut state = State::Waiting { due_ms: first_start_ms, shows: "ContainerCreating".to_owned(), last_exit: None };
    let mut now_ms = 0;
    while now_ms <= END_MS {
        if let State::Waiting { due_ms, .. } = &state
            && now_ms >= *due_ms
            && now_ms < container.deleted_ms
        {
            restarts += i32::from(*due_ms > first_start_ms);
            state = State::Running(Run::new(*due_ms));
        }
        let is_deleted = now_ms >= container.deleted_ms;
        let mut exit = None;
        let line = match &mut state {
            State::Waiting { last_exit: Some(code), .. } if is_deleted => format!("exited {code}"),
            State::Waiting { shows, .. } | State::Over(shows) => shows.clone(),
            State::Running(run) => {
                let is_ready = look(container, run, now_ms);
                exit = exit_code(container, run, restarts, now_ms);
                format!(
                    "running{}{}",
                    if is_ready { " ready" } else { "" },
                    if run.started_up_ms.is_some() { " started" } else { "" }
                )
            }
        };
        let mut shown = line;
        if let Some(code) = exit {
            shown = format!("exited {code}");
            let again = container.policy == "Always" || (container.policy == "OnFailure" && code != 0);
            let delay_ms = if restarts == 0 { 0 } else { (10_000 << (restarts - 1)).min(300_000) };
            if again && delay_ms > 0 && !is_deleted {
                shown = "CrashLoopBackOff".to_owned();
            }
            state = match again && !is_deleted {
                true => State::Waiting {
                    due_ms: now_ms + delay_ms + start_latency_ms,
                    shows: shown.clone(),
                    last_exit: Some(code),
                },
                false => State::Over(shown.clone()),
            };
        }
        push(&mut timeline, now_ms, format!("{shown} x{restarts}"));
        now_ms += TICK_MS;
    }
    timeline
}

/// Runs the probes that are due; returns true when the container is ready.
fn look(container: &DrawnContainer, run: &mut Run, now_ms: i64) -> bool {
    let started_ms = run.started_ms;
    let [startup, liveness, readiness] = &mut run.workers;
    // A pod that is deleted is probed for readiness alone.
    let is_deleted = now_ms >= container.deleted_ms;
    if run.started_up_ms.is_none() && run.killed_ms.is_none() && !is_deleted {
        match container.startup.as_ref().map(|probe| startup.look(probe, started_ms, started_ms, now_ms)) {
            None | Some(Some(true)) => run.started_up_ms = Some(now_ms),
            Some(Some(false)) => run.killed_ms = Some(now_ms),
            Some(None) => {}
        }
    }
    let Some(enabled_ms) = run.started_up_ms else { return false };
    if let (Some(probe), None, false) = (&container.liveness, run.killed_ms, is_deleted)
        && liveness.look(probe, started_ms, enabled_ms, now_ms) == Some(false)
    {
        run.killed_ms = Some(now_ms);
    }
    container.readiness.as_ref().is_none_or(|probe| readiness.look(probe, started_ms, enabled_ms, now_ms) == Some(true))
}

/// Returns the exit code of a run that ends now.
fn exit_code(container: &DrawnContainer, run: &Run, restarts: i32, now_ms: i64) -> Option<i32> {
    let has_passed = |after_ms: Option<i64>| after_ms.is_some_and(|ms| now_ms >= run.started_ms + ms);
    let killed = run.killed_ms.map(|asked_ms| (container.stop(asked_ms), 143));
    let deleted = Some((container.stop(container.deleted_ms.max(run.started_ms)), 0));
    for ((at_ms, obeys), code) in [killed, deleted].into_iter().flatten() {
        if now_ms >= at_ms {
            return Some(if obeys { code } else { 137 });
        }
    }
    if has_passed(container.crash_after_ms) && container.crash_after_ms <= container.run_for_ms.or(Some(i64::MAX)) {
        return Some(1);
    }
    let run = usize::try_from(restarts).expect("a count").min(container.exit_codes.len() - 1);
    has_passed(container.run_for_ms).then(|| container.exit_codes[run])
}
