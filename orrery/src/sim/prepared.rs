//! `Prepared`: the nodes and pods of a cell, and the trial that they make.

use crate::sim::machine::template;
use crate::sim::study_file::StudyFile;
use crate::sim::{gates, policy};
use component_base::rng::Random;
use experiments::cluster::{self, Machine, MachineGroup};
use experiments::manifest::{self, Manifest};
use experiments::sources;
use experiments::study::{Cell, Depth, Span};
use experiments::workload::{self, Arrival, Deployment};
use kubelet_sim::template::NodeTemplate;
use serde_json::{Value, json};
use simulator::trial::{self, NodeGroup, Setup, Submission};
use std::time::Duration;

/// What a cell is made of.
pub struct Prepared {
    pub machines: Vec<Machine>,
    pub groups: Vec<MachineGroup>,
    pub arrivals: Vec<Arrival>,
    pub deployments: Vec<Deployment>,
    configuration: Option<Value>,
    pub manifest: Manifest,
}

impl Prepared {
    /// Reads and draws everything. All policies meet the same pods under the same seed.
    pub fn new(file: &StudyFile, cell: &Cell<'_>) -> Result<Self, Vec<String>> {
        let lines = |problems: Vec<experiments::Problem>| problems.iter().map(ToString::to_string).collect::<Vec<_>>();
        let machines = cluster::machines(cell.cluster, &file.files, &cell.cluster.name).map_err(lines)?;
        let groups = cluster::machine_groups(cell.cluster);
        let random = Random::from_seed(cell.seed, &format!("workload/{}", cell.workload.name));
        let mut draw = || random.u64();
        let drawn = workload::arrivals(cell.workload, &file.files, &mut draw, &cell.workload.name);
        let arrivals = drawn.map_err(lines)?;
        // A stream of its own, so that a load changes no pod.
        let random = Random::from_seed(cell.seed, &format!("load/{}", cell.workload.name));
        let until = file.study.until.as_ref().map_or(Duration::ZERO, |until| until.duration);
        let (mut draw, place) = (|| random.u64(), &cell.workload.name);
        let drawn = workload::deployments(cell.workload, &file.files, until, &mut draw, place);
        let deployments = drawn.map_err(lines)?;
        let configuration = sources::configuration(cell.policy, &file.files).map_err(|error| vec![error])?;
        let inputs = manifest::inputs(&file.study, cell, &machines, &arrivals, &deployments);
        let policy = cell.policy;
        let whole = match (policy.schedulers.as_slice(), policy.feature_gates.is_empty(), &policy.external) {
            (further, _, Some(external)) => Some(json!([external, further, policy.feature_gates])),
            ([], true, None) => configuration.clone(),
            (further, true, None) => Some(json!([configuration, further])),
            (further, false, None) => Some(json!([configuration, further, policy.feature_gates])),
        };
        let manifest = Manifest::new(&file.study, cell, env!("CARGO_PKG_VERSION"), inputs, whole.as_ref());
        Ok(Self { machines, groups, arrivals, deployments, configuration, manifest })
    }

    /// Returns the trial of the cell.
    pub fn trial(&self, file: &StudyFile, cell: &Cell<'_>) -> Result<(Setup, Vec<Submission>), Vec<String>> {
        let templates: Result<Vec<NodeTemplate>, Vec<String>> = self.machines.iter().map(template).collect();
        let faults = cell.faults;
        let failures = faults.map(policy::failures).transpose()?.unwrap_or_default();
        let depth = match file.study.depth {
            Depth::Full => trial::Depth::Full,
            Depth::Scheduler => trial::Depth::Scheduler,
        };
        let gates = gates::of_policy(&file.study, cell.policy);
        let further: Result<Vec<_>, Vec<String>> =
            cell.policy.schedulers.iter().map(|document| policy::settings(Some(document), &gates)).collect();
        let span = |span: Option<&Span>| span.map_or(Duration::ZERO, |span| span.duration);
        let mut setup = Setup {
            seed: cell.seed,
            depth,
            templates: templates?,
            groups: self.groups.iter().map(node_group).collect(),
            deployments: self.deployments.clone(),
            scheduler: policy::settings(self.configuration.as_ref(), &gates)?,
            more_schedulers: further?,
            feature_gates: gates,
            failures,
            api_delay: span(faults.and_then(|faults| faults.api_delay.as_ref())),
            watch_delay: span(faults.and_then(|faults| faults.watch_delay.as_ref())),
            controllers: file.study.controllers.clone(),
            image_pull: faults.and_then(|faults| faults.image_pull.as_ref()).map(|span| span.duration),
            until: file.study.until.as_ref().map(|span| span.duration),
            ..Setup::default()
        };
        let submission = |arrival: &Arrival| -> Result<Submission, Vec<String>> {
            let pod = serde_json::to_value(&arrival.pod).map_err(|error| vec![error.to_string()])?;
            Ok(Submission { at: arrival.at, pod })
        };
        let submissions: Result<Vec<Submission>, Vec<String>> = self.arrivals.iter().map(submission).collect();
        let mut submissions = submissions?;
        if let Some(external) = &cell.policy.external {
            let of_deployments = setup.deployments.iter_mut().map(|one| &mut one.document["spec"]["template"]);
            for pod in submissions.iter_mut().map(|one| &mut one.pod).chain(of_deployments) {
                name_scheduler(pod, external.scheduler_name());
            }
        }
        Ok((setup, submissions))
    }
}

/// Lets a pod that names no scheduler name this one.
fn name_scheduler(pod: &mut Value, name: &str) {
    if let Some(spec) = pod["spec"].as_object_mut() {
        spec.entry("schedulerName").or_insert_with(|| name.into());
    }
}

fn node_group(group: &MachineGroup) -> NodeGroup {
    NodeGroup {
        nodes: group.machines.iter().map(Machine::template).collect(),
        min: group.min,
        price_per_hour: group.price_per_hour,
        provision_delay: group.provision_delay,
        scale_down_after: group.scale_down_after,
    }
}
