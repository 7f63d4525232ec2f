//! `StudyFile`: a study that was read, with the folder of the files that it names.

use crate::sim::policy;
use component_base::rng::Random;
use experiments::Problem;
use experiments::files::Folder;
use experiments::sources;
use experiments::study::{self, Cell, Depth, Seeds, Study};
use simulator::trial;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Virtual time between two samples if the study does not say it.
const SAMPLE_PERIOD: Duration = Duration::from_secs(60);

pub struct StudyFile {
    pub path: PathBuf,
    pub study: Study,
    pub files: Folder,
}

impl StudyFile {
    /// Reads a study, and replaces its seeds by others if there are some. An error has a line for each mistake.
    pub fn read(path: &Path, seeds: Option<Seeds>) -> Result<Self, Vec<String>> {
        let text = fs::read_to_string(path).map_err(|error| vec![format!("{}: {error}", path.display())])?;
        let read = study::read(&text);
        let mut study = read.map_err(|problems| lines(path, problems))?;
        if let Some(seeds) = seeds {
            study.seeds = seeds;
        }
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        Ok(Self { path: path.to_owned(), study, files: Folder(folder) })
    }

    /// Returns the mistakes in the files that the study names, and in the configurations of its policies.
    pub fn problems(&self) -> Vec<String> {
        let random = Random::from_seed(1, "check");
        let mut draw = || random.u64();
        let mut found = lines(&self.path, sources::check_files(&self.study, &self.files, &mut draw));
        for (index, policy) in self.study.policies.iter().enumerate() {
            // `check_files` has reported files that cannot be read.
            let Ok(document) = sources::configuration(policy, &self.files) else { continue };
            let errors = policy::problems(document.as_ref());
            let path = self.path.display();
            found.extend(errors.into_iter().map(|error| format!("{path}: policies[{index}].configuration: {error}")));
        }
        for (index, faults) in self.study.faults.iter().enumerate() {
            let errors = match policy::failures(faults) {
                Ok(models) if self.study.depth == Depth::Scheduler => trial::unmodelled(&models),
                Ok(_) => Vec::new(),
                Err(errors) => errors,
            };
            let path = self.path.display();
            found.extend(errors.into_iter().map(|error| format!("{path}: faults[{index}].{error}")));
        }
        found
    }

    /// Returns what is allowed, and more often a mistake: pods that fit on no node.
    pub fn warnings(&self) -> Vec<String> {
        let random = Random::from_seed(1, "check");
        let found = sources::warnings(&self.study, &self.files, &mut || random.u64());
        found.into_iter().map(|line| format!("{}: {line}", self.path.display())).collect()
    }

    pub fn sample_every(&self) -> Duration {
        self.study.sample_every.as_ref().map_or(SAMPLE_PERIOD, |span| span.duration)
    }

    /// Returns the cell of a name.
    pub fn cell(&self, name: &str) -> Option<Cell<'_>> {
        self.study.cells().into_iter().find(|cell| cell.to_string() == name)
    }
}

fn lines(path: &Path, problems: Vec<Problem>) -> Vec<String> {
    problems.into_iter().map(|problem| format!("{}: {problem}", path.display())).collect()
}
