//! `StudyFile`: a study that was read, with the folder of the files that it names.

use crate::sim::{gates, policy, rehearsal};
use component_base::rng::Random;
use experiments::Problem;
use experiments::files::Folder;
use experiments::sources;
use experiments::study::{self, Cell, Depth, Draft, Seeds, Study};
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
        let study = study::read(&text(path)?).map_err(|problems| lines(path, problems))?;
        Ok(Self::of(path, study, seeds))
    }

    fn of(path: &Path, mut study: Study, seeds: Option<Seeds>) -> Self {
        if let Some(seeds) = seeds {
            study.seeds = seeds;
        }
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        Self { path: path.to_owned(), study, files: Folder(folder) }
    }

    /// Reads a study and checks everything: its form, its rules, and what it names. An error has a line for each mistake.
    pub fn checked(path: &Path, seeds: Option<Seeds>) -> Result<Self, Vec<String>> {
        let draft = Draft::read(&text(path)?);
        let mut found: Vec<Problem> = draft.problems().cloned().collect();
        let Some(study) = draft.study.clone() else { return Err(lines(path, found)) };
        let file = Self::of(path, study, seeds);
        found.extend(file.named(&draft));
        if found.is_empty() { Ok(file) } else { Err(lines(path, found)) }
    }

    /// Returns the mistakes in what a study names that is well-formed: its files, its policies and its pods.
    pub fn problems(&self) -> Vec<String> {
        lines(&self.path, self.named(&Draft { study: None, form: Vec::new(), rules: Vec::new() }))
    }

    /// Returns the mistakes in what the study names, but for those that follow from others.
    fn named(&self, draft: &Draft) -> Vec<Problem> {
        let random = Random::from_seed(1, "check");
        let mut draw = || random.u64();
        let known: Vec<Problem> = draft.problems().cloned().collect();
        let mut found = self.policies();
        found.retain(|one| !draft.form.iter().any(|problem| problem.concerns(&one.place)));
        let mut of_files = sources::check_files(&self.study, &self.files, &mut draw, &known);
        if self.study.depth == Depth::Full {
            let all: Vec<Problem> = known.iter().chain(&of_files).cloned().collect();
            of_files.extend(rehearsal::problems(&self.study, &self.files, &all));
        }
        of_files.extend(found);
        of_files
    }

    /// Returns the mistakes in policies, faults, gates and controllers.
    fn policies(&self) -> Vec<Problem> {
        let mut found = Vec::new();
        for (index, policy) in self.study.policies.iter().enumerate() {
            // `check_files` has reported files that cannot be read.
            let Ok(document) = sources::configuration(policy, &self.files) else { continue };
            let values = gates::of_policy(&self.study, policy);
            let errors = policy::problems(document.as_ref(), &values).into_iter();
            found.extend(errors.map(|error| Problem::new(format!("policies[{index}].configuration"), error)));
            let first = policy::first(policy, document);
            for (at, document) in policy.schedulers.iter().enumerate() {
                let errors = policy::problems(Some(document), &values).into_iter();
                found.extend(errors.map(|error| Problem::new(format!("policies[{index}].schedulers[{at}]"), error)));
            }
            let twice = policy::shared_names(std::iter::once(&first).chain(&policy.schedulers)).into_iter();
            let why = |name: String| format!("two schedulers have the profile {name:?}");
            found.extend(twice.map(|name| Problem::new(format!("policies[{index}].schedulers"), why(name))));
        }
        for (index, faults) in self.study.faults.iter().enumerate() {
            let errors = match policy::failures(faults) {
                Ok(models) if self.study.depth == Depth::Scheduler => trial::unmodelled(&models),
                Ok(_) => Vec::new(),
                Err(errors) => errors,
            };
            found.extend(errors.into_iter().map(|error| placed(format!("faults[{index}].{error}"))));
        }
        found.extend(gates::problems(&self.study).into_iter().map(placed));
        if let Some(why) = trial::controllers_problem(&self.study.controllers) {
            found.push(Problem::new("controllers", why));
        }
        if self.study.depth == Depth::Scheduler {
            found.extend(only_full(&self.study).into_iter().map(placed));
        }
        found
    }

    /// Returns what is allowed, and more often a mistake: pods that fit on no node, and feature gates without an effect.
    pub fn warnings(&self) -> Vec<String> {
        let random = Random::from_seed(1, "check");
        let found = sources::warnings(&self.study, &self.files, &mut || random.u64());
        let found = found.into_iter().chain(gates::warnings(&self.study));
        found.map(|line| format!("{}: {line}", self.path.display())).collect()
    }

    pub fn sample_every(&self) -> Duration {
        self.study.sample_every.as_ref().map_or(SAMPLE_PERIOD, |span| span.duration)
    }

    /// Returns the cell of a name.
    pub fn cell(&self, name: &str) -> Option<Cell<'_>> {
        self.study.cells().into_iter().find(|cell| cell.to_string() == name)
    }
}

/// Returns what a study asks for that depth `scheduler` does not have.
fn only_full(study: &Study) -> Vec<String> {
    let mut found = Vec::new();
    if !study.controllers.is_empty() {
        found.push("controllers: depth `scheduler` runs no controllers".to_owned());
    }
    for (at, _) in study.policies.iter().enumerate().filter(|(_, policy)| !policy.schedulers.is_empty()) {
        found.push(format!("policies[{at}].schedulers: depth `scheduler` runs one scheduler"));
    }
    for (at, workload) in study.workloads.iter().enumerate().filter(|(_, workload)| workload.pod_groups) {
        let name = &workload.name;
        found.push(format!(
            "workloads[{at}].podGroups: depth `scheduler` has no PodGroups; {name:?} needs depth `full`"
        ));
    }
    for (at, workload) in study.workloads.iter().enumerate().filter(|(_, workload)| !workload.deployments.is_empty()) {
        let name = &workload.name;
        found.push(format!(
            "workloads[{at}].deployments: depth `scheduler` runs no controllers, which make their pods; {name:?} needs depth `full`"
        ));
    }
    for (at, _) in study.faults.iter().enumerate().filter(|(_, faults)| faults.watch_delay.is_some()) {
        found.push(format!("faults[{at}].watchDelay: depth `scheduler` has no watches"));
    }
    found
}

/// Reads a line whose first part is the place of its mistake.
fn placed(line: String) -> Problem {
    match line.split_once(": ") {
        Some((place, message)) => Problem::new(place, message),
        None => Problem::new("", line),
    }
}

fn text(path: &Path) -> Result<String, Vec<String>> {
    fs::read_to_string(path).map_err(|error| vec![format!("{}: {error}", path.display())])
}

fn lines(path: &Path, problems: Vec<Problem>) -> Vec<String> {
    problems.into_iter().map(|problem| format!("{}: {problem}", path.display())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_scheduler_refuses_what_it_has_not() {
        let text = "
apiVersion: orrery.dev/v1alpha1
kind: Study
name: s
depth: scheduler
controllers: ['*', '-podgc']
clusters: [{name: c, nodes: [{name: node, capacity: {cpu: 1}}]}]
until: 1h
workloads:
- {name: w, podGroups: true, openbPods: {file: pods.csv}}
- {name: d, deployments: [{name: web, requests: {cpu: 1}, load: {diurnal: {cpu: 4, swing: 0.5}}}]}
policies: [{name: p, schedulers: [{kind: KubeSchedulerConfiguration}]}]
faults: [{name: late, watchDelay: 2s}]
";
        let study = study::read(text).unwrap();
        let found = only_full(&study);
        assert_eq!(
            found,
            [
                "controllers: depth `scheduler` runs no controllers",
                "policies[0].schedulers: depth `scheduler` runs one scheduler",
                "workloads[0].podGroups: depth `scheduler` has no PodGroups; \"w\" needs depth `full`",
                "workloads[1].deployments: depth `scheduler` runs no controllers, which make their pods; \"d\" needs depth `full`",
                "faults[0].watchDelay: depth `scheduler` has no watches",
            ]
        );
        let plain = study::read(&text.replace("controllers: ['*', '-podgc']", "")).unwrap();
        assert_eq!(only_full(&plain).len(), 4);
    }
}
