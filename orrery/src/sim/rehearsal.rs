//! What the API server would refuse of a study: one is started in memory, and asked by a dry run for each kind of node and pod.

use crate::sim::machine::template;
use component_base::rng::Random;
use component_base::tls;
use experiments::Problem;
use experiments::cluster::{self, Machine};
use experiments::files::Folder;
use experiments::study::Study;
use experiments::workload::{self, Arrival};
use kubelet_sim::template::NodeTemplate;
use serde_json::{Value, json};
use simulator::trial;
use std::collections::BTreeSet;

/// Most different pods of a workload, and nodes of a cluster, that are tried. Those of a trace may all differ.
const MOST_TRIED: usize = 500;
/// Most lines about one workload or cluster.
const MOST_NAMED: usize = 20;
/// What alike pods differ in.
const RUN_FOR: &str = "orrery.dev/run-for";

/// Something to try, with its place in the study and what it is called in a line.
struct Tried {
    place: String,
    what: String,
    document: Value,
}

/// Returns what the API server refuses. Clusters and workloads that are `known` to be wrong are left out.
pub fn problems(study: &Study, files: &Folder, known: &[Problem]) -> Vec<Problem> {
    let is_known = |place: &str| known.iter().any(|problem| problem.concerns(place));
    let (mut found, mut tried) = (Vec::new(), Vec::new());
    for (index, cluster) in study.clusters.iter().enumerate() {
        let place = format!("clusters[{index}]");
        if is_known(&place) {
            continue;
        }
        let mut machines = cluster::machines(cluster, files, &place).unwrap_or_default();
        machines.extend(cluster::machine_groups(cluster).into_iter().flat_map(|group| group.machines));
        let mut of_cluster = distinct(machines.iter().map(|machine| (place.clone(), node(machine), machine)), "node");
        of_cluster.retain(|(_, machine)| {
            let errors = template(machine).err().unwrap_or_default();
            found.extend(errors.iter().map(|error| Problem::new(place.as_str(), error.as_str())));
            errors.is_empty()
        });
        tried.extend(of_cluster.into_iter().map(|(one, _)| one));
    }
    let random = Random::from_seed(1, "check");
    for (index, workload) in study.workloads.iter().enumerate() {
        let place = format!("workloads[{index}]");
        if is_known(&place) {
            continue;
        }
        let samples = workload::samples(workload, files, &mut || random.u64(), &place);
        let pods = samples.iter().filter_map(|(place, arrival)| Some((place.clone(), pod(arrival)?, arrival)));
        tried.extend(distinct(pods, "pod").into_iter().map(|(one, _)| one));
    }
    tls::install_provider();
    let has_groups = study.workloads.iter().any(|workload| workload.pod_groups);
    let gates = study.feature_gates.iter().map(|(name, is_on)| (name.clone(), *is_on)).collect();
    let documents: Vec<Value> = tried.iter().map(|one| one.document.clone()).collect();
    match trial::refusals(&gates, has_groups, &documents) {
        Ok(refusals) => found.extend(lines(&tried, refusals)),
        Err(why) => found.push(Problem::new("", format!("the API server could not be asked: {why}"))),
    }
    found
}

/// Returns the first of all that are alike but for their names and times.
fn distinct<T>(all: impl Iterator<Item = (String, Value, T)>, what: &str) -> Vec<(Tried, T)> {
    let mut seen = BTreeSet::new();
    let first = all.filter_map(|(place, document, of)| {
        let mut key = document.clone();
        key["metadata"]["name"] = Value::Null;
        if let Some(annotations) = key["metadata"]["annotations"].as_object_mut() {
            annotations.remove(RUN_FOR);
        }
        let is_new = seen.len() < MOST_TRIED && seen.insert(format!("{place} {key}"));
        let what = format!("{what} {}", document["metadata"]["name"].as_str().unwrap_or_default());
        is_new.then_some((Tried { place, what, document }, of))
    });
    first.collect()
}

/// Returns a line for each mistake; of many in one place, the first ones.
fn lines(tried: &[Tried], refusals: Vec<Vec<String>>) -> Vec<Problem> {
    let mut found: Vec<Problem> = Vec::new();
    for (Tried { place, what, .. }, errors) in tried.iter().zip(refusals) {
        let named = found.iter().filter(|problem| problem.place == *place).count();
        let errors = errors.into_iter().take(MOST_NAMED.saturating_sub(named));
        found.extend(errors.map(|error| Problem::new(place.as_str(), format!("{what}: {error}"))));
    }
    found
}

fn pod(arrival: &Arrival) -> Option<Value> {
    let mut document = serde_json::to_value(&arrival.pod).ok()?;
    document["apiVersion"] = "v1".into();
    document["kind"] = "Pod".into();
    Some(document)
}

/// Returns a machine as its kubelet registers it.
fn node(machine: &Machine) -> Value {
    let (template, read) = (machine.template(), NodeTemplate::read(&machine.template()).ok());
    let labels = read.map(|read| json!(read.labels)).unwrap_or_else(|| template["labels"].clone());
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": machine.name, "labels": labels},
        "spec": {"taints": template["taints"]},
        "status": {"capacity": template["capacity"], "allocatable": template["capacity"]},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each mistake is one that the study's own rules allow.
    #[test]
    fn what_the_api_server_refuses_has_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let text = "
apiVersion: orrery.dev/v1alpha1
kind: Study
name: refused
until: 1h
clusters:
- {name: c, nodes: [{name: node, count: 3, capacity: {cpu: 4}, taints: [{key: 'a b', effect: NoSchedule}]}]}
- {name: good, nodes: [{name: node, capacity: {cpu: 4}}]}
workloads:
- name: w
  generate:
    count: 1
    arrivals: {poisson: {rate: 1/s}}
    sizes:
    - {name: good, requests: {cpu: 1}, priority: 7, duration: {constant: 1s}}
    - name: limited
      requests: {cpu: 2}
      weight: 0.000001
      duration: {constant: 1s}
      spec: {tolerations: [{key: a, operator: Sometimes}], containers: [{name: c, image: i, ports: [{containerPort: 0}]}]}
- {name: x, deployments: [{name: web, requests: {cpu: 1}, labels: {a: 'b c'}, load: {steps: [{at: 0s, cpu: 1}]}}]}
policies: [{name: p}]
";
        let (study, files) = (experiments::study::read(text).unwrap(), Folder(folder.path().to_owned()));
        let found: String = problems(&study, &files, &[]).iter().map(|problem| format!("{problem}\n")).collect();
        expect_test::expect![[r#"
            clusters[0]: node node-0: taints[0].key: name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
            workloads[0].generate.sizes[1]: pod limited-0: spec.containers[0].ports[0].containerPort: Required value
            workloads[0].generate.sizes[1]: pod limited-0: spec.tolerations[0].operator: Unsupported value: "Sometimes": supported values: "Equal", "Exists"
            workloads[1].deployments[0]: pod web: metadata.labels: Invalid value: "b c": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')
        "#]].assert_eq(&found);
        let known = [
            Problem::new("clusters[0].nodes", ""),
            Problem::new("workloads[0]", ""),
            Problem::new("workloads[1].name", ""),
        ];
        assert_eq!(problems(&study, &files, &known), []);
    }
}
