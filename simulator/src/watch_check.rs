//! `WatchCheck`: checks the lines of a watch. Their versions only grow, and no event is missing.

/// The state of one watch.
#[derive(Debug)]
pub struct WatchCheck {
    /// Prefix of the keys whose revisions must all arrive; `None` for a filtered watch.
    pub prefix: Option<String>,
    phase: Phase,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    /// The initial objects arrive, in order of name.
    Initial,
    /// All changes up to this version have arrived.
    Following(u64),
    /// No bookmark marked the end of the initial objects. Versions must grow, but the version of the list is unknown.
    Unmarked(u64),
}

impl WatchCheck {
    /// Makes the check of a watch that begins after `version`, or with the initial objects if that is 0.
    pub fn new(prefix: Option<String>, version: u64) -> Self {
        Self { prefix, phase: if version == 0 { Phase::Initial } else { Phase::Following(version) } }
    }

    /// Returns the version up to which all changes have arrived, if it is known.
    pub fn reached(&self) -> Option<u64> {
        match self.phase {
            Phase::Following(version) => Some(version),
            Phase::Initial | Phase::Unmarked(_) => None,
        }
    }

    /// Returns the revision of the first change that a part of the stream delivers after the initial objects; `None` for
    /// bookmarks and errors.
    pub fn change_in(&self, bytes: &[u8]) -> Option<u64> {
        if self.phase == Phase::Initial {
            return None;
        }
        let lines = bytes.split(|byte| *byte == b'\n').filter_map(|line| std::str::from_utf8(line).ok());
        let mut changes = lines.filter(|line| matches!(kind(line), "ADDED" | "MODIFIED" | "DELETED"));
        version(changes.next()?)
    }

    /// Checks one line. `next` returns the first revision after a given one whose key has the prefix.
    pub fn check_line(&mut self, line: &str, next: impl Fn(&str, u64) -> Option<u64>) -> Result<(), String> {
        let kind = kind(line);
        if kind == "ERROR" {
            return Ok(());
        }
        let version = version(line).ok_or_else(|| format!("an event without a version: {line}"))?;
        let is_bookmark = kind == "BOOKMARK";
        self.phase = match self.phase {
            Phase::Initial if is_bookmark => Phase::Following(version),
            Phase::Initial if kind == "ADDED" => Phase::Initial,
            Phase::Initial => Phase::Unmarked(version),
            Phase::Following(last) | Phase::Unmarked(last) if version < last || (version == last && !is_bookmark) => {
                return Err(format!("a watch went back from {last} to {version}: {line}"));
            }
            Phase::Unmarked(_) => Phase::Unmarked(version),
            Phase::Following(last) => {
                let due = self.prefix.as_deref().and_then(|prefix| next(prefix, last));
                if let Some(lost) = due.filter(|due| *due < version) {
                    return Err(format!("a watch went from {last} to {version} and left out {lost}: {line}"));
                }
                Phase::Following(version)
            }
        };
        Ok(())
    }
}

fn kind(line: &str) -> &str {
    line.strip_prefix("{\"type\":\"").and_then(|rest| rest.split('"').next()).unwrap_or_default()
}

/// Returns `metadata.resourceVersion` of an event's object. Members are sorted by name, so the first `metadata` is its
/// own.
fn version(line: &str) -> Option<u64> {
    const MARK: &str = "\"resourceVersion\":\"";
    let metadata = &line[line.find("\"metadata\":{")?..];
    let digits = &metadata[metadata.find(MARK)? + MARK.len()..];
    digits[..digits.find('"')?].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(kind: &str, version: u64) -> String {
        format!(
            "{{\"type\":\"{kind}\",\"object\":{{\"metadata\":{{\"name\":\"x\",\"resourceVersion\":\"{version}\"}}}}}}"
        )
    }

    /// Reads lines of a watch on a row with the revisions 3, 5 and 8.
    fn read(start: u64, lines: &[(&str, u64)]) -> Result<(), String> {
        let mut check = WatchCheck::new(Some("/registry/pods/".into()), start);
        let next = |_: &str, after: u64| [3, 5, 8].into_iter().find(|revision| *revision > after);
        lines.iter().try_for_each(|(kind, version)| check.check_line(&line(kind, *version), next))
    }

    #[test]
    fn what_a_watch_may_do() {
        read(2, &[("ADDED", 3), ("MODIFIED", 5), ("BOOKMARK", 7), ("DELETED", 8), ("BOOKMARK", 8)]).unwrap();
        read(0, &[("ADDED", 5), ("ADDED", 3), ("BOOKMARK", 6), ("MODIFIED", 8)]).unwrap();
        read(0, &[("ADDED", 5), ("ADDED", 3), ("MODIFIED", 8)]).unwrap();
    }

    #[test]
    fn what_a_watch_must_not_do() {
        assert!(read(2, &[("MODIFIED", 5)]).is_err(), "3 is left out");
        assert!(read(2, &[("BOOKMARK", 4)]).is_err(), "3 is left out before a bookmark");
        assert!(read(2, &[("ADDED", 3), ("ADDED", 3)]).is_err(), "3 comes twice");
        assert!(read(4, &[("MODIFIED", 5), ("BOOKMARK", 4)]).is_err(), "a bookmark goes back");
        assert!(read(0, &[("ADDED", 3), ("BOOKMARK", 4), ("MODIFIED", 8)]).is_err(), "5 is left out");
    }
}
