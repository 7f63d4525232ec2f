//! Each source of pods, and the shape of what generators draw.

use super::*;
use crate::draw::seeded;
use crate::files::Texts;
use serde_json::{Value, json};

fn read(workload: Value, files: &Texts) -> Result<Vec<Arrival>, String> {
    let workload: Workload = serde_json::from_value(workload).unwrap();
    let lines = |problems: Vec<Problem>| problems.iter().map(|problem| format!("{problem}\n")).collect::<String>();
    arrivals(&workload, files, &mut seeded(7), "workloads[0]").map_err(lines)
}

fn seconds(arrivals: &[Arrival]) -> Vec<u64> {
    arrivals.iter().map(|arrival| arrival.at.as_secs()).collect()
}

#[test]
fn pods_that_no_run_can_have_are_named() {
    let files = Texts(&[(
        "jobs.csv",
        "job,at,run,priority,gpus\na,1767225600,60,0,0\nb,5,60,1500000000,0\nc,7,60,2000000000,0\n",
    )]);
    let columns = json!({"name": "job", "arrival": "at", "duration": "run", "priority": "priority", "gpus": "gpus"});
    let found = read(json!({"name": "w", "csv": {"file": "jobs.csv", "columns": columns}}), &files).unwrap_err();
    expect_test::expect![[r#"
        workloads[0]: pod b: priority 1500000000: must be at most 1000000000, or the 2000000000 or 2000001000 of a system class
        workloads[0]: pod a arrives 20454 days after the beginning, and a run ends after 366 days; `from` moves the beginning, and times that are dates need `timeUnit: timestamp`
    "#]]
    .assert_eq(&found);
    let half = Texts(&[("jobs.csv", "job,at,run,priority,gpus\na,1,60,0,0.5\n")]);
    let found = read(json!({"name": "w", "csv": {"file": "jobs.csv", "columns": columns}}), &half).unwrap_err();
    let why = "jobs.csv:2: gpus: 0.5 is not a whole number; `gpuMilli` names a column with thousandths of a GPU\n";
    assert_eq!(found, why);
}

#[test]
fn fields_of_a_spec_that_do_not_exist_are_named() {
    let size = |spec: Value| json!({"name": "s", "requests": {"cpu": 1, "nvidia.com/gpu": 2}, "duration": {"constant": "60s"}, "spec": spec});
    let generate = |spec: Value| {
        let arrivals = json!({"waves": {"size": 1, "every": "1m"}});
        read(json!({"name": "w", "generate": {"count": 1, "arrivals": arrivals, "sizes": [size(spec)]}}), &Texts(&[]))
    };
    let spec = json!({
        "tolerationz": [], "nodeSelectr": {"a": "b"}, "tolerations": [{"key": "k", "efect": "NoSchedule"}], "volumes": null,
    });
    let found = generate(spec).unwrap_err();
    let expected =
        "workloads[0].generate.sizes[0].spec: unknown field \"nodeSelectr\", unknown field \"tolerations[0].efect\"\n";
    assert_eq!(found, expected);
    let pods = generate(json!({"tolerations": [{"key": "k", "effect": "NoSchedule"}]})).unwrap();
    assert_eq!((pods[0].facts.gpu_count, pods[0].facts.gpu_milli), (2, 1000), "whole GPUs count too");
}

#[test]
fn a_pod_list_of_openb_is_read() {
    let files = Texts(&[(
        "pods.csv",
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n\
         late,1000,1,0,0,,BE,Failed,50,80,\n\
         early,6000,12288,1,460,V100M16|T4,LS,Running,10,110,30\n",
    )]);
    let pods =
        read(json!({"name": "w", "openbPods": {"file": "pods.csv"}, "arrivalScale": 2, "durationScale": 3}), &files)
            .unwrap();
    assert_eq!(seconds(&pods), [5, 25]);
    assert_eq!(pods[0].duration, Some(Duration::from_secs(240)), "from 30 to 110, three times as long");
    assert_eq!(pods[1].duration, Some(Duration::from_secs(90)), "never scheduled: as long as it existed");
    assert_eq!((pods[0].facts.gpu_count, pods[0].facts.gpu_milli), (1, 460));
    let pod = serde_json::to_value(&pods[0].pod).unwrap();
    assert_eq!(
        pod["spec"]["containers"][0]["resources"]["requests"],
        json!({"cpu": "6", "memory": (12_288_i64 << 20).to_string(), "alibabacloud.com/gpu-milli": "460"})
    );
    assert_eq!(pod["spec"]["containers"][0]["resources"]["limits"], json!({"alibabacloud.com/gpu-milli": "460"}));
    assert_eq!(
        pod["metadata"]["annotations"],
        json!({"alibabacloud.com/gpu-card-model": "V100M16|T4", "alibabacloud.com/gpu-count": "1", "alibabacloud.com/gpu-milli": "460", "orrery.dev/run-for": "240000ms"})
    );
    let terms =
        &pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"];
    assert_eq!(terms[0]["matchExpressions"][0]["values"], json!(["V100M16", "T4"]));
}

#[test]
fn mistakes_of_a_trace_have_file_and_line() {
    let files = Texts(&[(
        "pods.csv",
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n\
         a,1000,1,0,0,,BE,Failed,-5,80,\n\
         b,1000,,0,0,,BE,Failed,50,40,\n\
         b,1000,1,1,2000,,BE,Failed,50,80,20\n\
         c,1000,1\n",
    )]);
    let found = read(json!({"name": "w", "openbPods": {"file": "pods.csv"}}), &files).unwrap_err();
    expect_test::expect![[r#"
        pods.csv:5: has 3 fields, and the header has 11
        pods.csv:2: creation_time: "-5" must not be negative
        pods.csv:3: deletion_time: 40 is before creation_time, 50
        pods.csv:3: memory_mib: is empty
        pods.csv:4: name: another pod is named "b"
        pods.csv:4: scheduled_time: 20 is before creation_time, 50
        pods.csv:4: gpu_milli: 2000 must be between 1 and 1000
    "#]]
    .assert_eq(&found);
}

#[test]
fn any_table_is_read_by_a_map_of_its_columns() {
    let files = Texts(&[(
        "jobs.csv",
        "job,vc,submitted,started,ended,gpus,cores\n\
         application_1,Team A,2017-10-03 12:00:10,2017-10-03 12:01:00,2017-10-03 12:02:00,2,4\n\
         application_2,Team B,2017-10-03 12:00:00,2017-10-03 12:00:00,2017-10-03 12:00:30,0,\n",
    )]);
    let columns = json!({"name": "job", "user": "vc", "arrival": "submitted", "start": "started", "end": "ended", "gpus": "gpus"});
    let mut csv = json!({"file": "jobs.csv", "columns": columns, "timeUnit": "timestamp"});
    let pods = read(json!({"name": "w", "csv": csv.clone()}), &files).unwrap();
    assert_eq!(seconds(&pods), [0, 10]);
    assert_eq!(pods[1].duration, Some(Duration::from_secs(60)));
    assert_eq!(pods[1].pod.metadata.name.as_deref(), Some("application-1"));
    assert_eq!((pods[1].facts.user.as_str(), pods[1].facts.gpu_count, pods[1].facts.gpu_milli), ("team-a", 2, 1000));
    csv["columns"]["cpu"] = json!("cores");
    assert_eq!(read(json!({"name": "w", "csv": csv.clone()}), &files), Err("jobs.csv:3: cores: is empty\n".to_owned()));
    csv["gaps"] = json!("skip");
    assert_eq!(read(json!({"name": "w", "csv": csv.clone()}), &files).unwrap().len(), 1);
    csv["columns"]["cpu"] = json!("cpus");
    let found = read(json!({"name": "w", "csv": csv}), &files).unwrap_err();
    assert!(found.starts_with("jobs.csv:1: unknown column \"cpus\"; the table has job, vc"), "{found}");
}

#[test]
fn pods_of_a_real_cluster_arrive_again() {
    let files = Texts(&[(
        "pods.yaml",
        "
kind: List
items:
- kind: Pod
  metadata: {name: b, namespace: team, uid: x, resourceVersion: '7', creationTimestamp: '2026-01-01T00:01:00Z'}
  spec:
    nodeName: node-1
    containers: [{name: c, image: i, resources: {requests: {cpu: 500m, nvidia.com/gpu: '1'}}}]
    initContainers: [{name: first, image: i, resources: {requests: {cpu: '3'}}}]
    overhead: {memory: 1Mi}
  status:
    phase: Succeeded
    startTime: '2026-01-01T00:02:00Z'
    containerStatuses:
    - {name: c, image: i, imageID: '', ready: false, restartCount: 0, state: {terminated: {exitCode: 0, finishedAt: '2026-01-01T00:05:00Z'}}}
- kind: Pod
  metadata: {name: a, namespace: team, creationTimestamp: '2026-01-01T00:00:00Z'}
  spec: {containers: [{name: c, image: i}]}
",
    )]);
    let pods = read(json!({"name": "w", "kubectlPods": {"file": "pods.yaml"}}), &files).unwrap();
    assert_eq!(seconds(&pods), [0, 60]);
    assert_eq!((pods[0].duration, pods[1].duration), (None, Some(Duration::from_secs(180))));
    assert_eq!(pods[1].pod.spec.as_ref().unwrap().node_name, None);
    assert_eq!((pods[1].facts.gpu_count, pods[1].facts.gpu_milli, pods[1].facts.requests["cpu"]), (1, 1000, 3000));
    assert_eq!(pods[1].facts.requests["memory"], 1 << 20);
    assert_eq!(pods[1].facts.user, "team");
}

fn generated(arrivals: Value, count: usize) -> Vec<Arrival> {
    let sizes = json!([{"name": "s", "requests": {"cpu": 1}, "duration": {"constant": "1m"}}]);
    let files = Texts(&[]);
    read(json!({"name": "w", "generate": {"count": count, "arrivals": arrivals, "sizes": sizes}}), &files).unwrap()
}

fn within(part: f64, found: f64, wanted: f64) {
    assert!((found / wanted - 1.0).abs() < part, "{found} is not near {wanted}");
}

#[test]
fn arrivals_have_their_rates() {
    let last_s = |arrivals: &[Arrival]| arrivals.last().unwrap().at.as_secs_f64();
    within(0.05, last_s(&generated(json!({"poisson": {"rate": "2/s"}}), 4000)), 2000.0);
    // Half of the time 10 in a second, half of it 1: 5.5 on average.
    let phases = json!([{"rate": "10/s", "mean": "10s"}, {"rate": "1/s", "mean": "10s"}]);
    within(0.15, last_s(&generated(json!({"mmpp": {"phases": phases}}), 20_000)), 20_000.0 / 5.5);
    let days = generated(json!({"diurnal": {"rate": "100/h", "swing": 1, "peak": "12h"}}), 4800);
    within(0.05, last_s(&days), 2.0 * 86_400.0);
    let hour = |arrival: &&Arrival| (arrival.at.as_secs() / 3600) % 24;
    let near = |from: u64, to: u64| days.iter().filter(|arrival| (from..to).contains(&hour(arrival))).count() as f64;
    // Within an hour of noon the rate is 1 + cos(π/24 … −π/24), nearly twice the mean; at midnight there is nearly none.
    within(0.15, near(11, 13), 2.0 * 2.0 * 200.0 * 0.994);
    assert!(near(0, 1) < 10.0);
    let waves = generated(json!({"waves": {"size": 2, "every": "1h", "spread": "10s"}}), 5);
    assert_eq!(seconds(&waves), [0, 5, 3600, 3605, 7200]);
}

#[test]
fn phases_without_arrivals_end() {
    let generate = json!({
        "count": 5,
        "arrivals": {"mmpp": {"phases": [{"rate": "0.0001/h", "mean": "1us"}]}},
        "sizes": [{"name": "s", "requests": {}, "duration": {"constant": "1s"}}],
    });
    let found = read(json!({"name": "w", "generate": generate}), &Texts(&[])).unwrap_err();
    let why =
        "0 of 5 arrivals are within 10000000 phases, the most that are drawn: phases must be longer, or rates higher";
    assert_eq!(found, format!("workloads[0].generate.arrivals.mmpp.phases: {why}\n"));
}

#[test]
fn durations_have_their_means() {
    let mean = |of: Value| {
        let of = serde_json::from_value(of).unwrap();
        let mut draw = seeded(3);
        (0..20_000).map(|_| distribution::draw(&of, &mut draw).as_secs_f64()).sum::<f64>() / 20_000.0
    };
    assert_eq!(mean(json!({"constant": "90s"})), 90.0);
    within(0.03, mean(json!({"exponential": {"mean": "90s"}})), 90.0);
    // median · e^(σ²/2)
    within(0.03, mean(json!({"logNormal": {"median": "60s", "sigma": 0.5}})), 60.0 * 1.133_148);
    // min · α / (α − 1)
    within(0.05, mean(json!({"pareto": {"min": "60s", "alpha": 3}})), 90.0);
    assert!(mean(json!({"pareto": {"min": "60s", "alpha": 0.1}, "max": "100s"})) <= 100.0);
}

#[test]
fn kinds_come_by_weight_and_gangs_arrive_together() {
    let sizes = json!([
        {"name": "many", "weight": 3, "requests": {"cpu": 1}, "duration": {"constant": "1m"}, "users": ["ann", "ben"]},
        {"name": "gang", "requests": {"cpu": 2}, "duration": {"constant": "1m"}, "gang": 4, "priority": 5,
         "gpus": {"count": 2}, "spec": {"tolerations": [{"key": "gpu", "operator": "Exists"}]}},
    ]);
    let workload =
        json!({"name": "w", "generate": {"count": 1000, "arrivals": {"poisson": {"rate": "1/s"}}, "sizes": sizes}});
    let pods = read(workload.clone(), &Texts(&[])).unwrap();
    let members: Vec<&Arrival> = pods.iter().filter(|pod| pod.facts.gang.is_some()).collect();
    within(0.15, members.len() as f64, 1000.0);
    let first: Vec<&&Arrival> = members.iter().filter(|pod| pod.facts.gang.as_deref() == Some("gang-0")).collect();
    assert_eq!(first.len(), 4);
    assert!(first.iter().all(|pod| pod.at == first[0].at));
    let pod = serde_json::to_value(&first[0].pod).unwrap();
    assert_eq!(pod["metadata"]["name"], "gang-0-0");
    assert_eq!(pod["metadata"]["annotations"]["orrery.dev/gang"], "4");
    assert_eq!(pod["spec"]["tolerations"][0]["key"], "gpu");
    assert_eq!(pod["spec"]["priority"], 5);
    assert_eq!(read(workload, &Texts(&[])), Ok(pods), "the same numbers, the same pods");
}

#[test]
fn a_workload_is_cut_before_it_is_scaled() {
    let files = Texts(&[("jobs.csv", "t,d\n0,1\n10,1\n20,1\n30,1\n")]);
    let csv = json!({"file": "jobs.csv", "columns": {"arrival": "t", "duration": "d"}});
    let pods =
        read(json!({"name": "w", "csv": csv, "from": "10s", "until": "30s", "arrivalScale": 0.5}), &files).unwrap();
    assert_eq!(seconds(&pods), [0, 20]);
    let none = json!({"file": "jobs.csv", "columns": {"arrival": "t", "duration": "d"}});
    assert_eq!(
        read(json!({"name": "w", "csv": none, "from": "1h"}), &files),
        Err("workloads[0]: has no pods\n".to_owned())
    );
}

#[test]
fn a_deployment_is_written_with_its_autoscaler() {
    let files = Texts(&[("load.csv", "time,cpu\n15,2\n30,3.5\n"), ("bad.csv", "time,cpu\n1,x\n")]);
    let of = |deployment: Value| {
        let workload: Workload = serde_json::from_value(json!({"name": "w", "deployments": [deployment]})).unwrap();
        deployments(&workload, &files, Duration::from_secs(60), &mut seeded(1), "workloads[0]")
    };
    let mut wanted = json!({
        "name": "web", "requests": {"cpu": "500m", "memory": "1Gi"}, "cpuLimit": 1, "priority": 5, "user": "ann",
        "autoscaler": {"min": 2, "max": 9, "cpuUtilization": 60, "behavior": {"scaleDown": {"stabilizationWindowSeconds": 60}}},
        "load": {"steps": [{"at": "0s", "cpu": 4}]},
        "spec": {"tolerations": [{"key": "spot", "operator": "Exists"}]},
    });
    let made = of(wanted.clone()).unwrap().remove(0);
    let labels = json!({"orrery.dev/deployment": "web", "orrery.dev/user": "ann"});
    let spec = &made.document["spec"];
    assert_eq!(
        (&spec["replicas"], &spec["selector"]["matchLabels"], &spec["template"]["metadata"]["labels"]),
        (&json!(2), &json!({"orrery.dev/deployment": "web"}), &labels)
    );
    let pod = &spec["template"]["spec"];
    assert_eq!((&pod["restartPolicy"], &pod["priority"]), (&json!("Always"), &json!(5)));
    assert_eq!(pod["tolerations"][0]["key"], "spot");
    let resources = json!({"requests": {"cpu": "500m", "memory": "1073741824"}, "limits": {"cpu": "1"}});
    assert_eq!(pod["containers"][0]["resources"], resources);
    let scaler = &made.autoscaler.as_ref().unwrap()["spec"];
    assert_eq!((&scaler["minReplicas"], &scaler["maxReplicas"]), (&json!(2), &json!(9)));
    assert_eq!(scaler["metrics"][0]["resource"]["target"]["averageUtilization"], 60);
    assert_eq!(scaler["behavior"]["scaleDown"]["stabilizationWindowSeconds"], 60);
    assert_eq!((made.facts.user.as_str(), made.cpu_limit_milli), ("ann", Some(1000)));
    assert_eq!(made.load, [(Duration::ZERO, 4000)]);
    wanted["load"] = json!({"csv": {"file": "load.csv"}});
    let seconds = Duration::from_secs;
    assert_eq!(of(wanted.clone()).unwrap()[0].load, [(seconds(15), 2000), (seconds(30), 3500)]);
    wanted["load"] = json!({"csv": {"file": "bad.csv"}});
    assert_eq!(of(wanted.clone()).unwrap_err()[0].to_string(), "bad.csv:2: cpu: \"x\" is no number");
    wanted["load"] = json!({"steps": [{"at": "0s", "cpu": 4}]});

    wanted["spec"] = json!({"tolerations": 5});
    let found = of(wanted.clone()).unwrap_err();
    assert!(found[0].to_string().starts_with("workloads[0].deployments[0].spec: invalid type"), "{}", found[0]);
    wanted["spec"] = json!({});
    wanted["autoscaler"]["behavior"] = json!({"scaleDown": 5});
    let found = of(wanted).unwrap_err();
    assert!(found[0].to_string().starts_with("workloads[0].deployments[0].autoscaler.behavior: "), "{}", found[0]);
}
