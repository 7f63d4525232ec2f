//! Each source of nodes.

use super::*;
use crate::files::Texts;
use serde_json::json;

/// One file, whatever its name.
struct One(String);

impl Files for One {
    fn read(&self, _: &str) -> Result<String, String> {
        Ok(self.0.clone())
    }
}

fn cluster(value: Value) -> Cluster {
    serde_json::from_value(value).unwrap()
}

#[test]
fn a_group_becomes_templates() {
    let cluster = cluster(json!({"name": "c", "nodes": [{
        "name": "gpu", "count": 3, "zones": ["a", "b"], "capacity": {"cpu": 96, "memory": "1Gi"}, "reserved": {"cpu": "500m"},
        "gpus": {"count": 8, "model": "T4"}, "pricePerHour": 2.5, "taints": [{"key": "gpu", "effect": "NoSchedule"}],
    }]}));
    let machines = machines(&cluster, &Texts(&[]), "clusters[0]").unwrap();
    assert_eq!(machines.iter().map(|machine| machine.name.as_str()).collect::<Vec<_>>(), ["gpu-0", "gpu-1", "gpu-2"]);
    assert_eq!(
        machines[1].template(),
        json!({
            "name": "gpu-1", "nodeName": "gpu-1", "zones": ["b"], "pricePerHour": 2.5,
            "capacity": {
                "cpu": "96", "memory": "1073741824", "pods": "110", "nvidia.com/gpu": "8",
                "alibabacloud.com/gpu-count": "8", "alibabacloud.com/gpu-milli": "8000",
            },
            "reserved": {"cpu": "500m"},
            "labels": {"alibabacloud.com/gpu-card-model": "T4"},
            "taints": [{"key": "gpu", "value": "", "effect": "NoSchedule"}],
        })
    );
}

#[test]
fn a_node_list_of_openb_is_read() {
    let files =
        Texts(&[("nodes.csv", "sn,cpu_milli,memory_mib,gpu,model\nn-0,32000,1024,0,\nn-1,64000,2048,2,P100\n")]);
    let cluster = cluster(json!({"name": "c", "openbNodes": {"file": "nodes.csv", "pricePerHour": 3}}));
    let machines = machines(&cluster, &files, "clusters[0]").unwrap();
    assert_eq!((machines[0].group.as_str(), machines[0].gpu_count), ("cpu", 0));
    assert_eq!(machines[1].allocatable["cpu"], 64_000);
    assert_eq!(machines[1].allocatable["memory"], 2048 << 20);
    assert_eq!(machines[1].allocatable["alibabacloud.com/gpu-milli"], 2000);
    assert_eq!((machines[1].gpu_model.as_str(), machines[1].price_per_hour), ("P100", 3.0));
}

#[test]
fn mistakes_of_a_node_list_have_their_lines() {
    let text = "sn,cpu_milli,memory_mib,gpu,model\nn-0,-1,x,0,\nn-1,1,1\nn-2,1,1,4,\n";
    let found = crate::table::Table::read(text, "nodes.csv", &["sn"]).each(|row| {
        let mut mistakes = Vec::new();
        row.number("cpu_milli", &mut mistakes);
        row.number("memory_mib", &mut mistakes);
        if mistakes.is_empty() { Ok(Some(())) } else { Err(mistakes) }
    });
    let lines: Vec<String> = found.unwrap_err().iter().map(ToString::to_string).collect();
    assert_eq!(
        lines,
        [
            "nodes.csv:3: has 3 fields, and the header has 5",
            "nodes.csv:2: cpu_milli: \"-1\" must not be negative",
            "nodes.csv:2: memory_mib: \"x\" is no number",
        ]
    );
}

#[test]
fn nodes_of_a_real_cluster_are_read() {
    let text = "
apiVersion: v1
kind: List
items:
- kind: Node
  metadata: {name: ip-10-0-0-1, labels: {topology.kubernetes.io/zone: eu-1a, team: a, node.kubernetes.io/instance-type: m5}}
  spec:
    taints:
    - {key: node.kubernetes.io/not-ready, effect: NoExecute}
    - {key: dedicated, value: a, effect: NoSchedule}
  status:
    capacity: {cpu: '4', memory: 16Gi, pods: '58'}
    allocatable: {cpu: 3920m, memory: 15Gi, pods: '58'}
";
    let cluster = cluster(json!({"name": "c", "kubectlNodes": {"file": "nodes.yaml"}}));
    let machines = machines(&cluster, &One(text.to_owned()), "clusters[0]").unwrap();
    let machine = &machines[0];
    assert_eq!((machine.group.as_str(), machine.zone.as_deref()), ("m5", Some("eu-1a")));
    assert_eq!(machine.allocatable["cpu"], 3920);
    assert_eq!(machine.taints.len(), 1, "the state of a node is its controller's");
    assert_eq!(machine.template()["reserved"], json!({"cpu": "80m", "memory": (1_i64 << 30).to_string()}));
    let negative = One(text.replace("3920m", "-1"));
    let problems = super::machines(&cluster, &negative, "clusters[0]").unwrap_err();
    assert_eq!(problems[0].to_string(), "nodes.yaml: items[0].status.allocatable.cpu: must not be negative");
    let wrong = One(text.replace("kind: Node", "kind: Pod"));
    assert!(super::machines(&cluster, &wrong, "clusters[0]").is_err());
}

#[test]
fn a_group_that_scales_has_all_its_nodes() {
    let group = |name: &str| json!({"template": {"name": name, "capacity": {"cpu": 4}, "pricePerHour": 0.5}, "min": 1, "max": 2});
    let cluster = |groups: Value| cluster(json!({"name": "c", "nodeGroups": groups}));
    let spot = cluster(json!([group("spot")]));
    assert_eq!(machines(&spot, &Texts(&[]), "clusters[0]"), Ok(Vec::new()));
    let groups = machine_groups(&spot);
    let names: Vec<&str> = groups[0].machines.iter().map(|machine| machine.name.as_str()).collect();
    assert_eq!((names, groups[0].min, groups[0].price_per_hour), (vec!["spot-0", "spot-1"], 1, 0.5));
    let twice = machines(&cluster(json!([group("spot"), group("spot")])), &Texts(&[]), "clusters[0]");
    assert_eq!(twice.unwrap_err()[0].to_string(), "clusters[0]: two nodes are named \"spot-0\"");
}
