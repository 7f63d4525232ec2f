//! What a study names: its files, read and checked, and what its clusters and workloads become together.

use crate::cluster::{self, Machine};
use crate::draw::Draw;
use crate::files::Files;
use crate::problem::Problem;
use crate::study::{Policy, Study};
use crate::workload::{self, Arrival};
use proto::serializer::yaml;
use serde_json::Value;
use std::time::Duration;

/// Reads the files that a study names, and reports every mistake in them. Generated workloads are tried with `draw`. Clusters and
/// workloads that are `known` to be wrong are left out, but files that do not exist are reported there too.
pub fn check_files(study: &Study, files: &dyn Files, draw: &mut dyn Draw, known: &[Problem]) -> Vec<Problem> {
    let is_known = |place: &str| known.iter().any(|problem| problem.concerns(place));
    let mut problems = Vec::new();
    for (index, cluster) in study.clusters.iter().enumerate() {
        let place = format!("clusters[{index}]");
        if !is_known(&place) {
            problems.extend(cluster::machines(cluster, files, &place).err().unwrap_or_default());
            continue;
        }
        for (field, file) in [("openbNodes", &cluster.openb_nodes), ("kubectlNodes", &cluster.kubectl_nodes)] {
            problems.extend(file.iter().filter_map(|file| unreadable(files, &file.file, &format!("{place}.{field}"))));
        }
    }
    for (index, workload) in study.workloads.iter().enumerate() {
        let place = format!("workloads[{index}]");
        if is_known(&place) {
            for (field, file) in [
                ("openbPods", workload.openb_pods.as_ref().map(|file| &file.file)),
                ("kubectlPods", workload.kubectl_pods.as_ref().map(|file| &file.file)),
                ("csv", workload.csv.as_ref().map(|csv| &csv.file)),
            ] {
                problems.extend(file.and_then(|file| unreadable(files, file, &format!("{place}.{field}"))));
            }
            continue;
        }
        problems.extend(workload::arrivals(workload, files, draw, &place).err().unwrap_or_default());
        let until = study.until.as_ref().map_or(Duration::ZERO, |until| until.duration);
        if !is_known("until") {
            problems.extend(workload::deployments(workload, files, until, draw, &place).err().unwrap_or_default());
        }
    }
    for (index, policy) in study.policies.iter().enumerate() {
        let Some(path) = &policy.file else { continue };
        let place = format!("policies[{index}].file");
        let message = match files.read(path).and_then(|text| yaml::parse(text.as_bytes()).map(|parsed| parsed.value)) {
            Err(why) => why,
            Ok(value) if value["kind"] == "KubeSchedulerConfiguration" => continue,
            Ok(_) => "is no KubeSchedulerConfiguration".to_owned(),
        };
        problems.push(Problem::new(place, format!("{path}: {message}")));
    }
    problems
}

/// Says why a file cannot be read, if it cannot. A field without a name of a file has been reported.
fn unreadable(files: &dyn Files, file: &str, place: &str) -> Option<Problem> {
    let why = files.read(file).err().filter(|_| !file.is_empty())?;
    Some(Problem::new(format!("{place}.file"), format!("{file}: {why}")))
}

/// Returns the KubeSchedulerConfiguration of a policy, or `None` for the default scheduler.
pub fn configuration(policy: &Policy, files: &dyn Files) -> Result<Option<Value>, String> {
    match &policy.file {
        Some(path) => Ok(Some(yaml::parse(files.read(path)?.as_bytes())?.value)),
        None => Ok(policy.configuration.clone()),
    }
}

/// Returns a line about the pods whose requests no node can meet, or `None` if all may fit. Such pods are allowed, because a
/// study may be about them, but they are more often a mistake of a unit.
pub fn never_fit(machines: &[Machine], arrivals: &[Arrival]) -> Option<String> {
    let fits = |arrival: &Arrival, machine: &Machine| {
        let facts = &arrival.facts;
        let has =
            |(resource, amount): (&String, &i64)| machine.allocatable.get(resource).is_some_and(|all| all >= amount);
        let does_model = facts.gpu_models.is_empty() || facts.gpu_models.contains(&machine.gpu_model);
        does_model
            && facts.gpu_count <= machine.gpu_count
            && facts.requests.iter().filter(|(_, amount)| **amount > 0).all(has)
    };
    let mut never = arrivals.iter().filter(|arrival| !machines.iter().any(|machine| fits(arrival, machine)));
    let first = never.next()?;
    let name = first.pod.metadata.name.as_deref().unwrap_or_default();
    Some(format!("{} of {} pods fit on no node, the first of them {name}", never.count() + 1, arrivals.len()))
}

/// Returns a line for each cluster and workload of which some pods never fit. Workloads are drawn with `draw`.
pub fn warnings(study: &Study, files: &dyn Files, draw: &mut dyn Draw) -> Vec<String> {
    let mut found = Vec::new();
    for (at, workload) in study.workloads.iter().enumerate() {
        let Ok(mut arrivals) = workload::arrivals(workload, files, draw, "") else { continue };
        arrivals.extend(workload::sample_pods(workload));
        for cluster in &study.clusters {
            let mut machines = cluster::machines(cluster, files, "").unwrap_or_default();
            machines.extend(cluster::machine_groups(cluster).into_iter().flat_map(|group| group.machines));
            let line = never_fit(&machines, &arrivals);
            found.extend(line.map(|line| format!("workloads[{at}]: on cluster {}, {line}", cluster.name)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::seeded;
    use crate::files::{Folder, Texts};
    use crate::study::{EXAMPLE, read};

    fn lines(problems: Vec<Problem>) -> String {
        problems.iter().map(|problem| format!("{problem}\n")).collect()
    }

    #[test]
    fn the_example_can_be_drawn() {
        assert_eq!(lines(check_files(&read(EXAMPLE).unwrap(), &Texts(&[]), &mut seeded(1), &[])), "");
    }

    #[test]
    fn files_that_are_missing_or_wrong_are_reported_together() {
        let text = "
apiVersion: orrery.dev/v1alpha1
kind: Study
name: files
clusters: [{name: c, openbNodes: {file: nodes.csv}}]
workloads: [{name: w, openbPods: {file: pods.csv}}]
policies: [{name: p, file: policy.yaml}]
";
        let study = read(text).unwrap();
        let files = Texts(&[("nodes.csv", "sn,cpu_milli,memory_mib,gpu\nn,1,1,1\n"), ("policy.yaml", "kind: Pod\n")]);
        expect_test::expect![[r#"
        nodes.csv:1: unknown column "model"; the table has sn, cpu_milli, memory_mib, gpu
        workloads[0].openbPods.file: pods.csv: no such file
        policies[0].file: policy.yaml: is no KubeSchedulerConfiguration
    "#]]
        .assert_eq(&lines(check_files(&study, &files, &mut seeded(1), &[])));
    }

    #[test]
    fn what_is_known_to_be_wrong_is_read_no_further() {
        let text = "
apiVersion: orrery.dev/v1alpha1
kind: Study
name: files
clusters: [{name: c, openbNodes: {file: nodes.csv, limit: few}}, {name: d, kubectlNodes: {file: none.yaml}}]
workloads:
- {name: w, arrivalScale: 0, openbPods: {file: pods.csv}}
- {name: x, generate: {count: 0, arrivals: {waves: {size: 0, every: 1s}}, sizes: []}}
policies: [{name: p}]
";
        let draft = crate::study::Draft::read(text);
        let (study, known) = (draft.study.clone().unwrap(), draft.problems().cloned().collect::<Vec<_>>());
        let files = Texts(&[("nodes.csv", "sn,cpu_milli\n")]);
        expect_test::expect![[r#"
            clusters[1].kubectlNodes.file: none.yaml: no such file
            workloads[0].openbPods.file: pods.csv: no such file
        "#]]
        .assert_eq(&lines(check_files(&study, &files, &mut seeded(1), &known)));
    }

    #[test]
    fn pods_that_never_fit_are_counted() {
        let text = "
apiVersion: orrery.dev/v1alpha1
kind: Study
name: fit
clusters: [{name: c, nodes: [{name: small, capacity: {cpu: 4}, gpus: {count: 1}}]}]
workloads:
- name: w
  generate:
    count: 3
    arrivals: {waves: {size: 3, every: 1s}}
    sizes: [{name: big, requests: {cpu: SIZE}, gpus: {count: 1, milli: 500}, duration: {constant: 1s}}]
policies: [{name: p}]
";
        let found = |size: &str| {
            let study = read(&text.replace("SIZE", size)).unwrap();
            let machines = cluster::machines(&study.clusters[0], &Texts(&[]), "").unwrap();
            let pods = workload::arrivals(&study.workloads[0], &Texts(&[]), &mut seeded(1), "").unwrap();
            never_fit(&machines, &pods)
        };
        assert_eq!(found("4"), None);
        assert_eq!(found("4001m"), Some("3 of 3 pods fit on no node, the first of them big-0".to_owned()));
        let study = read(&text.replace("SIZE", "5")).unwrap();
        let expected = "workloads[0]: on cluster c, 3 of 3 pods fit on no node, the first of them big-0";
        assert_eq!(warnings(&study, &Texts(&[]), &mut seeded(1)), [expected]);
    }

    #[test]
    fn the_traces_of_the_repository_are_read() {
        let folder = Folder(concat!(env!("CARGO_MANIFEST_DIR"), "/../../studies/samples").into());
        let study = read(&crate::files::Files::read(&folder, "traces.yaml").unwrap()).unwrap();
        assert_eq!(lines(check_files(&study, &folder, &mut seeded(1), &[])), "");
        let arrivals = |index: usize| workload::arrivals(&study.workloads[index], &folder, &mut seeded(1), "").unwrap();
        assert_eq!([arrivals(0).len(), arrivals(1).len(), arrivals(2).len()], [60, 30, 40]);
        assert_eq!(arrivals(2)[0].facts.requests["cpu"], 5120, "0.08 of 64 cores");
    }
}
