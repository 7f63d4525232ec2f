//! Runs one cell of a study and writes its files. The manifest is written last, so a cell with one has finished.

use crate::sim::policy;
use crate::sim::results::{Finished, MANIFEST, RECORDS};
use crate::sim::study_file::StudyFile;
use clap::Args;
use component_base::rng::Random;
use component_base::tls;
use experiments::cluster::{self, Machine};
use experiments::manifest::{self, Manifest};
use experiments::metrics;
use experiments::output;
use experiments::record::{Event, Record};
use experiments::sources;
use experiments::study::{Cell, Depth, Seeds};
use experiments::workload::{self, Arrival};
use kubelet_sim::template::NodeTemplate;
use serde_json::Value;
use simulator::trial::{self, Audience, Happening, Progress, Setup, Submission};
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::time::Duration;

/// Options of the hidden `orrery sim cell`.
#[derive(Args, Clone, Debug)]
pub struct Options {
    pub study: PathBuf,
    /// Name of the cell: CLUSTER/WORKLOAD/FAULTS/POLICY/seed-N
    #[arg(long)]
    pub cell: String,
    /// Folder of the study's results
    #[arg(long)]
    pub out: PathBuf,
    #[arg(long, value_parser = Seeds::parse)]
    pub seeds: Option<Seeds>,
}

/// What a cell is made of.
pub struct Prepared {
    machines: Vec<Machine>,
    arrivals: Vec<Arrival>,
    configuration: Option<Value>,
    manifest: Manifest,
}

impl Prepared {
    /// Reads and draws everything. All policies meet the same pods under the same seed.
    pub fn new(file: &StudyFile, cell: &Cell<'_>) -> Result<Self, Vec<String>> {
        let lines = |problems: Vec<experiments::Problem>| problems.iter().map(ToString::to_string).collect::<Vec<_>>();
        let machines = cluster::machines(cell.cluster, &file.files, &cell.cluster.name).map_err(lines)?;
        let random = Random::from_seed(cell.seed, &format!("workload/{}", cell.workload.name));
        let mut draw = || random.u64();
        let drawn = workload::arrivals(cell.workload, &file.files, &mut draw, &cell.workload.name);
        let arrivals = drawn.map_err(lines)?;
        let configuration = sources::configuration(cell.policy, &file.files).map_err(|error| vec![error])?;
        let inputs = manifest::inputs(&file.study, cell, &machines, &arrivals);
        let manifest = Manifest::new(&file.study, cell, env!("CARGO_PKG_VERSION"), inputs, configuration.as_ref());
        Ok(Self { machines, arrivals, configuration, manifest })
    }
}

/// True if the results have this very cell. Its nodes and pods are drawn only if there is a manifest to compare with.
pub fn is_finished(file: &StudyFile, cell: &Cell<'_>, out: &Path) -> Result<bool, Vec<String>> {
    let Ok(finished) = Finished::open(out.join(cell.to_string())) else { return Ok(false) };
    Ok(Prepared::new(file, cell)?.manifest.is_same_run(&finished.manifest))
}

/// Runs a cell. Progress goes to standard output, for the process that has started this one.
pub fn run(options: &Options) -> Result<String, Vec<String>> {
    // A component that panics would leave a cluster that is not whole.
    std::panic::set_hook(Box::new(|panic| {
        eprintln!("error: {}", panic.to_string().replace('\n', "; "));
        process::exit(1);
    }));
    tls::install_provider();
    let file = StudyFile::read(&options.study, options.seeds.clone())?;
    let cell = file.cell(&options.cell).ok_or_else(|| vec![format!("the study has no cell {}", options.cell)])?;
    let prepared = Prepared::new(&file, &cell)?;
    let folder = options.out.join(cell.to_string());
    let records = play(&file, &cell, &prepared)?;
    write(&folder, prepared.manifest, &records, file.sample_every()).map_err(|error| vec![error])?;
    Ok(String::new())
}

fn play(file: &StudyFile, cell: &Cell<'_>, prepared: &Prepared) -> Result<Vec<Record>, Vec<String>> {
    let templates: Result<Vec<NodeTemplate>, Vec<String>> = prepared.machines.iter().map(template).collect();
    let faults = cell.faults;
    let failures = faults.map(policy::failures).transpose()?.unwrap_or_default();
    let depth = match file.study.depth {
        Depth::Full => trial::Depth::Full,
        Depth::Scheduler => trial::Depth::Scheduler,
    };
    let setup = Setup {
        seed: cell.seed,
        depth,
        templates: templates?,
        scheduler: policy::settings(prepared.configuration.as_ref())?,
        failures,
        api_delay: faults.and_then(|faults| faults.api_delay.as_ref()).map_or(Duration::ZERO, |span| span.duration),
        image_pull: faults.and_then(|faults| faults.image_pull.as_ref()).map(|span| span.duration),
        until: file.study.until.as_ref().map(|span| span.duration),
    };
    let submission = |arrival: &Arrival| -> Result<Submission, Vec<String>> {
        let pod = serde_json::to_value(&arrival.pod).map_err(|error| vec![error.to_string()])?;
        Ok(Submission { at: arrival.at, pod })
    };
    let submissions: Vec<Submission> = prepared.arrivals.iter().map(submission).collect::<Result<_, _>>()?;
    let mut recorder = Recorder::new(prepared);
    trial::run(setup, submissions, &mut recorder).map_err(|error| vec![error])?;
    Ok(recorder.records)
}

fn template(machine: &Machine) -> Result<NodeTemplate, Vec<String>> {
    let read = NodeTemplate::read(&machine.template());
    read.map_err(|problems| problems.iter().map(|problem| format!("node {}: {problem}", machine.name)).collect())
}

/// Turns happenings into records.
struct Recorder {
    nodes: BTreeMap<String, Event>,
    pods: BTreeMap<String, Event>,
    records: Vec<Record>,
}

impl Recorder {
    fn new(prepared: &Prepared) -> Self {
        let created = prepared.arrivals.iter().map(Event::from).filter_map(|event| match &event {
            Event::PodCreated(created) => Some((created.pod.clone(), event)),
            _ => None,
        });
        let nodes = prepared.machines.iter().map(|machine| (machine.name.clone(), Event::from(machine)));
        Self { nodes: nodes.collect(), pods: created.collect(), records: Vec::new() }
    }

    fn event(&self, happening: Happening) -> Option<Event> {
        Some(match happening {
            Happening::NodeAdded { node } => self.nodes.get(&node)?.clone(),
            Happening::NodeRemoved { node } => Event::NodeRemoved { node },
            // A pod that no user of the workload has created is none of the study.
            Happening::PodCreated { pod } => self.pods.get(&pod)?.clone(),
            Happening::AttemptFailed { pod, reason } => Event::AttemptFailed { pod, reason },
            Happening::PodScheduled { pod, node, gpus } => Event::PodScheduled { pod, node, gpus },
            Happening::PodStarted { pod } => Event::PodStarted { pod },
            Happening::PodFinished { pod, succeeded } => Event::PodFinished { pod, succeeded },
            Happening::PodPreempted { pod } => Event::PodPreempted { pod, by: String::new() },
            Happening::PodEvicted { pod, reason } => Event::PodEvicted { pod, reason },
            Happening::PodDeleted { pod } => Event::PodDeleted { pod },
            Happening::Ended => Event::Ended,
        })
    }
}

impl Audience for Recorder {
    fn happened(&mut self, at: Duration, happening: Happening) {
        self.records.extend(self.event(happening).map(|event| Record::new(at, event)));
    }

    fn progress(&mut self, progress: Progress) {
        let Progress { at, created, finished, pods } = progress;
        // Without a reader the run goes on.
        let _ = writeln!(io::stdout(), "{} {created} {finished} {pods}", at.as_secs());
    }
}

/// Writes the files of a cell, and its manifest last.
fn write(folder: &Path, mut manifest: Manifest, records: &[Record], sample_every: Duration) -> Result<(), String> {
    fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let place = folder.join(MANIFEST);
    match fs::remove_file(&place) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(format!("{}: {error}", place.display())),
        _ => {}
    }
    let mut put = |name: &str, bytes: &[u8]| {
        let path = folder.join(name);
        manifest.add(name, bytes);
        fs::write(&path, bytes).map_err(|error| format!("{}: {error}", path.display()))
    };
    let lines: String = records.iter().map(|record| record.line() + "\n").collect();
    put(RECORDS, lines.as_bytes())?;
    for (name, bytes) in output::files(&metrics::summarise(records, sample_every))? {
        put(name, &bytes)?;
    }
    // A manifest that is half written is none: a rename replaces it whole.
    let partial = folder.join(format!("{MANIFEST}.partial"));
    let written = fs::write(&partial, manifest.text()).and_then(|()| fs::rename(&partial, &place));
    written.map_err(|error| format!("{}: {error}", place.display()))
}
