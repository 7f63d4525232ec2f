//! The log of a simulated container: a function of its pod and of the run, and of nothing else.
//!
//! There is no Kubernetes counterpart. A container whose command the simulated shell can run (`sh -c "echo hi; sleep
//! 9"`) prints what that command prints. Every other one prints a line at its start and at its end, and in between the
//! lines of its annotation.

use super::log_filter::Line;
use crate::pod::story::LogStory;
use crate::shell::session::{ContainerContext, Session, ShellEffect, is_supported};
use proto::kinds::api::core::v1::{Container, ContainerStateTerminated, ContainerStatus};
use proto::kinds::jiff::{Timestamp, Unit};
use std::time::Duration;

/// Lines that a container keeps; older ones are rotated away.
const MAX_LINES: u32 = 10_000;
/// The exit code of a process that SIGKILL ended.
const EXIT_KILLED: i32 = 137;

/// One run of a container, from its start to its end.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// The number of runs before this one.
    pub number: i32,
    pub started_at: Timestamp,
    /// The time of its end and its exit code; `None` while it runs.
    pub end: Option<(Timestamp, i32)>,
}

impl Run {
    /// Returns the last run, or with `previous` the one before it. The error is worded as the kubelet words it.
    pub fn of(status: &ContainerStatus, pod: &str, previous: bool) -> Result<Self, String> {
        let name = &status.name;
        let state = status.state.clone().unwrap_or_default();
        let last = status.last_state.as_ref().and_then(|state| state.terminated.as_ref());
        let before = status.restart_count - i32::from(state.running.is_some() || state.terminated.is_some());
        if previous {
            let missing = || format!("previous terminated container {name:?} in pod {pod:?} not found");
            return last.map(|exit| Self::ended(before, exit)).ok_or_else(missing);
        }
        if let Some(running) = &state.running {
            let started_at = running.started_at.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| whole(time.0));
            return Ok(Self { number: status.restart_count, started_at, end: None });
        }
        if let Some(exit) = &state.terminated {
            return Ok(Self::ended(status.restart_count, exit));
        }
        if let Some(exit) = last {
            return Ok(Self::ended(before, exit));
        }
        let reason = state.waiting.and_then(|waiting| waiting.reason).unwrap_or_default();
        Err(match reason.as_str() {
            "" => format!("container {name:?} in pod {pod:?} is waiting to start - no logs yet"),
            "ErrImagePull" => format!("container {name:?} in pod {pod:?} is waiting to start: image can't be pulled"),
            "ImagePullBackOff" => {
                format!("container {name:?} in pod {pod:?} is waiting to start: trying and failing to pull image")
            }
            reason => format!("container {name:?} in pod {pod:?} is waiting to start: {reason}"),
        })
    }

    fn ended(number: i32, exit: &ContainerStateTerminated) -> Self {
        let time = |time: &Option<proto::kinds::metav1::Time>| {
            time.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| whole(time.0))
        };
        Self { number, started_at: time(&exit.started_at), end: Some((time(&exit.finished_at), exit.exit_code)) }
    }
}

/// Cuts a time to the second, as the API server stores it. The fractions that an agent remembers must not move a line.
fn whole(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time.round(Unit::Second).unwrap_or(time))
}

/// The output of one run of a container.
pub struct Output<'a> {
    container: &'a Container,
    story: &'a LogStory,
    /// The lines that its own command prints, with the time after the start; `None` when it is no known command.
    printed: Option<Vec<(Duration, String)>>,
    run: &'a Run,
}

impl<'a> Output<'a> {
    pub fn new(container: &'a Container, story: &'a LogStory, context: &ContainerContext, run: &'a Run) -> Self {
        let parts = [&container.command, &container.args];
        let argv: Vec<String> = parts.into_iter().flatten().flatten().cloned().collect();
        let printed = (story.lines.is_empty() && is_supported(&argv)).then(|| printed(context, &argv, run.started_at));
        Self { container, story, printed, run }
    }

    /// Returns the lines after `from` (all of them for `None`) up to and including `to`, and when the next one is due.
    pub fn lines(&self, from: Option<Timestamp>, to: Timestamp) -> (Vec<Line>, Option<Timestamp>) {
        let end = self.run.end.map_or(Timestamp::MAX, |(at, _)| at);
        let mut lines = self.all(to.min(end));
        let next = lines.iter().find(|line| line.at > to).map(|line| line.at).filter(|at| *at <= end);
        lines.retain(|line| line.at <= to && line.at <= end && from.is_none_or(|from| line.at > from));
        (lines, next)
    }

    /// Returns every line that is kept at `to`, and the next one.
    fn all(&self, to: Timestamp) -> Vec<Line> {
        let start = self.run.started_at;
        let at = |after: Duration| start.checked_add(after).unwrap_or(Timestamp::MAX);
        if let Some(printed) = &self.printed {
            return printed.iter().map(|(after, text)| Line { at: at(*after), text: text.clone() }).collect();
        }
        let mut lines: Vec<Line> = self
            .greeting()
            .into_iter()
            .map(|text| Line { at: start, text })
            .chain(self.lines_at_start(start))
            .collect();
        if let (Some(every), count @ 1..) = (self.story.every, self.story.lines.len()) {
            let passed = Duration::try_from(to.duration_since(start)).unwrap_or_default();
            let due = u32::try_from(passed.as_nanos() / every.as_nanos().max(1)).unwrap_or(u32::MAX - 1);
            for turn in due.saturating_sub(MAX_LINES).max(1)..=due + 1 {
                let text = self.story.lines[(turn as usize - 1) % count].clone();
                lines.push(Line { at: at(every.saturating_mul(turn)), text });
            }
        }
        lines.extend(self.farewell());
        lines
    }

    fn greeting(&self) -> Vec<String> {
        let Container { name, image, ports, .. } = self.container;
        let again = match self.run.number {
            0 => String::new(),
            number => format!(", restart {number}"),
        };
        let mut lines = vec![format!("{name}: started from image {}{again}", image.as_deref().unwrap_or_default())];
        let tcp = ports.iter().flatten().filter(|port| port.protocol.as_deref().is_none_or(|is| is == "TCP"));
        lines.extend(tcp.map(|port| format!("{name}: listening on port {}", port.container_port)));
        lines
    }

    fn lines_at_start(&self, at: Timestamp) -> Vec<Line> {
        let once = if self.story.every.is_none() { self.story.lines.as_slice() } else { &[] };
        once.iter().map(|text| Line { at, text: text.clone() }).collect()
    }

    /// Returns the last line; `None` for a container that was killed or still runs.
    fn farewell(&self) -> Option<Line> {
        let (at, code) = self.run.end.filter(|(_, code)| *code != EXIT_KILLED)?;
        let name = &self.container.name;
        let text = if code == 0 { format!("{name}: done") } else { format!("{name}: failed with exit code {code}") };
        Some(Line { at, text })
    }
}

/// Returns the lines that a command prints, with the time after its start.
fn printed(context: &ContainerContext, argv: &[String], started_at: Timestamp) -> Vec<(Duration, String)> {
    let outcome = Session::new(context).start(argv, started_at);
    let (mut lines, mut after, mut open) = (Vec::new(), Duration::ZERO, String::new());
    for effect in outcome.effects {
        match effect {
            ShellEffect::Out(text) | ShellEffect::Err(text) => {
                open.push_str(&text);
                while let Some(end) = open.find('\n') {
                    let rest = open.split_off(end + 1);
                    open.pop();
                    lines.push((after, std::mem::replace(&mut open, rest)));
                }
            }
            ShellEffect::Sleep(time) => after = after.saturating_add(time),
            // A log has no input.
            ShellEffect::Copy | ShellEffect::Drain | ShellEffect::Shell => {}
        }
    }
    if !open.is_empty() {
        lines.push((after, open));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_767_225_600 + second).unwrap()
    }

    fn said(container: Value, story: &LogStory, run: &Run, to: i64) -> String {
        let container: Container = serde_json::from_value(container).unwrap();
        let (lines, next) = Output::new(&container, story, &ContainerContext::default(), run).lines(None, at(to));
        let line = |line: &Line| format!("{} {}\n", line.at.duration_since(at(0)).as_secs(), line.text);
        let next = next.map(|next| format!("next {}\n", next.duration_since(at(0)).as_secs()));
        lines.iter().map(line).chain(next).collect()
    }

    #[test]
    fn a_container_tells_of_its_life() {
        let run = Run { number: 0, started_at: at(0), end: None };
        let web = json!({"name": "web", "image": "nginx", "ports": [{"containerPort": 80}]});
        let greeting = "0 web: started from image nginx\n0 web: listening on port 80\n";
        assert_eq!(said(web.clone(), &LogStory::default(), &run, 9), greeting);
        let failed = Run { number: 2, started_at: at(0), end: Some((at(5), 3)) };
        let expected =
            "0 web: started from image nginx, restart 2\n0 web: listening on port 80\n5 web: failed with exit code 3\n";
        assert_eq!(said(web.clone(), &LogStory::default(), &failed, 9), expected);
        let killed = Run { end: Some((at(5), EXIT_KILLED)), ..run.clone() };
        assert_eq!(said(web.clone(), &LogStory::default(), &killed, 9), greeting);
        let once = LogStory { lines: vec!["a".into(), "b".into()], every: None };
        assert_eq!(said(web.clone(), &once, &run, 9), format!("{greeting}0 a\n0 b\n"));
        let often = LogStory { every: Some(Duration::from_secs(4)), ..once };
        assert_eq!(said(web.clone(), &often, &run, 9), format!("{greeting}4 a\n8 b\nnext 12\n"));
        let ended = Run { end: Some((at(5), 0)), ..run };
        assert_eq!(said(web, &often, &ended, 99), format!("{greeting}4 a\n5 web: done\n"));
    }

    #[test]
    fn a_command_that_the_image_has_speaks_for_itself() {
        let run = Run { number: 0, started_at: at(0), end: None };
        let command = json!({"name": "c", "command": ["sh", "-c"], "args": ["echo hi; sleep 5; date; echo -n end"]});
        assert_eq!(said(command.clone(), &LogStory::default(), &run, 0), "0 hi\nnext 5\n");
        let all = "0 hi\n5 Thu Jan  1 00:00:05 UTC 2026\n5 end\n";
        assert_eq!(said(command.clone(), &LogStory::default(), &run, 9), all);
        let ended = Run { end: Some((at(3), EXIT_KILLED)), ..run };
        assert_eq!(said(command, &LogStory::default(), &ended, 9), "0 hi\n");
    }

    #[test]
    fn old_lines_are_rotated_away() {
        let run = Run { number: 0, started_at: at(0), end: None };
        let story = LogStory { lines: vec!["tick".into()], every: Some(Duration::from_millis(100)) };
        let container = Container { name: "c".into(), ..Container::default() };
        let output = Output::new(&container, &story, &ContainerContext::default(), &run);
        let (lines, next) = output.lines(None, at(1_000_000));
        assert_eq!(lines.len(), 1 + MAX_LINES as usize + 1);
        assert_eq!(next, Some(at(1_000_000) + Duration::from_millis(100)));
        assert_eq!(output.lines(Some(at(999_999)), at(1_000_000)).0.len(), 10);
    }

    #[test]
    fn what_never_ran_has_no_log() {
        let status = |state: Value, last: Value, restarts: i32| -> ContainerStatus {
            let status = json!({
                "name": "c", "image": "i", "imageID": "", "ready": false, "restartCount": restarts,
                "state": state, "lastState": last,
            });
            serde_json::from_value(status).unwrap()
        };
        let waiting = |reason: &str| json!({"waiting": {"reason": reason}});
        let exit = json!({"terminated": {
            "exitCode": 1, "startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:00:05Z",
        }});
        let running = json!({"running": {"startedAt": "2026-01-01T00:00:09.25Z"}});
        let first = Run { number: 0, started_at: at(0), end: Some((at(5), 1)) };
        let second = Run { number: 1, started_at: at(9), end: None };
        let not_yet = |why: &str| Err(format!("container \"c\" in pod \"p\" is waiting to start: {why}"));
        let nothing_before = || Err("previous terminated container \"c\" in pod \"p\" not found".to_owned());
        for (state, last, restarts, previous, expected) in [
            (waiting("ContainerCreating"), json!({}), 0, false, not_yet("ContainerCreating")),
            (waiting("ErrImagePull"), json!({}), 0, false, not_yet("image can't be pulled")),
            (waiting("ImagePullBackOff"), json!({}), 0, false, not_yet("trying and failing to pull image")),
            (waiting("CrashLoopBackOff"), exit.clone(), 0, false, Ok(first.clone())),
            (waiting("CrashLoopBackOff"), exit.clone(), 0, true, Ok(first.clone())),
            (running.clone(), exit.clone(), 1, false, Ok(second)),
            (running.clone(), exit.clone(), 1, true, Ok(first.clone())),
            (running, json!({}), 0, true, nothing_before()),
            (exit, json!({}), 0, false, Ok(first)),
        ] {
            assert_eq!(Run::of(&status(state.clone(), last, restarts), "p", previous), expected, "{state}");
        }
    }
}
