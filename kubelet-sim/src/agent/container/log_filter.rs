//! Selects the part of a log that a query asks for, and formats its lines.
//!
//! Corresponds to PodLogOptions and ReadLogs in k8s.io/cri-client/pkg/logs.

use proto::kinds::jiff::Timestamp;
use std::time::Duration;

/// One line of a log, without its line break.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    pub at: Timestamp,
    pub text: String,
    /// True for the last words of a process that did not end their line.
    pub is_partial: bool,
}

impl Line {
    pub fn whole(at: Timestamp, text: String) -> Self {
        Self { at, text, is_partial: false }
    }
}

/// The options of a log query.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LogFilter {
    pub follow: bool,
    pub previous: bool,
    pub timestamps: bool,
    pub since: Option<Timestamp>,
    pub tail_lines: Option<usize>,
    pub limit_bytes: Option<usize>,
}

impl LogFilter {
    /// Reads the options; `sinceSeconds` counts back from `now`. The kubelet answers the error with code 422.
    pub fn of(query: &[(String, String)], now: Timestamp) -> Result<Self, String> {
        let text = |name: &str| query.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
        let switch = |name: &str| text(name).is_some_and(|value| !matches!(value, "false" | "0"));
        let number = |name: &'static str| match text(name) {
            None | Some("all") => Ok(None),
            Some(value) => value.parse::<usize>().map(Some).map_err(|_| format!("{name}: {value:?} is no number")),
        };
        let since = match (text("sinceTime"), number("sinceSeconds")?) {
            (Some(time), _) => Some(time.parse().map_err(|_| format!("sinceTime: {time:?} is no time"))?),
            (None, Some(seconds)) => Some(seconds_before(now, seconds)),
            (None, None) => None,
        };
        Ok(Self {
            follow: switch("follow"),
            previous: switch("previous"),
            timestamps: switch("timestamps"),
            since,
            tail_lines: number("tailLines")?,
            limit_bytes: number("limitBytes")?,
        })
    }

    /// Formats the first lines: those that are recent enough, cut to the tail.
    pub fn format_first(&mut self, lines: Vec<Line>) -> String {
        let mut lines: Vec<Line> =
            lines.into_iter().filter(|line| self.since.is_none_or(|since| line.at >= since)).collect();
        let surplus = self.tail_lines.map_or(0, |tail| lines.len().saturating_sub(tail));
        lines.drain(..surplus);
        self.format_further(lines)
    }

    /// Formats lines that come later, which none of the options about age concerns.
    pub fn format_further(&mut self, lines: Vec<Line>) -> String {
        let mut text = String::new();
        for line in lines {
            if self.timestamps {
                text.push_str(&format!("{:.9} ", line.at));
            }
            text.push_str(&line.text);
            if !line.is_partial {
                text.push('\n');
            }
        }
        if let Some(left) = &mut self.limit_bytes {
            let mut end = text.len().min(*left);
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            text.truncate(end);
            *left -= end;
        }
        text
    }

    /// True once the limit of bytes is reached.
    pub fn is_exhausted(&self) -> bool {
        self.limit_bytes == Some(0)
    }
}

/// Returns the time so many seconds before `now`, or the earliest time there is.
fn seconds_before(now: Timestamp, seconds: usize) -> Timestamp {
    now.checked_sub(Duration::from_secs(seconds as u64)).unwrap_or(Timestamp::MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_767_225_600 + second).unwrap()
    }

    #[test]
    fn a_log_is_cut_at_both_ends() {
        let lines: Vec<Line> = (0..4).map(|n| Line::whole(at(n), format!("line {n}"))).collect();
        for (query, expected) in [
            ("", "line 0\nline 1\nline 2\nline 3\n"),
            ("tailLines=2", "line 2\nline 3\n"),
            ("tailLines=0", ""),
            ("tailLines=9", "line 0\nline 1\nline 2\nline 3\n"),
            ("sinceSeconds=2", "line 2\nline 3\n"),
            ("sinceSeconds=99999999999999", "line 0\nline 1\nline 2\nline 3\n"),
            ("sinceTime=2026-01-01T00:00:03Z", "line 3\n"),
            ("limitBytes=9", "line 0\nli"),
            ("tailLines=1&timestamps=true", "2026-01-01T00:00:03.000000000Z line 3\n"),
        ] {
            let pairs: Vec<(String, String)> = query
                .split('&')
                .filter_map(|pair| pair.split_once('='))
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect();
            let mut filter = LogFilter::of(&pairs, at(4)).unwrap();
            assert_eq!(filter.format_first(lines.clone()), expected, "{query}");
            assert_eq!(filter.is_exhausted(), query.starts_with("limitBytes"), "{query}");
        }
        assert!(LogFilter::of(&[("tailLines".into(), "x".into())], at(0)).is_err());
    }
}
