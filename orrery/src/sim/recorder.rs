//! `Recorder`: makes records of what happens in a trial, and writes what the scheduler decides while it runs.

use crate::sim::disk::{Disk, Sink};
use crate::sim::prepared::Prepared;
use crate::sim::records::Records;
use crate::sim::timings::Timings;
use experiments::manifest::Hashed;
use experiments::output::decisions::{DECISIONS, Decisions, VERDICTS};
use experiments::record::{Event, Record};
use experiments::study::DecisionRecords;
use simulator::trial::{Audience, Progress, Told};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

pub struct Recorder {
    folder: PathBuf,
    records: Records,
    decisions: Decisions<Hashed<Sink>>,
    timings: Timings,
    /// The first write that has failed.
    failure: Option<String>,
}

/// What a trial has left.
pub struct Recorded {
    pub records: Vec<Record>,
    /// Hashes of the files that are written.
    pub files: Vec<(&'static str, String)>,
    pub timings: Timings,
}

impl Recorder {
    /// Opens the files of decisions in the folder of a cell.
    pub fn create(
        disk: &impl Disk,
        folder: &Path,
        prepared: &Prepared,
        written: DecisionRecords,
    ) -> Result<Self, String> {
        let open = |name: &str| {
            let path = folder.join(name);
            disk.create(&path).map(Hashed::new).map_err(|error| format!("{}: {error}", path.display()))
        };
        let verdicts = match written {
            DecisionRecords::Attempts => None,
            DecisionRecords::Plugins => Some(open(VERDICTS)?),
        };
        let place = |error: String| format!("{}/{error}", folder.display());
        let decisions = Decisions::new(open(DECISIONS)?, verdicts).map_err(place)?;
        let (timings, folder) = (Timings::default(), folder.to_owned());
        Ok(Self { folder, records: Records::new(prepared), decisions, timings, failure: None })
    }

    /// Ends the files.
    pub fn finish(self) -> Result<Recorded, String> {
        let Self { folder, records, decisions, timings, .. } = self;
        let place = |error: String| format!("{}/{error}", folder.display());
        let mut files = Vec::new();
        for (name, sink) in decisions.finish().map_err(place)? {
            files.push((name, sink.finish().map_err(|error| place(format!("{name}: {error}")))?));
        }
        Ok(Recorded { records: records.records, files, timings })
    }
}

impl Audience for Recorder {
    fn happened(&mut self, at: Duration, event: Event) {
        self.records.happened(at, event);
    }

    fn decided(&mut self, told: Told) {
        self.timings.decisions.extend(told.cpu);
        if self.failure.is_none() {
            let added = self.decisions.add(told.decided, told.verdicts);
            self.failure = added.err().map(|error| format!("{}/{error}", self.folder.display()));
        }
    }

    fn progress(&mut self, progress: Progress) {
        let Progress { at, finished, part } = progress;
        // Without a reader the run goes on.
        let _ = writeln!(io::stdout(), "{} {finished} {part}", at.as_secs());
    }

    fn failure(&self) -> Result<(), String> {
        self.failure.clone().map_or(Ok(()), Err)
    }
}
