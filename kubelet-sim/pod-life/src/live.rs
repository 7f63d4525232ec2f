//! What is known of a container's process: whether it has ended, and what it leaves behind.
//!
//! Corresponds to ContainerStatus of the container runtime and to getTerminationMessage in pkg/kubelet/kuberuntime.

use file_tree::actor::{Actor, OpenOptions};
use proto::kinds::api::core::v1::Container;
use proto::kinds::jiff::Timestamp;
use userland::process::kernel::FIRST;
use userland::process::processes::Processes;

/// The default of `terminationMessagePath`.
pub const TERMINATION_LOG: &str = "/dev/termination-log";
/// The longest message that a file can hold.
const MAX_FILE_BYTES: usize = 4096;
/// The end of the log that stands in for a missing message.
const MAX_LOG_BYTES: usize = 2048;
const MAX_LOG_LINES: usize = 80;

/// A process that the node has looked at.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Live {
    /// The number of runs before the one that was looked at.
    pub run: i32,
    /// When it ended, and its exit code.
    pub ended: Option<(Timestamp, i32)>,
    /// The next time at which it does something by itself.
    pub next: Option<Timestamp>,
    pub last_words: LastWords,
}

/// What a process leaves behind for its termination message.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LastWords {
    /// The content of the file at `terminationMessagePath`.
    pub file: String,
    /// The end of its log.
    pub log: String,
}

impl LastWords {
    pub fn of(processes: &Processes, container: &Container) -> Self {
        let path = container.termination_message_path.as_deref().unwrap_or(TERMINATION_LOG);
        let actor = Actor::root(processes.now());
        let file = processes.tree().open(&actor, path, OpenOptions::READ).ok();
        let file = file.map(|place| place.node.read(0, MAX_FILE_BYTES)).unwrap_or_default();
        let log: Vec<u8> = processes.outputs(FIRST).into_iter().flat_map(|output| output.bytes).collect();
        Self { file: String::from_utf8_lossy(&file).into_owned(), log: tail(&String::from_utf8_lossy(&log)) }
    }

    /// Makes the words of a container whose log is known.
    pub fn of_log(lines: &[String]) -> Self {
        let log: String = lines.iter().map(|line| format!("{line}\n")).collect();
        Self { file: String::new(), log: tail(&log) }
    }

    /// Returns the termination message of a process that has exited with this code, by the container's policy.
    pub fn message(&self, container: &Container, exit_code: i32) -> Option<String> {
        let falls_back = container.termination_message_policy.as_deref() == Some("FallbackToLogsOnError");
        let message = match falls_back && exit_code != 0 && self.file.is_empty() {
            true => &self.log,
            false => &self.file,
        };
        (!message.is_empty()).then(|| message.clone())
    }
}

/// Returns the last lines of a text, as many as a termination message holds.
fn tail(text: &str) -> String {
    let mut from = text.len().saturating_sub(MAX_LOG_BYTES);
    while !text.is_char_boundary(from) {
        from += 1;
    }
    let lines: Vec<&str> = text[from..].split_inclusive('\n').collect();
    lines[lines.len().saturating_sub(MAX_LOG_LINES)..].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_the_file_or_by_policy_the_end_of_the_log() {
        let container =
            |policy: &str| Container { termination_message_policy: Some(policy.to_owned()), ..Container::default() };
        let words = |file: &str| LastWords { file: file.to_owned(), log: "log\n".to_owned() };
        for (policy, file, exit_code, expected) in [
            ("File", "file", 1, Some("file")),
            ("File", "", 1, None),
            ("FallbackToLogsOnError", "file", 1, Some("file")),
            ("FallbackToLogsOnError", "", 1, Some("log\n")),
            ("FallbackToLogsOnError", "", 0, None),
        ] {
            let message = words(file).message(&container(policy), exit_code);
            assert_eq!(message.as_deref(), expected, "{policy} {file:?} {exit_code}");
        }
    }

    #[test]
    fn a_long_log_is_cut_at_its_beginning() {
        let many: Vec<String> = (0..100).map(|n| n.to_string()).collect();
        let words = LastWords::of_log(&many);
        assert_eq!((words.log.lines().next(), words.log.lines().count()), (Some("20"), 80));
        let long = LastWords::of_log(&["ä".repeat(2000)]);
        assert_eq!(long.log.len(), 2047, "characters stay whole");
    }
}
