//! The story of a simulated container: what it does, as its pod's annotations and spec say.
//!
//! There is no kubelet counterpart: a real container runs a program. A story says when the container becomes ready,
//! how long it runs and how it exits. All of it can be changed on a running pod.
//!
//! | annotation | value | meaning |
//! |---|---|---|
//! | `orrery.dev/run-for` | `30s` | every app container exits after running this long |
//! | `orrery.dev/exit-code` | `1,1,0` | exit codes of successive runs; the last one repeats |
//! | `orrery.dev/crash-after` | `30s` | every app container exits with 1 after this long |
//! | `orrery.dev/oom-after` | `1m` | every app container is killed after this long, because it has used up its memory |
//! | `orrery.dev/ready-after` | `10s`, `never` | time from start to ready, instead of what the probes say |
//! | `orrery.dev/startup`, `liveness`, `readiness` | `ok, fail@30s`, `flap 10s/5s` | what that probe finds, by the time since the start |
//! | `orrery.dev/cpu`, `memory` | `100m`, `sine 1Gi..2Gi/1h` | what every app container uses, by the time since its start |
//! | `orrery.dev/disk`, `processes` | `ramp 0..5Gi/1h`, `300` | local disk and processes that every app container uses |
//! | `orrery.dev/pull-time` | `20s` | time to pull an image that the node does not have |
//! | `orrery.dev/pull-error` | `not found` | no image of this pod can be pulled, for this reason |
//! | `orrery.dev/termination-message` | text | what every app container leaves behind when it ends |
//! | `orrery.dev/answer` | `hello`, `503 busy` | what every declared port of every app container answers |
//! | `orrery.dev/log` | lines of text | what every app container writes to its log, once it has started |
//! | `orrery.dev/log-every` | `2s` | write those lines in turn, one each time, over and over |
//! | `orrery.dev/stop-time` | `45s` | time from SIGTERM to exit; beyond the grace period the container is killed |
//!
//! All but the two pull annotations can be given for one container, as `run-for.orrery.dev/CONTAINER: 30s`. This form
//! has precedence over the pod's. It is the only form that applies to init, sidecar and ephemeral containers.
//!
//! Without annotations the app containers of a pod whose restart policy is `Always` run until they are stopped; those
//! of `OnFailure` and `Never` pods (jobs) run for five seconds and exit with 0; init containers run for half a second
//! and exit with 0; sidecars and ephemeral containers run until they are stopped. A command that can be predicted
//! (`sleep 30`, `sh -c "echo no; exit 1"`) ends as its words say, whatever the policy. An interactive shell (`kubectl
//! run -it`) runs until its user ends it; then the annotations `run-for` and `exit-code` of its container are set.

pub mod curve;
pub mod errors;
pub mod usage;

use crate::entrypoint;
use crate::latency::Latency;
use crate::outcomes::Outcomes;
use crate::story::curve::Curve;
use component_base::duration::parse_duration;
use proto::kinds::api::core::v1::Container;
use std::collections::BTreeMap;
use std::time::Duration;

/// The kind of a container in its pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContainerKind {
    /// Runs to completion before the next one starts.
    Init,
    /// An init container with `restartPolicy: Always`: keeps running beside the app containers.
    Sidecar,
    App,
    /// Added to a running pod to look at it (`kubectl debug`); never started again.
    Ephemeral,
}

/// What one container will do. All times count from the moment it starts.
#[derive(Clone, Debug, PartialEq)]
pub struct Story {
    /// Time from start to exit; `None` when it runs until it is stopped.
    pub run_for: Option<Duration>,
    /// Time from start to a crash, and to the end by lack of memory.
    pub crash_after: Option<Duration>,
    pub oom_after: Option<Duration>,
    /// The memory that it uses; `None` when it uses what it requests.
    pub memory: Option<Curve>,
    /// Exit codes of successive runs; the last one repeats. Never empty.
    pub exit_codes: Vec<i32>,
    /// What the probes find; `None` when the container's spec decides.
    pub startup: Option<Outcomes>,
    pub liveness: Option<Outcomes>,
    pub readiness: Option<Outcomes>,
    /// Time until the container is ready, whatever its probe says; `Some(None)` when it never is.
    pub ready_after: Option<Option<Duration>>,
    pub pull_time: Duration,
    /// The error of every pull; `None` when pulls succeed.
    pub pull_error: Option<String>,
    /// Time from SIGTERM to exit.
    pub stop_time: Duration,
    /// What it leaves behind when it ends; `None` when its process decides.
    pub termination_message: Option<String>,
    pub log: LogStory,
}

/// The lines that a container writes to its log.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LogStory {
    pub lines: Vec<String>,
    /// The period at which one line is written; `None` when all are written once at the start.
    pub every: Option<Duration>,
}

/// The annotations that are about one container.
#[derive(Clone, Copy, Debug)]
pub struct Words<'a> {
    pub annotations: &'a BTreeMap<String, String>,
    pub container: &'a str,
    /// The pod's own words are about its app containers alone.
    pub is_app: bool,
}

impl<'a> Words<'a> {
    /// Returns the value of a word: the container's own, or the pod's.
    pub fn get(&self, word: &str) -> Option<&'a str> {
        let own = self.annotations.get(&format!("{word}.orrery.dev/{}", self.container));
        let of_pod = || self.annotations.get(&format!("orrery.dev/{word}")).filter(|_| self.is_app);
        own.or_else(of_pod).map(String::as_str)
    }
}

/// The shortest period of a log.
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);

impl Story {
    pub fn exit_code(&self, earlier_runs: i32) -> i32 {
        let run = usize::try_from(earlier_runs).unwrap_or_default().min(self.exit_codes.len() - 1);
        self.exit_codes[run]
    }

    /// Reads a container's story. An annotation that cannot be parsed is ignored, so that a typo in one does not disable
    /// the others; `errors` finds it.
    pub fn of(
        container: &Container,
        kind: ContainerKind,
        restart_policy: &str,
        annotations: &BTreeMap<String, String>,
        latency: &Latency,
    ) -> Self {
        let words = Words { annotations, container: &container.name, is_app: kind == ContainerKind::App };
        let annotation = |what: &str| words.get(what);
        let time = |what: &str| annotation(what).and_then(|text| parse_duration(text).ok());
        let outcomes = |what: &str| annotation(what).and_then(|text| Outcomes::parse(text).ok());
        let of_pod = |what: &str| annotations.get(&format!("orrery.dev/{what}")).map(String::as_str);

        let default_run = match kind {
            ContainerKind::Init => Some(latency.init_run),
            ContainerKind::Sidecar | ContainerKind::Ephemeral => None,
            ContainerKind::App
                if restart_policy == "Always" || entrypoint::interactive_command(container).is_some() =>
            {
                None
            }
            ContainerKind::App => Some(latency.job_run),
        };
        let own_end = entrypoint::known_end(container);
        let codes = annotation("exit-code").and_then(parse_exit_codes);
        Self {
            run_for: time("run-for").or(own_end.map_or(default_run, |end| end.after)),
            exit_codes: codes.unwrap_or_else(|| vec![own_end.map_or(0, |end| end.exit_code)]),
            crash_after: time("crash-after"),
            oom_after: time("oom-after"),
            memory: annotation("memory").and_then(|text| Curve::parse(text).ok()),
            startup: outcomes("startup"),
            liveness: outcomes("liveness"),
            readiness: outcomes("readiness"),
            ready_after: match annotation("ready-after") {
                Some("never") => Some(None),
                Some(text) => parse_duration(text).ok().map(Some),
                None => None,
            },
            pull_time: of_pod("pull-time").and_then(|text| parse_duration(text).ok()).unwrap_or(latency.image_pull),
            pull_error: of_pod("pull-error").map(str::to_owned),
            stop_time: time("stop-time").unwrap_or(latency.stop),
            termination_message: annotation("termination-message").map(str::to_owned),
            log: LogStory {
                lines: annotation("log").map(|text| text.lines().map(str::to_owned).collect()).unwrap_or_default(),
                every: time("log-every").map(|every| every.max(SHORTEST_PAUSE)),
            },
        }
    }
}

/// Parses exit codes of successive runs; `None` if one of them is no number.
pub fn parse_exit_codes(text: &str) -> Option<Vec<i32>> {
    text.split(',').map(|code| code.trim().parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn story(kind: ContainerKind, policy: &str, annotations: &[(&str, &str)]) -> Story {
        let container = Container { name: "c".into(), ..Default::default() };
        let annotations = annotations.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Story::of(&container, kind, policy, &annotations, &Latency::default())
    }

    #[test]
    fn servers_run_on_and_jobs_end() {
        assert_eq!(story(ContainerKind::App, "Always", &[]).run_for, None);
        assert_eq!(story(ContainerKind::Sidecar, "Never", &[]).run_for, None);
        assert_eq!(story(ContainerKind::App, "Never", &[]).run_for, Some(Duration::from_secs(5)));
        assert_eq!(story(ContainerKind::App, "OnFailure", &[]).exit_code(3), 0);
        assert_eq!(story(ContainerKind::Init, "Always", &[]).run_for, Some(Duration::from_millis(500)));
    }

    #[test]
    fn a_command_that_is_foreseen_decides() {
        let story = |policy: &str, args: &[&str], stdin: bool, annotations: &[(&str, &str)]| {
            let args = Some(args.iter().map(|&word| word.to_owned()).collect());
            let container = Container { name: "c".into(), args, stdin: Some(stdin), ..Default::default() };
            let annotations = annotations.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
            let story = Story::of(&container, ContainerKind::App, policy, &annotations, &Latency::default());
            (story.run_for, story.exit_code(0))
        };
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        assert_eq!(story("Always", &["sh", "-c", "sleep 2; exit 3"], false, &[]), (seconds(2), 3));
        assert_eq!(story("Never", &["sleep", "infinity"], false, &[]), (None, 0));
        assert_eq!(story("Never", &["sh"], true, &[]), (None, 0));
        assert_eq!(story("Never", &["sh"], false, &[]), (seconds(5), 0));
        let said = [("run-for.orrery.dev/c", "9s"), ("orrery.dev/exit-code", "7")];
        assert_eq!(story("Always", &["false"], false, &said), (seconds(9), 7));
    }

    #[test]
    fn a_containers_own_annotation_goes_before_the_pods() {
        let all = [("orrery.dev/run-for", "9s"), ("run-for.orrery.dev/c", "2s"), ("orrery.dev/exit-code", "1, 1,0")];
        let app = story(ContainerKind::App, "Always", &all);
        assert_eq!(app.run_for, Some(Duration::from_secs(2)));
        assert_eq!([0, 1, 2, 7].map(|run| app.exit_code(run)), [1, 1, 0, 0]);
        // The pod's own never reaches an init container.
        let init = story(ContainerKind::Init, "Always", &[("orrery.dev/run-for", "9s"), ("orrery.dev/exit-code", "1")]);
        assert_eq!((init.run_for, init.exit_code(0)), (Some(Duration::from_millis(500)), 0));
    }

    #[test]
    fn a_typo_changes_nothing() {
        let story =
            story(ContainerKind::App, "Always", &[("orrery.dev/exit-code", "one"), ("orrery.dev/ready-after", "soon")]);
        assert_eq!((story.exit_codes, story.ready_after), (vec![0], None));
    }
}
