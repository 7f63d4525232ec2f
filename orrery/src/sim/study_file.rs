//! `StudyFile`: a study that was read, with the folder of the files that it names.

use crate::sim::{gates, policy};
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
            let values = gates::of_policy(&self.study, policy);
            let errors = policy::problems(document.as_ref(), &values);
            let path = self.path.display();
            found.extend(errors.into_iter().map(|error| format!("{path}: policies[{index}].configuration: {error}")));
            let first = policy::first(policy, document);
            for (at, document) in policy.schedulers.iter().enumerate() {
                let errors = policy::problems(Some(document), &values).into_iter();
                found.extend(errors.map(|error| format!("{path}: policies[{index}].schedulers[{at}]: {error}")));
            }
            let twice = policy::shared_names(std::iter::once(&first).chain(&policy.schedulers)).into_iter();
            found.extend(
                twice.map(|name| {
                    format!("{path}: policies[{index}].schedulers: two schedulers have the profile {name:?}")
                }),
            );
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
        let path = self.path.display();
        found.extend(gates::problems(&self.study).into_iter().map(|why| format!("{path}: {why}")));
        if let Some(why) = trial::controllers_problem(&self.study.controllers) {
            found.push(format!("{path}: controllers: {why}"));
        }
        if self.study.depth == Depth::Scheduler {
            found.extend(only_full(&self.study).into_iter().map(|why| format!("{path}: {why}")));
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
