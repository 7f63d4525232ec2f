//! `manifest.json`: what a run was made of, so that it can be repeated, and recognised as finished.

use crate::cluster::Machine;
use crate::record::{Event, Record};
use crate::study::{Cell, Study};
use crate::workload::{Arrival, Deployment};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// What a cell was made of, and hashes of what it has written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Manifest {
    pub study: String,
    /// `CLUSTER/WORKLOAD/FAULTS`.
    pub setting: String,
    pub policy: String,
    pub seed: u64,
    /// Version of the program.
    pub version: String,
    /// Whether the run gives the same bytes again. An external scheduler in real time does not.
    pub repeatable: bool,
    /// Hash of nodes, pods, faults and times: equal for all policies of a setting and a seed.
    pub inputs: String,
    /// Hash of what the study says of the setting: equal for all its seeds.
    #[serde(default)]
    pub definition: String,
    /// Hash of the policy's configuration.
    pub configuration: String,
    /// Hashes of the written files by name.
    pub files: BTreeMap<String, String>,
}

/// Returns the SHA-256 sum in hexadecimal digits.
pub fn hash(bytes: &[u8]) -> String {
    hexadecimal(Sha256::new_with_prefix(bytes))
}

/// Returns the hash of everything but the policy that decides a run.
pub fn inputs(
    study: &Study,
    cell: &Cell<'_>,
    machines: &[Machine],
    arrivals: &[Arrival],
    deployments: &[Deployment],
) -> String {
    let mut all = Sha256::new();
    for machine in machines {
        all.update(Record { at_us: 0, event: Event::from(machine) }.line());
        all.update(machine.template().to_string());
    }
    for arrival in arrivals {
        all.update(Record::new(arrival.at, Event::from(arrival)).line());
        all.update(serde_json::to_vec(&arrival.pod).expect("a pod is plain data"));
    }
    for (at, cpu_milli) in deployments.iter().flat_map(|deployment| &deployment.load) {
        all.update(format!("{} {cpu_milli}\n", at.as_micros()));
    }
    let mut rest = of_run(study, cell);
    rest["seed"] = cell.seed.into();
    rest["nodeGroups"] = json!(cell.cluster.node_groups);
    rest["deployments"] = json!(cell.workload.deployments);
    all.update(rest.to_string());
    hexadecimal(all)
}

/// Returns what decides a run beside its nodes, pods and policy.
fn of_run(study: &Study, cell: &Cell<'_>) -> Value {
    let mut all = json!({
        "faults": cell.faults,
        "depth": study.depth,
        "controllers": study.controllers,
        "until": study.until,
        "sampleEvery": study.sample_every,
    });
    if !study.feature_gates.is_empty() {
        all["featureGates"] = json!(study.feature_gates);
    }
    all
}

/// Returns the hash of what a study says of a cell's setting, whatever the seed draws of it.
fn definition(study: &Study, cell: &Cell<'_>) -> String {
    let mut all = of_run(study, cell);
    all["cluster"] = json!(cell.cluster);
    all["workload"] = json!(cell.workload);
    hash(all.to_string().as_bytes())
}

impl Manifest {
    /// Starts the manifest of a cell. `configuration` is that of its policy, as it is given to the scheduler.
    pub fn new(study: &Study, cell: &Cell<'_>, version: &str, inputs: String, configuration: Option<&Value>) -> Self {
        Self {
            study: study.name.clone(),
            setting: cell.setting(),
            policy: cell.policy.name.clone(),
            seed: cell.seed,
            version: version.to_owned(),
            repeatable: cell.policy.external.is_none(),
            inputs,
            definition: definition(study, cell),
            configuration: hash(configuration.unwrap_or(&Value::Null).to_string().as_bytes()),
            files: BTreeMap::new(),
        }
    }

    /// Notes a file that was written.
    pub fn add(&mut self, name: &str, bytes: &[u8]) {
        self.files.insert(name.to_owned(), hash(bytes));
    }

    /// Notes a file that was written through `Hashed`.
    pub fn add_hash(&mut self, name: &str, hash: String) {
        self.files.insert(name.to_owned(), hash);
    }

    /// True if `finished` is of the same cell with the same inputs, so that it need not run again.
    pub fn is_same_run(&self, finished: &Self) -> bool {
        *self == Self { files: self.files.clone(), ..finished.clone() }
    }

    pub fn text(&self) -> Vec<u8> {
        let mut text = serde_json::to_vec_pretty(self).expect("a manifest is plain data");
        text.push(b'\n');
        text
    }
}

/// A sink that hashes what passes through it.
#[derive(Debug)]
pub struct Hashed<W> {
    sink: W,
    sum: Sha256,
}

impl<W: Write> Hashed<W> {
    pub fn new(sink: W) -> Self {
        Self { sink, sum: Sha256::new() }
    }

    /// Writes what is left, and returns the hash.
    pub fn finish(mut self) -> io::Result<String> {
        self.sink.flush()?;
        Ok(hexadecimal(self.sum))
    }
}

impl<W: Write> Write for Hashed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.sink.write(bytes)?;
        self.sum.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }
}

fn hexadecimal(sum: Sha256) -> String {
    sum.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}
