//! The finished cells of a study, as they lie on disk.

use experiments::compare::Run;
use experiments::decision::Decided;
use experiments::manifest::Manifest;
use experiments::metrics::{self, Summary, Values};
use experiments::output::decisions::{self, DECISIONS, VERDICTS};
use experiments::output::explained::Explained;
use experiments::record;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Written last: a cell with one has finished.
pub const MANIFEST: &str = "manifest.json";
pub const RECORDS: &str = "events.jsonl";
const METRICS: &str = "metrics.json";

/// A cell with a manifest.
pub struct Finished {
    pub manifest: Manifest,
    pub folder: PathBuf,
}

/// Finds the finished cells below a folder, in the order of their paths.
pub fn find(folder: &Path) -> Result<Vec<Finished>, String> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let failed = |error| format!("{}: {error}", folder.display());
        for entry in fs::read_dir(&folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.file_name().is_some_and(|name| name == MANIFEST) {
                found.push(Finished::open(folder.clone())?);
            }
        }
    }
    found.sort_by(|one, other| one.folder.cmp(&other.folder));
    Ok(found)
}

impl Finished {
    /// Reads the manifest of a cell in its folder.
    pub fn open(folder: PathBuf) -> Result<Self, String> {
        Ok(Self { manifest: read(&folder.join(MANIFEST))?, folder })
    }

    /// Reads the values of the metrics.
    pub fn run(&self) -> Result<Run, String> {
        let members: BTreeMap<String, Value> = read(&self.folder.join(METRICS))?;
        // The mark of a run that is not repeatable is no number.
        let values: Values = members.into_iter().filter_map(|(name, value)| Some((name, value.as_f64()?))).collect();
        Ok(Run::new(self.manifest.clone(), values))
    }

    /// Reads the attempts of some pods.
    pub fn decisions(&self, pods: &BTreeSet<String>) -> Result<Vec<Decided>, String> {
        self.read_file(DECISIONS, |file| decisions::read(file, pods))
    }

    /// Reads what the plugins said in some attempts; nothing if that was not written.
    pub fn explained(&self, attempts: &BTreeSet<u64>) -> Result<BTreeMap<u64, Explained>, String> {
        if !self.manifest.files.contains_key(VERDICTS) {
            return Ok(BTreeMap::new());
        }
        self.read_file(VERDICTS, |file| decisions::explain(file, attempts))
    }

    /// Reads a file. An error has its path.
    fn read_file<T>(&self, name: &str, read: impl FnOnce(File) -> Result<T, String>) -> Result<T, String> {
        let path = self.folder.join(name);
        let failed = |error: &dyn Display| format!("{}: {error}", path.display());
        let file = File::open(&path).map_err(|error| failed(&error))?;
        read(file).map_err(|error| failed(&error))
    }

    /// Computes everything anew from the records.
    pub fn summary(&self, sample_every: Duration) -> Result<Summary, String> {
        let path = self.folder.join(RECORDS);
        let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let records = record::read(&text, &path.display().to_string()).map_err(|problems| problems[0].to_string())?;
        Ok(metrics::summarise(&records, sample_every))
    }
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<T, String> {
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let text = fs::read(path).map_err(|error| failed(&error))?;
    serde_json::from_slice(&text).map_err(|error| failed(&error))
}
