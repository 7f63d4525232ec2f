//! `Campaign`: tries faults one after another, each in a process of its own, and appends each result to `points.jsonl`.
//!
//! A result that is on disk is not computed again, so the same command goes on after an interruption.

use crate::cpu_limit;
use crate::pool::{self, Ended, Order};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// File of the results, below the folder of a campaign.
pub const RESULTS: &str = "points.jsonl";

/// A fault to try.
#[derive(Clone, Debug)]
pub struct Trial {
    /// Name of the point, which is unique in its campaign.
    pub name: String,
    /// Fields of its result that are known before.
    pub about: Map<String, Value>,
    pub order: Order,
}

/// How a trial ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Outcome {
    /// Every promise was kept.
    Kept,
    Broken,
    /// It went on until the limit of its CPU time.
    Endless,
    /// The process ended without a result.
    Failed,
}

/// A line of the results.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Line {
    pub point: String,
    #[serde(flatten)]
    pub about: Map<String, Value>,
    pub outcome: Outcome,
    /// The promise that was broken, or in words what else has happened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promise: Option<String>,
}

/// What a process prints about its trial: a JSON object with an outcome, and with the promise that was broken.
#[derive(Debug, Deserialize)]
struct Printed {
    outcome: Outcome,
    promise: Option<String>,
}

/// How far a campaign is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    pub done: usize,
    pub found: usize,
    pub all: usize,
}

/// All results of a campaign.
#[derive(Debug, Default)]
pub struct Summary {
    pub kept: usize,
    /// Names of the other points by what they did in words, such as `broke the promise "nothing is lost"`.
    pub broken: BTreeMap<String, Vec<String>>,
}

pub struct Campaign {
    program: PathBuf,
    folder: PathBuf,
    jobs: usize,
    /// CPU time of each process, which sets this limit on itself.
    cpu_s: u64,
}

impl Campaign {
    pub fn new(program: &Path, folder: &Path, jobs: usize, cpu_s: u64) -> Self {
        Self { program: program.to_owned(), folder: folder.to_owned(), jobs, cpu_s }
    }

    /// Tries everything that has no result yet, and tells `report` about each new result and the process that it is of.
    pub fn run(
        &self,
        trials: Vec<Trial>,
        mut report: impl FnMut(Progress, &Line, &Ended) -> io::Result<()>,
    ) -> io::Result<Summary> {
        fs::create_dir_all(&self.folder)?;
        let wanted: BTreeSet<&str> = trials.iter().map(|trial| trial.name.as_str()).collect();
        let before: Vec<Line> =
            self.results()?.into_iter().filter(|line| wanted.contains(line.point.as_str())).collect();
        let done: BTreeSet<String> = before.iter().map(|line| line.point.clone()).collect();
        let mut progress = Progress { all: trials.len(), ..Progress::default() };
        let mut summary = Summary::default();
        for line in &before {
            progress.add(line);
            summary.add(line);
        }
        let mut file = OpenOptions::new().create(true).append(true).open(self.folder.join(RESULTS))?;
        let waiting = trials.into_iter().filter(|trial| !done.contains(&trial.name));
        let orders = waiting.map(|Trial { name, about, order }| ((name, about), order));
        pool::run(&self.program, self.jobs, orders, |(point, about), ended| {
            let line = line(point, about, &ended, self.cpu_s);
            if line.outcome != Outcome::Failed {
                writeln!(file, "{}", serde_json::to_string(&line).unwrap_or_default())?;
            }
            progress.add(&line);
            summary.add(&line);
            report(progress, &line, &ended)
        })?;
        Ok(summary)
    }

    /// Reads the results. A last line that is not whole, because the disk was full for example, is taken away.
    fn results(&self) -> io::Result<Vec<Line>> {
        let path = self.folder.join(RESULTS);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let read: Vec<Line> = text.lines().map_while(|line| serde_json::from_str(line).ok()).collect();
        let whole: usize = text.split_inclusive('\n').take(read.len()).map(str::len).sum();
        if whole < text.len() {
            fs::write(&path, &text[..whole])?;
        }
        Ok(read)
    }
}

impl Progress {
    fn add(&mut self, line: &Line) {
        self.done += 1;
        self.found += usize::from(line.outcome != Outcome::Kept);
    }
}

impl Summary {
    fn add(&mut self, line: &Line) {
        match line.outcome {
            Outcome::Kept => self.kept += 1,
            outcome => {
                let words = line.promise.clone().unwrap_or_default();
                let words = if outcome == Outcome::Broken { format!("broke the promise {words:?}") } else { words };
                self.broken.entry(words).or_default().push(line.point.clone());
            }
        }
    }
}

/// Makes the line of a process that has ended.
fn line(point: String, about: Map<String, Value>, ended: &Ended, cpu_s: u64) -> Line {
    if ended.is_out_of_cpu {
        return Line { point, about, outcome: Outcome::Endless, promise: Some(cpu_limit::words(cpu_s)) };
    }
    match ended.printed() {
        Ok(Printed { outcome, promise }) => Line { point, about, outcome, promise },
        Err(why) => Line { point, about, outcome: Outcome::Failed, promise: Some(format!("had no result: {why}")) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEPT: &str = r#"{"outcome":"kept"}"#;
    const BROKEN: &str = r#"{"outcome":"broken","promise":"nothing is lost"}"#;

    fn trial(name: &str, input: &str) -> Trial {
        let order = Order { arguments: Vec::new(), input: input.to_owned() };
        Trial { name: name.to_owned(), about: Map::new(), order }
    }

    /// Runs trials by a program that prints its input, and returns the points that were tried and the number found.
    fn run(folder: &Path, trials: &[(&str, &str)]) -> (Vec<String>, usize) {
        let mut tried = Vec::new();
        let trials = trials.iter().map(|(name, input)| trial(name, input)).collect();
        let summary = Campaign::new(Path::new("cat"), folder, 2, 1).run(trials, |_, line, _| {
            tried.push(line.point.clone());
            Ok(())
        });
        (tried, summary.unwrap().broken.values().map(Vec::len).sum())
    }

    #[test]
    fn what_has_a_result_is_not_tried_again() {
        let folder = tempfile::tempdir().unwrap();
        let (path, trials) = (folder.path(), [("one", KEPT), ("two", BROKEN), ("three", "")]);
        assert_eq!(run(path, &trials[..2]), (vec!["one".to_owned(), "two".to_owned()], 1));
        assert_eq!(run(path, &trials), (vec!["three".to_owned()], 2), "a broken promise of before counts");
        assert_eq!(run(path, &trials), (vec!["three".to_owned()], 2), "what has no result is tried again");
    }

    #[test]
    fn what_does_not_end_is_found_and_not_tried_again() {
        let folder = tempfile::tempdir().unwrap();
        let endless = ["-c".to_owned(), "ulimit -c 0; ulimit -S -t 1; while :; do :; done".to_owned()];
        let order = Order { arguments: endless.to_vec(), input: String::new() };
        let run = || {
            let (mut tried, campaign) = (0, Campaign::new(Path::new("sh"), folder.path(), 1, 1));
            let trial = Trial { name: "one".to_owned(), about: Map::new(), order: order.clone() };
            let summary = campaign.run(vec![trial], |_, _, _| {
                tried += 1;
                Ok(())
            });
            (tried, summary.unwrap().broken)
        };
        let words = BTreeMap::from([("did not end within 1 CPU seconds".to_owned(), vec!["one".to_owned()])]);
        assert_eq!(run(), (1, words.clone()));
        assert_eq!(run(), (0, words));
    }

    #[test]
    fn a_line_that_is_not_whole_is_tried_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(RESULTS);
        let whole = "{\"point\":\"one\",\"outcome\":\"kept\"}\n";
        fs::write(&path, format!("{whole}{{\"point\":\"two\",\"out")).unwrap();
        assert_eq!(run(folder.path(), &[("one", KEPT), ("two", KEPT)]), (vec!["two".to_owned()], 0));
        assert_eq!(fs::read_to_string(&path).unwrap(), format!("{whole}{}", whole.replace("one", "two")));
    }
}
