//! The log of a simulated container: a function of its pod and of the run, and of nothing else.
//!
//! There is no Kubernetes counterpart. A container whose programs are simulated (`sh -c "echo hi; sleep 9"`) prints what
//! they print. Every other one prints a line at its start and at its end, and in between the
//! lines of its annotation.

use super::log_filter::Line;
use crate::runtime::run::Run;
use pod_life::story::LogStory;
use proto::kinds::api::core::v1::Container;
use proto::kinds::jiff::Timestamp;
use std::collections::BTreeMap;
use std::time::Duration;
use userland::process::kernel::FIRST;
use userland::process::processes::Processes;

/// Lines that a container keeps; older ones are rotated away.
const MAX_LINES: u32 = 10_000;
/// The longest time by which the stored end of a run, a whole second, lies before the end of its process.
const END_PRECISION: Duration = Duration::from_secs(1);
/// Calls of `advance_to` for one look at a log.
const MAX_ADVANCES: u32 = 8;
/// The exit code of a process that SIGKILL ended.
const EXIT_KILLED: i32 = 137;

/// The output of one run of a container.
pub struct Output<'a> {
    container: &'a Container,
    story: &'a LogStory,
    /// The lines that its own command prints; `None` when its program is not simulated.
    printed: Option<Printed>,
    run: &'a Run,
}

/// The lines that a container's process has printed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Printed {
    lines: Vec<Line>,
    /// The time at which there may be more.
    next: Option<Timestamp>,
}

impl Printed {
    /// Runs a container's processes up to a time, but not beyond the end of the run.
    pub fn up_to(to: Timestamp, processes: &mut Processes, run: &Run) -> Self {
        let end = run.end.map(|(at, _)| at);
        // A run that ended by itself may have printed its last lines in the second that its end begins.
        let latest = end.map(|end| end.checked_add(END_PRECISION).unwrap_or(end));
        let to = latest.map_or(to, |latest| to.min(latest));
        // A container that nobody has looked at for days has much to catch up on.
        let _ = (0..MAX_ADVANCES).any(|_| processes.advance_to(to));
        let has_ended = processes.end_of(FIRST).is_some();
        let (mut lines, mut open) = (Vec::new(), BTreeMap::<u8, (Timestamp, Vec<u8>)>::new());
        for output in processes.outputs(FIRST) {
            let (at, bytes) = open.entry(output.descriptor).or_insert((output.at, Vec::new()));
            for part in output.bytes.split_inclusive(|byte| *byte == b'\n') {
                if bytes.is_empty() {
                    *at = output.at;
                }
                bytes.extend(part);
                if bytes.last() == Some(&b'\n') {
                    bytes.pop();
                    lines.push(Line::whole(output.at, String::from_utf8_lossy(bytes).into_owned()));
                    bytes.clear();
                }
            }
        }
        if has_ended || end.is_some() {
            let unfinished = open.into_values().filter(|(_, bytes)| !bytes.is_empty());
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            lines.extend(unfinished.map(|(at, bytes)| Line { at, text: text(&bytes), is_partial: true }));
        }
        if let Some(end) = end.filter(|_| has_ended) {
            lines.iter_mut().for_each(|line| line.at = line.at.min(end));
        }
        let surplus = lines.len().saturating_sub(MAX_LINES as usize);
        lines.drain(..surplus);
        Self { lines, next: processes.next_wake().filter(|_| !has_ended) }
    }
}

impl<'a> Output<'a> {
    /// A story's own lines go before those that the container's process prints.
    pub fn new(container: &'a Container, story: &'a LogStory, printed: Option<Printed>, run: &'a Run) -> Self {
        Self { container, story, printed: printed.filter(|_| story.lines.is_empty()), run }
    }

    /// Returns the lines after `from` (all of them for `None`) up to and including `to`, and when the next one is due.
    pub fn lines(&self, from: Option<Timestamp>, to: Timestamp) -> (Vec<Line>, Option<Timestamp>) {
        let end = self.run.end.map_or(Timestamp::MAX, |(at, _)| at);
        let mut lines = self.all(to.min(end));
        let next = match &self.printed {
            Some(printed) => printed.next.map(|next| next.max(to)),
            None => lines.iter().find(|line| line.at > to).map(|line| line.at),
        };
        let next = next.filter(|at| *at <= end);
        lines.retain(|line| line.at <= to && line.at <= end && from.is_none_or(|from| line.at > from));
        (lines, next)
    }

    /// Returns every line that is kept at `to`, and the next one.
    fn all(&self, to: Timestamp) -> Vec<Line> {
        let start = self.run.started_at;
        let at = |after: Duration| start.checked_add(after).unwrap_or(Timestamp::MAX);
        if let Some(printed) = &self.printed {
            return printed.lines.clone();
        }
        let mut lines: Vec<Line> = self
            .greeting()
            .into_iter()
            .map(|text| Line::whole(start, text))
            .chain(self.lines_at_start(start))
            .collect();
        if let (Some(every), count @ 1..) = (self.story.every, self.story.lines.len()) {
            let passed = Duration::try_from(to.duration_since(start)).unwrap_or_default();
            let due = u32::try_from(passed.as_nanos() / every.as_nanos().max(1)).unwrap_or(u32::MAX - 1);
            for turn in due.saturating_sub(MAX_LINES).max(1)..=due + 1 {
                let text = self.story.lines[(turn as usize - 1) % count].clone();
                lines.push(Line::whole(at(every.saturating_mul(turn)), text));
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
        once.iter().map(|text| Line::whole(at, text.clone())).collect()
    }

    /// Returns the last line; `None` for a container that was killed or still runs.
    fn farewell(&self) -> Option<Line> {
        let (at, code) = self.run.end.filter(|(_, code)| *code != EXIT_KILLED)?;
        let name = &self.container.name;
        let text = if code == 0 { format!("{name}: done") } else { format!("{name}: failed with exit code {code}") };
        Some(Line::whole(at, text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use file_tree::mounts::FileTree;
    use pod_life::entrypoint::{argv, image_of, is_simulated};
    use serde_json::{Value, json};
    use userland::launch::launch;
    use userland::process::processes::ContainerSetup;
    use userland::process::streams::Streams;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_767_225_600 + second).unwrap()
    }

    /// Runs the container's command, if it is simulated.
    fn printed(container: &Container, run: &Run, to: Timestamp) -> Option<Printed> {
        let tree = FileTree::new(image_of(container).files(run.started_at), false);
        let mut processes = Processes::new(ContainerSetup::bare("c", tree, run.started_at), launch);
        processes.start(argv(container), Streams::of_log(false, false));
        is_simulated(container).then(|| Printed::up_to(to, &mut processes, run))
    }

    fn said(container: Value, story: &LogStory, run: &Run, to: i64) -> String {
        let container: Container = serde_json::from_value(container).unwrap();
        let printed = printed(&container, run, at(to));
        let (lines, next) = Output::new(&container, story, printed, run).lines(None, at(to));
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
        let output = Output::new(&container, &story, None, &run);
        let (lines, next) = output.lines(None, at(1_000_000));
        assert_eq!(lines.len(), 1 + MAX_LINES as usize + 1);
        assert_eq!(next, Some(at(1_000_000) + Duration::from_millis(100)));
        assert_eq!(output.lines(Some(at(999_999)), at(1_000_000)).0.len(), 10);
    }
}
