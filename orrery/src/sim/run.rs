//! `orrery sim run`: runs the cells of a study that have not finished yet, several at a time.

use crate::sim::cell;
use crate::sim::compare;
use crate::sim::cpu;
use crate::sim::study_file::StudyFile;
use clap::Args;
use component_base::env::Env;
use experiments::study::{Cell, Seeds};
use exploration::cpu_limit;
use futures::{StreamExt, stream};
use std::cell::RefCell;
use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::Command;
use tokio::time::Instant;

/// Options of `orrery sim run`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  orrery sim run studies/packing.yaml                     every cell that has not finished yet
  orrery sim run studies/packing.yaml --seeds 1..10 -j 4  with other seeds, four cells at a time")]
pub struct Options {
    /// File with the study; `orrery sim init` writes an example
    pub study: PathBuf,
    /// Seeds instead of those of the study, for example 1..10
    #[arg(long, value_parser = Seeds::parse)]
    pub seeds: Option<Seeds>,
    /// Folder of the results [default: results/NAME]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// How many cells run at the same time [default: one for each core]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub jobs: Option<u16>,
    /// CPU seconds after which a cell has failed, because it never ends
    #[arg(long, value_name = "N", default_value_t = cpu::CELL, value_parser = clap::value_parser!(u64).range(1..))]
    pub cpu_seconds: u64,
}

/// The reasons for which a study did not run, or not whole.
#[derive(Debug)]
pub enum Error {
    Study(Vec<String>),
    Failed { failed: usize, cells: usize },
    Interrupted { done: usize, cells: usize },
    Report(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // Every mistake has a line of its own already.
            Error::Study(lines) => write!(f, "the study cannot run; mistakes: {}", lines.len()),
            Error::Report(why) => write!(f, "the report could not be written: {why}"),
            Error::Failed { failed, cells } => write!(f, "{failed} of {cells} cells failed"),
            Error::Interrupted { done, cells } => {
                write!(f, "interrupted; {done} of {cells} cells are done, and the same command goes on")
            }
        }
    }
}

/// Reads a study and checks everything that it names, or returns every mistake. It makes schedulers on trial, each in a
/// runtime of its own, so it must not run in one.
pub fn read(options: &Options) -> Result<StudyFile, Vec<String>> {
    let file = StudyFile::checked(&options.study, options.seeds.clone())?;
    file.warnings().iter().for_each(|line| eprintln!("warning: {line}"));
    Ok(file)
}

/// Runs a study. Cells that have finished are not run again.
pub async fn run(options: Options, file: StudyFile, env: Env) -> Result<(), Error> {
    let report = |lines: Vec<String>| {
        lines.iter().for_each(|line| eprintln!("error: {line}"));
        Error::Study(lines)
    };
    let out = options.out.clone().unwrap_or_else(|| PathBuf::from("results").join(&file.study.name));
    let cells = file.study.cells();
    let mut waiting = Vec::new();
    for cell in &cells {
        if !cell::is_finished(&file, cell, &out).map_err(report)? {
            waiting.push(cell.to_string());
        }
    }
    let (total, found) = (cells.len(), cells.len() - waiting.len());
    if found > 0 {
        println!("{found} of {total} cells have finished before{}", unrepeatable(&cells, &waiting));
    }
    let jobs = options.jobs.map_or_else(cores, usize::from);
    let board = RefCell::new(Board::new(&env, waiting.len()));
    let (mut done, mut failed) = (found, 0);
    let mut results = stream::iter(waiting.iter().enumerate())
        .map(|(index, cell)| {
            let (options, out, board) = (&options, &out, &board);
            async move { (cell, child(options, out, index, cell, board).await) }
        })
        .buffer_unordered(jobs);
    loop {
        let next = tokio::select! {
            biased;
            () = env.shutdown().cancelled() => return Err(Error::Interrupted { done, cells: total }),
            next = results.next() => next,
        };
        let Some((cell, result)) = next else { break };
        board.borrow().clear();
        match result {
            Ok(()) => {
                done += 1;
                println!("{cell}: done ({done} of {total})");
            }
            Err(why) => {
                failed += 1;
                eprintln!("{cell}: {why}");
            }
        }
    }
    drop(results);
    if failed > 0 {
        return Err(Error::Failed { failed, cells: total });
    }
    compare::write_report(&file, &out).map_err(Error::Report)?;
    println!("all {total} cells are done: {}", out.join("report.html").display());
    Ok(())
}

/// Returns what is to be said of cells that have finished and would give other results if they ran again.
fn unrepeatable(cells: &[Cell<'_>], waiting: &[String]) -> String {
    let is_external = |cell: &&Cell<'_>| cell.policy.external.is_some();
    let is_found = |cell: &&Cell<'_>| !waiting.contains(&cell.to_string());
    match cells.iter().filter(is_external).filter(is_found).count() {
        0 => String::new(),
        count => format!("; not repeatable: {count}, whose external scheduler would give other results again"),
    }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Runs a cell in a process of its own, which ends with this one.
async fn child(
    options: &Options,
    out: &PathBuf,
    index: usize,
    cell: &str,
    board: &RefCell<Board>,
) -> Result<(), String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new(program);
    command.args(["sim", "cell"]).arg(&options.study).args(["--cell", cell]).arg("--out").arg(out);
    command.args(["--cpu-seconds", &options.cpu_seconds.to_string()]);
    if let Some((_, seed)) = cell.rsplit_once("seed-") {
        command.args(["--seeds", seed]);
    }
    let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // Ctrl-C at the terminal reaches this process alone.
    let mut running = command.process_group(0).kill_on_drop(true).spawn().map_err(|error| error.to_string())?;
    let (stdout, stderr) = (running.stdout.take(), running.stderr.take());
    let progress = async {
        let Some(stdout) = stdout else { return };
        let mut lines = BufReader::new(stdout).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            board.borrow_mut().update(index, &line);
        }
    };
    let errors = async {
        let mut text = String::new();
        if let Some(mut stderr) = stderr {
            let _ = stderr.read_to_string(&mut text).await;
        }
        text
    };
    let (status, (), errors) = futures::join!(running.wait(), progress, errors);
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) if cpu_limit::is_exceeded(status) => Err(cpu_limit::words(options.cpu_seconds)),
        Ok(status) => Err(reason(&errors).unwrap_or_else(|| status.to_string())),
        Err(error) => Err(error.to_string()),
    }
}

/// Returns why a cell has failed: the last line of what it has printed.
fn reason(errors: &str) -> Option<String> {
    let line = errors.lines().last()?;
    Some(["error: ", "sim: "].into_iter().find_map(|start| line.strip_prefix(start)).unwrap_or(line).to_owned())
}

/// The line that shows how far all cells are, on terminals.
struct Board {
    env: Env,
    began: Instant,
    is_shown: bool,
    /// Virtual seconds, finished pods, and the part that is over of each cell.
    cells: Vec<(u64, u64, f64)>,
}

impl Board {
    fn new(env: &Env, cells: usize) -> Self {
        let is_shown = io::stderr().is_terminal();
        Self { env: env.clone(), began: env.now(), is_shown, cells: vec![(0, 0, 0.0); cells] }
    }

    fn update(&mut self, cell: usize, line: &str) {
        let Some(cell) = self.cells.get_mut(cell) else { return };
        let Some(told) = told(line) else {
            // What a cell says beside its progress is for the user.
            self.clear();
            println!("{line}");
            return;
        };
        *cell = told;
        if self.is_shown {
            let text = line_of(&self.cells, self.env.now().duration_since(self.began));
            // Returns to the beginning of the line, and clears the rest of it.
            let _ = write!(io::stderr(), "\r{text}\x1b[K");
        }
    }

    fn clear(&self) {
        if self.is_shown {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

/// Reads what a cell says about its progress.
fn told(line: &str) -> Option<(u64, u64, f64)> {
    let mut words = line.split(' ');
    let mut next = || words.next();
    Some((next()?.parse().ok()?, next()?.parse().ok()?, next()?.parse().ok()?))
}

/// Returns the text of the board. The remaining time follows from the parts that are over.
fn line_of(cells: &[(u64, u64, f64)], elapsed: Duration) -> String {
    let virtual_s: u64 = cells.iter().map(|(at_s, _, _)| at_s).sum();
    let finished: u64 = cells.iter().map(|(_, finished, _)| finished).sum();
    let part = cells.iter().map(|(_, _, part)| part).sum::<f64>() / cells.len().max(1) as f64;
    let left =
        if part > 0.0 { format!("{:.0}s left", elapsed.as_secs_f64() * (1.0 - part) / part) } else { String::new() };
    format!(
        "{:3.0}%  {:.1}h of virtual time, {finished} pods finished  {left}",
        part * 100.0,
        virtual_s as f64 / 3600.0
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_estimates_the_rest() {
        let line = line_of(&[told("3600 5 0.5").unwrap(), (0, 0, 0.0)], Duration::from_secs(10));
        assert_eq!(line, " 25%  1.0h of virtual time, 5 pods finished  30s left");
    }
}
