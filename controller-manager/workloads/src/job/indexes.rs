//! Completion indexes of an Indexed job. The status has those that succeeded or failed as text, such as `1,3-5,7`.
//!
//! Corresponds to pkg/controller/job/indexed_job_utils.go.

use proto::kinds::api::core::v1::Pod;
use std::collections::BTreeSet;

/// Annotation and label on pods.
pub const COMPLETION_INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// Annotation with the failures of a pod's index before the pod was created.
const INDEX_FAILURE_COUNT: &str = "batch.kubernetes.io/job-index-failure-count";
/// Annotation with the further failures that the pod failure policy ignores.
const INDEX_IGNORED_FAILURE_COUNT: &str = "batch.kubernetes.io/job-index-ignored-failure-count";

pub type Indexes = BTreeSet<i32>;

/// Returns the index of a pod; `None` if it has none or one that is out of range.
pub fn of_pod(pod: &Pod, completions: i32) -> Option<i32> {
    let index: i32 = pod.metadata.annotations.as_ref()?.get(COMPLETION_INDEX)?.parse().ok()?;
    (0..completions).contains(&index).then_some(index)
}

/// The failures of an index before one of its pods was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Failures {
    pub counted: i32,
    pub ignored: i32,
}

impl Failures {
    pub fn all(self) -> i32 {
        self.counted.saturating_add(self.ignored)
    }

    /// Writes the annotations of the index's next pod.
    pub fn annotate(self, pod: &mut Pod) {
        let annotations = pod.metadata.annotations.get_or_insert_default();
        annotations.insert(INDEX_FAILURE_COUNT.to_owned(), self.counted.to_string());
        if self.ignored > 0 {
            annotations.insert(INDEX_IGNORED_FAILURE_COUNT.to_owned(), self.ignored.to_string());
        }
    }
}

pub fn failures(pod: &Pod) -> Failures {
    let number = |key: &str| pod.metadata.annotations.as_ref()?.get(key)?.parse().ok();
    Failures {
        counted: number(INDEX_FAILURE_COUNT).unwrap_or(0),
        ignored: number(INDEX_IGNORED_FAILURE_COUNT).unwrap_or(0),
    }
}

/// Parses the output of `format`. Leaves out parts that are invalid or out of range.
pub fn parse(text: &str, completions: i32) -> Indexes {
    let mut indexes = Indexes::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse::<i32>(), last.parse::<i32>()) {
            indexes.extend(first.max(0)..last.saturating_add(1).min(completions));
        }
    }
    indexes
}

/// Formats indexes. Three or more consecutive ones become a range.
pub fn format(indexes: &Indexes) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut run: Option<(i32, i32)> = None;
    let mut close = |run: Option<(i32, i32)>| match run {
        None => {}
        Some((first, last)) if first == last => parts.push(first.to_string()),
        Some((first, last)) if last == first + 1 => parts.push(format!("{first},{last}")),
        Some((first, last)) => parts.push(format!("{first}-{last}")),
    };
    for index in indexes {
        run = match run {
            Some((first, last)) if last + 1 == *index => Some((first, *index)),
            other => {
                close(other);
                Some((*index, *index))
            }
        };
    }
    close(run);
    parts.join(",")
}

/// Returns the lowest `count` indexes that are not in `taken`.
pub fn pending(taken: &Indexes, completions: i32, count: usize) -> Vec<i32> {
    (0..completions).filter(|index| !taken.contains(index)).take(count).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_are_written_as_ranges_and_read_back() {
        let cases: [(&[i32], &str); 6] = [
            (&[], ""),
            (&[3], "3"),
            (&[0, 1], "0,1"),
            (&[0, 1, 2], "0-2"),
            (&[1, 3, 4, 5, 7], "1,3-5,7"),
            (&[0, 2, 3, 9, 10, 11, 12], "0,2,3,9-12"),
        ];
        for (indexes, text) in cases {
            let indexes: Indexes = indexes.iter().copied().collect();
            assert_eq!(format(&indexes), text);
            assert_eq!(parse(text, 100), indexes, "{text}");
        }
        assert_eq!(parse("1-9,x,12", 4), Indexes::from([1, 2, 3]), "out of range, or not a number");
    }

    #[test]
    fn the_lowest_free_indexes_come_first() {
        assert_eq!(pending(&Indexes::from([0, 2]), 6, 3), [1, 3, 4]);
        assert_eq!(pending(&Indexes::from([0, 1]), 2, 3), [] as [i32; 0]);
    }
}
