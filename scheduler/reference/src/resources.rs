//! Resources: the requests of containers that run at the same time add up, and the highest sum counts.

use super::{Cluster, Verdict, spec};
use proto::kinds::api::core::v1::{Container, Node, Pod};
use proto::meta::quantity::Quantity;

/// An amount of milli-CPU and bytes of memory.
#[derive(Clone, Copy, Debug, Default)]
pub struct Amount {
    pub cpu: i64,
    pub memory: i64,
}

/// Returns the requests of a pod.
pub fn of(pod: &Pod) -> Amount {
    highest_sum(pod, Amount::default())
}

/// Returns the requests of a pod, with defaults for containers without any.
fn with_defaults(pod: &Pod) -> Amount {
    highest_sum(pod, Amount { cpu: 100, memory: 200 << 20 })
}

fn highest_sum(pod: &Pod, default: Amount) -> Amount {
    let spec = spec(pod);
    let asks = |container: &Container| {
        let requests = container.resources.as_ref().and_then(|r| r.requests.clone()).unwrap_or_default();
        let amount = |name: &str| requests.get(name).and_then(|quantity| Quantity::try_from(quantity).ok());
        Amount {
            cpu: amount("cpu").map_or(default.cpu, |cpu| cpu.milli_value()),
            memory: amount("memory").map_or(default.memory, |memory| memory.value()),
        }
    };
    let together = |running: &[Amount]| Amount {
        cpu: running.iter().map(|a| a.cpu).sum(),
        memory: running.iter().map(|a| a.memory).sum(),
    };
    let (mut moments, mut sidecars) = (Vec::new(), Vec::new());
    for init in spec.init_containers.iter().flatten() {
        let started = asks(init);
        moments.push(together(&[sidecars.as_slice(), &[started]].concat()));
        if init.restart_policy.as_deref() == Some("Always") {
            sidecars.push(started);
        }
    }
    let apps: Vec<Amount> = spec.containers.iter().map(asks).collect();
    moments.push(together(&[sidecars, apps].concat()));
    Amount {
        cpu: moments.iter().map(|a| a.cpu).max().unwrap_or(0),
        memory: moments.iter().map(|a| a.memory).max().unwrap_or(0),
    }
}

fn allocatable(node: &Node, name: &str) -> i64 {
    let of = node.status.as_ref().and_then(|s| s.allocatable.as_ref()).and_then(|a| a.get(name));
    let quantity = of.and_then(|quantity| Quantity::try_from(quantity).ok());
    quantity.map_or(0, |q| if name == "cpu" { q.milli_value() } else { q.value() })
}

impl Cluster {
    pub(super) fn lacks_resources(&self, pod: &Pod, node: &Node) -> Verdict {
        let mut lacking = Vec::new();
        if self.pods_on(node).count() as i64 >= allocatable(node, "pods") {
            lacking.push("Too many pods".to_owned());
        }
        let cpu = allocatable(node, "cpu") - self.pods_on(node).map(|p| of(p).cpu).sum::<i64>();
        let memory = allocatable(node, "memory") - self.pods_on(node).map(|p| of(p).memory).sum::<i64>();
        let wanted = of(pod);
        if wanted.cpu > 0 && wanted.cpu > cpu {
            lacking.push("Insufficient cpu".to_owned());
        }
        if wanted.memory > 0 && wanted.memory > memory {
            lacking.push("Insufficient memory".to_owned());
        }
        (!lacking.is_empty()).then_some(("NodeResourcesFit", lacking))
    }

    /// Returns the mean of the free percentages of CPU and memory.
    pub(super) fn least_allocated(&self, pod: &Pod, node: &Node) -> i64 {
        let used = |of: fn(Amount) -> i64| {
            of(with_defaults(pod)) + self.pods_on(node).map(|p| of(with_defaults(p))).sum::<i64>()
        };
        let free = |all: i64, used: i64| if used > all { 0 } else { (all - used) * 100 / all };
        let all = [(allocatable(node, "cpu"), used(|a| a.cpu)), (allocatable(node, "memory"), used(|a| a.memory))];
        let counted: Vec<i64> = all.iter().filter(|(all, _)| *all > 0).map(|(all, used)| free(*all, *used)).collect();
        if counted.is_empty() { 0 } else { counted.iter().sum::<i64>() / counted.len() as i64 }
    }

    /// Returns how much more evenly CPU and memory are used with the pod: from 50 to 100, and 75 for no difference.
    pub(super) fn balance_gain(&self, pod: &Pod, node: &Node) -> i64 {
        let (cpu, memory) = (allocatable(node, "cpu"), allocatable(node, "memory"));
        let even = |extra: Amount| {
            let used_cpu = extra.cpu + self.pods_on(node).map(|p| of(p).cpu).sum::<i64>();
            let used_memory = extra.memory + self.pods_on(node).map(|p| of(p).memory).sum::<i64>();
            if cpu == 0 || memory == 0 {
                return 100;
            }
            let part = |used: i64, all: i64| (used as f64 / all as f64).min(1.0);
            let apart = ((part(used_cpu, cpu) - part(used_memory, memory)) / 2.0).abs();
            ((1.0 - apart) * 100.0) as i64
        };
        50 + (50 + even(of(pod)) - even(Amount::default())) / 2
    }
}
