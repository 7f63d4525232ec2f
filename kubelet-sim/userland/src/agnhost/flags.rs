//! Flags of sub-commands, as Go programs have them, and their log.

use crate::process::proc::{Proc, Stop};
use std::time::Duration;

/// The words behind a sub-command.
#[derive(Clone, Debug, Default)]
pub struct Flags {
    given: Vec<(String, String)>,
    pub operands: Vec<String>,
}

impl Flags {
    /// Reads words; `switches` are the flags that take a value only behind `=`.
    pub fn parse(words: &[String], switches: &[&str]) -> Self {
        let mut found = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let name = word.strip_prefix("--").or_else(|| word.strip_prefix('-')).filter(|name| !name.is_empty());
            match name.map(|name| (name, name.split_once('='))) {
                None => found.operands.push(word.clone()),
                Some((_, Some((name, value)))) => found.given.push((name.to_owned(), value.to_owned())),
                Some((name, None)) if switches.contains(&name) => {
                    found.given.push((name.to_owned(), "true".to_owned()));
                }
                Some((name, None)) => {
                    found.given.push((name.to_owned(), words.next().cloned().unwrap_or_default()));
                }
            }
        }
        found
    }

    pub fn value(&self, name: &str) -> Option<&str> {
        self.given.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub fn number(&self, name: &str, default: i64) -> i64 {
        self.value(name).and_then(|text| text.parse().ok()).unwrap_or(default)
    }

    /// Returns the port that a flag names; `None` for `-1`.
    pub fn port(&self, name: &str, default: u16) -> Option<u16> {
        u16::try_from(self.number(name, i64::from(default))).ok()
    }

    pub fn is_set(&self, name: &str, default: bool) -> bool {
        self.value(name).map_or(default, |text| text == "true" || text == "1")
    }
}

/// Reads a duration of Go such as `1m30s` or `100ms`.
pub fn go_duration(text: &str) -> Option<Duration> {
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if rest == "0" {
        return Some(Duration::ZERO);
    }
    let mut whole = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, behind) = rest.split_at(digits);
        let end = behind.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(behind.len());
        let unit = match &behind[..end] {
            "h" => 3_600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 1e-3,
            "us" | "µs" => 1e-6,
            "ns" => 1e-9,
            _ => return None,
        };
        whole += Duration::try_from_secs_f64(number.parse::<f64>().ok()? * unit).ok()?;
        rest = &behind[end..];
    }
    (!text.is_empty()).then_some(whole)
}

/// Writes a line to the log, as klog does it for Go's own log.
pub async fn log(proc: &mut Proc, text: &str) -> Result<(), Stop> {
    let time = proc.now().strftime("I%m%d %H:%M:%S.%6f").to_string();
    proc.error(&format!("{time} {:>7} log.go:245] {text}\n", proc.pid)).await
}

/// Writes a text as JSON, as Go does it.
pub fn json(text: &str) -> String {
    let escaped = |c: char| match c {
        '"' => "\\\"".to_owned(),
        '\\' => "\\\\".to_owned(),
        '\n' => "\\n".to_owned(),
        '\r' => "\\r".to_owned(),
        '\t' => "\\t".to_owned(),
        c if c < ' ' || matches!(c, '<' | '>' | '&' | '\u{2028}' | '\u{2029}') => format!("\\u{:04x}", u32::from(c)),
        c => c.to_string(),
    };
    format!("\"{}\"", text.chars().map(escaped).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_texts_are_as_in_go() {
        for (text, expected_ms) in
            [("1m30s", Some(90_000)), ("100ms", Some(100)), ("0", Some(0)), ("5", None), ("", None)]
        {
            assert_eq!(go_duration(text), expected_ms.map(Duration::from_millis), "{text}");
        }
        assert_eq!(json("a\"<b>\n"), "\"a\\\"\\u003cb\\u003e\\n\"");
    }
}
