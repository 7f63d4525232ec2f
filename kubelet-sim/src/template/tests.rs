//! Templates that are read, refused, and made into nodes.

use super::*;
use crate::config::Settings;
use crate::node::{self, Observed};
use crate::plan::NodePlan;
use proto::kinds::apimachinery::api::resource::Quantity;
use proto::kinds::jiff::Timestamp;
use std::fs;
use std::path::PathBuf;

const TWO: &str = r#"
name: web
count: 3
zones: [eu-1a, eu-1b]
region: eu-1
instanceTypes: [small, large]
capacity: {cpu: 4, memory: 16Gi, pods: 30, hugepages-2Mi: 64Mi}
reserved: {cpu: 100m, memory: 1Gi}
podCIDR: 10.200.0.0/16
---
- name: gpu
  nodeName: "gpu-{zone}-{number}"
  zones: [eu-1c]
  capacity: {nvidia.com/gpu: 8}
  labels: {team: research}
  annotations: {example.com/rack: "7"}
  taints: [{key: nvidia.com/gpu, value: "true", effect: NoSchedule}]
  images: [cuda:13]
  runtimeHandlers: [nvidia]
  pricePerHour: 32.77
  architecture: arm64
  latency: {imagePull: 20s}
"#;

fn fleet(text: &str) -> Vec<NodePlan> {
    let (templates, problems) = file::parse(text);
    assert_eq!(problems, [""; 0]);
    NodePlan::all(&Settings { templates, ..Settings::default() })
}

#[test]
fn nodes_are_made_by_template() {
    let plans = fleet(TWO);
    let line = |plan: &NodePlan| {
        let label = |key: &str| plan.machine.labels.get(key).cloned().unwrap_or_default();
        let range = plan.machine.pod_range.map_or("-".to_owned(), |range| range.to_string());
        let type_ = label("node.kubernetes.io/instance-type");
        let zone = label("topology.kubernetes.io/zone");
        let region = label("topology.kubernetes.io/region");
        format!("{} {} {region} {zone} {type_} {range}", plan.machine.name, plan.machine.address)
    };
    assert_eq!(
        plans.iter().map(line).collect::<Vec<_>>(),
        [
            "web-0 172.18.0.2 eu-1 eu-1a small 10.200.0.0/24",
            "web-1 172.18.0.3 eu-1 eu-1b large 10.200.1.0/24",
            "web-2 172.18.0.4 eu-1 eu-1a small 10.200.2.0/24",
            "gpu-eu-1c-0 172.18.0.5 orrery eu-1c orrery.simulated -",
        ]
    );
}

#[test]
fn a_node_registers_with_what_its_template_says() {
    let plans = fleet(TWO);
    let register = |place: usize| {
        node::registration(&plans[place].machine, &Observed::default(), Timestamp::from_second(1_767_225_600).unwrap())
    };
    let (web, gpu) = (register(0), register(3));
    let amounts = |node: &proto::kinds::api::core::v1::Node, of: &[&str]| {
        let status = node.status.clone().unwrap();
        let show = |name: &&str| {
            let amount = |list: &Option<BTreeMap<String, Quantity>>| list.as_ref().unwrap()[*name].0.clone();
            format!("{name} {} of {}", amount(&status.allocatable), amount(&status.capacity))
        };
        of.iter().map(show).collect::<Vec<_>>()
    };
    assert_eq!(
        amounts(&web, &["cpu", "memory", "pods", "hugepages-2Mi"]),
        ["cpu 3900m of 4", "memory 15260Mi of 16Gi", "pods 30 of 30", "hugepages-2Mi 64Mi of 64Mi"]
    );
    assert_eq!(web.spec.as_ref().unwrap().pod_cidr.as_deref(), Some("10.200.0.0/24"));
    assert_eq!(web.spec.as_ref().unwrap().pod_cidrs.as_deref(), Some(&["10.200.0.0/24".to_owned()][..]));
    assert_eq!(amounts(&gpu, &["nvidia.com/gpu", "cpu"]), ["nvidia.com/gpu 8 of 8", "cpu 8 of 8"]);
    let labels = gpu.metadata.labels.unwrap();
    assert_eq!(
        [PRICE, TEMPLATE, "team", "kubernetes.io/arch"].map(|key| labels[key].as_str()),
        ["32.77", "gpu", "research", "arm64"]
    );
    assert_eq!(gpu.metadata.annotations.unwrap()["example.com/rack"], "7");
    assert_eq!(gpu.spec.unwrap().taints.unwrap()[0].key, "nvidia.com/gpu");
    let status = gpu.status.unwrap();
    assert_eq!(status.node_info.unwrap().architecture, "arm64");
    assert_eq!(status.runtime_handlers.unwrap()[1].name.as_deref(), Some("nvidia"));
    assert_eq!(plans[3].settings.latency.image_pull, Duration::from_secs(20));
    assert_eq!(plans[0].settings.latency.image_pull, Duration::from_millis(400));
}

#[test]
fn every_mistake_is_named_with_its_path() {
    let problems = |text: &str| file::parse(text).1;
    assert_eq!(problems("{name: a, cuont: 3}"), ["template \"a\": cuont: unknown field"]);
    assert_eq!(
        problems("count: 1"),
        [
            "document 1: name: required",
            "document 1: nodeName: a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
        ]
    );
    assert_eq!(problems("name: a\n---\nname: [\n").len(), 1);
    assert_eq!(problems("- 3\n"), ["document 1[0]: must be an object"]);
    for (fields, expected) in [
        ("count: -1", "count: must be a whole number that is not negative"),
        ("count: 60001", "count: must not be greater than 60000"),
        ("{count: 2, nodeName: one}", "nodeName: must contain {number}, because count is greater than 1"),
        ("capacity: 3", "capacity: must be an object"),
        ("capacity: {gpu: 3}", "capacity.gpu: unknown resource; an extended one has a domain, such as example.com/gpu"),
        (
            "capacity: {cpu: some}",
            "capacity.cpu: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
        ("capacity: {cpu: -1}", "capacity.cpu: must not be negative"),
        ("capacity: {pods: 1500m}", "capacity.pods: must be a whole number"),
        ("capacity: {example.com/gpu: 500m}", "capacity.example.com/gpu: must be a whole number"),
        ("{capacity: {cpu: 1}, reserved: {cpu: 2}}", "reserved.cpu: must not be greater than the capacity"),
        ("reserved: {pods: 2}", "reserved.pods: must be cpu, memory or ephemeral-storage"),
        ("taints: [{key: a, effect: Never}]", "taints[0].effect: must be NoSchedule, PreferNoSchedule or NoExecute"),
        ("taints: [{key: a}]", "taints[0].effect: required"),
        ("taints: [{key: a, effect: NoExecute, foo: 1}]", "taints[0].foo: unknown field"),
        (
            "taints: [{key: a, effect: NoExecute}, {key: a, effect: NoExecute}]",
            "taints[1]: another taint has this key and effect",
        ),
        ("region: eu", "region: must not be set without zones"),
        ("zones: a", "zones: must be a list"),
        ("zones: ['']", "zones[0]: must not be empty"),
        ("pricePerHour: cheap", "pricePerHour: must be a number that is not negative"),
        ("pricePerHour: -1", "pricePerHour: must be a number that is not negative"),
        ("operatingSystem: plan9", "operatingSystem: must be linux or windows"),
        ("podCIDR: here", "podCIDR: must be a range of IPv4 addresses, such as 10.200.0.0/16"),
        ("latency: {imagePull: soon}", "latency.imagePull: must be a duration, such as 1m30s"),
        ("latency: {pull: 1s}", "latency.pull: unknown field"),
        ("labels: {a: 1}", "labels.a: must be a string"),
    ] {
        let fields = fields.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or(fields);
        assert_eq!(problems(&format!("{{name: t, {fields}}}")), [format!("template \"t\": {expected}")], "{fields}");
    }
}

#[test]
fn files_are_one_fleet_and_mistakes_stand_on_lines_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let (a, b) = (file("a.yaml", "name: a\n"), file("b.yaml", "[{name: b, count: 2}]"));
    let names = |paths: &[PathBuf]| file::read(paths).unwrap().into_iter().map(|t| t.name).collect::<Vec<_>>();
    assert_eq!(names(&[a.clone(), b]), ["a", "b"]);
    let refused = |paths: &[PathBuf]| {
        let message = file::read(paths).unwrap_err().to_string();
        message.replace(&format!("{}/", folder.path().display()), "")
    };
    let wrong = file("wrong.yaml", "{name: a, foo: 1, bar: 2}\n---\n{name: b, foo: 1}");
    assert_eq!(
        refused(&[a.clone(), wrong]),
        "--node-template: wrong.yaml: template \"a\": bar: unknown field\n\
         wrong.yaml: template \"a\": foo: unknown field\n\
         wrong.yaml: template \"b\": foo: unknown field"
    );
    let twice = file("twice.yaml", "{name: a, nodeName: a-0}");
    assert_eq!(
        refused(&[a, twice]),
        "--node-template: template \"a\": name: another template has it too\n\
         template \"a\": nodeName: another node is named \"a-0\""
    );
}
