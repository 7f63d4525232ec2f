//! Follows the records of a run: what each node and pod is doing, and the integrals over time.

use crate::amounts::{self, Amounts, CPU, MEMORY};
use crate::metrics::fragmentation;
use crate::metrics::rows::{PodRow, Sample};
use crate::metrics::service::Service;
use crate::record::{Event, NodeAdded, PodCreated, Record};
use crate::units::seconds;
use component_helpers::gpu_sharing::{NodeLeft, Popularity};
use std::collections::BTreeMap;

/// Name of GPUs among the resources of this module, in thousandths.
pub const GPUS: &str = "gpu";

/// Resources whose allocation is measured.
pub const MEASURED: [&str; 3] = [CPU, MEMORY, GPUS];

/// A node that is there.
#[derive(Debug)]
struct Node {
    added: NodeAdded,
    allocated: Amounts,
    running: Amounts,
    gpus_left: Vec<i64>,
    /// Shares of this node in the totals of the cluster.
    fragment: f64,
    power_w: f64,
    /// Part of its CPU that is allocated, and since when.
    cpu_share: f64,
    since_us: u64,
    pods: Vec<String>,
}

/// Sums over the nodes that are there.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    pub allocatable: Amounts,
    pub allocated: Amounts,
    pub running: Amounts,
    pub fragment: f64,
    pub power_w: f64,
    pub price_per_hour: f64,
}

/// Integrals over time, in units of the amounts times seconds.
#[derive(Debug, Default)]
pub struct Integrals {
    pub allocatable: BTreeMap<&'static str, f64>,
    pub allocated: BTreeMap<&'static str, f64>,
    pub running: BTreeMap<&'static str, f64>,
    /// Share of each resource that is allocated, times seconds.
    pub allocated_share: BTreeMap<&'static str, f64>,
    pub fragment: f64,
    pub energy_j: f64,
    pub price: f64,
    /// Pods of Deployments that run, times seconds, and most of them at one time.
    pub replicas_s: f64,
    pub most_replicas: u64,
    /// CPU that the users of Deployments ask for, and the part of it beyond what running pods request, times seconds.
    pub load: f64,
    pub load_excess: f64,
    /// Pods that wait, and pods that are bound, times seconds.
    pub pending_s: f64,
    pub bound_s: f64,
    /// Largest values that were seen.
    pub peak_allocation: BTreeMap<&'static str, f64>,
    pub peak_allocatable: Amounts,
}

/// The state of a run while its records are read.
#[derive(Debug, Default)]
pub struct Replay {
    popularity: Popularity,
    nodes: BTreeMap<String, Node>,
    pub pods: BTreeMap<String, PodRow>,
    /// Places of the GPUs of the pods that are bound.
    held: BTreeMap<String, Vec<usize>>,
    pub node_rows: BTreeMap<String, (NodeAdded, f64, f64)>,
    /// By the name of the Deployment.
    pub services: BTreeMap<String, Service>,
    pub totals: Totals,
    pub integrals: Integrals,
    pub samples: Vec<Sample>,
    pub preemptions: u64,
    pub evictions: u64,
    pub failed_attempts: u64,
    /// Time from the beginning of the attempt to the binding, of each binding whose attempt is known.
    pub decision_latencies_us: Vec<u64>,
    /// Requests that the API server has answered, by verb and resource.
    pub requests: BTreeMap<String, u64>,
    pending: u64,
    bound: u64,
    now_us: u64,
}

fn needs(pod: &PodCreated) -> Amounts {
    let mut needs = pod.requests.clone();
    needs.insert(GPUS.to_owned(), i64::from(pod.gpu_count) * i64::from(pod.gpu_milli));
    needs
}

fn amount_of(amounts: &Amounts, resource: &str) -> f64 {
    amounts.get(resource).copied().unwrap_or_default() as f64
}

impl Replay {
    /// Begins without a record. The pods are those of the whole run, because fragmentation is that for its workload.
    pub fn of_workload<'p>(pods: impl Iterator<Item = &'p PodCreated>) -> Self {
        Self { popularity: fragmentation::popularity(pods), ..Self::default() }
    }

    /// Reads all records. Samples are taken at 0, `sample_every_us`, twice that, …, with all records until then.
    pub fn run(records: &[Record], sample_every_us: u64) -> Self {
        let created = records.iter().filter_map(|record| match &record.event {
            Event::PodCreated(pod) => Some(pod),
            _ => None,
        });
        let mut replay = Self::of_workload(created);
        let mut next_sample_us = 0;
        for record in records {
            while next_sample_us < record.at_us {
                replay.advance(next_sample_us);
                replay.sample();
                next_sample_us += sample_every_us.max(1);
            }
            replay.advance(record.at_us);
            replay.apply(record);
        }
        replay.sample();
        let names: Vec<String> = replay.nodes.keys().cloned().collect();
        names.iter().for_each(|name| replay.refresh(name));
        replay
    }

    pub fn end_us(&self) -> u64 {
        self.now_us
    }

    /// Lets time go on: adds what was true until now to the integrals.
    pub fn advance(&mut self, to_us: u64) {
        let passed_s = seconds(to_us.saturating_sub(self.now_us));
        self.now_us = self.now_us.max(to_us);
        if passed_s == 0.0 {
            return;
        }
        let (totals, integrals) = (&self.totals, &mut self.integrals);
        for resource in MEASURED {
            let allocatable = amount_of(&totals.allocatable, resource);
            let allocated = amount_of(&totals.allocated, resource);
            *integrals.allocatable.entry(resource).or_default() += allocatable * passed_s;
            *integrals.allocated.entry(resource).or_default() += allocated * passed_s;
            *integrals.running.entry(resource).or_default() += amount_of(&totals.running, resource) * passed_s;
            if allocatable > 0.0 {
                let peak = integrals.peak_allocation.entry(resource).or_default();
                *peak = peak.max(allocated / allocatable);
                *integrals.allocated_share.entry(resource).or_default() += allocated / allocatable * passed_s;
            }
        }
        integrals.fragment += totals.fragment * passed_s;
        integrals.energy_j += totals.power_w * passed_s;
        integrals.price += totals.price_per_hour * passed_s / 3600.0;
        let mut replicas = 0;
        for service in self.services.values() {
            replicas += service.pods.len() as u64;
            integrals.load += service.load_milli as f64 * passed_s;
            integrals.load_excess += service.excess_milli() as f64 * passed_s;
        }
        integrals.replicas_s += replicas as f64 * passed_s;
        integrals.most_replicas = integrals.most_replicas.max(replicas);
        integrals.pending_s += self.pending as f64 * passed_s;
        integrals.bound_s += self.bound as f64 * passed_s;
    }

    fn sample(&mut self) {
        let ratio = |amounts: &Amounts, resource: &str| match amount_of(&self.totals.allocatable, resource) {
            0.0 => 0.0,
            allocatable => amount_of(amounts, resource) / allocatable,
        };
        let left = amount_of(&self.totals.allocatable, GPUS) - amount_of(&self.totals.allocated, GPUS);
        let sample = Sample {
            at_us: self.now_us,
            nodes: self.nodes.len() as u64,
            pending: self.pending,
            bound: self.bound,
            replicas: self.services.values().map(|service| service.pods.len() as u64).sum(),
            load_cpu: self.services.values().map(|service| service.load_milli).sum::<i64>() as f64 / 1000.0,
            cpu: ratio(&self.totals.allocated, CPU),
            memory: ratio(&self.totals.allocated, MEMORY),
            gpu: ratio(&self.totals.allocated, GPUS),
            fragmentation: if left > 0.0 { self.totals.fragment / left } else { 0.0 },
            power_w: self.totals.power_w,
            price_per_hour: self.totals.price_per_hour,
        };
        if self.samples.last().is_none_or(|last| last.at_us < sample.at_us) {
            self.samples.push(sample);
        } else if let Some(last) = self.samples.last_mut() {
            *last = sample;
        }
    }

    pub fn apply(&mut self, record: &Record) {
        let at_us = record.at_us;
        match &record.event {
            Event::NodeAdded(node) => self.add_node(node),
            Event::NodeRemoved { node } => self.remove_node(node),
            Event::PodCreated(created) => self.create(created, at_us),
            Event::AttemptFailed { pod, reason } => {
                self.failed_attempts += 1;
                if let Some(row) = self.pods.get_mut(pod) {
                    row.failed_attempts += 1;
                    row.last_reason.clone_from(reason);
                }
            }
            Event::PodScheduled { pod, node, gpus, decided_us } => {
                self.decision_latencies_us.extend(decided_us.map(|decided_us| at_us.saturating_sub(decided_us)));
                self.bind(pod, node, gpus, at_us);
            }
            Event::PodStarted { pod } => self.start(pod, at_us),
            Event::PodFinished { pod, succeeded } => {
                self.release(pod);
                if let Some(row) = self.pods.get_mut(pod) {
                    row.finished_us = Some(at_us);
                    row.succeeded = *succeeded;
                    self.pending -= u64::from(row.is_pending);
                    row.is_pending = false;
                }
            }
            Event::PodPreempted { pod, .. } => {
                self.preemptions += 1;
                self.lose(pod, |row| row.preemptions += 1);
            }
            Event::PodEvicted { pod, .. } => {
                self.evictions += 1;
                self.lose(pod, |row| row.evictions += 1);
            }
            Event::PodDeleted { pod } => {
                self.lose(pod, |_| ());
                if let Some(row) = self.pods.get_mut(pod) {
                    self.pending -= u64::from(row.is_pending);
                    row.is_pending = false;
                    row.deleted_us = Some(at_us);
                }
            }
            Event::LoadChanged { deployment, cpu_milli } => {
                self.services.entry(deployment.clone()).or_default().load_milli = *cpu_milli;
                self.spread(deployment);
            }
            Event::RequestsAnswered { requests } => {
                requests.iter().for_each(|(name, count)| *self.requests.entry(name.clone()).or_default() += count);
            }
            Event::Ended => {}
        }
    }

    /// Returns the number of pods that wait.
    pub fn pending(&self) -> u64 {
        self.pending
    }

    /// Returns the mean share of the measured resources of a node that its pods request. A resource that the node lacks does not
    /// count.
    pub fn allocated_share(&self, node: &str) -> f64 {
        let Some(node) = self.nodes.get(node) else { return 0.0 };
        let share = |resource: &str| {
            let allocatable = match resource {
                GPUS => f64::from(node.added.gpu_count) * 1000.0,
                _ => amount_of(&node.added.allocatable, resource),
            };
            (allocatable > 0.0).then(|| amount_of(&node.allocated, resource) / allocatable)
        };
        let shares: Vec<f64> = MEASURED.into_iter().filter_map(share).collect();
        if shares.is_empty() { 0.0 } else { shares.iter().sum::<f64>() / shares.len() as f64 }
    }

    fn add_node(&mut self, added: &NodeAdded) {
        self.remove_node(&added.node);
        let mut offers = added.allocatable.clone();
        offers.insert(GPUS.to_owned(), i64::from(added.gpu_count) * 1000);
        amounts::add(&mut self.totals.allocatable, &offers, 1);
        for (resource, amount) in &self.totals.allocatable {
            let peak = self.integrals.peak_allocatable.entry(resource.clone()).or_default();
            *peak = (*peak).max(*amount);
        }
        self.totals.price_per_hour += added.price_per_hour;
        self.node_rows.entry(added.node.clone()).or_insert((added.clone(), 0.0, 0.0));
        let node = Node {
            added: added.clone(),
            allocated: Amounts::new(),
            running: Amounts::new(),
            gpus_left: vec![1000; added.gpu_count as usize],
            fragment: 0.0,
            power_w: 0.0,
            cpu_share: 0.0,
            since_us: self.now_us,
            pods: Vec::new(),
        };
        self.nodes.insert(added.node.clone(), node);
        self.refresh(&added.node);
    }

    fn remove_node(&mut self, name: &str) {
        let Some(pods) = self.nodes.get(name).map(|node| node.pods.clone()) else { return };
        pods.iter().for_each(|pod| self.lose(pod, |_| ()));
        self.refresh(name);
        let Some(node) = self.nodes.remove(name) else { return };
        let mut offers = node.added.allocatable;
        offers.insert(GPUS.to_owned(), i64::from(node.added.gpu_count) * 1000);
        amounts::add(&mut self.totals.allocatable, &offers, -1);
        self.totals.price_per_hour -= node.added.price_per_hour;
        self.totals.fragment -= node.fragment;
        self.totals.power_w -= node.power_w;
    }

    /// A pod that is created again under its name keeps its first times: the user still waits for it.
    fn create(&mut self, created: &PodCreated, at_us: u64) {
        let row = self.pods.entry(created.pod.clone()).or_insert_with(|| PodRow::new(created, at_us));
        row.deleted_us = None;
        self.pending += u64::from(!row.is_pending && row.node.is_none());
        row.is_pending = row.node.is_none();
    }

    fn bind(&mut self, pod: &str, node_name: &str, gpus: &[u32], at_us: u64) {
        self.release(pod);
        let (Some(row), Some(node)) = (self.pods.get_mut(pod), self.nodes.get_mut(node_name)) else { return };
        self.pending -= u64::from(row.is_pending);
        self.bound += 1;
        row.is_pending = false;
        row.scheduled_us.get_or_insert(at_us);
        row.node = Some(node_name.to_owned());
        row.last_node = node_name.to_owned();
        row.placements += 1;
        let needs = needs(&row.created);
        amounts::add(&mut node.allocated, &needs, 1);
        amounts::add(&mut self.totals.allocated, &needs, 1);
        let places = match gpus {
            [] => fragmentation::need(&row.created).assumed(&node.gpus_left),
            chosen => {
                chosen.iter().map(|place| *place as usize).filter(|place| *place < node.gpus_left.len()).collect()
            }
        };
        for place in &places {
            node.gpus_left[*place] -= i64::from(row.created.gpu_milli);
        }
        node.pods.push(pod.to_owned());
        self.held.insert(pod.to_owned(), places);
        self.refresh(node_name);
    }

    fn start(&mut self, pod: &str, at_us: u64) {
        let Some(row) = self.pods.get_mut(pod) else { return };
        let Some(node) = row.node.as_ref().and_then(|name| self.nodes.get_mut(name)) else { return };
        if row.is_running {
            return;
        }
        row.is_running = true;
        row.started_us.get_or_insert(at_us);
        row.uses = needs(&row.created);
        amounts::add(&mut node.running, &row.uses, 1);
        amounts::add(&mut self.totals.running, &row.uses, 1);
        let name = node.added.node.clone();
        self.refresh(&name);
        let Some((deployment, row)) = self.pods.get(pod).and_then(|row| Some((row.created.deployment.clone()?, row)))
        else {
            return;
        };
        self.services.entry(deployment.clone()).or_default().begin(&row.created);
        self.spread(&deployment);
    }

    /// Divides the load of a Deployment between the pods that run.
    fn spread(&mut self, deployment: &str) {
        let Some(service) = self.services.get(deployment) else { return };
        let share = service.share();
        for pod in service.pods.clone() {
            let Some(row) = self.pods.get_mut(&pod) else { continue };
            let before = row.uses.insert(CPU.to_owned(), share).unwrap_or_default();
            let Some(node) = row.node.as_ref().and_then(|name| self.nodes.get_mut(name)) else { continue };
            let change = Amounts::from([(CPU.to_owned(), share - before)]);
            amounts::add(&mut node.running, &change, 1);
            amounts::add(&mut self.totals.running, &change, 1);
            let name = node.added.node.clone();
            self.refresh(&name);
        }
    }

    /// The pod gives back what it has, and waits again.
    pub fn lose(&mut self, pod: &str, note: impl FnOnce(&mut PodRow)) {
        self.release(pod);
        let Some(row) = self.pods.get_mut(pod) else { return };
        note(row);
        if row.finished_us.is_none() && !row.is_pending {
            row.is_pending = true;
            self.pending += 1;
        }
    }

    fn release(&mut self, pod: &str) {
        let Some(row) = self.pods.get_mut(pod) else { return };
        let Some(name) = row.node.take() else { return };
        self.bound -= 1;
        let (needs, was_running) = (needs(&row.created), std::mem::take(&mut row.is_running));
        let (uses, deployment) = (std::mem::take(&mut row.uses), row.created.deployment.clone());
        let places = self.held.remove(pod).unwrap_or_default();
        amounts::add(&mut self.totals.allocated, &needs, -1);
        if was_running {
            amounts::add(&mut self.totals.running, &uses, -1);
        }
        let Some(node) = self.nodes.get_mut(&name) else { return };
        amounts::add(&mut node.allocated, &needs, -1);
        if was_running {
            amounts::add(&mut node.running, &uses, -1);
        }
        for place in places {
            node.gpus_left[place] += i64::from(row.created.gpu_milli);
        }
        node.pods.retain(|other| other != pod);
        self.refresh(&name);
        let Some(deployment) = deployment else { return };
        if self.services.get_mut(&deployment).is_some_and(|service| service.pods.remove(pod)) {
            self.spread(&deployment);
        }
    }

    /// Computes anew what a node adds to the totals, and adds what was true until now to its row.
    fn refresh(&mut self, name: &str) {
        let Some(node) = self.nodes.get_mut(name) else { return };
        let passed_s = seconds(self.now_us - std::mem::replace(&mut node.since_us, self.now_us));
        if let Some((_, allocated_s, present_s)) = self.node_rows.get_mut(name) {
            *allocated_s += passed_s * node.cpu_share;
            *present_s += passed_s;
        }
        let cores = amount_of(&node.added.allocatable, CPU);
        let cpu_left = cores - amount_of(&node.allocated, CPU);
        node.cpu_share = if cores > 0.0 { amount_of(&node.allocated, CPU) / cores } else { 0.0 };
        let left = NodeLeft { milli_cpu: cpu_left as i64, model: &node.added.gpu_model, gpus: &node.gpus_left };
        let fragment = self.popularity.fragment(left);
        let power = node.added.power;
        let share = if cores > 0.0 { amount_of(&node.running, CPU) / cores } else { 0.0 };
        let gpus = f64::from(node.added.gpu_count);
        let power_w = power.idle_w
            + (power.full_w - power.idle_w) * share.min(1.0)
            + power.gpu_idle_w * gpus
            + (power.gpu_full_w - power.gpu_idle_w) * (amount_of(&node.running, GPUS) / 1000.0).min(gpus);
        self.totals.fragment += fragment - std::mem::replace(&mut node.fragment, fragment);
        self.totals.power_w += power_w - std::mem::replace(&mut node.power_w, power_w);
    }
}
