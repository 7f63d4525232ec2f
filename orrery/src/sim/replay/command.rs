//! What can be said to a replay: the commands of standard input, and the moments that they name.

use experiments::study::Span;
use std::time::Duration;

/// A moment of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Time since the beginning.
    At(Duration),
    /// The next event of this name; of any pod or node if there is no object.
    Event { name: String, object: Option<String> },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Goes on for a time.
    StepTime(Duration),
    /// Goes on until so many more things have happened.
    StepEvents(usize),
    Until(Moment),
    /// Goes back by a time.
    Back(Duration),
    Now,
    Quit,
}

/// Names of the events in `events.jsonl` at which a replay can stop.
const EVENTS: [&str; 9] = [
    "attempt-failed",
    "node-added",
    "node-removed",
    "pod-created",
    "pod-deleted",
    "pod-evicted",
    "pod-finished",
    "pod-preempted",
    "pod-scheduled",
];
const STARTED: &str = "pod-started";
const ENDED: &str = "ended";

/// Time by which `back` goes if it is not said.
const A_SECOND: Duration = Duration::from_secs(1);

impl Moment {
    /// Reads `90s`, `pod-scheduled:default/a` or `ended`.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.starts_with(|first: char| first.is_ascii_digit()) {
            return span(text).map(Self::At);
        }
        let (name, object) = match text.split_once(':') {
            Some((name, object)) if !object.is_empty() => (name, Some(object.to_owned())),
            Some(_) => return Err(format!("{text:?}: want the name of a pod or node after the colon")),
            None => (text, None),
        };
        if EVENTS.contains(&name) || [STARTED, ENDED].contains(&name) {
            return Ok(Self::Event { name: name.to_owned(), object });
        }
        let names = EVENTS.join(", ");
        Err(format!(
            "{text:?} is no moment: want a time as 1h30m, or EVENT:POD with one of {names}, {STARTED}, {ENDED}"
        ))
    }
}

fn span(text: &str) -> Result<Duration, String> {
    Span::try_from(text.to_owned()).map(|span| span.duration)
}

impl Command {
    /// Reads a line; `None` for an empty one.
    pub fn parse(line: &str) -> Result<Option<Self>, String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        Ok(Some(match words.as_slice() {
            [] => return Ok(None),
            ["step"] => Self::StepEvents(1),
            ["step", amount] => match amount.parse() {
                Ok(count) => Self::StepEvents(count),
                Err(_) => Self::StepTime(span(amount)?),
            },
            ["until", moment] => Self::Until(Moment::parse(moment)?),
            ["back"] => Self::Back(A_SECOND),
            ["back", amount] => Self::Back(span(amount)?),
            ["now"] => Self::Now,
            ["quit"] => Self::Quit,
            _ => {
                return Err(format!(
                    "{line:?} is no command: want step [COUNT|TIME], until TIME|EVENT, back [TIME], now or quit"
                ));
            }
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_read() {
        let event = Moment::Event { name: "pod-scheduled".to_owned(), object: Some("default/a".to_owned()) };
        for (line, wanted) in [
            ("step", Command::StepEvents(1)),
            (" step  20 ", Command::StepEvents(20)),
            ("step 5m", Command::StepTime(Duration::from_secs(300))),
            ("until 1h30m", Command::Until(Moment::At(Duration::from_secs(5400)))),
            ("until pod-scheduled:default/a", Command::Until(event)),
            ("until ended", Command::Until(Moment::Event { name: "ended".to_owned(), object: None })),
            ("back", Command::Back(A_SECOND)),
            ("back 10s", Command::Back(Duration::from_secs(10))),
            ("now", Command::Now),
            ("quit", Command::Quit),
        ] {
            assert_eq!(Command::parse(line), Ok(Some(wanted)), "{line}");
        }
        assert_eq!(Command::parse("  "), Ok(None));
    }

    #[test]
    fn what_is_no_command_is_refused() {
        for line in ["go", "step fast", "until", "until pod-bound:default/a", "until pod-created:", "back 1 2"] {
            assert!(Command::parse(line).is_err(), "{line}");
        }
    }
}
