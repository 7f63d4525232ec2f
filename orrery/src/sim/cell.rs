//! Runs one cell of a study and writes its files. The manifest is written last, so a cell with one has finished.

use crate::sim::cpu::CpuSeconds;
use crate::sim::disk::{Disk, FileSystem};
use crate::sim::prepared::Prepared;
use crate::sim::recorder::{Recorded, Recorder};
use crate::sim::results::{Finished, MANIFEST, RECORDS};
use crate::sim::study_file::StudyFile;
use crate::sim::timings::{TIMINGS, thread_cpu};
use clap::Args;
use component_base::tls;
use experiments::manifest::Manifest;
use experiments::metrics;
use experiments::output;
use experiments::output::decisions::{DECISIONS, VERDICTS};
use experiments::study::{Cell, DecisionRecords, Seeds};
use simulator::trial::{self, Detail, Setup, Submission};
use std::fs;
use std::io;
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
    #[command(flatten)]
    pub cpu: CpuSeconds,
}

/// True if the results have this very cell. Its nodes and pods are drawn only if there is a manifest to compare with.
pub fn is_finished(file: &StudyFile, cell: &Cell<'_>, out: &Path) -> Result<bool, Vec<String>> {
    let Ok(finished) = Finished::open(out.join(cell.to_string())) else { return Ok(false) };
    let is_there = |name: &str| finished.manifest.files.contains_key(name);
    let wants_verdicts = file.study.records.decisions == DecisionRecords::Plugins;
    let has_decisions = is_there(DECISIONS) && (is_there(VERDICTS) || !wants_verdicts);
    Ok(has_decisions && Prepared::new(file, cell)?.manifest.is_same_run(&finished.manifest))
}

/// Ends the process when a component panics, because that would leave a cluster that is not whole.
pub fn end_at_a_panic() {
    std::panic::set_hook(Box::new(|panic| {
        eprintln!("error: {}", panic.to_string().replace('\n', "; "));
        process::exit(1);
    }));
}

/// Reads the study of a cell. Its process ends at the limit of CPU time and at a panic.
pub fn read(options: &Options) -> Result<StudyFile, Vec<String>> {
    options.cpu.apply()?;
    let file = StudyFile::read(&options.study, options.seeds.clone())?;
    file.cell(&options.cell).ok_or_else(|| vec![format!("the study has no cell {}", options.cell)])?;
    Ok(file)
}

/// True for a cell whose scheduler is outside the simulation.
pub fn is_external(file: &StudyFile, options: &Options) -> bool {
    file.cell(&options.cell).is_some_and(|cell| cell.policy.external.is_some())
}

/// Runs a cell. Progress goes to standard output, for the process that has started this one.
pub fn run(options: &Options, file: &StudyFile) -> Result<String, Vec<String>> {
    end_at_a_panic();
    tls::install_provider();
    let cell = file.cell(&options.cell).ok_or_else(|| vec![format!("the study has no cell {}", options.cell)])?;
    play(file, &cell, &options.out, &FileSystem).map(|()| String::new())
}

/// A cell that is about to run.
pub struct Begun {
    pub setup: Setup,
    pub submissions: Vec<Submission>,
    pub manifest: Manifest,
    pub folder: PathBuf,
}

/// Prepares a cell, and opens the files that are written while it runs.
pub fn begin(
    file: &StudyFile,
    cell: &Cell<'_>,
    out: &Path,
    disk: &impl Disk,
) -> Result<(Begun, Recorder), Vec<String>> {
    let line = |error: String| vec![error];
    let prepared = Prepared::new(file, cell)?;
    let folder = out.join(cell.to_string());
    clear(&folder).map_err(line)?;
    let written = file.study.records.decisions;
    let (mut setup, submissions) = prepared.trial(file, cell)?;
    setup.decisions = Some(match written {
        DecisionRecords::Attempts => Detail::Attempts,
        DecisionRecords::Plugins => Detail::Plugins,
    });
    setup.cpu_clock = Some(thread_cpu);
    let recorder = Recorder::create(disk, &folder, &prepared, written).map_err(line)?;
    Ok((Begun { setup, submissions, manifest: prepared.manifest, folder }, recorder))
}

/// Writes the files of a cell whose trial has ended.
pub fn finish(
    file: &StudyFile,
    manifest: Manifest,
    folder: &Path,
    recorder: Recorder,
    disk: &impl Disk,
) -> Result<(), Vec<String>> {
    let recorded = recorder.finish().map_err(|error| vec![error])?;
    write(disk, folder, manifest, &recorded, file.sample_every()).map_err(|error| vec![error])
}

/// Runs a cell, and writes its files below a folder.
fn play(file: &StudyFile, cell: &Cell<'_>, out: &Path, disk: &impl Disk) -> Result<(), Vec<String>> {
    let (Begun { setup, submissions, manifest, folder }, mut recorder) = begin(file, cell, out, disk)?;
    trial::run(setup, submissions, &mut recorder).map_err(|error| vec![error])?;
    finish(file, manifest, &folder, recorder, disk)
}

/// Makes the folder of a cell. It has no manifest until it has finished.
pub fn clear(folder: &Path) -> Result<(), String> {
    fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    [MANIFEST, VERDICTS].into_iter().map(|name| folder.join(name)).try_for_each(|place| match fs::remove_file(&place) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(format!("{}: {error}", place.display())),
        _ => Ok(()),
    })
}

/// Writes the files of a cell, and its manifest last.
fn write(
    disk: &impl Disk,
    folder: &Path,
    mut manifest: Manifest,
    recorded: &Recorded,
    sample_every: Duration,
) -> Result<(), String> {
    let (place, is_repeatable) = (folder.join(MANIFEST), manifest.repeatable);
    recorded.files.iter().for_each(|(name, hash)| manifest.add_hash(name, hash.clone()));
    let mut put = |name: &str, bytes: &[u8]| {
        let path = folder.join(name);
        manifest.add(name, bytes);
        disk.write(&path, bytes).map_err(|error| format!("{}: {error}", path.display()))
    };
    let lines: String = recorded.records.iter().map(|record| record.line() + "\n").collect();
    put(RECORDS, lines.as_bytes())?;
    for (name, bytes) in output::files(&metrics::summarise(&recorded.records, sample_every), is_repeatable)? {
        put(name, &bytes)?;
    }
    let timings = folder.join(TIMINGS);
    let text = format!("{:#}\n", recorded.timings.document());
    disk.write(&timings, text.as_bytes()).map_err(|error| format!("{}: {error}", timings.display()))?;
    // A manifest that is half written is none: a rename replaces it whole.
    let partial = folder.join(format!("{MANIFEST}.partial"));
    let written = disk.write(&partial, &manifest.text()).and_then(|()| fs::rename(&partial, &place));
    written.map_err(|error| format!("{}: {error}", place.display()))
}

#[cfg(test)]
mod tests;
