//! `/metrics/cadvisor`: the usage and the limits of a node, its pods and their containers, as dashboards ask for them.
//!
//! Corresponds to the endpoint of that name in pkg/kubelet/server/server.go and to cAdvisor's metrics/prometheus.go.
//!
//! Deviation: the families are those that dashboards use. No byte is counted on a simulated network or disk, so these
//! counters stay at 0; all CPU time is time of a user.

use super::metrics::NodeUsage;
use crate::fleet::Fleet;
use component_base::metrics::{FloatCounters, FloatGauges, Labels, Metrics};
use pod_life::images;
use pod_life::qos::{QosClass, qos_class};
use pod_life::story::usage::ContainerUsage;
use proto::Kind;
use proto::kinds::api::core::v1::{Container, ContainerStatus, Node, Pod, PodStatus};
use proto::kinds::apimachinery::api::resource::Quantity as QuantityText;
use proto::kinds::jiff::Timestamp;
use proto::meta::quantity::Quantity;
use std::collections::BTreeMap;

/// The period in which a container may use its share of CPU time, in microseconds.
const CPU_PERIOD_US: f64 = 100_000.0;
/// The least weight of a container that requests no CPU.
const LEAST_SHARES: f64 = 2.0;
const SANDBOX_IMAGE: &str = "registry.k8s.io/pause:3.10.1";
const DISK: &str = "/dev/vda1";
const NETWORK_INTERFACE: &str = "eth0";

/// The families that only grow: name and help.
const COUNTERS: [(&str, &str); 18] = [
    ("container_cpu_cfs_periods_total", "Number of elapsed enforcement period intervals."),
    ("container_cpu_cfs_throttled_periods_total", "Number of throttled period intervals."),
    ("container_cpu_cfs_throttled_seconds_total", "Total time duration the container has been throttled."),
    ("container_cpu_system_seconds_total", "Cumulative system cpu time consumed in seconds."),
    ("container_cpu_usage_seconds_total", "Cumulative cpu time consumed in seconds."),
    ("container_cpu_user_seconds_total", "Cumulative user cpu time consumed in seconds."),
    ("container_fs_reads_bytes_total", "Cumulative count of bytes read."),
    ("container_fs_reads_total", "Cumulative count of reads completed."),
    ("container_fs_writes_bytes_total", "Cumulative count of bytes written."),
    ("container_fs_writes_total", "Cumulative count of writes completed."),
    ("container_network_receive_bytes_total", "Cumulative count of bytes received."),
    ("container_network_receive_errors_total", "Cumulative count of errors encountered while receiving."),
    ("container_network_receive_packets_dropped_total", "Cumulative count of packets dropped while receiving."),
    ("container_network_receive_packets_total", "Cumulative count of packets received."),
    ("container_network_transmit_bytes_total", "Cumulative count of bytes transmitted."),
    ("container_network_transmit_errors_total", "Cumulative count of errors encountered while transmitting."),
    ("container_network_transmit_packets_dropped_total", "Cumulative count of packets dropped while transmitting."),
    ("container_network_transmit_packets_total", "Cumulative count of packets transmitted."),
];
/// The families of present values: name and help.
const GAUGES: [(&str, &str); 25] = [
    ("cadvisor_version_info", "Constant 1, labeled by the versions of the kernel, the OS and cAdvisor."),
    ("container_fs_limit_bytes", "Number of bytes that can be consumed by the container on this filesystem."),
    ("container_fs_usage_bytes", "Number of bytes consumed by the container on this filesystem."),
    ("container_last_seen", "Last time a container was seen by the exporter."),
    ("container_memory_cache", "Number of bytes of page cache memory."),
    ("container_memory_rss", "Size of RSS in bytes."),
    ("container_memory_swap", "Container swap usage in bytes."),
    ("container_memory_usage_bytes", "Current memory usage in bytes, including all memory."),
    ("container_memory_working_set_bytes", "Current working set in bytes."),
    ("container_processes", "Number of processes running inside the container."),
    ("container_scrape_error", "1 if there was an error while getting container metrics, 0 otherwise."),
    ("container_spec_cpu_period", "CPU period of the container."),
    ("container_spec_cpu_quota", "CPU quota of the container."),
    ("container_spec_cpu_shares", "CPU share of the container."),
    ("container_spec_memory_limit_bytes", "Memory limit for the container."),
    ("container_spec_memory_reservation_limit_bytes", "Memory reservation limit for the container."),
    ("container_spec_memory_swap_limit_bytes", "Memory swap limit for the container."),
    ("container_start_time_seconds", "Start time of the container since unix epoch in seconds."),
    ("container_threads", "Number of threads running inside the container."),
    ("machine_cpu_cores", "Number of logical CPU cores."),
    ("machine_cpu_physical_cores", "Number of physical CPU cores."),
    ("machine_cpu_sockets", "Number of CPU sockets."),
    ("machine_memory_bytes", "Amount of memory installed on the machine."),
    ("machine_scrape_error", "1 if there was an error while getting machine metrics, 0 otherwise."),
    ("machine_swap_bytes", "Amount of swap memory available on the machine."),
];
const NETWORK_COUNTERS: [&str; 8] = [
    "container_network_receive_bytes_total",
    "container_network_receive_errors_total",
    "container_network_receive_packets_dropped_total",
    "container_network_receive_packets_total",
    "container_network_transmit_bytes_total",
    "container_network_transmit_errors_total",
    "container_network_transmit_packets_dropped_total",
    "container_network_transmit_packets_total",
];
const DISK_COUNTERS: [&str; 4] = [
    "container_fs_reads_bytes_total",
    "container_fs_reads_total",
    "container_fs_writes_bytes_total",
    "container_fs_writes_total",
];

type Label = (&'static str, String);

/// Returns the page of a node; `None` when the node is not of this fleet.
pub fn page(fleet: &Fleet, node: &str) -> Option<String> {
    let usage = NodeUsage::of(fleet, node)?;
    let machine = fleet.node(node)?;
    let status = |pod: &Pod| fleet.find(node, pod.namespace(), pod.name()).map(|(_, status)| status);
    Some(CadvisorPage::of(&usage, &machine, status).metrics.encode())
}

/// The families of a page, by name.
struct CadvisorPage {
    now: Timestamp,
    metrics: Metrics,
    counters: BTreeMap<&'static str, FloatCounters>,
    gauges: BTreeMap<&'static str, FloatGauges>,
}

/// One control group: the node's root, a pod, a sandbox or a container.
struct ControlGroup {
    labels: [Label; 6],
    started_at: Timestamp,
}

/// What a control group uses.
#[derive(Clone, Copy, Default)]
struct Amounts {
    cpu_seconds: f64,
    memory_bytes: f64,
    disk_bytes: f64,
    processes: f64,
}

impl Amounts {
    fn of(usages: &[ContainerUsage]) -> Self {
        usages.iter().fold(Self::default(), |sum, usage| Self {
            cpu_seconds: sum.cpu_seconds + usage.cpu_seconds,
            memory_bytes: sum.memory_bytes + usage.memory_bytes,
            disk_bytes: sum.disk_bytes + usage.disk_bytes,
            processes: sum.processes + usage.processes,
        })
    }
}

/// The requests and limits of a control group, each 0 when there is none.
#[derive(Clone, Copy, Default)]
struct Limits {
    cpu_request: f64,
    cpu_limit: f64,
    memory_limit: f64,
}

impl Limits {
    fn of(container: &Container) -> Self {
        let resources = container.resources.as_ref();
        let amount = |list: Option<&BTreeMap<String, QuantityText>>, name: &str| amount_of(list, name);
        let limits = resources.and_then(|resources| resources.limits.as_ref());
        let requests = resources.and_then(|resources| resources.requests.as_ref());
        Self {
            cpu_request: amount(requests, "cpu"),
            cpu_limit: amount(limits, "cpu"),
            memory_limit: amount(limits, "memory"),
        }
    }

    /// Adds up the limits of a pod's containers. A pod has no limit unless all of them have.
    fn of_pod(containers: &[Container]) -> Self {
        let all: Vec<Self> = containers.iter().map(Self::of).collect();
        let limit = |of: fn(&Self) -> f64| match all.iter().any(|limits| of(limits) == 0.0) {
            true => 0.0,
            false => all.iter().map(of).sum(),
        };
        Self {
            cpu_request: all.iter().map(|limits| limits.cpu_request).sum(),
            cpu_limit: limit(|limits| limits.cpu_limit),
            memory_limit: limit(|limits| limits.memory_limit),
        }
    }
}

fn amount_of(list: Option<&BTreeMap<String, QuantityText>>, name: &str) -> f64 {
    let quantity = list.and_then(|list| list.get(name));
    quantity.and_then(|quantity| Quantity::parse(&quantity.0).ok()).map_or(0.0, |quantity| quantity.as_f64())
}

impl CadvisorPage {
    fn of(usage: &NodeUsage, machine: &Node, status: impl Fn(&Pod) -> Option<PodStatus>) -> Self {
        let metrics = Metrics::default();
        let counters = COUNTERS.map(|(name, help)| (name, metrics.float_counters(name, help))).into();
        let gauges = GAUGES.map(|(name, help)| (name, metrics.float_gauges(name, help))).into();
        let page = Self { now: usage.now, counters, gauges, metrics };
        page.machine(machine);
        let capacity = machine.status.as_ref().and_then(|status| status.capacity.as_ref());
        let disk_capacity = amount_of(capacity, "ephemeral-storage");
        page.root(usage, disk_capacity, amount_of(capacity, "memory"));
        for of_pod in &usage.pods {
            if let Some(status) = status(&of_pod.pod) {
                page.pod(&of_pod.pod, &status, &of_pod.containers, disk_capacity);
            }
        }
        page
    }

    fn machine(&self, machine: &Node) {
        let status = machine.status.as_ref();
        let info = status.and_then(|status| status.node_info.as_ref());
        let text =
            |of: fn(&proto::kinds::api::core::v1::NodeSystemInfo) -> &String| info.map(of).cloned().unwrap_or_default();
        let ids: Labels = vec![
            ("boot_id", text(|i| &i.boot_id)),
            ("machine_id", text(|i| &i.machine_id)),
            ("system_uuid", text(|i| &i.system_uuid)),
        ];
        let capacity = status.and_then(|status| status.capacity.as_ref());
        let cores = amount_of(capacity, "cpu").ceil();
        for (family, value) in [
            ("machine_cpu_cores", cores),
            ("machine_cpu_physical_cores", cores),
            ("machine_cpu_sockets", 1.0),
            ("machine_memory_bytes", amount_of(capacity, "memory")),
            ("machine_swap_bytes", 0.0),
        ] {
            self.sample(family, &ids, value);
        }
        self.sample("machine_scrape_error", &Labels::new(), 0.0);
        self.sample("container_scrape_error", &Labels::new(), 0.0);
        let versions: Labels = vec![
            ("cadvisorRevision", String::new()),
            ("cadvisorVersion", String::new()),
            ("dockerVersion", String::new()),
            ("kernelVersion", text(|i| &i.kernel_version)),
            ("osVersion", text(|i| &i.os_image)),
        ];
        self.sample("cadvisor_version_info", &versions, 1.0);
    }

    fn root(&self, usage: &NodeUsage, disk_capacity: f64, memory: f64) {
        let group = ControlGroup { labels: labels(["", "/", "", "", "", ""]), started_at: usage.started_at };
        let of_pods = usage.pods.iter().map(|pod| Amounts::of(&pod.containers));
        let amounts = Amounts {
            cpu_seconds: usage.cpu_seconds(),
            memory_bytes: usage.memory_bytes(),
            disk_bytes: of_pods.clone().map(|amounts| amounts.disk_bytes).sum(),
            processes: of_pods.map(|amounts| amounts.processes).sum(),
        };
        self.usage(&group, amounts, disk_capacity);
        self.limits(&group, Limits { memory_limit: memory, cpu_request: 1.0, cpu_limit: 0.0 });
        self.network(&group);
    }

    fn pod(&self, pod: &Pod, status: &PodStatus, usages: &[ContainerUsage], disk_capacity: f64) {
        let Some(spec) = &pod.spec else { return };
        let (namespace, name) = (pod.namespace(), pod.name());
        let slice = slice_of(pod);
        let started_at = status.start_time.as_ref().map(|time| time.0);
        let started_at = started_at.or_else(|| usages.iter().map(|usage| usage.started_at).min()).unwrap_or(self.now);
        let group = ControlGroup { labels: labels(["", &slice, "", "", namespace, name]), started_at };
        self.usage(&group, Amounts::of(usages), disk_capacity);
        self.limits(&group, Limits::of_pod(&spec.containers));
        let sandbox = images::fingerprint(&["sandbox", pod.uid()]);
        let scope = format!("{slice}/cri-containerd-{sandbox}.scope");
        let group = ControlGroup { labels: labels(["", &scope, SANDBOX_IMAGE, &sandbox, namespace, name]), started_at };
        self.usage(&group, Amounts { processes: 1.0, ..Amounts::default() }, disk_capacity);
        self.limits(&group, Limits::default());
        if spec.host_network != Some(true) {
            self.network(&group);
        }
        let specs = || spec.containers.iter().chain(spec.init_containers.iter().flatten());
        let statuses = || status.container_statuses.iter().chain(&status.init_container_statuses).flatten();
        for usage in usages {
            let status: Option<&ContainerStatus> = statuses().find(|status| status.name == usage.name);
            let id = status.and_then(|status| status.container_id.as_deref()).unwrap_or_default();
            let id = id.rsplit('/').next().unwrap_or_default();
            let image = status.map(|status| status.image.as_str()).unwrap_or_default();
            let scope = format!("{slice}/cri-containerd-{id}.scope");
            let labels = labels([&usage.name, &scope, image, id, namespace, name]);
            let group = ControlGroup { labels, started_at: usage.started_at };
            let limits = specs().find(|container| container.name == usage.name).map(Limits::of).unwrap_or_default();
            self.usage(&group, Amounts::of(std::slice::from_ref(usage)), disk_capacity);
            self.limits(&group, limits);
            if limits.cpu_limit > 0.0 {
                let elapsed_us = self.now.duration_since(usage.started_at).as_micros() as f64;
                self.add("container_cpu_cfs_periods_total", &group, None, (elapsed_us / CPU_PERIOD_US).floor());
                self.add("container_cpu_cfs_throttled_periods_total", &group, None, 0.0);
                self.add("container_cpu_cfs_throttled_seconds_total", &group, None, 0.0);
            }
        }
    }

    fn usage(&self, group: &ControlGroup, amounts: Amounts, disk_capacity: f64) {
        let total = || Some(("cpu", "total".to_owned()));
        let disk = || Some(("device", DISK.to_owned()));
        self.add("container_cpu_usage_seconds_total", group, total(), amounts.cpu_seconds);
        self.add("container_cpu_user_seconds_total", group, None, amounts.cpu_seconds);
        self.add("container_cpu_system_seconds_total", group, None, 0.0);
        for family in ["container_memory_usage_bytes", "container_memory_working_set_bytes", "container_memory_rss"] {
            self.add(family, group, None, amounts.memory_bytes.round());
        }
        self.add("container_memory_cache", group, None, 0.0);
        self.add("container_memory_swap", group, None, 0.0);
        self.add("container_fs_usage_bytes", group, disk(), amounts.disk_bytes.round());
        self.add("container_fs_limit_bytes", group, disk(), disk_capacity);
        for family in DISK_COUNTERS {
            self.add(family, group, disk(), 0.0);
        }
        self.add("container_processes", group, None, amounts.processes.round());
        self.add("container_threads", group, None, amounts.processes.round());
        self.add("container_last_seen", group, None, self.now.as_second() as f64);
        self.add("container_start_time_seconds", group, None, group.started_at.as_second() as f64);
    }

    fn limits(&self, group: &ControlGroup, limits: Limits) {
        let shares = (limits.cpu_request * 1024.0).floor().max(LEAST_SHARES);
        self.add("container_spec_cpu_period", group, None, CPU_PERIOD_US);
        self.add("container_spec_cpu_shares", group, None, shares);
        if limits.cpu_limit > 0.0 {
            self.add("container_spec_cpu_quota", group, None, (limits.cpu_limit * CPU_PERIOD_US).round());
        }
        self.add("container_spec_memory_limit_bytes", group, None, limits.memory_limit);
        self.add("container_spec_memory_reservation_limit_bytes", group, None, 0.0);
        self.add("container_spec_memory_swap_limit_bytes", group, None, 0.0);
    }

    fn network(&self, group: &ControlGroup) {
        for family in NETWORK_COUNTERS {
            self.add(family, group, Some(("interface", NETWORK_INTERFACE.to_owned())), 0.0);
        }
    }

    /// Adds a sample of a control group.
    fn add(&self, family: &str, group: &ControlGroup, further: Option<Label>, value: f64) {
        let mut labels: Labels = group.labels.iter().cloned().chain(further).collect();
        labels.sort();
        self.sample(family, &labels, value);
    }

    fn sample(&self, family: &str, labels: &Labels, value: f64) {
        if let Some(counters) = self.counters.get(family) {
            counters.get_or_create(labels).inc_by(value);
        } else if let Some(gauges) = self.gauges.get(family) {
            gauges.get_or_create(labels).set(value);
        }
    }
}

/// Returns the labels of a control group, from the values of its container, id, image, name, namespace and pod.
fn labels(values: [&str; 6]) -> [Label; 6] {
    let names = ["container", "id", "image", "name", "namespace", "pod"];
    std::array::from_fn(|index| (names[index], values[index].to_owned()))
}

/// Returns the control group of a pod, as systemd names it.
fn slice_of(pod: &Pod) -> String {
    let uid = pod.uid().replace('-', "_");
    match qos_class(pod) {
        QosClass::Guaranteed => format!("/kubepods.slice/kubepods-pod{uid}.slice"),
        QosClass::Burstable => format!("/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{uid}.slice"),
        QosClass::BestEffort => format!("/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{uid}.slice"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::metrics::PodUsage;
    use serde_json::json;
    use std::sync::Arc;

    fn page() -> String {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let pod = Pod::decode_value(json!({
            "metadata": {"name": "cart", "namespace": "shop", "uid": "a-b"},
            "spec": {"containers": [{"name": "web", "resources": {
                "requests": {"cpu": "250m", "memory": "64Mi"}, "limits": {"cpu": "500m", "memory": "128Mi"},
            }}]},
        }))
        .unwrap();
        let status: PodStatus = serde_json::from_value(json!({
            "startTime": "2026-01-01T00:00:00Z",
            "containerStatuses": [{
                "name": "web", "image": "docker.io/library/nginx:latest", "containerID": "containerd://c1",
                "ready": true, "restartCount": 0, "imageID": "",
            }],
        }))
        .unwrap();
        let machine = Node::decode_value(json!({
            "metadata": {"name": "n"},
            "status": {"capacity": {"cpu": "4", "memory": "16Gi", "ephemeral-storage": "100Gi"}},
        }))
        .unwrap();
        let web = ContainerUsage {
            name: "web".to_owned(),
            started_at: at("2026-01-01T00:00:05Z"),
            cpu_cores: 0.25,
            cpu_seconds: 2.5,
            memory_bytes: 1e6,
            disk_bytes: 4096.0,
            processes: 3.0,
        };
        let usage = NodeUsage {
            node: "n".to_owned(),
            now: at("2026-01-01T00:00:15Z"),
            started_at: at("2026-01-01T00:00:00Z"),
            pods: vec![PodUsage { pod: Arc::new(pod), containers: vec![web] }],
        };
        CadvisorPage::of(&usage, &machine, |_| Some(status.clone())).metrics.encode()
    }

    /// Returns the values of a family's samples, each behind the labels that tell it from the others.
    fn values(page: &str, family: &str) -> Vec<String> {
        let start = format!("{family}{{");
        let samples = page.lines().filter_map(|line| line.strip_prefix(&start));
        let mut samples: Vec<String> = samples.map(|line| line.strip_suffix(".0").unwrap_or(line).to_owned()).collect();
        samples.sort();
        samples
    }

    #[test]
    fn a_container_its_sandbox_its_pod_and_the_node_have_rows() {
        let page = page();
        let slice = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-poda_b.slice";
        let sandbox = images::fingerprint(&["sandbox", "a-b"]);
        let in_pod = r#"namespace="shop",pod="cart""#;
        let expected = [
            r#"container="",id="/",image="",name="",namespace="",pod=""} 269435456"#.to_owned(),
            format!(r#"container="",id="{slice}",image="",name="",{in_pod}}} 1000000"#),
            format!(
                r#"container="",id="{slice}/cri-containerd-{sandbox}.scope",image="{SANDBOX_IMAGE}",name="{sandbox}",{in_pod}}} 0"#
            ),
            format!(
                r#"container="web",id="{slice}/cri-containerd-c1.scope",image="docker.io/library/nginx:latest",name="c1",{in_pod}}} 1000000"#
            ),
        ];
        assert_eq!(values(&page, "container_memory_working_set_bytes"), expected);
    }

    #[test]
    fn families_say_what_dashboards_ask_for() {
        let page = page();
        let of_container = |family: &str, label: &str| {
            let found = values(&page, family).into_iter().find(|sample| sample.contains(label));
            found.map(|sample| sample.rsplit(' ').next().unwrap().to_owned())
        };
        for (family, label, expected) in [
            ("container_cpu_usage_seconds_total", r#"container="web",cpu="total""#, Some("2.5")),
            ("container_cpu_cfs_periods_total", r#"container="web""#, Some("100")),
            ("container_cpu_cfs_throttled_periods_total", r#"container="web""#, Some("0")),
            ("container_spec_cpu_quota", r#"container="web""#, Some("50000")),
            ("container_spec_cpu_quota", r#"name="","#, Some("50000")),
            ("container_spec_cpu_quota", r#"id="/","#, None),
            ("container_spec_cpu_period", r#"container="web""#, Some("100000")),
            ("container_spec_cpu_shares", r#"container="web""#, Some("256")),
            ("container_spec_cpu_shares", SANDBOX_IMAGE, Some("2")),
            ("container_spec_memory_limit_bytes", r#"container="web""#, Some("134217728")),
            ("container_spec_memory_limit_bytes", SANDBOX_IMAGE, Some("0")),
            ("container_memory_rss", r#"container="web""#, Some("1000000")),
            ("container_fs_usage_bytes", r#"container="web",device="/dev/vda1""#, Some("4096")),
            ("container_fs_limit_bytes", r#"id="/","#, Some("107374182400")),
            ("container_network_receive_bytes_total", r#"interface="eth0",name="#, Some("0")),
            ("container_network_receive_bytes_total", r#"container="web""#, None),
            ("container_processes", r#"container="web""#, Some("3")),
            ("container_start_time_seconds", r#"container="web""#, Some("1767225605")),
            ("container_last_seen", r#"container="web""#, Some("1767225615")),
        ] {
            assert_eq!(of_container(family, label).as_deref(), expected, "{family} {label}");
        }
        assert_eq!(values(&page, "machine_cpu_cores"), [r#"boot_id="",machine_id="",system_uuid=""} 4"#]);
        assert_eq!(values(&page, "machine_memory_bytes"), [r#"boot_id="",machine_id="",system_uuid=""} 17179869184"#]);
    }

    #[test]
    fn every_family_has_samples() {
        let page = page();
        for (family, _) in COUNTERS.into_iter().chain(GAUGES) {
            let is_sample = |line: &str| line.strip_prefix(family).is_some_and(|rest| rest.starts_with(['{', ' ']));
            assert!(page.lines().any(is_sample), "{family}: {page}");
        }
    }

    #[test]
    fn a_control_group_is_named_after_the_class_of_its_pod() {
        for (class, expected) in [
            ("BestEffort", "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-poda_b.slice"),
            ("Burstable", "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-poda_b.slice"),
            ("Guaranteed", "/kubepods.slice/kubepods-poda_b.slice"),
        ] {
            let pod = json!({"metadata": {"uid": "a-b"}, "status": {"qosClass": class}});
            assert_eq!(slice_of(&Pod::decode_value(pod).unwrap()), expected, "{class}");
        }
    }
}
