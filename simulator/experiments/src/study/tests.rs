//! The example is valid, and of a bad study every mistake is reported with its path.

use super::*;
use crate::problem::Problem;

fn lines(problems: Vec<Problem>) -> String {
    problems.iter().map(|problem| format!("{problem}\n")).collect()
}

fn mistakes(text: &str) -> String {
    lines(read(text).err().unwrap_or_default())
}

#[test]
fn the_example_is_valid() {
    let study = read(EXAMPLE).unwrap();
    let cells: Vec<String> = study.cells().iter().map(ToString::to_string).collect();
    assert_eq!(cells.len(), 10);
    assert_eq!(cells[0], "small/mixed/none/default/seed-1");
    assert_eq!(cells[9], "small/mixed/none/most-allocated/seed-5");
    // What is written again is the same study.
    assert_eq!(read(&serde_json::to_string(&study).unwrap()), Ok(study));
}

/// Whole lines that are comments become lines of the study; comments in words do not.
#[test]
fn the_comments_of_the_example_are_valid_too() {
    let is_word = |line: &&str| {
        line.starts_with("# ")
            && !["# - ", "#   ", "# faults:", "# reward:", "# until:", "# records:"]
                .iter()
                .any(|start| line.starts_with(start))
    };
    let lines = EXAMPLE.lines().filter(|line| !is_word(line));
    let uncommented: String = lines.map(|line| line.strip_prefix("# ").unwrap_or(line).to_owned() + "\n").collect();
    let study = read(&uncommented).unwrap();
    assert_eq!((study.clusters.len(), study.workloads.len(), study.policies.len(), study.faults.len()), (4, 5, 4, 2));
    assert_eq!(study.reward.len(), 2);
}

#[test]
fn every_mistake_of_form_has_its_path() {
    let text = "
apiVersion: orrery.dev/v1alpha1
kind: Study
name: bad
depth: shallow
seeds: 5..1
sampleEvery: -1m
clusters:
- name: c
  nods: []
  nodes:
  - {name: nodes, count: two, capacity: {cpu: -1, memory: 4Gb}, taints: [{effect: NoSchedule}]}
workloads:
- name: w
  generate:
    count: 3
    arrivals: {poisson: {rate: 3}}
    sizes:
    - {name: s, requests: {cpu: 1}, duration: {constant: 5 minutes}}
";
    expect_test::expect![[r#"
        policies: Required value
        clusters[0].nodes[0].capacity.cpu: "-1" must not be negative
        clusters[0].nodes[0].capacity.memory: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'
        clusters[0].nodes[0].count: must be of type integer
        clusters[0].nodes[0].taints[0].key: Required value
        clusters[0].nods: unknown field
        depth: Unsupported value: "shallow": supported values: "full", "scheduler"
        sampleEvery: "-1m" must not be negative
        seeds: "5..1" must have between 1 and 10000 seeds
        workloads[0].generate.arrivals.poisson.rate: must be of type string
        workloads[0].generate.sizes[0].duration.constant: invalid duration "5 minutes": want for example 300ms, 90s, 1h30m or 7d
    "#]]
    .assert_eq(&mistakes(text));
}

#[test]
fn every_mistake_of_meaning_has_its_path() {
    let text = "
apiVersion: v1
kind: Study
name: Bad Name
metrics: [jct.mean, happiness]
reward: [{term: pending, metric: jct.mean, weight: 1}, {metric: happiness, weight: 1}, {weight: 1}]
clusters:
- name: c
- name: c
  openbNodes: {file: nodes.csv}
  nodes: [{name: nodes, capacity: {cpu: 1}, reserved: {cpu: 2}, taints: [{key: a, effect: Never}]}]
workloads:
- name: w
  arrivalScale: 0
  csv: {file: jobs.csv, timeUnit: years, columns: {arrival: t}}
- name: services
  deployments:
  - name: web
    requests: {memory: 1Gi}
    autoscaler: {min: 3, max: 2, cpuUtilization: 0, behavior: fast}
    load: {steps: [{at: 1m, cpu: 1}, {at: 1m, cpu: 2}], diurnal: {cpu: 1, swing: 2}, csv: {file: l.csv, timeUnit: d}, noise: -1}
  - {name: web, requests: {cpu: 1}, spec: none, load: {}}
- name: x
  generate: {count: 0, arrivals: {poisson: {rate: 1/s}, waves: {size: 0, every: 1s}}, sizes: []}
policies:
- {name: p, file: a.yaml, configuration: {kind: Pod}}
- {name: q, external: {command: [''], schedulerName: My_Scheduler, speed: 0}}
- {name: r, file: a.yaml, external: {speed: 1001}}
";
    expect_test::expect![[r#"
        apiVersion: must be orrery.dev/v1alpha1
        name: a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')
        clusters[1].name: Duplicate value: "c"
        metrics[1]: unknown metric "happiness"
        reward[0]: must have exactly one of term, metric
        reward[1].metric: unknown metric "happiness"
        reward[2]: must have exactly one of term, metric
        clusters[0]: must have exactly one of nodes, openbNodes, kubectlNodes
        clusters[1]: must have exactly one of nodes, openbNodes, kubectlNodes
        clusters[1].nodes[0].taints[0].effect: must be NoSchedule, PreferNoSchedule or NoExecute
        clusters[1].nodes[0].reserved.cpu: must not be greater than the capacity
        workloads[0].arrivalScale: must be greater than zero
        workloads[0].csv.columns: must have exactly one of duration and end
        workloads[0].csv.timeUnit: must be us, ms, s, m, h or timestamp
        until: Required value: the Deployments of workloads[1] have no end
        workloads[1].deployments[1].name: Duplicate value: "web"
        workloads[1].deployments[0].autoscaler: needs requests.cpu, because it compares the usage with it
        workloads[1].deployments[0].autoscaler.cpuUtilization: must be greater than zero
        workloads[1].deployments[0].autoscaler.min: must not be greater than max
        workloads[1].deployments[0].autoscaler.behavior: must be of type object
        workloads[1].deployments[0].load: must have exactly one of steps, diurnal, csv
        workloads[1].deployments[0].load.csv.timeUnit: must be us, ms, s, m, h or timestamp
        workloads[1].deployments[0].load.steps[1].at: must be after the step before
        workloads[1].deployments[0].load.diurnal.swing: must be between 0 and 1
        workloads[1].deployments[0].load.noise: must not be negative
        workloads[1].deployments[1].spec: must be of type object
        workloads[1].deployments[1].load: must have exactly one of steps, diurnal, csv
        workloads[2].generate.arrivals: must have exactly one of poisson, mmpp, diurnal, waves
        workloads[2].generate.arrivals.waves.size: must be greater than zero
        workloads[2].generate.count: must be greater than zero
        workloads[2].generate.sizes: must have at least one item
        policies[0]: must have at most one of configuration, file and external
        policies[0].configuration.kind: must be KubeSchedulerConfiguration
        policies[1].external.command[0]: must name a program
        policies[1].external.schedulerName: a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
        policies[1].external.speed: must be greater than zero, and at most 1000
        policies[2]: must have at most one of configuration, file and external
        policies[2].external.speed: must be greater than zero, and at most 1000
    "#]]
    .assert_eq(&mistakes(text));
}

#[test]
fn an_external_scheduler_asks_an_api_server() {
    let text = EXAMPLE.replace("- name: default ", "- name: mine\n  external: {}\n- name: default ");
    assert_eq!(mistakes(&text), "");
    let external = read(&text).unwrap().policies[0].external.clone().unwrap();
    assert_eq!((external.scheduler_name(), external.speed()), ("default-scheduler", 1.0));
    let alone = text.replace("\npolicies:", "\ndepth: scheduler\npolicies:");
    assert_eq!(
        mistakes(&alone),
        "policies[0].external: depth `scheduler` has no API server that it could ask; it needs depth `full`\n"
    );
}

#[test]
fn seeds_are_a_number_a_list_or_a_range() {
    assert_eq!(Seeds::parse("2..4"), Ok(Seeds(vec![2, 3, 4])));
    assert_eq!(Seeds::parse("7,3"), Ok(Seeds(vec![7, 3])));
    for text in ["", "a", "4..2", "1..100000", "1,1", "-1"] {
        assert!(Seeds::parse(text).is_err(), "{text}");
    }
}

#[test]
fn node_groups_say_their_bounds_once() {
    let text = "
apiVersion: orrery.dev/v1alpha1
kind: Study
name: groups
clusters:
- name: good
  nodeGroups: [{template: {name: a, capacity: {cpu: 4}}, max: 3}]
- name: bad
  nodes: [{name: fixed, capacity: {cpu: 4}}]
  nodeGroups:
  - {template: {name: a, count: 2, capacity: {cpu: 4}, taints: [{key: k, effect: Never}]}, min: 4, max: 3}
  - {template: {name: b, capacity: {cpu: 4}, pricePerHour: -1}, max: 0}
- name: none
workloads:
- {name: w, openbPods: {file: pods.csv}}
policies: [{name: p}]
";
    expect_test::expect![[r#"
        clusters[1].nodeGroups[0].template.count: must not be set, because min and max say it
        clusters[1].nodeGroups[0].min: must not be greater than max
        clusters[1].nodeGroups[1].max: must be greater than zero
        clusters[1].nodeGroups[0].template.taints[0].effect: must be NoSchedule, PreferNoSchedule or NoExecute
        clusters[1].nodeGroups[1].template.pricePerHour: must not be negative
        clusters[2]: must have exactly one of nodes, openbNodes, kubectlNodes
    "#]]
    .assert_eq(&mistakes(text));
}

/// A field of the wrong form gets a stand-in, so the rules of others are checked, and nothing is said about the stand-in itself.
#[test]
fn mistakes_of_form_hide_no_others() {
    let text = "
apiVersion: orrery.dev/v1alpha1
kind: Study
name: both
until: soon
metrics: [happiness]
clusters:
- {name: c, nods: [], nodes: [{name: node, capacity: {cpu: many}, reserved: {memory: 1Gi}}]}
- {name: c, openbNodes: {limit: 3}}
workloads:
- {name: w, arrivalScale: 0, csv: {file: jobs.csv, columns: {end: e}}}
- {name: x, deployments: [{name: d, requests: {cpu: 1}, load: {diurnal: {cpu: 1, swing: high}}}]}
policies: [{name: p, external: {speed: fast, schedulerName: A}}]
";
    expect_test::expect![[r#"
        clusters[0].nodes[0].capacity.cpu: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'
        clusters[0].nods: unknown field
        clusters[1].openbNodes.file: Required value
        policies[0].external.speed: must be of type number
        until: invalid duration "soon": want for example 300ms, 90s, 1h30m or 7d
        workloads[0].csv.columns.arrival: Required value
        workloads[1].deployments[0].load.diurnal.swing: must be of type number
        clusters[1].name: Duplicate value: "c"
        metrics[0]: unknown metric "happiness"
        clusters[0].nodes[0].reserved.memory: must not be greater than the capacity
        workloads[0].arrivalScale: must be greater than zero
        policies[0].external.schedulerName: a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
    "#]].assert_eq(&mistakes(text));
    let draft = Draft::read(text);
    assert_eq!(draft.study.map(|study| (study.clusters.len(), study.workloads.len())), Some((2, 2)));
}
